"""The contract: the layer functions that a model is made of, and what is done where a backend lacks the faster ones.

`llmc.model.GPT2` calls nothing else, so any module with the layer functions can train GPT-2: "numpy" is
`reference.py`, and lesson 07 plugs in the functions that the learner wrote. `Backend(module)` has the functions of a
module, and the defaults of this class for all that the module lacks.

Rules
- Outputs come first and are written in place; the caller owns every buffer. A backend may use temporaries of its own.
- Gradients of parameters ACCUMULATE (+=): weights are shared by all B·T positions and by several micro-batches. Only
  functions that take `accumulate` write them (=) with accumulate=False, whatever they held.
- Gradients of activations are written (=), with one exception: `layernorm_backward` adds to `dx`, because the
  residual stream forks before every layernorm and both branches send a gradient back.
- Shapes: B batch, T time, C channels (C_in and C_out where they differ), NH heads, hs = C/NH, V vocabulary, Vp padded
  vocabulary. Activations are (B, T, C); weights (C_out, C_in), as in PyTorch's Linear. Tokens and targets are int32.
- Arrays of one call share one floating dtype: float32 for training, float64 for gradient checks. All are C-contiguous.
  "cuda" refuses float64 in one sentence.
- In TF32 all arrays are float32, and products may round their factors.
- In a precision of 16 bits (llmc/precision.py) activations, weights and gradients have the 16-bit type; mean, rstd,
  stats, losses, m and v stay float32. A module that takes such arrays names the precisions in PRECISIONS and has
  `adamw_update_rounded`; for others `mixed.py` adds what is missing.
- A function may return before its outputs are ready, as on a GPU; later calls of the same backend see them, and
  `to_numpy` and `global_norm` wait for them.
- Nothing is validated here: `llmc.model` has checked tokens and lengths before it calls the first layer.
- Importing a backend has no side effects. Whatever has some (compiling kernels, loading threads) is in `prepare`.
"""

import inspect
from functools import wraps
from math import isfinite

import numpy as np

from llmc.errors import UserError

ATTENTION = ("own", "cudnn")  # whose kernels attend
WHOSE_ATTENTION = "whose 16-bit attention kernels to use on a GPU: own (llmc's) or cudnn (NVIDIA's)"
MATMUL = ("fastest", "cublas", "own")  # whose kernels multiply
WHOSE_MATMUL = "whose matmul kernels to use on a GPU: own (llmc's), cublas (NVIDIA's) or fastest (the faster one)"


def _required(writes=None):
    """A function that has no default. writes: how many of its first arguments a layer writes or adds to."""

    def mark(function):
        @wraps(function)
        def missing(self, *arguments, **named):
            raise UserError(
                f"this backend has no {function.__name__}; llmc/backends/contract.py says what it computes."
            )

        missing.writes = writes
        return missing

    return mark


