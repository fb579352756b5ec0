"""fp8: 16-bit training in which the factors of matmuls are rounded to 8 bits, for a backend that computes in float32.

Activations and weights become e4m3 (3 bits of mantissa, up to 448), gradients e5m2 (2 bits, up to 57,344), as in
Micikevicius et al. 2022. Sums stay in float32, and what leaves a matmul has 16 bits again. Everything else is as in
bf16: master weights, attention, layernorm, AdamW; but for the residual stream and its gradient, which have 16 bits, as
in llm.c. Beside an error of 8 bits theirs does not count, and layernorms wait for their bytes.

The outputs of layernorms and of GELU that only a matmul reads are kept in 8 bits, and leave those layers so; likewise
the gradients of GELU's input and of q, k and v.

A format of 8 bits covers few powers of two, so numbers are moved into its range first. Libraries look for the largest
number of each array to do that. Here a power of two is enough that is known beforehand: activations leave a layernorm,
a softmax or GELU at about 1, weights are about 0.02, and a gradient is in proportion to the weight of one token's loss,
1 / (B·T). The range of e5m2, 2⁻¹⁶ to 2¹⁵, does the rest; what is too large becomes the largest number. Lesson 25
compares this with scales that follow the numbers: losses do not tell them apart, and only scales by row bring
gradients closer.
"""

from math import frexp
from types import SimpleNamespace

import numpy as np

from llmc.backends.mixed import LARGEST, Mixed
from llmc.precision import WEIGHTS, e4m3, e5m2

GRADIENTS = 512.0  # the same, where the loss of a token has weight 1
HEAD_ROWS = 1 << 13  # on a GPU, whose products it fills: there are two copies of the logits' gradient in 8 bits
FEW = 16  # rows of activations that are not worth it, as in sampling: they stay in 16 bits


def gradient_scale(dloss) -> float:
    """The power of two that gradients are multiplied by. dloss: the gradient with respect to one token's loss."""
    return GRADIENTS * 2.0 ** (1 - frexp(abs(dloss))[1]) if dloss else GRADIENTS


def few(x) -> bool:
    """Whether x (…, C), of 16 bits, has too few rows for 8 bits."""
    return x.dtype.itemsize == 2 and x.size <= FEW * x.shape[-1]


class Fp8(Mixed):
    """The contract of `llmc/backends` for bfloat16 arrays, with matmuls of 8 bits."""

    PRECISIONS = ("fp8",)

    def __init__(self, exact):
        """exact: as for Mixed."""
        super().__init__(exact)
        self._gradients = GRADIENTS
        self._bf16 = SimpleNamespace(
            forward=self.matmul_forward, backward=self.matmul_backward, classifier=self.fused_classifier
        )
        self.matmul_forward, self.matmul_backward = self._matmul_forward, self._matmul_backward
        self.gelu_matmul_backward, self.fused_classifier = self._gelu_matmul_backward, self._fused_classifier
        self.attention_bias_backward = self._attention_bias_backward

    def _fused_classifier(self, losses, logits, targets, dloss, V):
        """As in the contract; the gradients of this batch will be scaled by what dloss says."""
        self._bf16.classifier(losses, logits, targets, dloss, V)
        if dloss is not None:
            self._gradients = gradient_scale(dloss)

    def _matmul_forward(self, out, x, w, b):
        """As in the contract, with x and w in e4m3."""
        if not few(x):
            x, w = rounded(x, e4m3(), 1.0), rounded(w, e4m3(), WEIGHTS)  # (B, T, C_in), (C_out, C_in)
        self._bf16.forward(out, x, w, b)  # (B, T, C_out)

    def _matmul_backward(self, dx, dw, db, dout, x, w, accumulate=True):
        """As in the contract, with dout in e5m2, x and w in e4m3. db is the sum of dout in 16 bits."""
        if few(x):
            self._bf16.backward(dx, dw, db, dout, x, w, accumulate=accumulate)
            return
        if dout.dtype.itemsize == 1:
            dout = (dout.astype(np.float32) / np.float32(self._gradients)).astype(w.dtype)  # (B, T, C_out)
        else:
            _add_columns(db, dout, accumulate)
            dout = rounded(dout.astype(w.dtype), e5m2(), self._gradients)  # (B, T, C_out)
        x, w = rounded(x, e4m3(), 1.0), rounded(w, e4m3(), WEIGHTS)  # (B, T, C_in), (C_out, C_in)
        self._bf16.backward(dx, dw, None, dout, x, w, accumulate=accumulate)

    def _gelu_matmul_backward(self, dpre, dw, db, dout, pre, x, w, dbpre=None, accumulate=True):
        """As in the contract; *dpre in e5m2 is multiplied by what all gradients of this batch are."""
        numbers = np.empty(dpre.shape, w.dtype)  # (B, T, C_in)
        self.matmul_backward(numbers, dw, db, dout, x, w, accumulate=accumulate)
        self.gelu_backward(numbers, numbers, pre)
        return self._narrow(dpre, dbpre, numbers, accumulate)

    def _attention_bias_backward(self, dqkv, db, dout, out, stats, qkv, NH, accumulate=True):
        """As in the contract; *dqkv likewise."""
        numbers = np.empty(dqkv.shape, qkv.dtype)  # (B, T, 3C)
        self.attention_backward(numbers, dout, out, stats, qkv, NH)
        return self._narrow(dqkv, db, numbers, accumulate)

    def _narrow(self, result, db, numbers, accumulate):
        """*result (…, C), in 8 bits if it has them, = numbers, of 16 bits; returns db (C,), or None if these are added
        up in it."""
        if result.dtype.itemsize == 1:
            _add_columns(db, numbers, accumulate)
            wide = numbers.astype(np.float32) * np.float32(self._gradients)
            numbers, db = np.clip(wide, -LARGEST[result.dtype.name], LARGEST[result.dtype.name]), None
        result[...] = numbers
        return db


def _add_columns(db, dout, accumulate):
    """+db (C_out,), of 16 bits, unless it is None, += column sums of dout (B, T, C_out); = them, without accumulate."""
    if db is not None:
        sums = dout.astype(db.dtype).reshape(-1, db.size).sum(axis=0, dtype=np.float32)  # (C_out,)
        db[...] = sums + db.astype(np.float32) if accumulate else sums


def rounded(array, dtype, scale):
    """array, of 16 bits, each number of which has been rounded to dtype after a multiplication by scale, and is divided
    by it again: without loss, since scale is a power of two. What is too large becomes the largest number of dtype.
    An array that has 8 bits already stays as it is."""
    if array.dtype.itemsize == 1:
        return array
    largest = LARGEST[dtype.name]
    numbers = np.clip(array.astype(np.float32) * np.float32(scale), -largest, largest).astype(dtype)
    return (numbers.astype(np.float32) / np.float32(scale)).astype(array.dtype)
