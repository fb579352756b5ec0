"""`inspect` says what a launch does wrong and what it leaves unwritten; `empty` arrays know what nobody has written."""

import numpy as np
import pytest

import llmc.cuda as cuda
from llmc.cuda.emulator.calling import unwritten
from llmc.tests.cuda.small_kernels import CODE

pytestmark = pytest.mark.usefixtures("on_the_emulator")


def test_inspect_never_raises_for_what_a_kernel_does():
    x, out = np.ones(100, np.float32), np.zeros(100, np.float32)
    kernel = cuda.RawKernel(CODE, "scale", check=False)
    assert cuda.inspect(kernel, (1,), (128,), (out, x, np.float32(1), 100)).ok
    assert not cuda.inspect(kernel, (1,), (128,), (out, x, np.float32(1), 101)).ok


@pytest.mark.parametrize("outputs", ["out", ("out",), (0,)], ids=["text", "name", "index"])
def test_outputs_must_be_written_wholly(outputs):
    x, out = np.ones(100, np.float32), np.zeros(100, np.float32)
    kernel = cuda.RawKernel(CODE, "scale")
    assert cuda.inspect(kernel, (1,), (128,), (out, x, np.float32(1), 100), outputs=outputs).ok
    report = cuda.inspect(kernel, (1,), (128,), (out, x, np.float32(1), 97), outputs=outputs)
    assert report.kinds == {"never-written"} and "out[97]" in str(report)


@pytest.mark.parametrize("output", ["y", "x", "n", 7])
def test_outputs_that_are_none(output):
    x, out = np.ones(100, np.float32), np.zeros(100, np.float32)
    with pytest.raises(cuda.KernelError, match=f"{output!r} is not an array that the kernel can write; those are: out"):
        cuda.inspect(cuda.RawKernel(CODE, "scale"), (1,), (128,), (out, x, np.float32(1), 100), outputs=(output,))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.float64], ids=lambda dtype: dtype.__name__)
def test_reading_an_empty_array(dtype):
    word = {"float32": "float", "float16": "unsigned short", "int32": "int", "float64": "double"}[dtype.__name__]
    code = f'extern "C" __global__ void copy({word}* to, const {word}* from) {{ to[threadIdx.x] = from[threadIdx.x]; }}'
    view = np.uint16 if dtype is np.float16 else dtype
    source, target = cuda.empty(8, dtype), np.zeros(8, dtype)
    kernel = cuda.RawKernel(code, "copy")
    report = cuda.inspect(kernel, (1,), (8,), (target.view(view), source.view(view)))
    assert report.kinds == {"uninitialised"}
    source[:4] = -1
    assert cuda.inspect(kernel, (1,), (4,), (target.view(view), source.view(view))).ok
    assert cuda.inspect(kernel, (1,), (5,), (target.view(view), source.view(view))).kinds == {"uninitialised"}
    source[...] = np.nan if np.dtype(dtype).kind == "f" else -1
    assert cuda.inspect(kernel, (1,), (8,), (target.view(view), source.view(view))).ok


def test_an_array_written_by_kernels_is_no_longer_empty():
    x, middle, out = np.arange(64, dtype=np.float32), cuda.empty(64), cuda.empty(64)
    kernel = cuda.RawKernel(CODE, "scale")
    kernel((1,), (32,), (middle, x, np.float32(2), 32))
    kernel((1,), (32,), (out, middle, np.float32(2), 32))
    with pytest.raises(cuda.KernelError, match=r"reads middle|reads x\[32\]"):
        kernel((1,), (64,), (out, middle, np.float32(2), 64))
    kernel((1,), (64,), (middle, x, np.float32(2), 64))
    kernel((1,), (64,), (out, middle, np.float32(2), 64))
    np.testing.assert_array_equal(out, 4 * x)
    assert id(middle) not in unwritten._known


def test_forgotten_arrays_are_forgotten():
    before = len(unwritten._known)
    array = cuda.empty((3, 4))
    assert len(unwritten._known) == before + 1 and unwritten.elements(array[1:]).sum() == 8
    del array
    assert len(unwritten._known) == before
