"""What the kernels for numbers of 16 bits refuse: more than they can count, and other types."""

import numpy as np
import pytest

from llmc.errors import UserError
from llmc.kernels import pointwise, reductions
from llmc.kernels.mixed import kernel_for
from llmc.kernels.mixed.adamw import adamw_update
from llmc.precision import bfloat16
from llmc.tests.kernels.mixed import backend


class Huge:
    """An array that has a shape and a type, and nothing else."""

    def __init__(self, *shape, dtype):
        self.shape, self.size, self.dtype = shape, int(np.prod(shape, dtype=object)), np.dtype(dtype)


def test_what_the_kernels_cannot_count_is_refused(monkeypatch):
    monkeypatch.setattr(backend, "matmul", "own")  # cuBLAS counts in 64 bits, and so does Hopper's version 9
    monkeypatch.setattr("llmc.kernels.mixed.matmul_hopper.fits", lambda product: False)
    flat, exact = (Huge(pointwise.MOST + 1, dtype=dtype) for dtype in (bfloat16(), np.float32))
    w, mean = Huge(1, dtype=bfloat16()), Huge(reductions.MOST_ROWS + 1, 1, dtype=np.float32)
    rows = Huge(reductions.MOST_ROWS + 1, 1, 1, dtype=bfloat16())
    wide, matrix = Huge(1, 1, 2**20, dtype=bfloat16()), Huge(2**20, 2**12, dtype=bfloat16())
    for refused in (
        lambda: backend.gelu_forward(flat, flat),
        lambda: backend.gelu_backward(flat, flat, flat),
        lambda: backend.residual_forward(exact, exact, flat),
        lambda: backend.scale(flat, 0.5),
        lambda: backend.global_norm(flat),
        lambda: adamw_update(flat, flat, exact, exact, exact, None),
        lambda: backend.encoder_forward(Huge(1, 1, 1, dtype=np.float32), mean, Huge(2**31, 1, dtype=bfloat16()), w),
        lambda: backend.matmul_forward(wide, Huge(1, 1, 2**12, dtype=bfloat16()), matrix, None),
    ):
        with pytest.raises(UserError, match="up to 2,146,435,072 elements"):
            refused()
    for refused in (
        lambda: backend.encoder_forward(rows, mean, w, w),
        lambda: backend.encoder_backward(w, w, rows, mean),
        lambda: backend.layernorm_forward(rows, mean, mean, rows, w, w),
        lambda: backend.residual_layernorm_forward(rows, rows, mean, mean, rows, rows, w, w),
        lambda: backend.layernorm_backward(rows, w, w, rows, rows, w, mean, mean),
        lambda: backend.fused_classifier(mean, rows, mean, 1.0, 1),
    ):
        with pytest.raises(UserError, match="up to 67,108,864 rows"):
            refused()
    many = Huge(2**31, 1, 1, dtype=bfloat16())
    for refused in (
        lambda: backend.attention_forward(many, None, many, 1),
        lambda: backend.attention_backward(many, many, many, None, many, 1),
        lambda: backend.attention_cached(many, Huge(2, 2**31, 1, 1, 1, dtype=bfloat16()), many, 1, 0),
    ):
        with pytest.raises(UserError, match="at most 2,147,483,647 queries"):
            refused()


def test_a_head_that_is_too_large_is_refused():
    qkv = Huge(1, 1, 3 * 300, dtype=bfloat16())
    with pytest.raises(UserError, match="heads of 300 numbers on this device; use fp32"):
        backend.attention_forward(Huge(1, 1, 300, dtype=bfloat16()), None, qkv, 1)


def test_other_types_are_refused():
    with pytest.raises(TypeError, match="gelu_forward_v1 takes 16-bit numbers, not float32"):
        kernel_for(np.zeros(3, np.float32), "pointwise", "gelu_forward_v1")
    with pytest.raises(UserError, match="does not compute in float64"):
        backend.zeros(3, np.float64)
