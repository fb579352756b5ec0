"""fp8: 16-bit training in which the factors of matmuls are rounded to 8 bits, for a backend that computes in float32.

Activations and weights become e4m3 (3 bits of mantissa, up to 448), gradients e5m2 (2 bits, up to 57,344), as in
Micikevicius et al. 2022. Sums stay in float32, and what leaves a matmul has 16 bits again. Everything else is as in
bf16: master weights, the residual stream, attention, layernorm, AdamW.

A format of 8 bits covers few powers of two, so numbers are moved into its range first. Libraries look for the largest
number of each array to do that. Here a power of two is enough that is known beforehand: activations leave a layernorm,
a softmax or GELU at about 1, weights are about 0.02, and a gradient is in proportion to the weight of one token's loss,
1 / (B·T). The range of e5m2, 2⁻¹⁶ to 2¹⁵, does the rest; what is too large becomes the largest number. Lesson 25
compares this with scales that follow the numbers: neither losses nor gradients tell them apart.
"""

from math import frexp

import numpy as np

from llmc.backends.mixed import Mixed

LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}
ACTIVATIONS, WEIGHTS = 1.0, 32.0  # what they are multiplied by
GRADIENTS = 512.0  # the same, where the loss of a token has weight 1
FEW = 16  # rows of activations that are not worth it, as in sampling: they stay in 16 bits


def gradient_scale(dloss) -> float:
    """The power of two that gradients are multiplied by. dloss: the gradient with respect to one token's loss."""
    return GRADIENTS * 2.0 ** (1 - frexp(abs(dloss))[1]) if dloss else GRADIENTS


def few(x) -> bool:
    """Whether x (…, C) has too few rows for 8 bits."""
    return x.size <= FEW * x.shape[-1]


class Fp8(Mixed):
    """The contract of `llmc/backends` for bfloat16 arrays, with matmuls of 8 bits."""

    PRECISIONS = ("fp8",)

    def __init__(self, exact):
        """exact: as for Mixed."""
        super().__init__(exact)
        self._gradients = GRADIENTS
        self._in_16_bits = self.matmul_forward, self.matmul_backward, self.fused_classifier
        self.matmul_forward, self.matmul_backward = self._matmul_forward, self._matmul_backward
        self.fused_classifier = self._fused_classifier

    def _fused_classifier(self, losses, logits, targets, dloss, V):
        """As in the contract; the gradients of this batch will be scaled by what dloss says."""
        self._in_16_bits[2](losses, logits, targets, dloss, V)
        if dloss is not None:
            self._gradients = gradient_scale(dloss)

    def _matmul_forward(self, out, x, w, b):
        """As in the contract, with x and w in e4m3."""
        if not few(x):
            x, w = rounded(x, e4m3(), ACTIVATIONS), rounded(w, e4m3(), WEIGHTS)  # (B, T, C_in), (C_out, C_in)
        self._in_16_bits[0](out, x, w, b)  # (B, T, C_out)

    def _matmul_backward(self, dx, dw, db, dout, x, w, accumulate=True):
        """As in the contract, with dout in e5m2, x and w in e4m3. db is the sum of dout in 16 bits."""
        if few(x):
            self._in_16_bits[1](dx, dw, db, dout, x, w, accumulate=accumulate)
            return
        dout = dout.astype(w.dtype)  # (B, T, C_out)
        if db is not None:
            sums = dout.reshape(-1, db.size).sum(axis=0, dtype=np.float32)  # (C_out,)
            db[...] = sums + db.astype(np.float32) if accumulate else sums
        dout = rounded(dout, e5m2(), self._gradients)  # (B, T, C_out)
        x, w = rounded(x, e4m3(), ACTIVATIONS), rounded(w, e4m3(), WEIGHTS)
        self._in_16_bits[1](dx, dw, None, dout, x, w, accumulate=accumulate)


def rounded(array, dtype, scale):
    """array, of 16 bits, each number of which has been rounded to dtype after a multiplication by scale, and is divided
    by it again: without loss, since scale is a power of two. What is too large becomes the largest number of dtype."""
    largest = LARGEST[dtype.name]
    numbers = np.clip(array.astype(np.float32) * np.float32(scale), -largest, largest).astype(dtype)
    return (numbers.astype(np.float32) / np.float32(scale)).astype(array.dtype)


def e4m3() -> np.dtype:
    """The data type of 4 bits of exponent and 3 of mantissa for NumPy."""
    import ml_dtypes

    return np.dtype(ml_dtypes.float8_e4m3fn)


def e5m2() -> np.dtype:
    """The data type of 5 bits of exponent and 2 of mantissa for NumPy."""
    import ml_dtypes

    return np.dtype(ml_dtypes.float8_e5m2)
