"""Launches that stop early or never, and what a kernel prints."""

import numpy as np
import pytest

from llmc.cuda import KernelError, empty
from llmc.tests.emulator.marked import arguments, marked

CODE = r"""
extern "C" {
__global__ void traps(int* out, const int* x, int n) {
    if (threadIdx.x == 3) __trap();  // @trap
}
__global__ void divides(int* out, const int* x, int n) {
    out[threadIdx.x] = x[threadIdx.x] / n;  // @divide
}
__global__ void does_nothing(int* out, const int* x, int n) {}
__global__ void runs_forever(float* out, const float* x, int n) {
    float v = 1.0f;
    while (v > 0.0f) v = v * 0.5f + 1.0f;  // @forever
    out[threadIdx.x] = v;
}
__global__ void spins_forever(int* lock, const int* x, int n) {
    while (atomicCAS(lock, 0, 1) != 0) {  // @spin
    }
}
__global__ void volatile_local(int* out, const int* x, int n) {
    volatile int k = 0;
    while (k < n) k = k + 1;
    out[threadIdx.x] = k;
}
__global__ void maximum_by_cas(int* out, const int* x, int n) {
    int old = *out, assumed;  // @empty
    do {
        assumed = old;
        old = atomicCAS(out, assumed, max(assumed, x[threadIdx.x]));
    } while (old != assumed);
}
__global__ void waits_forever(int* out, const int* x, int n) {
    while (true) __syncthreads();  // @wait
}
__global__ void prints(int* out, const int* x, int n) {
    for (int k = 0; k < n; k++) printf("thread %d says %d\n", (int)threadIdx.x, k);
}
__global__ void prints_a_long_line(int* out, const int* x, int n) { printf("%0*d|\n", n, 7); }
}
"""
at = marked(CODE)
pytestmark = pytest.mark.usefixtures("emulator", "one_second")


def error(module, name, check, grid=1, dtype=np.int32, n=64, value=1):
    with pytest.raises(KernelError) as raised:
        module[check].get_function(name)((grid,), (32,), arguments(dtype, n, value))
    return str(raised.value)


@pytest.mark.parametrize("check", [True, False])
def test_trap_is_no_crash_of_a_pointer(module, check):
    text = error(module, "traps", check)
    assert f"line {at('trap')}: `if (threadIdx.x == 3) __trap();" in text and "was reached" in text
    assert "pointer" not in text


def test_the_smallest_integer_by_minus_one_is_an_overflow(module):
    text = error(module, "divides", True, n=-1, value=-(2**31))
    assert f"integer overflow: kernel divides, line {at('divide')}" in text and "the quotient does not fit" in text
    assert "by zero" in error(module, "divides", True, n=0)
    assert "by zero, or the smallest one by -1" in error(module, "divides", False, n=-1, value=-(2**31))


@pytest.mark.parametrize("check", [True, False])
def test_too_many_blocks_are_not_taken_for_an_endless_loop(module, check):
    text = error(module, "does_nothing", check, grid=2 * 10**9)
    assert "of the grid's 2,000,000,000 blocks had run when the time was up" in text
    assert "check how the size of the grid is computed" in text and "loop" not in text


@pytest.mark.parametrize(
    ("name", "mark", "dtype"),
    [("runs_forever", "forever", np.float32), ("spins_forever", "spin", np.int32), ("waits_forever", "wait", np.int32)],
)
def test_an_unchecked_kernel_without_an_end_names_its_line(module, name, mark, dtype):
    text = error(module, name, False, dtype=dtype)
    assert f"no end in sight: kernel {name}, line {at(mark)}:" in text


def test_a_volatile_local_is_no_flag_to_wait_for(report):
    assert report("volatile_local", 1, n=300_000, dtype=np.int32).ok


def test_a_read_that_an_atomic_settles_may_still_find_nothing(report):
    found = report("maximum_by_cas", dtype=np.int32, arrays=(empty(1, np.int32), np.arange(64, dtype=np.int32)))
    assert [(problem.kind, problem.line) for problem in found.problems][0] == ("uninitialised", at("empty"))


def test_threads_that_spin_for_nothing_name_their_line(module):
    text = error(module, "spins_forever", True)
    assert (
        f"deadlock: kernel spins_forever, line {at('spin')}:" in text
        and "what no thread of this block or an earlier one" in text
    )


@pytest.mark.parametrize("check", [True, False])
def test_what_is_not_printed_is_counted(module, check, capsys):
    module[check].get_function("prints")((1,), (64,), arguments(np.int32, 2000))
    printed = capsys.readouterr().out
    shown, _, rest = printed.rpartition("\n... and ")
    total = sum(len(f"thread {t} says {k}\n") for t in range(64) for k in range(2000))
    assert len(shown) > 10**6 and rest.endswith(" more characters: a launch can print 1 MB, so print less.\n")
    assert len(shown) + int(rest.split()[0].replace(",", "")) == total


@pytest.mark.parametrize("check", [True, False])
def test_a_long_line_is_printed_whole(module, check, capsys):
    module[check].get_function("prints_a_long_line")((1,), (1,), arguments(np.int32, 5000))
    assert capsys.readouterr().out == f"{7:05000d}|\n"
