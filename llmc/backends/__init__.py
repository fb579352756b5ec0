"""The contract: the layer functions that a model is made of. Every backend has these, under these names.

`llmc.model.GPT2` calls nothing else, so a module (or any object) with these functions can train GPT-2: "numpy" is
`reference.py`, and lesson 07 plugs in the functions that the learner wrote.

Rules
- Outputs come first and are written in place; the caller owns every buffer. A backend may use temporaries of its own.
- Gradients of parameters ACCUMULATE (+=): weights are shared by all B·T positions and by several micro-batches.
- The first gradients of a step have nothing to be added to. A backend that can write these says OVERWRITES = True: its
  `matmul_backward` takes accumulate=False, for *dw and *db, whatever was there; that saves zeroing and reading them.
  Where it says nothing, the model zeroes them and has them added to.
- Gradients of activations are written (=), with one exception: `layernorm_backward` adds to `dx`, because the
  residual stream forks before every layernorm and both branches send a gradient back.
- Shapes: B batch, T time, C channels (C_in and C_out where they differ), NH heads, hs = C/NH, V vocabulary, Vp padded
  vocabulary. Activations are (B, T, C); weights (C_out, C_in), as in PyTorch's Linear. Tokens and targets are int32.
- Arrays of one call share one floating dtype: float32 for training, float64 for gradient checks. All are C-contiguous.
  "cuda" refuses float64 in one sentence.
- In TF32 all arrays are float32, and products may round their factors. A backend that can do so has `in_tf32()`, which
  returns a backend that does.
- In a precision of 16 bits (llmc/precision.py) activations, weights and gradients have the 16-bit type; mean, rstd,
  stats, losses, m and v stay float32. A backend names those that it takes itself in PRECISIONS, and has
  `adamw_update_rounded`, or it has `in_16_bits()`, which returns a backend that does; one that computes on NumPy's
  arrays needs neither, because `mixed.py` adds it all.
- A function may return before its outputs are there, as on a GPU; later calls of the same backend see them, and
  `to_numpy` and `global_norm` wait for them.
- Nothing is validated here: `llmc.model` has checked tokens and lengths before it calls the first layer.
- A backend that computes while the host goes on, as on a GPU, may have the functions of `Ahead` too, all of them: then
  nothing in a training step waits for it.
- `layernorm_again` and `gelu_again` compute in the backward pass what was not kept, and give the very bits that the
  forward pass wrote. RECOMPUTE, one of blocks.RECOMPUTE, is what a backend does unless the user says something else: 0
  if it is missing.
- HEAD_ROWS, if a backend has it, is how many tokens may have their logits in memory at once in training (llmc/head.py).
- Importing a backend has no effects. What needs some (compiling kernels, loading threads) is in a function `prepare()`
  of the backend, if it has one: `get_backend` calls it each time, also with the name of a precision in PRECISIONS.
"""

from importlib import import_module
from typing import Protocol

from llmc.backends import numba_variables
from llmc.backends.mixed import Mixed
from llmc.errors import UserError

ATTENTION = ("own", "cudnn")  # whose kernels attend
WHOSE_ATTENTION = "attention kernels, in 16 bits on a GPU: own, or cudnn for NVIDIA's"
MATMUL = ("fastest", "cublas", "own")  # whose kernels multiply
WHOSE_MATMUL = "matmul kernels, in 16 bits on a GPU: own, cublas (NVIDIA's) or fastest, the faster of the two"
BACKENDS = {"numpy": "llmc.backends.reference", "cpu": "llmc.backends.cpu", "cuda": "llmc.backends.gpu"}


