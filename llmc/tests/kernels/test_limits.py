"""How large arrays may be: what the kernels cannot count is refused in a sentence, and what they can is right."""

import re

import numpy as np
import pytest

from llmc import cuda
from llmc.bench.kernels import checks
from llmc.bench.kernels.calls import MAKERS, computes
from llmc.bench.kernels.cases import Sizes
from llmc.bench.kernels.versions import versions
from llmc.errors import UserError
from llmc.kernels import (
    SOURCES,
    STEPS,
    adamw,
    bias_backward,
    classifier,
    encoder,
    ladder,
    layernorm,
    norm,
    pointwise,
    reductions,
    source,
)

on_emulator = pytest.mark.skipif(cuda.device() != "emulator", reason="watches what the emulator launches")
on_gpu = pytest.mark.skipif(cuda.device() != "gpu", reason="needs a GPU, with 40 GB of memory")


class Huge:
    """An array that has a shape and nothing else: what is refused is refused before anything is launched."""

    dtype = np.dtype(np.float32)

    def __init__(self, *shape):
        self.shape, self.size, self.ndim = shape, int(np.prod(shape, dtype=object)), len(shape)


def flat_calls(n):
    flat = Huge(n)
    numbers = dict(lr=1e-3, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, t=3)
    for version in (1, 2, 3):
        yield lambda v=version: pointwise.gelu_forward(flat, flat, version=v)
        yield lambda v=version: pointwise.gelu_backward(flat, flat, flat, version=v)
        yield lambda v=version: pointwise.residual_forward(flat, flat, flat, version=v)
        yield lambda v=version: adamw.adamw_update(flat, flat, flat, flat, **numbers, version=v)
    yield lambda: adamw.adamw_update_by(flat, flat, flat, flat, None)
    for version in (1, 2):
        yield lambda v=version: norm.global_norm(flat, version=v)
        yield lambda v=version: norm.scale(flat, 0.5, version=v)
    for version in (1, 2, 3):
        yield lambda v=version: encoder.encoder_backward(flat, flat, Huge(n, 1, 1), Huge(n, 1), version=v)
    for version in (2, 3, 4):
        yield lambda v=version: encoder.encoder_forward(Huge(n, 1, 1), Huge(n, 1), Huge(5, 1), flat, version=v)
    yield lambda: encoder.encoder_forward(Huge(1, 1, 1), Huge(1, 1), Huge(n, 1), flat)


@pytest.mark.parametrize("call", list(flat_calls(pointwise.MOST + 1)))
def test_more_elements_than_an_int_can_count_are_refused(call):
    with pytest.raises(UserError, match="up to 2,146,435,072 elements in an array, not 2,146,435,073"):
        call()


def row_calls(N):
    x, mean, w = Huge(N, 1, 1), Huge(N, 1), Huge(1)
    yield lambda: encoder.encoder_forward(x, mean, Huge(5, 1), x)
    for version in range(1, 8):
        yield lambda v=version: ladder.softmax_forward(x, x, version=v)
        yield lambda v=version: layernorm.layernorm_forward(x, mean, mean, x, w, w, version=v)
    for version in (1, 2, 3):
        yield lambda v=version: layernorm.residual_layernorm_forward(x, x, mean, mean, x, x, w, w, version=v)
        yield lambda v=version: classifier.fused_classifier(mean, x, mean, 1.0, 1, version=v)
    for version in range(1, 6):
        yield lambda v=version: layernorm.layernorm_backward(x, w, w, x, x, w, mean, mean, version=v)
    for version in range(1, 5):
        yield lambda v=version: bias_backward.bias_backward(w, x, version=v)


@pytest.mark.parametrize("call", list(row_calls(reductions.MOST_ROWS + 1)))
def test_more_rows_than_there_are_numbers_for_threads_are_refused(call):
    with pytest.raises(UserError, match="up to 67,108,864 rows, not 67,108,865"):
        call()


def test_the_most_elements_leave_room_for_a_whole_grid():
    """The last index that a thread computes is below 2³¹ on any GPU of up to 512 multiprocessors."""
    threads = 512 * 2048
    assert pointwise.MOST + threads <= 2**31 and pointwise.blocks_for(pointwise.MOST, each=4) * 1024 < 2**31
    assert reductions.MOST_ROWS * 32 <= 2**31


LONG = Sizes(B=1, T=3, C=4200, NH=1, V=4200, Vp=4224, parameters=5000)  # blocks of 1024 threads for a row


