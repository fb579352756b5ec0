"""GPT-2: parameters, gradients, AdamW state and activations as views into flat buffers; forward, backward, update.

Written once, against the contract in `llmc/backends`: nothing here knows how a layer is computed. Follows the GPT-2
paper (Radford et al. 2019: pre-layernorm blocks, tied embeddings) and llm.c's train_gpt2.c for names and memory.
"""

import numpy as np

from llmc.backends import get_backend
from llmc.config import GPT2Config
from llmc.errors import UserError
from llmc.flat_buffer import FlatBuffer, plan_table
from llmc.initialization import initial_weights


class GPT2:
    """A GPT-2 that can be trained. Parameters start at zero: call `init_weights`, or read them with `llmc.checkpoints`.

    config: GPT2Config · backend: a name ("numpy") or an object that keeps the contract · dtype: float32 or float64.
    `params`, `grads`, `m`, `v` hold views by name, stacked over L as in llm.c's file; each has one flat buffer.
    """

    def __init__(self, config: GPT2Config, backend="numpy", dtype=np.float32):
        self.config = config
        self.backend = get_backend(backend)
        self.dtype = np.dtype(dtype)
        self.table = config.parameter_table()
        shapes = {p.name: p.shape for p in self.table}
        self._params = FlatBuffer(self.backend, self.dtype, shapes)
        self._grads = FlatBuffer(self.backend, self.dtype, shapes)
        self._m = FlatBuffer(self.backend, self.dtype, shapes)
        self._v = FlatBuffer(self.backend, self.dtype, shapes)
        self._activations = FlatBuffer(self.backend, self.dtype)
        self._scratch = FlatBuffer(self.backend, self.dtype)  # gradients of activations, reused by every layer
        self.params = self._params.allocate()
        self.t = 0  # AdamW steps taken
        self._batch = None  # (tokens, targets) between forward and backward

    # ------------------------------------------------------------------------------------------ memory

    @property
    def params_flat(self):
        """(n,) all parameters in file order."""
        return self._params.flat

    @property
    def grads(self):
        """Gradients by name; they start at zero and accumulate until `zero_grad`."""
        return self._grads.allocate()

    @property
    def grads_flat(self):
        """(n,) all gradients in file order."""
        self._grads.allocate()
        return self._grads.flat

    @property
    def m(self):
        """AdamW's first moments by name."""
        return self._m.allocate()

    @property
    def v(self):
        """AdamW's second moments by name."""
        return self._v.allocate()

    def _activation_shapes(self, B, T):
        """What forward keeps for backward, stacked over layers where each needs its own; llm.c's ActivationTensors."""
        L, C, NH, Vp = self.config.L, self.config.C, self.config.NH, self.config.Vp
        stats = self.backend.attention_stats_shape(B, T, NH)
        return {
            "encoded": (B, T, C),
            "ln1": (L, B, T, C),
            "ln1_mean": (L, B, T),
            "ln1_rstd": (L, B, T),
            "qkv": (L, B, T, 3 * C),
            "stats": (L, *stats),
            "atty": (L, B, T, C),
            "attproj": (B, T, C),  # read once, by the residual behind it: one buffer serves all layers
            "residual2": (L, B, T, C),
            "ln2": (L, B, T, C),
            "ln2_mean": (L, B, T),
            "ln2_rstd": (L, B, T),
            "fch": (L, B, T, 4 * C),
            "fch_gelu": (L, B, T, 4 * C),
            "fcproj": (B, T, C),
            "residual3": (L, B, T, C),
            "lnf": (B, T, C),
            "lnf_mean": (B, T),
            "lnf_rstd": (B, T),
            "logits": (B, T, Vp),
            "losses": (B, T),
        }

    def _scratch_shapes(self, B, T):
        """Gradients of activations. `dresidual` flows through all layers; the others are overwritten in each."""
        C = self.config.C
        return {
            "dresidual": (B, T, C),
            "dbtc": (B, T, C),
            "dqkv": (B, T, 3 * C),
            "dfch": (B, T, 4 * C),
        }

    def allocate(self, B, T):
        """Allocate everything that a training step at (B, T) touches, so that the step itself allocates no buffer."""
        self.config.check_sequence_length(T)
        self._activations.allocate(self._activation_shapes(B, T))
        self._scratch.allocate(self._scratch_shapes(B, T))
        for buffer in (self._grads, self._m, self._v):
            buffer.allocate()

    def memory_plan(self, B=None, T=None) -> str:
        """Table of what training at (B, T) keeps in memory, in MiB; without B and T, of the buffers as they are."""
        if B is None or T is None:
            B, T = self._activations.views["losses"].shape if self._activations.views else (1, self.config.maxT)
        self.config.check_sequence_length(T)
        parameters = {p.name: p.shape for p in self.table}
        groups = {
            "parameters": parameters,
            "gradients": parameters,
            "AdamW m": parameters,
            "AdamW v": parameters,
            f"activations (B={B}, T={T})": self._activation_shapes(B, T),
            "gradients of activations": self._scratch_shapes(B, T),
        }
        return plan_table(groups, self.dtype.itemsize)

    # --------------------------------------------------------------------------------------- parameters

    def init_weights(self, seed: int = 42):
        """Fill the parameters as PyTorch's generator would, see llmc/initialization.py; the optimizer starts anew."""
        for name, values in initial_weights(self.config, seed):
            self.params[name][...] = self.backend.from_numpy(values.astype(self.dtype))
        self.zero_optimizer()

    def zero_optimizer(self):
        """Forget AdamW's moments and step count."""
        self.t = 0
        for buffer in (self._m, self._v):
            buffer.zero()

    def zero_grad(self):
        """Set all gradients to zero."""
        self._grads.allocate()
        self._grads.zero()

    def _layer(self, views, l):
        """The views of layer l, by name, for every tensor that is stacked over layers."""
        return {name: views[name][l] for name in LAYER_TENSORS if name in views}

    # ------------------------------------------------------------------------------------------ forward

    def _check(self, name, tokens, shape=None):
        """tokens as a C-contiguous int32 array (B, T), every value in [0, V)."""
        tokens = np.asarray(tokens)
        if tokens.ndim != 2 or tokens.size == 0 or tokens.dtype.kind not in "iu":
            raise UserError(f"{name} must be whole numbers (B, T), not {tokens.dtype} of shape {tokens.shape}.")
        if shape is not None and tokens.shape != shape:
            raise UserError(f"{name} must have the shape of the tokens, {shape}, not {tokens.shape}.")
        self.config.check_sequence_length(tokens.shape[1])
        if tokens.min() < 0 or tokens.max() >= self.config.V:
            wrong = int(tokens.max() if tokens.max() >= self.config.V else tokens.min())
            raise UserError(f"{name} hold {wrong}, but this model knows token ids 0 to {self.config.V - 1} only.")
        return np.ascontiguousarray(tokens, dtype=np.int32)

    def forward(self, tokens, targets=None, dloss=None, wait=True):
        """Run the model on tokens (B, T), T ≤ maxT.

        Without targets: returns the logits, a view (B, T, Vp) in which [..., :V] has meaning and which the next call
        overwrites. With targets (B, T): returns the mean cross-entropy in nats per token (a float).
        With dloss also (1.0, or 1/n with n accumulation steps): replaces the logits by their gradient for `backward`.
        wait=False: returns None in place of the loss, which `mean_loss` has; a GPU need not be waited for until then.
        Raises UserError for token ids outside [0, V) and T > maxT.
        """
        tokens = self._check("tokens", tokens)
        targets = None if targets is None else self._check("targets", targets, tokens.shape)
        B, T = tokens.shape
        acts = self._activations.allocate(self._activation_shapes(B, T))
        self._batch = None
        device_tokens = self.backend.from_numpy(tokens)
        self._forward_blocks(acts, device_tokens)
        self.backend.matmul_forward(acts["logits"], acts["lnf"], self.params["wte"], None)  # (B, T, Vp)
        if targets is None:
            return acts["logits"]
        per_token = None if dloss is None else float(dloss) / (B * T)
        self.backend.fused_classifier(
            acts["losses"], acts["logits"], self.backend.from_numpy(targets), per_token, self.config.V
        )
        if dloss is not None:
            self._batch = (device_tokens, (B, T))
        return self.mean_loss() if wait else None

    def mean_loss(self) -> float:
        """Mean cross-entropy (nats per token) of the last `forward` with targets."""
        return float(self.backend.to_numpy(self.losses).mean(dtype=np.float64))

    @property
    def losses(self):
        """(B, T) cross-entropy of every token (nats) in the last `forward` with targets; the next one overwrites it."""
        return self._activations.views["losses"]

    def forward_cached(self, tokens, cache):
        """Run the model on tokens (B, n) that follow those in the cache, a KeyValueCache of this model; they join it.

        Returns the logits behind the last of them, a view (B, 1, Vp) in which [..., :V] has meaning and which the next
        call overwrites: `forward`'s up to rounding. Raises UserError for token ids outside [0, V), and for more tokens
        than the cache has room for.
        """
        return cache.extend(self._check("tokens", tokens))

    def _forward_blocks(self, acts, tokens):
        """Embedding, L blocks, last layernorm. Each residual is added by the layernorm behind it, so they can fuse."""
        be, p, L = self.backend, self.params, self.config.L
        be.encoder_forward(acts["encoded"], tokens, p["wte"], p["wpe"])  # (B, T, C)
        w = self._layer(p, 0)
        a = self._layer(acts, 0)
        be.layernorm_forward(a["ln1"], a["ln1_mean"], a["ln1_rstd"], acts["encoded"], w["ln1w"], w["ln1b"])
        residual = acts["encoded"]  # (B, T, C)
        for l in range(L):
            w, a = self._layer(p, l), self._layer(acts, l)
            be.matmul_forward(a["qkv"], a["ln1"], w["qkvw"], w["qkvb"])  # (B, T, 3C)
            be.attention_forward(a["atty"], a["stats"], a["qkv"], self.config.NH)  # (B, T, C)
            be.matmul_forward(acts["attproj"], a["atty"], w["attprojw"], w["attprojb"])  # (B, T, C)
            norm2 = (a["ln2"], a["ln2_mean"], a["ln2_rstd"])
            be.residual_layernorm_forward(a["residual2"], *norm2, residual, acts["attproj"], w["ln2w"], w["ln2b"])
            be.matmul_gelu_forward(a["fch_gelu"], a["fch"], a["ln2"], w["fcw"], w["fcb"])  # (B, T, 4C) both
            be.matmul_forward(acts["fcproj"], a["fch_gelu"], w["fcprojw"], w["fcprojb"])  # (B, T, C)
            norm, norm_w, norm_b = self._norm_after(acts, p, l)
            be.residual_layernorm_forward(
                a["residual3"], *norm, a["residual2"], acts["fcproj"], norm_w, norm_b
            )  # (B, T, C)
            residual = a["residual3"]  # (B, T, C)

    def _norm_after(self, acts, params, l):
        """Buffers and weights of the layernorm that reads block l's output: the next block's first, or the last one."""
        if l + 1 < self.config.L:
            names = [acts[name][l + 1] for name in ("ln1", "ln1_mean", "ln1_rstd")]
            return names, params["ln1w"][l + 1], params["ln1b"][l + 1]
        return [acts[name] for name in ("lnf", "lnf_mean", "lnf_rstd")], params["lnfw"], params["lnfb"]

    # ----------------------------------------------------------------------------------------- backward

    def backward(self):
        """Add the gradient of the last `forward(tokens, targets, dloss=…)` to `grads`."""
        if self._batch is None:
            raise UserError(
                "backward needs forward(tokens, targets, dloss=1.0) right before it, once for each backward."
            )
        tokens, (B, T) = self._batch
        self._batch = None  # logits hold a gradient that is used up
        be, p, g, L = self.backend, self.params, self.grads, self.config.L
        acts = self._activations.views
        d = self._scratch.allocate(self._scratch_shapes(B, T))
        dresidual = d["dresidual"]  # (B, T, C): the gradient of the residual stream, from the last layer to the first
        self.backend.zero(dresidual)
        be.matmul_backward(d["dbtc"], g["wte"], None, acts["logits"], acts["lnf"], p["wte"])  # (B, T, C)
        stats = (acts["lnf_mean"], acts["lnf_rstd"])
        last = acts["residual3"][L - 1]  # (B, T, C)
        be.layernorm_backward(dresidual, g["lnfw"], g["lnfb"], d["dbtc"], last, p["lnfw"], *stats)
        for l in reversed(range(L)):
            block_input = acts["residual3"][l - 1] if l > 0 else acts["encoded"]  # (B, T, C)
            self._backward_block(self._layer(p, l), self._layer(g, l), self._layer(acts, l), d, block_input)
        be.encoder_backward(g["wte"], g["wpe"], dresidual, tokens)  # wte again: it is tied, two gradients meet

    def _backward_block(self, w, g, a, d, block_input):
        """One block, last layer first. A residual needs no call: its gradient is dresidual for both branches."""
        be, dresidual, dbtc = self.backend, d["dresidual"], d["dbtc"]  # (B, T, C) both
        be.matmul_backward(d["dfch"], g["fcprojw"], g["fcprojb"], dresidual, a["fch_gelu"], w["fcprojw"])  # (B, T, 4C)
        be.gelu_backward(d["dfch"], d["dfch"], a["fch"])  # (B, T, 4C)
        be.matmul_backward(dbtc, g["fcw"], g["fcb"], d["dfch"], a["ln2"], w["fcw"])  # (B, T, C)
        stats2 = (a["ln2_mean"], a["ln2_rstd"])
        be.layernorm_backward(dresidual, g["ln2w"], g["ln2b"], dbtc, a["residual2"], w["ln2w"], *stats2)
        be.matmul_backward(dbtc, g["attprojw"], g["attprojb"], dresidual, a["atty"], w["attprojw"])  # (B, T, C)
        be.attention_backward(d["dqkv"], dbtc, a["atty"], a["stats"], a["qkv"], self.config.NH)  # (B, T, 3C)
        be.matmul_backward(dbtc, g["qkvw"], g["qkvb"], d["dqkv"], a["ln1"], w["qkvw"])  # (B, T, C)
        stats1 = (a["ln1_mean"], a["ln1_rstd"])
        be.layernorm_backward(dresidual, g["ln1w"], g["ln1b"], dbtc, block_input, w["ln1w"], *stats1)

    # ------------------------------------------------------------------------------------------- update

    def global_norm(self) -> float:
        """Euclidean norm of all gradients."""
        return self.backend.global_norm(self.grads_flat)

    def clip_gradients(self, max_norm: float) -> float:
        """Scale the gradients down to max_norm if their global norm is above it; returns the norm before."""
        norm = self.global_norm()
        if norm > max_norm:
            self.backend.scale(
                self.grads_flat, max_norm / (norm + 1e-6)
            )  # PyTorch's clip_grad_norm_ adds the same 1e-6
        return norm

    def update(self, lr, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.0, decay="matrices", zero_grad=False):
        """One AdamW step. decay: "matrices" (2-D weights and embeddings only, as llm.c's mainline) or "all" tensors.

        zero_grad: set the gradients to zero on the way, which saves a pass over them.
        """
        if decay not in ("matrices", "all"):
            raise UserError(f'decay must be "matrices" or "all", not {decay!r}.')
        self.t += 1
        grads, m, v = self.grads, self.m, self.v
        for p in self.table:
            wd = weight_decay if decay == "all" or p.decayed else 0.0
            flats = (tensors[p.name].reshape(-1) for tensors in (self.params, grads, m, v))  # (size,) views
            self.backend.adamw_update(*flats, lr, beta1, beta2, eps, wd, self.t, zero_grad)


LAYER_TENSORS = (
    *("ln1w", "ln1b", "qkvw", "qkvb", "attprojw", "attprojb", "ln2w", "ln2b", "fcw", "fcb", "fcprojw", "fcprojb"),
    *("ln1", "ln1_mean", "ln1_rstd", "qkv", "stats", "atty", "residual2", "ln2", "ln2_mean", "ln2_rstd"),
    *("fch", "fch_gelu", "residual3"),
)
