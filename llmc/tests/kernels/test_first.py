"""Every version of the GELU, residual and encoder kernels against the NumPy backend, on awkward sizes and addresses."""

import numpy as np
import pytest

from llmc import cuda
from llmc.backends import reference
from llmc.kernels import encoder, kernel, ladder, pointwise

SIZES = [1, 3, 4, 127, 128, 129, 1023, 1028, 3 * 5 * 7, 40_001]  # 40,001: the grid-stride loops repeat
SHAPES = [(3, 5, 7), (2, 5, 127), (1, 3, 129), (2, 3, 768), (1, 2, 1600), (4, 67, 4)]  # B, T, C
GUARD = np.float32(-77.0)  # around every output


def draw(*shape, seed=0):
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def versions(module, function):
    """All of that function."""
    return range(1, module.VERSIONS[function] + 1)


def off_by(shift, array):
    """A copy of the array on the device, `shift` floats after an address that is a multiple of 16."""
    whole = cuda.xp.zeros(array.size + shift, np.float32)  # (n + shift,)
    part = whole[shift:].reshape(array.shape)
    part[...] = cuda.asarray(array)
    return part


def framed(shape, shift):
    """An output in a frame of guards: the whole, and the part that a kernel may write."""
    n = int(np.prod(shape))
    whole = cuda.xp.full(n + shift + 4, GUARD, np.float32)  # (n + shift + 4,)
    return whole, whole[shift : shift + n].reshape(shape)


def assert_framed(whole, shape, shift):
    """Nothing around the output was written."""
    n, flat = int(np.prod(shape)), cuda.asnumpy(whole)
    assert np.all(flat[:shift] == GUARD) and np.all(flat[shift + n :] == GUARD)


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("version", versions(pointwise, "gelu_forward"))
def test_gelu_forward(version, n, shift):
    x = 3 * draw(n)
    whole, out = framed((n,), shift)
    pointwise.gelu_forward(out, off_by(shift, x), version=version)
    expected = np.empty_like(x)
    reference.gelu_forward(expected, x)
    np.testing.assert_allclose(cuda.asnumpy(out), expected, rtol=1e-5, atol=1e-6)
    assert_framed(whole, (n,), shift)


@pytest.mark.parametrize("version", versions(pointwise, "gelu_forward"))
def test_gelu_forward_of_very_large_numbers(version):
    x = np.array([-np.inf, -3e38, -1e10, -300, -20, 0, 20, 300, 1e10, 3e38, np.inf, np.nan], np.float32)
    out = cuda.asarray(x.copy())
    pointwise.gelu_forward(out, out, version=version)  # in place
    got = cuda.asnumpy(out)
    assert np.array_equal(got[5:], x[5:], equal_nan=True) and np.allclose(got[1:5], 0, atol=1e-6)


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("version", versions(pointwise, "residual_forward"))
def test_residual_forward(version, n, shift):
    x1, x2 = draw(n), draw(n, seed=1)
    whole, out = framed((n,), shift)
    pointwise.residual_forward(out, off_by(shift, x1), cuda.asarray(x2), version=version)
    assert np.array_equal(cuda.asnumpy(out), x1 + x2)
    assert_framed(whole, (n,), shift)


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
@pytest.mark.parametrize("version", versions(encoder, "encoder_forward"))
def test_encoder_forward(version, shape, shift):
    B, T, C = shape
    tokens = np.random.RandomState(2).randint(0, 11, (B, T)).astype(np.int32)
    wte, wpe = draw(11, C), draw(T + 3, C, seed=1)  # with positions that are not used
    whole, out = framed(shape, shift)
    encoder.encoder_forward(out, cuda.asarray(tokens), off_by(shift, wte), cuda.asarray(wpe), version=version)
    assert np.array_equal(cuda.asnumpy(out), wte[tokens] + wpe[:T])
    assert_framed(whole, shape, shift)


@pytest.mark.parametrize("name, arrays", [("gelu_forward", 2), ("residual_forward", 3)])
def test_the_default_is_the_fastest_version(name, arrays, monkeypatch):
    launched = []
    for module in (pointwise, ladder):
        monkeypatch.setattr(module, "kernel", lambda layer, name: lambda *launch: launched.append(name))
    function, arrays = getattr(pointwise, name), [draw(257)] * arrays
    function(*arrays)
    function(*arrays, version=1)
    assert launched == [f"{name}_v2", f"{name}_v1"]


def arguments(name, n):
    """A kernel's arguments, for n elements in all (the encoder: rows of 12)."""
    if name.startswith("encoder"):
        C, T = 12, n // 12
        tokens = (np.arange(T) % 5).astype(np.int32)
        return draw(T, C), tokens, draw(5, C), draw(T, C), np.int32(1), np.int32(T), np.int32(C)
    return (draw(n),) * (2 if name.startswith("gelu") else 3) + (np.int32(n),)


FUNCTIONS = [(pointwise, "gelu"), (pointwise, "residual"), (encoder, "encoder")]
KERNELS = [(m.__name__.split(".")[-1], f"{f}_forward_v{v}") for m, f in FUNCTIONS for v in versions(m, f"{f}_forward")]


@pytest.mark.parametrize("layer, name", KERNELS, ids=[name for _, name in KERNELS])
def test_the_emulator_finds_nothing_in_them(layer, name):
    args = [a.copy() for a in arguments(name, 1020)]
    report = cuda.inspect(kernel(layer, name), (11,), (256,), args, outputs=("out",))  # 85 warps for 85 rows
    assert report.ok, str(report)


STRIDED = {"encoder_forward_v1"}  # neighbouring threads are a whole row apart; version 2 mends that


@pytest.mark.parametrize("layer, name", KERNELS, ids=[name for _, name in KERNELS])
def test_all_but_the_first_encoder_are_coalesced(layer, name):
    report = cuda.inspect(kernel(layer, name), (4,), (256,), [a.copy() for a in arguments(name, 1020)])
    assert (report.efficiency > 0.9) == (name not in STRIDED), report.table()