class Backend(Protocol):
    """What each backend provides. Shapes are given as name (shape); `*` marks what is written, `+` what is added to."""

    def zeros(self, n, dtype):
        """A new flat array of n zeros where this backend computes."""

    def from_numpy(self, array):
        """The same numbers as an array of this backend."""

    def to_numpy(self, array):
        """The same numbers as a NumPy array."""

    def zero(self, array):
        """*array = 0; any shape."""

    def attention_stats_shape(self, B, T, NH):
        """Shape of the `stats` buffer: what attention_forward keeps for attention_backward."""

    def encoder_forward(self, out, tokens, wte, wpe):
        """*out (B, T, C) = wte (Vp, C)[tokens (B, T)] + wpe (maxT, C)[:T]."""

    def encoder_backward(self, dwte, dwpe, dout, tokens):
        """+dwte (Vp, C), +dwpe (maxT, C) from dout (B, T, C); a token that occurs twice receives both rows."""

    def layernorm_forward(self, out, mean, rstd, x, w, b):
        """*out (B, T, C) = (x - *mean) · *rstd · w + b over C; mean, rstd (B, T); w, b (C,); eps 1e-5."""

    def layernorm_again(self, out, x, w, b, mean, rstd):
        """*out (B, T, C) as a layernorm has written it, from the x (B, T, C) that it normalised, its mean and rstd."""

    def layernorm_backward(self, dx, dw, db, dout, x, w, mean, rstd):
        """+dx (B, T, C), +dw (C,), +db (C,) from dout (B, T, C) and what the forward pass stored."""

    def residual_forward(self, out, x1, x2):
        """*out (B, T, C) = x1 + x2. It needs no backward pass: both branches receive dout itself."""

    def residual_layernorm_forward(self, residual, out, mean, rstd, x1, x2, w, b):
        """*residual (B, T, C) = x1 + x2, then its layernorm_forward; one function so that a backend can fuse them."""

    def matmul_forward(self, out, x, w, b):
        """*out (B, T, C_out) = x (B, T, C_in) · w (C_out, C_in)ᵀ + b (C_out,); b may be None."""

    def matmul_gelu_forward(self, gelu_out, out, x, w, b):
        """matmul_forward, then *gelu_out (B, T, C_out) = GELU(out); one function so that a backend can fuse them."""

    def matmul_backward(self, dx, dw, db, dout, x, w):
        """*dx (B, T, C_in), +dw (C_out, C_in), +db (C_out,) from dout (B, T, C_out); dx and db may be None."""

    def gelu_forward(self, out, x):
        """*out = GELU(x), the tanh form; any shape."""

    def gelu_again(self, out, x):
        """*out (B, T, C_out) = GELU(x), as matmul_gelu_forward wrote it."""

    def gelu_backward(self, dx, dout, x):
        """*dx = dout · GELU'(x); dx may be dout."""

    def attention_forward(self, out, stats, qkv, NH):
        """*out (B, T, C), *stats from qkv (B, T, 3C), rows [Q; K; V], heads contiguous; causal, scale 1/√hs."""

    def attention_backward(self, dqkv, dout, out, stats, qkv, NH):
        """*dqkv (B, T, 3C) from dout (B, T, C) and what the forward pass read and wrote."""

    def attention_cached(self, out, cache, qkv, NH, start):
        """*out (B, n, C) = attention of the positions start … start + n - 1, whose qkv (B, n, 3C) is given.

        +cache (2, B, NH, maxT, hs) has the keys and values of all earlier positions; those of these n are added.
        """

    def fused_classifier(self, losses, logits, targets, dloss, V):
        """*losses (B, T) = cross-entropy of logits (B, T, Vp) over the first V entries, in nats.

        With dloss (a float: the gradient of the objective with respect to each token's loss) the logits are replaced
        by their own gradient, zero in the padding; with None they stay as they are.
        """

    def global_norm(self, grads):
        """Euclidean norm (a Python float) of grads, a flat array."""

    def scale(self, grads, factor):
        """*grads *= factor; grads is a flat array. For clipping."""

    def adamw_update(self, params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t, clear=False):
        """One AdamW step (Loshchilov & Hutter 2019) on +params, +m, +v, all (n,); t = 1, 2, … is the step's number.

        With clear, *grads = 0 in the same pass over memory.
        """


class Fused(Protocol):
    """What a backend may have besides where one function can do the work of two at once."""

    def matmul_gelu_forward_once(self, gelu_out, out, x, w, b):
        """matmul_gelu_forward where nobody asks for these bits of *gelu_out again: it may be rounded otherwise."""

    def layernorm_backward_rounded(self, dx, dsum, dw, db, dout, x, w, mean, rstd):
        """layernorm_backward, and +dsum (C,) += column sums of dx in 16 bits. Returns these (B, T, C).

        It takes accumulate where matmul_backward does, for dsum. The next call may overwrite what it returns.
        """

    def gelu_matmul_backward(self, dpre, dw, db, dout, pre, x, w, dbpre=None):
        """matmul_backward of x = GELU(pre), and gelu_backward: *dpre (B, T, C_in) is the gradient of pre.

        +dbpre (C_in,), unless it is None, += column sums of dpre: the gradient of the bias that went into pre.
        It takes accumulate where matmul_backward does.
        """


class Few(Protocol):
    """What a backend has besides if it can decode a few sequences in one call, without Python between the layers.

    FEW: how many sequences at most.
    """

    def one_token(self, acts, cache, params, tokens, start, NH):
        """*acts["logits"] (B, 1, Vp) after one more token (B, 1), B ≤ FEW, of which each follows `start` others.

        acts: arrays by name, of blocks.activation_table for (B, 1), where it may write anything · params: the weights,
        by name · +cache (L, 2, B, NH, maxT, hs): as in attention_cached, of all layers.
        """


