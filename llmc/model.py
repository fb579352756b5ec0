"""GPT-2: parameters, gradients, AdamW's moments and activations in flat buffers; forward, backward, update.

Written once, against the contract in `llmc/backends`: nothing here knows how a layer is computed. What happens between
tokens and logits is in `blocks.py`. Follows the GPT-2 paper (Radford et al. 2019) and llm.c's train_gpt2.c for names
and memory.
"""

import numpy as np

from llmc import blocks
from llmc.backends import get_backend
from llmc.config import GPT2Config
from llmc.errors import UserError
from llmc.flat_buffer import FlatBuffer, Tensor, plan_table
from llmc.initialization import initial_weights


def activation_table(config, backend, B, T) -> list[Tensor]:
    """What `forward` writes, and keeps for `backward`."""
    stats = backend.attention_stats_shape(B, T, config.NH)
    head = [Tensor("logits", (B, T, config.Vp)), Tensor("losses", (B, T))]
    return blocks.activation_table(config, B, T, stats) + head


def training_tables(config, backend, B, T) -> dict:
    """{title: table} of all that training at (B, T) keeps in memory; backend: a name or an object, as for GPT2."""
    weights = config.parameter_table()
    return {
        "parameters": weights,
        "gradients": weights,
        "AdamW m": weights,
        "AdamW v": weights,
        f"activations (B={B}, T={T})": activation_table(config, get_backend(backend), B, T),
        "gradients of activations": blocks.gradient_table(config, B, T),
    }


