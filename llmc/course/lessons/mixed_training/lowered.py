"""Lesson 20: mixed precision on letters, in which one more part is in bf16 than should be.

`lowered` gives the readable mixed precision of `llmc/backends/mixed.py`, but the parts that are named lose what bf16
does not hold. A sum in bf16 is rounded after each term that is added.
"""

from types import SimpleNamespace

import numpy as np

from llmc.backends import reference
from llmc.backends.mixed import Mixed
from llmc.config import GPT2Config
from llmc.course.lessons.number_formats.steps import Letters
from llmc.model import GPT2
from llmc.precision import bfloat16
from llmc.training.loss_scale import LossScale

TOKENS = 4  # whose products a sum over tokens adds exactly before it is rounded, as tensor cores do with 8 or 16


def in_bf16(x):
    """x (any shape) rounded to the nearest bf16; float32."""
    return np.asarray(x, np.float32).astype(bfloat16()).astype(np.float32)


def sum_in_bf16(terms):
    """The sum over the first axis, rounded after each term."""
    total = np.zeros(terms.shape[1:], np.float32)
    for term in terms:
        total = in_bf16(total + term)
    return total


class Lowered(Mixed):
    """Mixed precision of the reference backend with `low`, names among PARTS, in bf16."""

    def __init__(self, low=()):
        self.low = frozenset(low)
        functions = {name: function for part in self.low for name, function in FUNCTIONS.get(part, {}).items()}
        super().__init__(SimpleNamespace(**vars(reference) | functions))

    def adamw_update_rounded(self, params, grads, m, v, master, key, **how):
        """As in Mixed, but moments and master weights may be rounded afterwards."""
        super().adamw_update_rounded(params, grads, m, v, master, key, **how)
        for name, array in (("AdamW's m", m), ("AdamW's v", v), ("master weights", master)):
            if name in self.low:
                array[...] = in_bf16(array)
        if "master weights" in self.low:
            params[...] = master


def _layernorm_forward(out, mean, rstd, x, w, b):
    C = x.shape[-1]
    mean[...] = in_bf16(sum_in_bf16(np.moveaxis(in_bf16(x), -1, 0)) / C)  # (B, T)
    squares = in_bf16(np.square(in_bf16(x - mean[..., None])))  # (B, T, C)
    rstd[...] = in_bf16(1 / np.sqrt(in_bf16(sum_in_bf16(np.moveaxis(squares, -1, 0)) / C) + reference.EPS))  # (B, T)
    out[...] = (x - mean[..., None]) * rstd[..., None] * w + b  # (B, T, C)


def _fused_classifier(losses, logits, targets, dloss, V):
    z, at = logits[..., :V], targets[..., None]  # (B, T, V), (B, T, 1)
    z = in_bf16(z - z.max(axis=-1, keepdims=True))
    e = in_bf16(np.exp(z))
    total = sum_in_bf16(np.moveaxis(e, -1, 0))[..., None]  # (B, T, 1)
    losses[...] = in_bf16(in_bf16(np.log(total)) - np.take_along_axis(z, at, axis=-1))[..., 0]
    if dloss is not None:
        p = in_bf16(e / total)
        np.put_along_axis(p, at, in_bf16(np.take_along_axis(p, at, axis=-1) - 1), axis=-1)
        logits[..., :V], logits[..., V:] = p * dloss, 0


def _layernorm_backward(dx, dw, db, dout, x, w, mean, rstd):
    C = x.shape[-1]
    norm = (x - mean[..., None]) * rstd[..., None]  # (B, T, C)
    reference.layernorm_backward(dx, np.zeros_like(dw), np.zeros_like(db), dout, x, w, mean, rstd)
    db += sum_in_bf16(dout.reshape(-1, C))
    dw += sum_in_bf16((dout * norm).reshape(-1, C))


