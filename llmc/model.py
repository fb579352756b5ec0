"""GPT-2: parameters, gradients, AdamW's moments and activations in flat buffers; forward, backward, update.

Written once, against the contract in `llmc/backends`: nothing here knows how a layer is computed. The path from
embedded tokens to the losses is in `blocks.py`, and AdamW's loop over the tensors in `optimizer.py`. Names and memory
layout follow the GPT-2 paper (Radford et al. 2019) and llm.c's train_gpt2.c.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from llmc import blocks, optimizer
from llmc.backends import get_backend
from llmc.config import GPT2Config
from llmc.errors import UserError
from llmc.flat_buffer import FlatBuffer, Tensor, plan_table
from llmc.initialization import initial_weights
from llmc.optimizer import check_parts, cut_table, own_pieces, pieces
from llmc.precision import find_precision


def activation_table(config, backend, B, T, recompute=0, all_logits=False) -> list[Tensor]:
    """What `forward` writes and keeps for `backward`; all_logits: keep the logits of all tokens, as without targets."""
    stats = backend.attention_stats_shape(B, T, config.NH)
    n = B if all_logits else blocks.sequences_at_once(config, backend, B, T)
    last = [Tensor("logits", (n, T, config.Vp)), Tensor("losses", (B, T), kind="exact")]
    return blocks.activation_table(config, B, T, stats, recompute) + last


def training_buffers(config, backend, B, T, precision="fp32", master_weights=True, recompute=None, parts=1) -> dict:
    """{title: FlatBuffer, not allocated} for everything that training at (B, T) keeps in memory; arguments as for GPT2.

    parts: the number of parts into which the optimizer's work is split; this process has one of them (`keep_part`).
    """
    p = find_precision(precision)
    be, weights = get_backend(backend, p), config.parameter_table()
    own = cut_table(weights, parts)
    acts = activation_table(config, be, B, T, find_recompute(be, recompute))
    gradients = blocks.gradient_tables(config, B, T, p.has_8_bit_factors)[0]
    cut = {"our part of the gradients": FlatBuffer(be, p.gradients, own)} if parts > 1 else {}
    master = {"master weights": FlatBuffer(be, p.exact, own)} if p.is_mixed and master_weights else {}
    return {
        "parameters": FlatBuffer(be, p.weights, weights),
        "gradients": FlatBuffer(be, p.gradients, weights),
        **cut,
        "AdamW m": FlatBuffer(be, p.exact, own),
        "AdamW v": FlatBuffer(be, p.exact, own),
        **master,
        f"activations (B={B}, T={T})": FlatBuffer(be, p.activations, acts, p.kinds, aligned=True),
        "gradients of activations": FlatBuffer(be, p.activations, gradients, p.dkinds),
    }


def find_recompute(backend, recompute=None) -> int:
    """The recompute level, one of blocks.RECOMPUTE; by default, the backend's choice. Raises UserError for other
    values."""
    recompute = backend.RECOMPUTE if recompute is None else recompute
    if recompute not in blocks.RECOMPUTE:
        raise UserError(f"recompute must be 0, 1, 2 or 3, not {recompute!r}.")
    return recompute


class Batch(NamedTuple):
    """What `backward` needs of the forward pass before it: tokens, targets (B, T) and the gradient of each loss."""

    tokens: np.ndarray
    targets: np.ndarray
    dloss: float


class GPT2:
    """A GPT-2 that can be trained. Its parameters start at zero: call `init_weights`, or load them with
    `llmc.checkpoints`.

    config: GPT2Config · backend: a name ("numpy") or an object that follows the contract · precision: a name from
    llmc/precision.py · master_weights: whether to keep the weights in float32 too if precision has 16 bits · recompute:
    which activations `backward` computes again instead of keeping them (see llmc/blocks.py); the results are the same,
    except where cuBLAS computes GELU.
    params, grads, m, v: FlatBuffers of the sixteen tensors of `table`, by name: weights, gradients (which accumulate
    until `zero_grad`) and AdamW's first and second moments; master: the weights before rounding, or None. loss_scale:
    the factor by which gradients are enlarged so that float16 can hold the small ones. part: (index, number of parts)
    of what `update` updates of every tensor, see `keep_part` · own_grads: the gradients of that part.
    """

    def __init__(self, config: GPT2Config, backend="numpy", precision="fp32", master_weights=True, recompute=None):
        self.config = config
        p = self.precision = find_precision(precision)
        self.backend = get_backend(backend, p)
        self.recompute, self._narrow_factors = find_recompute(self.backend, recompute), p.has_8_bit_factors
        self.table = config.parameter_table()
        self.params = self._buffer(p.weights, self.table).allocate()
        self.grads = self._buffer(p.gradients, self.table)
        self.m, self.v = self._buffer(p.exact, self.table), self._buffer(p.exact, self.table)
        self.master = self._buffer(p.exact, self.table) if p.is_mixed and master_weights else None
        self.has_master = False  # whether `master` holds the weights yet
        self.part, self.own_grads = (0, 1), self.grads
        self.loss_scale = 1.0
        self.free_activations()
        self.t = 0  # AdamW steps taken
        self.places = {}  # tokens, targets and the norm where the backend computes

    # ------------------------------------------------------------------------------------------ memory

    def _buffer(self, dtype, table=()):
        return FlatBuffer(self.backend, dtype, table)

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
        self._acts.allocate(activation_table(self.config, self.backend, B, T, self.recompute))
        self._dacts.allocate(blocks.gradient_tables(self.config, B, T, self._narrow_factors)[0])
        for buffer in (self.grads, self.own_grads, self.m, self.v, self.master):
            if buffer is not None:
                buffer.allocate()

    def keep_part(self, which, parts):
        """From now on, `update` only updates part `which` of every tensor (of each layer, if it is stacked).

        m, v and master hold only that part, and start from zero again; `update` and `global_norm` take the gradients
        from `own_grads`, which the caller fills. The caller also updates the other parts of the weights. Raises
        UserError if the tensors cannot be split that way.
        """
        check_parts(self.config, parts)
        p, table = self.precision, cut_table(self.table, parts)
        self.part, self.has_master = (which, parts), False
        self.own_grads = self.grads if parts == 1 else self._buffer(p.gradients, table)
        self.m, self.v = self._buffer(p.exact, table), self._buffer(p.exact, table)
        self.master = None if self.master is None else self._buffer(p.exact, table)

    def free_activations(self):
        """Free the activations and their gradients; whatever needs them next allocates them again."""
        p = self.precision
        self._acts = FlatBuffer(self.backend, p.activations, kinds=p.kinds, aligned=True)
        # Their gradients, reused by every layer.
        self._dacts = FlatBuffer(self.backend, p.activations, kinds=p.dkinds)
        self._inside_logits = self._buffer(p.activations)  # the rest of their gradients
        self._batch = None  # between forward and backward

    def memory_plan(self, B=None, T=None) -> str:
        """A table of what training at (B, T) keeps in memory, in MiB; without B and T, of the current buffers."""
        if B is None or T is None:
            B, T = self._acts["losses"].shape if self._acts else (1, self.config.maxT)
        self.config.check_sequence_length(T)
        kept = dict(master_weights=self.master is not None, recompute=self.recompute, parts=self.part[1])
        return plan_table(training_buffers(self.config, self.backend, B, T, self.precision, **kept))

    # --------------------------------------------------------------------------------------- parameters

    def init_weights(self, seed: int = 42):
        """Fill the parameters as PyTorch's generator would (llmc/initialization.py), and reset the optimizer."""
        for name, values in initial_weights(self.config, seed):
            self.params[name][...] = self.backend.from_numpy(values.astype(self.precision.weights))
        self.zero_optimizer()

    def zero_optimizer(self):
        """Forget AdamW's moments and step count, and the master weights, which start from the weights again."""
        self.t, self.has_master = 0, False
        for buffer in (self.m, self.v):
            buffer.zero()

    def start_master(self):
        """Copy the weights to the master weights, unless these exist already. From then on, training updates the
        latter."""
        if self.master is not None and not self.has_master:
            weights = own_pieces(self.params, self.table, *self.part)
            for exact, rounded in zip(pieces(self.master, self.table, self.part[1]), weights):
                exact[...] = rounded
            self.has_master = True

    def zero_grad(self):
        """Set all gradients to zero."""
        self.grads.zero()

    # ------------------------------------------------------------------------------------------ forward

    def _check(self, name, tokens, shape=None):
        """The tokens as our own C-contiguous int32 array (B, T), with every value in [0, V)."""
        tokens = np.asarray(tokens)
        if tokens.ndim != 2 or tokens.size == 0 or tokens.dtype.kind not in "iu":
            raise UserError(f"{name} must be whole numbers (B, T), not {tokens.dtype} of shape {tokens.shape}.")
        if shape is not None and tokens.shape != shape:
            raise UserError(f"{name} must have the shape of the tokens, {shape}, not {tokens.shape}.")
        self.config.check_sequence_length(tokens.shape[1])
        if tokens.min() < 0 or tokens.max() >= self.config.V:
            wrong = int(tokens.max() if tokens.max() >= self.config.V else tokens.min())
            raise UserError(f"{name} hold {wrong}, but this model knows only token ids 0 to {self.config.V - 1}.")
        return np.array(tokens, dtype=np.int32, order="C")  # a copy: the caller may reuse theirs before `backward`

    def logits(self, tokens):
        """The logits after each of tokens (B, T), T ≤ maxT: a view (B, T, Vp), which the next call overwrites.

        Only [..., :V] is meaningful. Raises UserError for token ids outside [0, V) and T > maxT.
        """
        self.launch(tokens)
        return self._acts["logits"]

    def loss(self, tokens, targets) -> float:
        """Mean cross-entropy, in nats per token, of targets (B, T) after tokens (B, T); errors as for `logits`."""
        self.launch(tokens, targets, dloss=None)
        return self.mean_loss()

    def forward(self, tokens, targets, dloss=1.0) -> float:
        """`loss`, and with it all that `backward` needs, which may follow.

        dloss: the gradient with respect to the mean loss: 1, or 1/n with n accumulation steps.
        """
        self.launch(tokens, targets, dloss)
        return self.mean_loss()

    def launch(self, tokens, targets=None, dloss=1.0):
        """`forward` that does not wait for a GPU: get the loss from `loss_later`.

        Ideally after `backward`, which computes the loss if logits come in parts (see blocks.py). dloss=None: only up
        to the losses, without their gradient · targets=None: only up to the logits.
        """
        self._batch, dloss = None, None if targets is None else dloss
        tokens = self._check("tokens", tokens)
        targets = None if targets is None else self._check("targets", targets, tokens.shape)
        B, T = tokens.shape
        table = activation_table(self.config, self.backend, B, T, self.recompute, all_logits=targets is None)
        acts = self._acts.allocate(table)
        tokens = self._place("tokens", tokens)  # (B, T)
        targets = None if targets is None else self._place("targets", targets)  # (B, T)
        per_token = None if dloss is None else float(dloss) * self.loss_scale / (B * T)
        arrays = [self.params.flat, *acts.flats, tokens] + ([] if targets is None else [targets])
        self.repeat(("forward", B, T, per_token), arrays, lambda: self._forward(acts, tokens, targets, per_token))
        self._batch = None if dloss is None else Batch(tokens, targets, per_token)

    def _forward(self, acts, tokens, targets, dloss):
        """What `launch` launches; dloss: the gradient with respect to each token's loss."""
        be = self.backend
        be.encoder_forward(acts["encoded"], tokens, self.params["wte"], self.params["wpe"])  # (B, T, C)
        once = dloss is not None and "gelu" not in blocks.AGAIN[self.recompute]
        blocks.forward(be, self.config, self.params, acts, self._attend, once)
        if dloss is None or not blocks.is_cut(acts):  # else it is left to `backward`
            blocks.head_forward(be, self.config, self.params, acts, targets, dloss)

    def _place(self, name, tokens):
        """Copy tokens (B, T) to the backend's memory, into the same array as last time if the shape is the same."""
        placed = self.backend.from_numpy(tokens)
        kept = self.places.get(name)
        if kept is None or kept.shape != tokens.shape:
            self.places[name] = placed
            return placed
        kept[...] = placed
        return kept

    def repeat(self, key, arrays, work):
        """Call work(); a backend that can record it replays the recording. See `repeat` in the contract."""
        self.backend.repeat((self.config, self.recompute, *key), arrays, work)

    def _attend(self, l, a):
        self.backend.attention_forward(a["atty"], a["stats"], a["qkv"], self.config.NH)  # (B, T, C)

    def mean_loss(self) -> float:
        """Mean cross-entropy (nats per token) of the last `forward`, `launch` or `loss`."""
        return float(self.backend.to_numpy(self.losses).mean(dtype=np.float64))

    def loss_later(self):
        """A function that returns what `mean_loss` would return now, even after the next `forward`."""
        losses = self.backend.later(self.losses)
        return lambda: float(losses().mean(dtype=np.float64))

    @property
    def losses(self):
        """(B, T) cross-entropy of every token (nats) in the last `forward`, `launch` or `loss`; the next overwrites it.

        Where logits come in parts, losses are `backward`'s work: asking earlier means computing the logits twice, with
        the same bits.
        """
        if self._batch and blocks.is_cut(self._acts):
            (_, targets, dloss), acts = self._batch, self._acts
            arrays = self.params.flat, *acts.flats, targets
            work = partial(blocks.head_forward, self.backend, self.config, self.params, acts, targets, dloss)
            self.repeat(("losses", *targets.shape, dloss), arrays, work)
        return self._acts["losses"]

    def forward_cached(self, tokens, cache):
        """Run the model on tokens (B, n) that follow those in the cache, a KeyValueCache of this model, and add them to
        it.

        Returns the logits after the last of them, a view (B, 1, Vp) of which only [..., :V] is meaningful, and which
        the next call overwrites; they equal those of `forward` up to rounding. Raises UserError for token ids outside
        [0, V), and for more tokens than the cache can hold.
        """
        return cache.extend(self._check("tokens", tokens))

    # ----------------------------------------------------------------------------------------- backward

    def backward(self, accumulate=True, final=None):
        """Add the gradient of the last `forward`, times its `dloss` and `loss_scale`, to `grads`.

        accumulate=False: overwrite `grads` instead, so that `zero_grad` is not needed · final(l): called when the
        gradients of layer l are final, and with None when all others are final too; the calls may be recorded.
        """
        if self._batch is None:
            raise UserError("backward needs forward(tokens, targets) before it; call forward again for each backward.")
        batch, self._batch = self._batch, None  # logits hold a gradient that is used up
        B, T = batch.tokens.shape
        own, shared = blocks.gradient_tables(self.config, B, T, self._narrow_factors)
        dacts = {**self._dacts.allocate(own), **self._inside_logits.allocate(shared, self._acts["logits"])}
        arrays = self.params.flat, self.grads.flat, *self._acts.flats, *self._dacts.flats, batch.tokens, batch.targets
        key = "backward", B, T, batch.dloss, accumulate, final
        self.repeat(key, arrays, lambda: self._backward(dacts, batch, accumulate, final))

    def _backward(self, dacts, batch, accumulate, final=None):
        """What `backward` launches."""
        be, params, grads, acts = self.backend, self.params, self.grads, self._acts
        for name in grads if not accumulate else ():
            if name not in blocks.WRITTEN:
                be.zero(grads[name])
        of_loss = batch.targets, batch.dloss
        blocks.head_backward(be, self.config, params, grads, acts, dacts["dbtc"], *of_loss, accumulate)
        blocks.backward(be, self.config, params, grads, acts, dacts, batch.tokens, self.recompute, final, accumulate)

    # ------------------------------------------------------------------------------------------- update

    def global_norm(self) -> float:
        """Euclidean norm of all gradients, or of our part's, without the loss scale."""
        return self.backend.global_norm(self.own_grads.flat) / self.loss_scale

    def clip_gradients(self, max_norm: float, norm: float | None = None) -> float:
        """Scale the gradients down to max_norm if their global norm is above it; returns their norm before scaling.

        norm: their global norm, if it is already known.
        """
        norm = self.global_norm() if norm is None else norm
        if norm > max_norm:
            self.backend.scale(self.own_grads.flat, max_norm / (norm + 1e-6))  # 1e-6 as in PyTorch's clip_grad_norm_
        return norm

    def update(
        self,
        lr,
        beta1=0.9,
        beta2=0.95,
        eps=1e-8,
        weight_decay=0.0,
        decay="matrices",
        zero_grad=False,
        max_norm=None,
        norm=None,
    ):
        """One AdamW step. decay: "matrices" (only 2-D weights and embeddings, as in llm.c's mainline) or "all" tensors.

        zero_grad: also set the gradients to zero, which saves another pass over them · max_norm: clip them first, as
        clip_gradients does; then returns a function that gives their norm before clipping · norm: as for
        clip_gradients, required if `update` only updates a part; where the backend RUNS_AHEAD, may also be an array
        (1,) of float64 in its memory.
        """
        if decay not in ("matrices", "all"):
            raise UserError(f'decay must be "matrices" or "all", not {decay!r}.')
        self.t += 1
        numbers = dict(lr=lr, beta1=beta1, beta2=beta2, eps=eps, weight_decay=weight_decay, t=self.t)
        return optimizer.update(self, numbers, decay, zero_grad, max_norm, norm)