class GPT2:
    """A GPT-2 that can be trained. Parameters start at zero: call `init_weights`, or read them with `llmc.checkpoints`.

    config: GPT2Config · backend: a name ("numpy") or an object that keeps the contract · dtype: float32 or float64.
    params, grads, m, v: FlatBuffers of the sixteen tensors of `table`, by name: weights, gradients (which accumulate
    until `zero_grad`) and AdamW's first and second moments.
    """

    def __init__(self, config: GPT2Config, backend="numpy", dtype=np.float32):
        self.config = config
        self.backend = get_backend(backend)
        self.dtype = np.dtype(dtype)
        self.table = config.parameter_table()
        self.params = self._buffer(self.table).allocate()
        self.grads, self.m, self.v = (self._buffer(self.table) for _ in range(3))
        self._acts, self._dacts = self._buffer(), self._buffer()  # activations; their gradients, reused by every layer
        self.t = 0  # AdamW steps taken
        self._batch = None  # (tokens, (B, T)) between forward and backward

    # ------------------------------------------------------------------------------------------ memory

    def _buffer(self, table=()):
        return FlatBuffer(self.backend, self.dtype, table)

    @property
    def params_flat(self):
        """(n,) all parameters in file order."""
        return self.params.flat

    @property
    def grads_flat(self):
        """(n,) all gradients in file order."""
        return self.grads.flat

    def allocate(self, B, T):
        """Allocate everything that a training step at (B, T) touches, so that the step itself allocates no buffer."""
        self.config.check_sequence_length(T)
        self._acts.allocate(activation_table(self.config, self.backend, B, T))
        self._dacts.allocate(blocks.gradient_table(self.config, B, T))
        for buffer in (self.grads, self.m, self.v):
            buffer.allocate()

    def memory_plan(self, B=None, T=None) -> str:
        """Table of what training at (B, T) keeps in memory, in MiB; without B and T, of the buffers as they are."""
        if B is None or T is None:
            B, T = self.losses.shape if self._acts else (1, self.config.maxT)
        self.config.check_sequence_length(T)
        return plan_table(training_tables(self.config, self.backend, B, T), self.dtype.itemsize)

    # --------------------------------------------------------------------------------------- parameters

    def init_weights(self, seed: int = 42):
        """Fill the parameters as PyTorch's generator would (llmc/initialization.py), and reset the optimizer."""
        for name, values in initial_weights(self.config, seed):
            self.params[name][...] = self.backend.from_numpy(values.astype(self.dtype))
        self.zero_optimizer()

    def zero_optimizer(self):
        """Forget AdamW's moments and step count."""
        self.t = 0
        for buffer in (self.m, self.v):
            buffer.zero()

    def zero_grad(self):
        """Set all gradients to zero."""
        self.grads.zero()

    # ------------------------------------------------------------------------------------------ forward

    def _check(self, name, tokens, shape=None):
        """tokens as a C-contiguous int32 array (B, T) of our own, every value in [0, V)."""
        tokens = np.asarray(tokens)
        if tokens.ndim != 2 or tokens.size == 0 or tokens.dtype.kind not in "iu":
            raise UserError(f"{name} must be whole numbers (B, T), not {tokens.dtype} of shape {tokens.shape}.")
        if shape is not None and tokens.shape != shape:
            raise UserError(f"{name} must have the shape of the tokens, {shape}, not {tokens.shape}.")
        self.config.check_sequence_length(tokens.shape[1])
        if tokens.min() < 0 or tokens.max() >= self.config.V:
            wrong = int(tokens.max() if tokens.max() >= self.config.V else tokens.min())
            raise UserError(f"{name} hold {wrong}, but this model knows token ids 0 to {self.config.V - 1} only.")
        return np.array(tokens, dtype=np.int32, order="C")  # a copy: the caller may reuse theirs before `backward`

    def forward(self, tokens, targets=None, dloss=None, wait=True):
        """Run the model on tokens (B, T), T ≤ maxT.

        Without targets: returns the logits, a view (B, T, Vp) in which [..., :V] has meaning and which the next call
        overwrites. With targets (B, T): returns the mean cross-entropy in nats per token (a float).
        With dloss also (1.0, or 1/n with n accumulation steps): replaces the logits by their gradient for `backward`.
        wait=False: returns None instead of the loss; nothing waits for a GPU before `mean_loss` is called.
        Raises UserError for token ids outside [0, V) and T > maxT.
        """
        self._batch = None
        tokens = self._check("tokens", tokens)
        targets = None if targets is None else self._check("targets", targets, tokens.shape)
        be, (B, T) = self.backend, tokens.shape
        acts = self._acts.allocate(activation_table(self.config, self.backend, B, T))
        tokens = be.from_numpy(tokens)  # (B, T)
        blocks.forward(be, self.config, self.params, acts, tokens, self._attend)
        be.matmul_forward(acts["logits"], acts["lnf"], self.params["wte"], None)  # (B, T, Vp)
        if targets is None:
            return acts["logits"]
        per_token = None if dloss is None else float(dloss) / (B * T)
        be.fused_classifier(acts["losses"], acts["logits"], be.from_numpy(targets), per_token, self.config.V)
        if dloss is not None:
            self._batch = tokens, (B, T)
        return self.mean_loss() if wait else None

    def _attend(self, l, a):
        self.backend.attention_forward(a["atty"], a["stats"], a["qkv"], self.config.NH)  # (B, T, C)

    def mean_loss(self) -> float:
        """Mean cross-entropy (nats per token) of the last `forward` with targets."""
        return float(self.backend.to_numpy(self.losses).mean(dtype=np.float64))

    @property
    def losses(self):
        """(B, T) cross-entropy of every token (nats) in the last `forward` with targets; the next one overwrites it."""
        return self._acts["losses"]

    def forward_cached(self, tokens, cache):
        """Run the model on tokens (B, n) that follow those in the cache, a KeyValueCache of this model; they join it.

        Returns the logits after the last of them, a view (B, 1, Vp) in which [..., :V] has meaning and which the next
        call overwrites; they equal those of `forward` up to rounding. Raises UserError for token ids outside [0, V),
        and for more tokens than the cache has room for.
        """
        return cache.extend(self._check("tokens", tokens))

    # ----------------------------------------------------------------------------------------- backward

    def backward(self):
        """Add the gradient of the last `forward(tokens, targets, dloss=…)` to `grads`."""
        if self._batch is None:
            raise UserError(
                "backward needs forward(tokens, targets, dloss=1.0) right before it, once for each backward."
            )
        tokens, (B, T) = self._batch
        self._batch = None  # logits hold a gradient that is used up
        be, acts = self.backend, self._acts
        dacts = self._dacts.allocate(blocks.gradient_table(self.config, B, T))
        be.matmul_backward(dacts["dbtc"], self.grads["wte"], None, acts["logits"], acts["lnf"], self.params["wte"])
        blocks.backward(be, self.config, self.params, self.grads, acts, dacts, tokens)

    # ------------------------------------------------------------------------------------------- update

    def global_norm(self) -> float:
        """Euclidean norm of all gradients."""
        return self.backend.global_norm(self.grads_flat)

    def clip_gradients(self, max_norm: float) -> float:
        """Scale the gradients down to max_norm if their global norm is above it; returns the norm before."""
        norm = self.global_norm()
        if norm > max_norm:
            self.backend.scale(self.grads_flat, max_norm / (norm + 1e-6))  # 1e-6 as in PyTorch's clip_grad_norm_
        return norm

    def update(self, lr, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.0, decay="matrices", zero_grad=False):
        """One AdamW step. decay: "matrices" (2-D weights and embeddings only, as llm.c's mainline) or "all" tensors.

        zero_grad: set the gradients to zero on the way, which saves a pass over them.
        """
        if decay not in ("matrices", "all"):
            raise UserError(f'decay must be "matrices" or "all", not {decay!r}.')
        self.t += 1
        for p in self.table:
            flats = (buffer[p.name].reshape(-1) for buffer in (self.params, self.grads, self.m, self.v))  # (size,) each
            wd = weight_decay if decay == "all" or p.decayed else 0.0
            self.backend.adamw_update(
                *flats, lr=lr, beta1=beta1, beta2=beta2, eps=eps, weight_decay=wd, t=self.t, clear=zero_grad
            )