@on_emulator
@pytest.mark.parametrize("function", [name for name in MAKERS if not computes(name)])
def test_large_blocks_are_known_to_the_compiler(function, monkeypatch):
    """Without __launch_bounds__ it may use more registers than a block of more than 256 threads can have."""
    launched = {}

    def launch(self, grid, block, args, shared_mem=0):
        launched[self.kernel.name] = int(np.prod(block))
        self.kernel(grid, block, args, shared_mem=shared_mem)

    monkeypatch.setattr(checks.Inspected, "__call__", launch)
    group = versions(function)
    checks.check(group, LONG)
    for name, threads in launched.items():
        text = next(text for text in map(source, (*SOURCES, *STEPS)) if f" {name}(" in text)
        numbers = {name: int(value) for name, value in re.findall(r"const int (\w+) = (\d+);", text)}
        bounds = re.search(rf"__launch_bounds__\(([^)]*)\)\s+{name}\(", text)
        assert threads <= (eval(bounds[1], numbers) if bounds else 256), (name, threads)


# -------------------------------------------------------------------------------------------------- for real


def filled(value, n=pointwise.MOST):
    """n numbers of one value: what is computed of them is one value too."""
    return cuda.xp.full(n, value, np.float32)


def same(array):
    """The value of all elements."""
    lowest, highest = float(array.min()), float(array.max())
    assert lowest == highest
    return lowest


@pytest.fixture
def emptied():
    """Gives memory back before and after: these tests need most of a GPU."""
    yield cuda.xp.get_default_memory_pool().free_all_blocks()
    cuda.xp.get_default_memory_pool().free_all_blocks()


@on_gpu
@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_most_elements(version, emptied):
    x, y = filled(0.5), filled(3.0)  # (n,) each
    pointwise.residual_forward(x, x, y, version=version)
    assert same(x) == 3.5
    pointwise.gelu_forward(x, y, version=version)
    assert same(x) == pytest.approx(2.99636, abs=1e-4)
    x.fill(2.0)
    pointwise.gelu_backward(x, x, y, version=version)
    assert same(x) == pytest.approx(2 * 1.01163, abs=1e-3)
    if version < 3:
        norm.scale(y, 0.5, version=version)
        assert same(y) == 1.5
        found = float(norm.global_norm(y, version=version)[0])
        assert found == pytest.approx(1.5 * pointwise.MOST**0.5, rel=1e-6)
    m, v = filled(0.0), filled(0.0)  # (n,) each
    x.fill(1.0)
    numbers = dict(lr=0.1, beta1=0.9, beta2=0.95, eps=0.0, weight_decay=0.0, t=1)
    adamw.adamw_update(x, y, m, v, **numbers, clear=True, version=version)
    assert same(x) == pytest.approx(0.9) and same(m) == pytest.approx(0.3 if version == 3 else 0.15) and same(y) == 0


@on_gpu
@pytest.mark.parametrize("version", range(1, 8))
def test_the_most_rows(version, emptied):
    """67 million rows of four: 0, 1, 2, 3."""
    N, C = reductions.MOST_ROWS, 4
    x = cuda.xp.tile(cuda.xp.arange(C, dtype=np.float32), N).reshape(N, 1, C)  # (B, T, C)
    out, w, b = cuda.xp.full_like(x, np.nan), cuda.xp.ones(C, np.float32), cuda.xp.zeros(C, np.float32)
    mean, rstd = filled(np.nan, N).reshape(N, 1), filled(np.nan, N).reshape(N, 1)  # (B, T) each
    ladder.softmax_forward(out, x, version=version)
    assert same(out[..., 3]) == pytest.approx(0.643914, rel=1e-5)
    layernorm.layernorm_forward(out, mean, rstd, x, w, b, version=version)
    assert same(mean) == 1.5 and same(rstd) == pytest.approx(1.25**-0.5, rel=1e-4)
    assert same(out[..., 0]) == pytest.approx(-1.5 * 1.25**-0.5, rel=1e-4)
    if version <= 5:
        dx = cuda.xp.zeros_like(x)  # (B, T, C)
        layernorm.layernorm_backward(dx, w, b, x, x, cuda.xp.ones(C, np.float32), mean, rstd, version=version)
        assert abs(same(dx[..., 0])) < 1e-4  # dout is a multiple of norm, plus a constant: nothing comes through
        # atomics add one after the other: a float that grows by 1 stops at 2²⁴
        assert float(b[1]) == pytest.approx(N, rel=0.76 if version == 1 else 1e-3)
    if version <= 4:
        db = cuda.xp.zeros(C, np.float32)  # (C,)
        bias_backward.bias_backward(db, x, version=version)
        assert float(db[2]) > 2**24


@on_gpu
def test_the_most_rows_of_the_classifier(emptied):
    N, Vp = reductions.MOST_ROWS, 4
    for version in (1, 2, 3):
        logits, targets = filled(1.0, N * Vp).reshape(N, 1, Vp), cuda.xp.zeros((N, 1), np.int32)  # (B, T, Vp), (B, T)
        losses = filled(np.nan, N).reshape(N, 1)  # (B, T)
        classifier.fused_classifier(losses, logits, targets, 1.0, 3, version=version)
        assert same(losses) == pytest.approx(np.log(3), rel=1e-6) and same(logits[..., 3]) == 0
        assert same(logits[..., 0]) == pytest.approx(-2 / 3, rel=1e-6)