class Backend:
    """What a model calls. Shapes are given as name (shape); `*` marks what is written, `+` what is added to.

    name: of BACKENDS, or "" · FEW: how many sequences `one_token` takes, 0 without it · HEAD_ROWS: how many tokens may
    have their logits in memory at once in training, None for any number (llmc/blocks.py) · PRECISIONS: the 16-bit ones
    whose arrays it takes · RECOMPUTE: which of blocks.RECOMPUTE it does unless the user says otherwise · RUNS_AHEAD:
    whether it computes while the host goes on, so that waiting for a number costs time · matmul, attention: as `choose`
    was told.
    """

    name, FEW, HEAD_ROWS, PRECISIONS, RECOMPUTE, RUNS_AHEAD = "", 0, None, (), 0, False
    matmul, attention = "fastest", "own"
    MATMUL, ATTENTION = ("fastest",), ("own",)  # what `choose` can choose

    def __init__(self, module=None, layers=(), name=""):
        """module: a module or an object that has functions and constants of the contract · layers: modules of which
        only functions are taken; the first that has one is asked. What this class itself defines stays."""
        self.name = name
        for source in (*reversed(layers), module):
            for own in provided_by(source):
                if getattr(type(self), own) is getattr(Backend, own) and (source is module or own in FUNCTIONS):
                    setattr(self, own, getattr(source, own))
        if "accumulate" not in inspect.signature(self.matmul_backward).parameters:
            self.matmul_backward = _accumulating(self.matmul_backward, self)

    # --------------------------------------------------------------------------------------------- arrays

    def prepare(self, precision="fp32"):
        """Whatever must be done before the first call. precision: "fp32", or one of PRECISIONS."""

    def in_precision(self, precision):
        """The backend that takes arrays of this Precision and multiplies in it. Raises UserError if there is none."""
        if precision.rounds_factors:
            which = f"the {self.name} backend" if self.name else "this backend"
            raise UserError(f"{which} does not compute in tf32; use cuda for that, or fp32.")
        if not precision.is_mixed:
            return self
        if precision.name in self.PRECISIONS:
            self.prepare(precision.name)
            return self
        from llmc.backends.fp8 import Fp8  # which builds on this class
        from llmc.backends.mixed import Mixed

        return Fp8(self) if precision.has_8_bit_factors else Mixed(self)

    def choose(self, matmul="fastest", attention="own"):
        """Choose whose kernels multiply (one of MATMUL) and attend (one of ATTENTION) from now on.

        Raises UserError for other names, where there is no such choice, and where cuDNN is missing.
        """
        for what, whose, names in (("matmul", matmul, MATMUL), ("attention", attention, ATTENTION)):
            if whose not in names:
                raise UserError(f"{what} is {' or '.join(names)}, not {whose!r}.")
        if matmul not in self.MATMUL:
            raise UserError(f"--matmul {matmul} is for --backend cuda; leave it out here.")
        if attention not in self.ATTENTION:
            raise UserError(
                f"--attention {attention} is for --backend cuda with --precision bf16 or fp16; leave it out here."
            )
        self.matmul, self.attention = matmul, attention

    def synchronize(self):
        """Wait until everything launched so far is done; for timing."""

    # --------------------------------------------------------------------------------------------- arrays

    def zeros(self, n, dtype):
        """A new flat array of n zeros where this backend computes."""
        return np.zeros(n, dtype)

    def from_numpy(self, array):
        """The same numbers as an array of this backend."""
        return array

    def to_numpy(self, array):
        """The same numbers as a NumPy array."""
        return array

    def zero(self, array):
        """*array = 0; any shape."""
        array[...] = 0

    def overwrite(self, array, numbers):
        """*array = numbers, a NumPy array of the same shape and type."""
        array[...] = numbers

    def later(self, array):
        """A function that returns the array's present numbers as a NumPy array. Only calling that function waits."""
        numbers = self.to_numpy(array).copy()
        return lambda: numbers

    def repeat(self, key, arrays, work):
        """work(), which makes the same calls whenever key and arrays are the same: it may be repeated from a recording.

        key: anything hashable. arrays: those that the calls read and write, other than temporaries of the backend.
        """
        work()

    # ----------------------------------------------------------------------------------- layers, forward

    @_required(writes=1)
    def encoder_forward(self, out, tokens, wte, wpe):
        """*out (B, T, C) = wte (Vp, C)[tokens (B, T)] + wpe (maxT, C)[:T]."""

    def encoder_forward_at(self, out, tokens, wte, wpe, start):
        """*out (B, 1, C) = wte[tokens] + wpe[start]; tokens (B,), start (1,), int32 where the backend computes."""
        self.encoder_forward(out, tokens[:, None], wte, wpe[int(start[0]) :])  # (B, 1, C)

    @_required(writes=3)
    def layernorm_forward(self, out, mean, rstd, x, w, b):
        """*out (B, T, C) = (x - *mean) · *rstd · w + b over C; mean, rstd (B, T); w, b (C,); eps 1e-5."""

    def layernorm_again(self, out, x, w, b, mean, rstd):
        """*out (B, T, C) as a layernorm wrote it, to the bit, from the x (B, T, C) that it normalised."""
        self.layernorm_forward(out, mean, rstd, x, w, b)  # (B, T, C), and the same mean and rstd

    @_required(writes=1)
    def residual_forward(self, out, x1, x2):
        """*out (B, T, C) = x1 + x2. It needs no backward pass: both branches receive dout itself."""

    def residual_layernorm_forward(self, residual, out, mean, rstd, x1, x2, w, b):
        """*residual (B, T, C) = x1 + x2, then its layernorm_forward."""
        self.residual_forward(residual, x1, x2)  # (B, T, C)
        self.layernorm_forward(out, mean, rstd, residual, w, b)  # (B, T, C)

    @_required(writes=1)
    def matmul_forward(self, out, x, w, b):
        """*out (B, T, C_out) = x (B, T, C_in) · w (C_out, C_in)ᵀ + b (C_out,); b may be None."""

    def matmul_gelu_forward(self, gelu_out, out, x, w, b):
        """matmul_forward, then *gelu_out (B, T, C_out) = GELU(out)."""
        self.matmul_forward(out, x, w, b)  # (B, T, C_out)
        self.gelu_forward(gelu_out, out)  # (B, T, C_out)

    def matmul_gelu_forward_once(self, gelu_out, out, x, w, b):
        """The same where nobody asks for these bits of *gelu_out again: it may be rounded differently."""
        self.matmul_gelu_forward(gelu_out, out, x, w, b)  # both (B, T, C_out)

    @_required(writes=1)
    def gelu_forward(self, out, x):
        """*out = GELU(x), the tanh form; any shape."""

    def gelu_again(self, out, x):
        """*out (B, T, C_out) = GELU(x), as matmul_gelu_forward wrote it, to the bit."""
        self.gelu_forward(out, x)  # (B, T, C_out)

    @_required()
    def attention_stats_shape(self, B, T, NH):
        """Shape of the `stats` buffer: what attention_forward keeps for attention_backward."""

    @_required(writes=2)
    def attention_forward(self, out, stats, qkv, NH):
        """*out (B, T, C), *stats from qkv (B, T, 3C), rows [Q; K; V], heads contiguous; causal, scale 1/√hs."""

    @_required(writes=2)
    def attention_cached(self, out, cache, qkv, NH, start):
        """*out (B, n, C) = attention of the positions start … start + n - 1, whose qkv (B, n, 3C) is given.

        +cache (2, B, NH, maxT, hs) has the keys and values of all earlier positions; those of these n are added.
        """

    @_required()
    def one_token(self, acts, cache, params, tokens, start, NH):
        """*acts["logits"] (B, 1, Vp) after one more token (B, 1), B ≤ FEW, each of which follows `start` others.

        acts: arrays by name, of blocks.activation_table for (B, 1), where it may write anything · params: the weights,
        by name · +cache (L, 2, B, NH, maxT, hs): as in attention_cached, for all layers. Only where FEW > 0.
        """

    # ---------------------------------------------------------------------------------- layers, backward

    @_required(writes=2)
    def encoder_backward(self, dwte, dwpe, dout, tokens):
        """+dwte (Vp, C), +dwpe (maxT, C) from dout (B, T, C); a token that occurs twice receives both rows."""

    @_required(writes=3)
    def layernorm_backward(self, dx, dw, db, dout, x, w, mean, rstd):
        """+dx (B, T, C), +dw (C,), +db (C,) from dout (B, T, C) and what the forward pass stored."""

    def layernorm_residual_backward(self, dx, dsum, dw, db, dout, x, w, mean, rstd, accumulate=True):
        """layernorm_backward into dx (B, T, C), the gradient of the residual stream, and what the next matmul needs.

        Returns (its dout (B, T, C), its db): the gradient of what it added to the stream, which the next call may
        overwrite, and dsum (C,), or None where it holds the column sums of dx already. accumulate: for dsum. What the
        default returns is right in 16 bits too: a matmul rounds a dout of float32, and sums its columns itself.
        """
        self.layernorm_backward(dx, dw, db, dout, x, w, mean, rstd)  # (B, T, C)
        return dx, dsum

    @_required(writes=3)
    def matmul_backward(self, dx, dw, db, dout, x, w, accumulate=True):
        """*dx (B, T, C_in), +dw (C_out, C_in), +db (C_out,) from dout (B, T, C_out); dx and db may be None."""

    def gelu_matmul_backward(self, dpre, dw, db, dout, pre, x, w, dbpre=None, accumulate=True):
        """matmul_backward of x = GELU(pre), and gelu_backward: *dpre (B, T, C_in) is the gradient of pre.

        Returns dbpre (C_in,), or None where it holds the column sums of dpre already, as accumulate says.
        """
        self.matmul_backward(dpre, dw, db, dout, x, w, accumulate=accumulate)  # (B, T, C_in)
        self.gelu_backward(dpre, dpre, pre)  # (B, T, C_in)
        return dbpre

    @_required(writes=1)
    def gelu_backward(self, dx, dout, x):
        """*dx = dout · GELU'(x); dx may be dout."""

    @_required(writes=1)
    def attention_backward(self, dqkv, dout, out, stats, qkv, NH):
        """*dqkv (B, T, 3C) from dout (B, T, C) and what the forward pass read and wrote."""

    def attention_bias_backward(self, dqkv, db, dout, out, stats, qkv, NH, accumulate=True):
        """attention_backward; returns db (3C,), or None where it holds the column sums of dqkv already."""
        self.attention_backward(dqkv, dout, out, stats, qkv, NH)  # (B, T, 3C)
        return db

    # --------------------------------------------------------------------------------- loss and optimizer

    @_required(writes=2)
    def fused_classifier(self, losses, logits, targets, dloss, V):
        """*losses (B, T) = cross-entropy of logits (B, T, Vp) over the first V entries, in nats.

        With dloss (a float: the gradient of the objective with respect to each token's loss) the logits are replaced
        by their own gradient, zero in the padding; with None they stay as they are.
        """

    def classifier_gradient(self, losses, logits, targets, dloss, V):
        """fused_classifier with dloss. Returns the gradient (B, T, Vp), for the next matmul_backward alone: it may lie
        elsewhere than in logits, and have fewer bits."""
        self.fused_classifier(losses, logits, targets, dloss, V)
        return logits

    @_required()
    def global_norm(self, grads):
        """Euclidean norm (a Python float) of grads, a flat array."""

    @_required(writes=1)
    def scale(self, grads, factor):
        """*grads *= factor; grads is a flat array. For clipping."""

    @_required()
    def adamw_update(self, params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t, clear=False):
        """One AdamW step (Loshchilov & Hutter 2019) on +params, +m, +v, all (n,); t = 1, 2, … is the step's number.

        With clear, *grads = 0 in the same pass over memory.
        """

    @_required()
    def adamw_update_rounded(self, params, grads, m, v, master, key, place=0, factor=1.0, clear=False, **numbers):
        """One AdamW step on +master (n,), float32; *params (n,), 16 bits, become its rounding.

        master: may be None; then the weights themselves are updated · key: a whole number that only this tensor and
        step have, for stochastic rounding, whose random bits depend on it and on place + i · place: of the first of the
        weights in their tensor · factor: what gradients are multiplied by · numbers: lr, beta1, … of `adamw_update`.
        """

    def norm_on_device(self, grads):
        """`global_norm` of grads as an array (1,), float64, without waiting for it; the next call overwrites it."""
        return np.array([self.global_norm(grads)])  # (1,)

    def adamw_settings(self, loss_scale, key, **numbers):
        """The settings of an AdamW step, for `clip` and `adamw_update_by`; the next call may overwrite them.

        loss_scale: what the gradients are divided by · key: as in adamw_update_rounded; each tensor adds its number to
        it · numbers: lr, beta1, beta2, eps, weight_decay, t of `adamw_update`.
        """
        return dict(factor=1.0 / loss_scale, loss_scale=loss_scale, key=key, numbers=numbers)

    def clip(self, settings, norm, grads, max_norm):
        """*norm (1,), float64 = `global_norm` of grads / loss_scale; +settings scale gradients down to max_norm.

        grads None: the norm is there already, and is only read. With a norm that is not finite, `adamw_update_by` will
        leave everything as it is.
        """
        if grads is not None:
            norm[0] = self.global_norm(grads) / settings["loss_scale"]
        if not isfinite(norm[0]):
            settings["factor"] = None
        elif norm[0] > max_norm:
            settings["factor"] *= max_norm / (float(norm[0]) + 1e-6)  # 1e-6 as in PyTorch's clip_grad_norm_

    def adamw_update_by(
        self, params, grads, m, v, master, settings, decayed=True, clear=False, tensor=0, place=0, rows=None
    ):
        """One AdamW step on one tensor, or on a process's part of it, with these settings.

        grads, +m, +v, +master (n,); master may be None · decayed: whether there is weight decay · with clear, *grads
        = 0 · tensor: its number · place: of the first of these weights in the tensor · rows: None, or (row, stride) for
        weights that lie in +params, which is then longer, in rows of `row` each that begin `stride` apart.
        """
        if settings["factor"] is None:
            return
        numbers = settings["numbers"] | ({} if decayed else {"weight_decay": 0.0})
        for row, start, weights in rows_of(params, grads.size, rows):
            g, *others = (None if array is None else array[row] for array in (grads, m, v, master))  # (row,) each
            if params.dtype != m.dtype:
                how = dict(key=settings["key"] + tensor, place=place + start, factor=settings["factor"], clear=clear)
                self.adamw_update_rounded(weights, g, *others, **how, **numbers)
                continue
            if settings["factor"] != 1.0:
                self.scale(g, settings["factor"])
            self.adamw_update(weights, g, *others[:2], **numbers, clear=clear)


