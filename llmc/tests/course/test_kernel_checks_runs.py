"""What `kernel_check` learns from a run: on a GPU (faked here), and from who touches which number on the emulator."""

from contextlib import nullcontext

import numpy as np
import pytest

from llmc.course import WrongAnswer
from llmc.course.kernel_checks import runs as kernel_runs
from llmc.course.kernel_checks.device_variables import Kept
from llmc.cuda import RawKernel, inspect
from llmc.cuda.emulator.reporting import sharing
from llmc.precision import bfloat16


class FakeCuda:
    """llmc.cuda on a machine whose GPU runs this Python function of the arrays."""

    xp, asnumpy, synchronize = np, np.asarray, lambda self: None

    def __init__(self, function):
        self.function = function

    def RawKernel(self, code, name, options, check):
        return lambda grid, block, args, shared_mem: self.function(*args)


def gpu_result(monkeypatch, function):
    monkeypatch.setattr(kernel_runs, "cuda", FakeCuda(function))
    out, inp = np.zeros(5, np.float32), np.arange(5, dtype=np.float32)  # (n,) each
    after = kernel_runs.run_on_gpu("", "k", 1, 32, [out, inp, 5])
    assert not out.any()
    return after


def test_a_run_on_the_gpu_is_of_copies(monkeypatch):
    out, inp, n = gpu_result(monkeypatch, lambda out, inp, n: np.add(inp, n, out=out))
    assert out.tolist() == [5, 6, 7, 8, 9] and inp.tolist() == [0, 1, 2, 3, 4] and n is None


def does_not_compile(out, inp, n):
    raise RuntimeError("line 3: error")


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (lambda out, inp, n: out.base.__setitem__([0], 7), "argument 0 of k was written outside"),
        (lambda out, inp, n: out.base.__setitem__([-1], 7), "argument 0 of k was written outside"),
        (does_not_compile, "right on the emulator, but it does not run on the GPU: line 3: error"),
    ],
)
def test_what_goes_wrong_on_the_gpu_is_told(monkeypatch, kernel, says):
    with pytest.raises(WrongAnswer, match=says):
        gpu_result(monkeypatch, kernel)


RIGHT, HALVES = np.float32([1, np.nan, -3]), np.float32([1, 1.5, -300]).astype(bfloat16())
CANCELLED = np.float32([1e-7, -3e-7])  # what is left of numbers that cancel
READ = [np.float32([2.0, -5.0, np.inf]), np.arange(3)]


@pytest.mark.parametrize(
    ("on_gpu", "emulated", "read", "agrees"),
    [
        (RIGHT.copy(), RIGHT, (), True),
        (RIGHT + np.float32([0, 0, 0.5]), RIGHT, (), False),
        (HALVES * HALVES.dtype.type(1.008), HALVES, (), True),  # rounded to the other neighbour
        (HALVES * HALVES.dtype.type(1.05), HALVES, (), False),
        (-CANCELLED, CANCELLED, READ, True),  # the rounding of what was read
        (-CANCELLED, CANCELLED, (), False),
        (CANCELLED + np.float32(1e-4), CANCELLED, READ, False),
    ],
)
def test_a_gpu_may_differ_from_the_emulator_by_rounding_alone(on_gpu, emulated, read, agrees):
    with nullcontext() if agrees else pytest.raises(WrongAnswer, match="on the GPU, compared with the emulator's"):
        kernel_runs.agree("out", on_gpu, emulated, read)


def shared_work(code, grid=2, block=4, n=20):
    """The report of a kernel on out and x (n,)."""
    head = 'extern "C" __global__ void k(float* out, const float* x, int n)\n{\n'
    arrays = np.zeros(n, np.float32), np.ones(n, np.float32)  # (n,) each
    return inspect(RawKernel(f"{head}{code}\n}}", "k"), (grid,), (block,), (*arrays, n))


def loop(first="0", step="1", body="out[i] = x[i];"):
    return f"for (int i = {first}; i < n; i += {step}) {{ {body} }}"


GRID = "blockIdx.x * blockDim.x + threadIdx.x", "gridDim.x * blockDim.x"


@pytest.mark.parametrize(
    "code, rewrites, busiest",
    [
        (loop(*GRID), 0, 3),
        (loop(*GRID, "out[i] = x[i]; out[i] = 2 * x[i];"), 0, 3),
        (loop("threadIdx.x", "blockDim.x"), 20, 5),
        (loop(), 140, 20),
        ("if (blockIdx.x == 0 && threadIdx.x == 0) " + loop(), 0, 20),
        ("int i = 4 * threadIdx.x; *(float4*)(out + i) = *(const float4*)(x + i);", 16, 4),
    ],
)
def test_who_handles_which_number(code, rewrites, busiest):
    report = shared_work(code)
    assert (sharing.rewrites(report), sharing.busiest(report)) == (rewrites, busiest)


def test_a_launch_too_large_to_be_recorded_is_counted():
    report = shared_work(loop(), block=64, n=1000)
    assert report.raw.trace is None and sharing.rewrites(report) == 127_000 and sharing.busiest(report) == 0


def again(code, n=20):
    """A `Kept` of a right launch of this kernel, and what it then tells."""
    kernel, y = RawKernel(code, "k"), np.zeros(n, np.float32)  # (n,)

    def launch(arguments):
        return inspect(kernel, (2,), (4,), tuple(arguments))

    kept = Kept(code, "k", (), [y, n])
    assert not launch([y, n]).problems
    kept.after([y, n], launch)
    return kernel, kept.told()


QUEUE = """
__device__ int given = 3;
__device__ int next = 3;
extern "C" __global__ void k(float* y, int n)
{
    for (int i = atomicAdd(&next, 1) - given; i < n; i = atomicAdd(&next, 1) - given) y[i] += i + 1;
}
"""


def test_what_the_last_launch_left_is_named_and_put_back():
    kernel, told = again(QUEUE)
    assert "second launch on the same numbers gives different results. `next` keeps what the last launch left" in told
    y = np.zeros(20, np.float32)  # (n,)
    inspect(kernel, (2,), (4,), (y, 20))
    assert y.tolist() == list(range(1, 21)), "the next check begins with 3 again"


SET_BACK = QUEUE.replace("given = 3;", "given = 3;\n__device__ int done;").replace(
    "i + 1;", "i + 1;\n    if (atomicAdd(&done, 1) == 7) done = 0, next = given;"
)
UNREAD = """
__device__ int seen;
extern "C" __global__ void k(float* y, int n) { if (blockIdx.x + threadIdx.x == 0) seen = n; }
"""


@pytest.mark.parametrize("code", [SET_BACK, UNREAD])
def test_a_variable_that_no_result_depends_on_is_none_of_its_business(code):
    assert again(code)[1] == ""