def _matmul_backward(dx, dw, db, dout, x, w):
    C_out, C_in = w.shape
    reference.matmul_backward(dx, np.zeros_like(dw), None, dout, x, w)
    dout, x = dout.reshape(-1, TOKENS, C_out), x.reshape(-1, TOKENS, C_in)
    dw += sum_in_bf16(np.matmul(dout.transpose(0, 2, 1), x))
    if db is not None:
        db += sum_in_bf16(dout.reshape(-1, C_out))


def _then_rounded(name):
    """The reference's function of this name, whose first argument is rounded when it is done."""

    def function(out, *arguments):
        getattr(reference, name)(out, *arguments)
        out[...] = in_bf16(out)

    return function


ADD_TO_THE_STREAM = ("encoder_forward", "residual_forward", "layernorm_backward")  # the last one to its gradient
FUNCTIONS = {  # {part: {name: the reference's function, with that part in bf16}}
    "residual stream": {name: _then_rounded(name) for name in ADD_TO_THE_STREAM},
    "layernorm statistics": {"layernorm_forward": _layernorm_forward},
    "softmax of the loss": {"fused_classifier": _fused_classifier},
    "sums over tokens": {"layernorm_backward": _layernorm_backward, "matmul_backward": _matmul_backward},
}
PARTS = (*FUNCTIONS, "AdamW's m", "AdamW's v", "master weights")


def rounding_factors():
    """The reference backend, whose products round their factors to TF32's 10 bits first; sums stay float32."""

    def matmul_forward(out, x, w, b):
        reference.matmul_forward(out, in_tf32(x), in_tf32(w), b)

    def matmul_gelu_forward(gelu_out, out, x, w, b):
        matmul_forward(out, x, w, b)  # (B, T, C_out)
        reference.gelu_forward(gelu_out, out)  # (B, T, C_out)

    def matmul_backward(dx, dw, db, dout, x, w):
        reference.matmul_backward(dx, dw, None, in_tf32(dout), in_tf32(x), in_tf32(w))
        if db is not None:
            db += dout.reshape(-1, dout.shape[-1]).sum(axis=0)

    mine = dict(matmul_forward=matmul_forward, matmul_gelu_forward=matmul_gelu_forward, matmul_backward=matmul_backward)
    return SimpleNamespace(**vars(reference) | mine)


def in_tf32(x):
    """x (any shape) rounded to the nearest number with 10 bits of mantissa, ties away from 0."""
    return ((np.ascontiguousarray(x).view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def small(backend, precision, **how):
    """A small GPT-2 for letters."""
    model = GPT2(GPT2Config(maxT=16, V=27, L=2, NH=2, C=32), backend, precision, **how)
    model.init_weights(42)
    return model


def losses_of(model, batch, counts, steps):
    """Losses (n,) of training: a warm-up, then a cosine that is 0 after `steps`. counts: (n,), the numbers of steps."""
    losses, scale = [], LossScale() if model.precision.overflows else None
    for count in counts:
        model.loss_scale = scale.value if scale else model.loss_scale
        model.zero_grad()
        losses.append(model.forward(*batch(count), dloss=1.0))
        model.backward()
        lr = 1e-3 * min(1, (count + 1) / 20) * 0.5 * (1 + np.cos(np.pi * count / steps))
        norm = model.update(lr, beta2=0.999, weight_decay=0.1, max_norm=1.0)
        if scale:
            scale.good_step() if np.isfinite(norm()) else scale.overflow()
    return np.array(losses)


def train(low=(), precision="bf16", master=True, steps=300):
    """(losses (steps,), model) of a small GPT-2 on letters.

    low: see Lowered, for bf16 · precision: a name of llmc/precision.py · master: are there master weights?
    """
    backend = {"bf16": lambda: Lowered(low), "tf32": rounding_factors}.get(precision, lambda: "numpy")()
    model, batches = small(backend, "fp32" if precision == "tf32" else precision, master_weights=master), Letters()
    return losses_of(model, lambda step: batches.next_batch(), range(steps), steps), model