def rows_of(params, n, rows=None):
    """Yield n weights of params, which `adamw_update_by` describes, by rows: (which of n, where in params, weights)."""
    row, stride = rows or (n, n)
    for i, at in enumerate(range(0, n, row)):
        yield slice(at, at + row), i * stride, params[i * stride : i * stride + row]  # (row,)


CONTRACT = [name for name in vars(Backend) if not name.startswith("_")]
FUNCTIONS = [name for name in CONTRACT if callable(getattr(Backend, name))]
WRITES = {name: each.writes for name, each in vars(Backend).items() if getattr(each, "writes", None)}  # of each layer


def provided_by(functions) -> list[str]:
    """The names of the contract that a module, an object or a Backend has itself, and not from the defaults."""
    if not isinstance(functions, Backend):
        return [name for name in CONTRACT if hasattr(functions, name)]
    kind = type(functions)
    own = vars(functions)
    return [name for name in CONTRACT if name in own or getattr(kind, name) is not getattr(Backend, name)]


def _accumulating(function, backend):
    """A matmul_backward that takes accumulate, made from one that always adds."""

    def matmul_backward(dx, dw, db, dout, x, w, accumulate=True):
        for gradient in () if accumulate else (dw, db):
            if gradient is not None:
                backend.zero(gradient)
        function(dx, dw, db, dout, x, w)

    return matmul_backward


class Around(Backend):
    """A backend that makes the calls of another one, each of its own functions wrapped in around(name, function).

    What is a default for the other is one here, so that the calls of a default go through `around` as well. Nothing is
    repeated from a recording.
    """

    def __init__(self, backend, around):
        super().__init__(backend, name=backend.name)
        for name in provided_by(backend):
            if name in FUNCTIONS:
                setattr(self, name, around(name, getattr(backend, name)))
        self.repeat = super().repeat