class Rounded(Protocol):
    """What a backend has besides if it takes arrays of 16 bits."""

    def adamw_update_rounded(self, params, grads, m, v, master, key, place=0, factor=1.0, clear=False, **numbers):
        """One AdamW step on +master (n,), float32, of which *params (n,) become the rounding; master may be None.

        key: a whole number that no other tensor and step has, for stochastic rounding, whose random bits depend on it
        and on place + i · place: of the first of these weights in their tensor · factor: gradients count as so much
        larger · numbers: lr, beta1, … of `adamw_update`.
        """


class Ahead(Protocol):
    """What a backend has besides if it runs ahead of the host ("cuda")."""

    def repeat(self, key, arrays, work):
        """work(), which makes the same calls whenever key and arrays are the same: it may be repeated from a recording.

        key: anything hashable. arrays: those that the calls read and write, other than temporaries of the backend.
        """

    def overwrite(self, array, numbers):
        """*array = numbers, a NumPy array of the same shape and type."""

    def encoder_forward_at(self, out, tokens, wte, wpe, start):
        """*out (B, 1, C) = wte[tokens] + wpe[start]; tokens (B,), start (1,), int32 where the backend computes."""

    def later(self, array):
        """A function that returns the array's present numbers as a NumPy array. Only calling that function waits."""

    def norm_there(self, grads):
        """`global_norm` of grads as an array (1,), float64, without waiting for it; the next call overwrites it."""

    def adamw_settings(self, lr, beta1, beta2, eps, weight_decay, t):
        """The numbers of an AdamW step, for `adamw_update_by`: always the same array, which each call overwrites."""

    def clip(self, settings, norm, grads, max_norm):
        """*norm (1,), float64 = `global_norm` of grads; +settings such that gradients count scaled down to max_norm.

        grads None: the norm is there already, and only read.
        With a norm that is not finite, `adamw_update_by` will leave everything as it is.
        """

    def adamw_update_by(self, params, grads, m, v, settings, decayed=True, clear=False):
        """adamw_update by these settings. decayed: whether there is weight decay.

        In 16 bits, `adamw_settings` takes loss_scale and key as well, which belong to the step, `clip` divides by the
        loss scale, and `adamw_update_by` takes master after v, and tensor, a number that is added to the key, place
        and rows: (row, stride) of weights that are not neighbours in params, as of part of a stacked tensor.
        """


def get_backend(backend, precision=None) -> Backend:
    """The backend of that name, prepared; anything but a string is returned as it is.

    precision: a Precision; the backend that is returned takes its arrays and multiplies in it. Raises UserError for an
    unknown name, and for a backend that does not compute in this precision.
    """
    found = _imported(backend)
    takes_16_bits = precision is not None and precision.name in getattr(found, "PRECISIONS", ())
    if hasattr(found, "prepare") and (isinstance(backend, str) or takes_16_bits):
        found.prepare(*([precision.name] if takes_16_bits else []))
    if precision is not None and precision.rounds_factors:
        return _in_tf32(found, backend)
    if precision is None or not precision.is_mixed or takes_16_bits or isinstance(found, Mixed):
        return found
    return found.in_16_bits() if hasattr(found, "in_16_bits") else Mixed(found)


def choose_attention(backend, whose):
    """Which of ATTENTION a backend, one that `get_backend` has returned, takes from now on.

    Raises UserError for another name, for a backend that has no choice, and where cuDNN is missing.
    """
    _choose(backend, "attention", "attend_by", whose, ATTENTION, "cudnn")


def choose_matmul(backend, whose):
    """Which of MATMUL a backend, one that `get_backend` has returned, takes from now on.

    Raises UserError for another name, for a backend that has no choice, and where own kernels find no tensor cores.
    """
    _choose(backend, "matmul", "matmul_by", whose, MATMUL, "own")


def _choose(backend, what, by, whose, names, special):
    """Call the backend's function `by`, if it has one; backends without a choice refuse the special one."""
    if whose not in names:
        raise UserError(f"{what} is {' or '.join(names)}, not {whose!r}.")
    if hasattr(backend, by):
        getattr(backend, by)(whose)
    elif whose == special:
        raise UserError(f"--{what} {whose} is for --backend cuda with --precision bf16 or fp16; leave it out here.")


def _in_tf32(found, name):
    if not hasattr(found, "in_tf32"):
        which = f"the {name} backend" if isinstance(name, str) else "this backend"
        raise UserError(f"{which} does not compute in tf32; use cuda for that, or fp32.")
    return found.in_tf32()


def _imported(backend):
    if not isinstance(backend, str):
        return backend
    if backend not in BACKENDS:
        raise UserError(f"there is no backend {backend!r}; choose one of {', '.join(BACKENDS)}.")
    if backend == "cpu":
        numba_variables.check()
    return import_module(BACKENDS[backend])
