"""From a mistake in a kernel to the words about it: lines and calls that are named, advice that would mend it."""

import numpy as np
import pytest

from llmc.cuda import KernelError, RawModule, device, empty, inspect
from llmc.cuda.emulator.findings import values

CODE = r"""
__device__ float warp_sum(float v) {
    for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(~0u, v, step);  // @shuffle
    return v;
}
__device__ float block_sum(float v) {
    __shared__ float sums[2];
    v = warp_sum(v);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;  // @sums-write
    __syncthreads();
    return sums[0] + sums[1];  // @sums-read
}
__device__ float load(const float* p, int i) {
    return p[i];  // @load
}
__device__ float load_next(const float* p, int i) { return load(p, i + 1); }  // @next
extern "C" {
__global__ void shuffles_with_half_a_warp(float* out, const float* x, int n) {
    float v = warp_sum(x[threadIdx.x]);
    out[threadIdx.x] = warp_sum(v);  // @second-sum
}
__global__ void helper_called_twice(float* out, const float* x, int n) {
    float mean = block_sum(x[threadIdx.x]) / n;  // @first-call
    float d = x[threadIdx.x] - mean;
    out[threadIdx.x] = block_sum(d * d);  // @second-call
}
__global__ void helper_called_in_a_loop(float* out, const float* x, int n) {
    float sum = 0.0f;
    for (int r = 0; r < 3; r++) {
        sum += block_sum(x[threadIdx.x] + r);  // @call-in-loop
    }
    out[threadIdx.x] = sum;
}
__global__ void loads_too_far(float* out, const float* x, int n) {
    float here = load(x, threadIdx.x);
    out[threadIdx.x] = here + load_next(x, threadIdx.x);  // @far-call
}
__global__ void overflows_in_a_helper(float* out, const float* x, int n) {
    out[threadIdx.x] = load(x, (2147483600 + (int)threadIdx.x + n) / 2147483647);  // @overflow
}
__global__ void one_element(int* out, const int* x, int n) {
    __shared__ int s[4];
    s[threadIdx.x % 4] = threadIdx.x;  // @one-element
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x % 4];
}
__global__ void counts(int* out, const int* x, int n) {
    out[x[threadIdx.x] % 4] += 1;  // @counts
}
__global__ void rows_of_each_block(float* out, const float* x, int n) {
    for (int row = blockIdx.x; row < n; row += gridDim.x) {
        float mean = block_sum(x[threadIdx.x]) / 64;  // @first-of-row
        out[threadIdx.x] = block_sum(x[threadIdx.x] - mean);  // @second-of-row
    }
}
__global__ void tiles_from_zero(float* out, const float* x, int n) {
    __shared__ float s[64];
    for (int start = 0; start < n; start += blockDim.x) {
        s[threadIdx.x] = x[start + threadIdx.x];  // @tile-write
        out[start + threadIdx.x] = s[63 - threadIdx.x];  // @tile-read
    }
}
#ifdef NEVER
#define FACTOR 2
#else
#define FACTOR 1
#endif
__global__ void below_a_directive(float* out, const float* x, int n) {
    __shared__ float s[64];
    s[threadIdx.x] = FACTOR * x[threadIdx.x];  // @directive-write
    out[threadIdx.x] = s[63 - threadIdx.x];  // @directive-read
}
__global__ void tree_in_a_warp(float* out, const float* x, int n) {
    __shared__ float s[32];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncwarp();
    for (int half = 16; half > 0; half /= 2) {
        if (t < half) s[t] += s[t + half];  // @tree
    }
    if (t == 0) *out = s[0];
}
__global__ void both_in_a_branch(float* out, const float* x, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    if (t < 48) {  // @branch
        s[t] = x[t];  // @branch-write
        out[t] = s[47 - t];  // @branch-read
    }
}
__global__ void one_in_each_branch(float* out, const float* x, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    if (t < 32) {  // @either
        s[t] = x[t];  // @first-branch
    } else {
        out[t] = s[63 - t];  // @second-branch
    }
}
__global__ void one_warp_in_each_turn(float* out, const float* x, int n) {
    __shared__ float s[32];
    for (int turn = 0; turn < 2; turn++) {  // @turns
        if (threadIdx.x / 32 == turn) {  // @its-turn
            for (int k = 0; k < 1; k++) {
                if (turn == 0) {
                    s[threadIdx.x % 32] = x[threadIdx.x];
                } else {
                    s[threadIdx.x % 32] += x[threadIdx.x];
                }
            }
        }
    }
    out[threadIdx.x] = x[threadIdx.x];
}
__global__ void one_loop_for_each_block(float* out, const float* x, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x) {  // @not-the-grid
        float old = out[i];
        out[i] = old + x[i];
    }
}
__global__ void padded(float* out, const float* x, int n) {
    __shared__ float s[2 * 33];
    s[threadIdx.x / 32 * 33 + threadIdx.x % 32] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}
__global__ void leaves_a_loop(float* out, const float* x, int n) {
    __shared__ float s[64];
    for (int k = 0; k < 1; k++) {
        if (threadIdx.x >= 32) break;  // @breaks
        s[threadIdx.x] = x[threadIdx.x];
        __syncwarp();
        out[threadIdx.x] = s[63 - threadIdx.x];
    }
}
__global__ void barrier_in_a_branch(float* out, const float* x, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    for (int half = 32; half > 0; half /= 2) {
        if (t < half) {  // @some
            s[t] += s[t + half];
            __syncthreads();
        }
    }
    out[t] = s[0];
}
__global__ void left_before_the_barrier(float* out, const float* x, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    if (t >= 48) return;  // @leaves
    if (n > 0) {  // @all-take-it
        __syncthreads();
        out[t] = s[47 - t];
    }
}
__global__ void lanes_that_left(float* out, const float* x, int n) {
    int t = threadIdx.x;
    float v = x[t];
    if (t > 40) return;  // @lanes-leave
    out[t] = __shfl_xor_sync(0xffffffff, v, 16);
}
__global__ void sum_of_a_warp_in_a_loop(float* out, const float* x, int n) {
    float v = 0.0f;
    if (blockIdx.x > 0) return;  // @whole-warps-leave
    for (int c = threadIdx.x; c < n; c += 32) {  // @rounds-differ
        v += warp_sum(x[c]);
    }
    out[threadIdx.x] = v;
}
__global__ void overwritten_before_it_is_read(float* out, const float* x, int n) {
    out[threadIdx.x] = 1.0f;  // @overwrites
    if (threadIdx.x == 0) out[40] = out[33];  // @reads-late
}
__global__ void compared_for_another_line(float* out, const float* x, int n) {
    int t = threadIdx.x;
    float v = t < n ? x[t] : 0.0f;
    out[t] = v;
}
__global__ void choice_that_lets_one_too_many_through(float* out, const float* x, int n) {
    int t = threadIdx.x;
    out[t % 32] = t < n ? x[t + 1] : 0.0f;  // @choice
}
__global__ void loop_that_bounds_the_column(float* out, const float* x, int n) {
    int row = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int c = lane; c < 32; c += 32) out[row * 32 + c] = x[row * 32 + c];
}
__global__ void loop_that_counts_down(float* out, const float* x, int n) {
    int t = threadIdx.x;
    for (int gap = 16; gap > 0; gap /= 2) out[t + gap] = 1.0f;
}
__global__ void row_checked_by_a_break(float* out, const float* x, int n) {
    for (int j = 0; j < 4; j++) {
        int c = 4 * threadIdx.x + j;
        for (int i = 0; i < 4; i++) {
            int row = 4 * blockIdx.x + i;
            if (row >= 4) break;  // @row-break
            out[row * 16 + c] = 1.0f;
        }
    }
}
__global__ void row_with_a_wrong_length(float* out, const float* x, int n, int m) {
    int row = threadIdx.x / 16, c = threadIdx.x % 16;
    if (row >= n) return;
    out[row * m + c] = 1.0f;
}
__global__ void tile_that_a_loop_limits(float* out, const float* x, int n) {
    for (int k0 = 0; k0 < 16; k0 += 12)  // @tile
        for (int k = 0; k < 12; k++)
            out[3 * 16 + k0 + k] = 1.0f;
}
__global__ void both_are_checked(float* out, const float* x, int n) {
    int row = threadIdx.x / 16, c = threadIdx.x % 16;
    bool inside = row < n && c < n;
    if (!inside) {
        return;
    } else {
        out[(row + 1) * 16 + c] = 1.0f;
    }
}
__global__ void row_checked_twice(float* out, const float* x, int n) {
    int row = threadIdx.x / 12, c = threadIdx.x % 12;
    bool inside = row < n && c < 12;
    if (!inside) return;  // @inside
    out[row * 16 + c] = 1.0f;
}
__global__ void read_late_by_another(float* out, const float* x, int n) {
    int t = threadIdx.x;
    float v = out[t];  // @own-read
    v += __shfl_xor_sync(~0u, v, 1);
    out[t] = v;  // @own-write
    if (t == 0) out[63] = out[5];  // @late-read
}
__global__ void checked_in_the_else(float* out, const float* x, int n) {
    int t = threadIdx.x;
    if (t >= n) {  // @else
        out[0] = 0.0f;
    } else {
        out[t + 1] = 1.0f;
    }
}
__global__ void checked_for_the_reading_alone(float* out, const float* x, int n) {
    int t = threadIdx.x;
    out[t] = t < n ? x[t] : 0.0f;
}
__global__ void row_pointer(float* out, const float* x, int n) {
    float* row = out + blockIdx.x * 16 + threadIdx.x / 16 * 16;
    for (int c = threadIdx.x % 16; c < 16; c += 16) row[c] = 1.0f;
}
__device__ void helper_with_another_n(float* out, int n) {
    int t = threadIdx.x;
    out[t + n] = 1.0f;
}
__global__ void calls_it_with_another_n(float* out, const float* x, int n) { helper_with_another_n(out, n / 2); }
__global__ void moved_pointer(float* out, const float* x, int n) {
    int row = threadIdx.x / 32;
    out += row * 32;
    for (int c = threadIdx.x % 32; c < 32; c += 32) out[c] = 1.0f;
}
__global__ void divided_already(float* out, const float* x, int n) {
    const float4* x4 = reinterpret_cast<const float4*>(x);
    int row = threadIdx.x / 32, quads = n / 4;
    if (row >= 64) return;
    for (int i = threadIdx.x % 32; i < quads; i += 32) ((float4*)out)[i] = x4[row * quads + i];
}
__global__ void counts_single_numbers(float* out, const float* x, int n) {
    const float4* x4 = reinterpret_cast<const float4*>(x);
    for (int i = threadIdx.x; i < n; i += 64) ((float4*)out)[0] = x4[i];  // @singles
}
__global__ void wrong_stride(float* out, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int row = i / 4u, column = i % 4, twice = 2 * row;
    int changed = 3;
    changed += row;
    for (int k = 0; k < 1; k++) out[(size_t)twice * 4 + column + k + 0 * changed] = x[i];
}
__global__ void last_block_decides(float* out, const float* x, int n) { out[threadIdx.x] = blockIdx.x; }
__global__ void both_in_an_uneven_loop(float* out, const float* x, int n) {
    __shared__ float s[256];
    for (int i = threadIdx.x; i < n; i += blockDim.x) {  // @uneven
        s[i] = x[i];
        out[i] = s[n - 1 - i];
    }
}
__global__ void warp_barrier_between_warps(float* out, const float* x, int n) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];  // @write
    __syncwarp();
    out[threadIdx.x] = s[63 - threadIdx.x];  // @read
}
__global__ void check_is_right(float* out, const float* x, int n) {
    int i = threadIdx.x;
    if (i <= n - 1) out[i] = x[i + 1];
}
__global__ void check_of_a_loop(float* out, const float* x, int n) {
    for (int k = 0; k <= 1; k++) out[threadIdx.x] = x[threadIdx.x + k];
}
__global__ void check_is_wrong(float* out, const float* x, int n) {
    int i = threadIdx.x;
    if (i <= n) out[i] = x[i];  // @wrong-check
}
__global__ void checks_something_else(float* out, const float* x, int n) {
    int i = threadIdx.x + 1;
    float v = 0.0f;
    if (n < 1000) {
        if (v < 1.0f) out[threadIdx.x] = x[i];
    }
}
__global__ void checks_the_column(float* out, const float* x, int n) {
    int row = threadIdx.x;
    if (row < n + 1) {  // @row-check
        float v = x[row];
        for (int k = 0; k < 2; k++) v += 1.0f;
        if (v > 0.0f) out[row] = x[row];
    }
}
__global__ void checks_before_the_index(float* out, const float* x, int n) {
    int t = threadIdx.x;
    if (t > n) return;  // @early-check
    if (n < 100) {
        int i = t * 1;
        out[i] = x[i];
    }
}
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
__global__ void sum_without_a_start(float* out, const float* x, int n) {
    float sum;  // @declared
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[i];
    out[threadIdx.x] = sum;  // @used
}
__global__ void lanes_without_a_value(float* out, const float* x, int n) {
    float v;  // @lane-declared
    if (threadIdx.x < n) v = x[threadIdx.x];
    out[threadIdx.x] = warp_sum(v);  // @lane-used
}
__global__ void guarded_twice(float* out, const float* x, int n) {
    float v;
    if (threadIdx.x < n) v = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < n) out[threadIdx.x] = v;
}
}
"""


def at(mark) -> int:
    """The line that carries the mark."""
    return next(number for number, text in enumerate(CODE.splitlines(), 1) if text.endswith(f"@{mark}"))


@pytest.fixture(autouse=True)
def emulator(monkeypatch):
    monkeypatch.setenv("LLMC_EMULATOR_SECONDS", "1")
    before = device()
    device("emulator")
    yield
    device(before)


@pytest.fixture(scope="module")
def module():
    before = device()
    device("emulator")
    yield {check: RawModule(code=CODE, check=check) for check in (True, False)}
    device(before)


def arguments(dtype, n, value=1):
    return np.zeros(256, dtype), np.full(256, value, dtype), np.int32(n)


@pytest.fixture
def report(module):
    def of(name, threads=64, n=64, dtype=np.float32, value=1, arrays=None):
        given = arguments(dtype, n, value) if arrays is None else (*arrays, np.int32(n))
        return inspect(module[True].get_function(name), (1,), (threads,), given, measure=False)

    return of


# ------------------------------------------------------------------------------------------------ calls


def test_a_race_between_two_calls_of_a_helper_names_both_calls(report):
    found = report("helper_called_twice").problems[0]
    assert (found.line, found.calls) == (at("sums-read"), (at("first-call"),))
    assert (found.line2, found.calls2) == (at("sums-write"), (at("second-call"),))
    where = f"line {at('sums-read')}, called at line {at('first-call')}, and line {at('sums-write')}, called at line "
    assert where + str(at("second-call")) in found.text
    assert f"`__syncthreads();` between line {at('first-call')} and line {at('second-call')}" in found.text


def test_a_race_of_a_helper_called_in_a_loop_wants_a_barrier_at_its_end(report):
    text = report("helper_called_in_a_loop").problems[0].text
    assert f"lines {at('sums-read')} and {at('sums-write')}, called at line {at('call-in-loop')}:" in text
    assert "at the end of the function, or after the call on line" in text and "Put `__syncthreads" not in text


def test_an_access_in_a_helper_names_the_lines_that_lead_there(report):
    found = report("loads_too_far", arrays=(np.zeros(64, np.float32), np.zeros(64, np.float32))).problems[0]
    assert found.calls == (at("next"), at("far-call"))
    assert f"line {at('load')}, called at line {at('next')} from line {at('far-call')}:" in found.text


def test_a_warp_function_in_a_helper_names_the_calls(report):
    (found,) = report("shuffles_with_half_a_warp", 16).problems
    first = at("second-sum") - 1
    assert (found.kind, found.line) == ("inactive-lane", at("shuffle"))
    assert f"line {at('shuffle')}, called at lines {first} and {first + 1}:" in found.text


def test_arithmetic_is_where_it_is_written(report):
    found = report("overflows_in_a_helper", n=100).problems[0]
    assert (found.kind, found.line, found.calls) == ("integer-overflow", at("overflow"), ())


# ------------------------------------------------------------------------------------------------ advice


@pytest.mark.parametrize(
    ("name", "threads"), [("one_element", 32), ("one_element", 64), ("counts", 32), ("counts", 64)]
)
def test_no_barrier_is_advised_where_two_threads_have_one_index(report, name, threads):
    (found,) = report(name, threads, dtype=np.int32).problems
    assert "The index is the same for both threads" in found.text and "__sync" not in found.text


def test_a_tree_in_a_warp_wants_syncwarp(report):
    (found,) = report("tree_in_a_warp", 32).problems
    assert found.line == found.line2 == at("tree")
    assert "put `__syncwarp();` at the end of the body of the loop" in found.text


def test_no_barrier_is_advised_inside_a_branch(report):
    text = report("both_in_a_branch").problems[0].text
    assert f"not inside the `if` on line {at('branch')} unless all threads of the block take it" in text


def test_no_barrier_is_advised_between_two_branches_of_one_if(report):
    text = report("one_in_each_branch").problems[0].text
    assert f"in the two branches of the `if` on line {at('either')}, so no barrier fits" in text
    assert f"end the `if` after line {at('first-branch')}" in text and f"then line {at('second-branch')} into" in text


def test_between_turns_a_barrier_belongs_outside_of_the_branch_that_picks_them(report):
    text = report("one_warp_in_each_turn").problems[0].text
    where = f"at the end of the body of the loop on line {at('turns')}, outside the `if` on line {at('its-turn')}"
    assert where in text and "between them" not in text


def test_blocks_that_step_without_the_grid_need_no_atomics(module):
    arrays = np.ones(128, np.float32), np.ones(128, np.float32)
    kernel = module[True].get_function("one_loop_for_each_block")
    text = inspect(kernel, (2,), (32,), (*arrays, np.int32(128)), measure=False).problems[0].text
    assert f"the loop on line {at('not-the-grid')} begins at a place of each block's own" in text
    assert "atomicAdd" not in text


def test_an_unwritten_element_between_rows_may_be_padding(report):
    text = report("padded").problems[0].text
    assert "So far s[0] to s[31] and s[33] are written, s[32] between them is not: is it the padding" in text


def test_threads_that_break_out_of_a_loop_may_have_written_nothing(report):
    text = report("leaves_a_loop").problems[0].text
    assert f"Do threads leave by the `break` on line {at('breaks')} before they have written theirs?" in text


def test_a_barrier_in_a_branch_is_named_by_its_if(report):
    texts = {problem.kind: problem.text for problem in report("barrier_in_a_branch").problems}
    assert f"and the `if` on line {at('some')} keeps some threads away: end the `if`" in texts["barrier-divergence"]
    assert (
        "that was the first of 6 times" in texts["barrier-divergence"] and "happened" not in texts["barrier-divergence"]
    )
    assert f"but it is inside the `if` on line {at('some')}" in texts["race"]


def test_where_two_things_may_keep_threads_from_a_barrier_neither_is_blamed(report):
    text = report("left_before_the_barrier").problems[0].text
    which = f"the `if` on line {at('all-take-it')} or the `return` on line {at('leaves')}?"
    assert f"Which of these keeps some threads away: {which}" in text


def test_the_line_on_which_lanes_left_is_named(report):
    text = report("lanes_that_left").problems[0].text
    assert f"and the `return` on line {at('lanes-leave')} keeps some lanes away" in text


def test_a_loop_around_the_call_is_named_beside_a_return(report):
    text = report("sum_of_a_warp_in_a_loop", 32, 40).problems[0].text
    assert f"the `return` on line {at('whole-warps-leave')}" in text and "Which of these keeps some lanes away" in text
    assert f"the loop on line {at('rounds-differ')}" in text


def test_what_is_overwritten_before_it_is_read_may_have_to_be_read_earlier(report):
    text = report("overwritten_before_it_is_read").problems[0].text
    late, early = at("reads-late"), at("overwrites")
    assert f"Or should line {late} still see the old value? Then read it before line {early}." in text


def test_lanes_that_a_block_does_not_have(report):
    assert "its last warp has only 16 lanes" in report("shuffles_with_half_a_warp", 48).problems[0].text


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("loop_that_bounds_the_column", "o condition around this line mentions `row`"),
        ("moved_pointer", "o condition around this line mentions `row`"),
        ("loop_that_counts_down", "which a check such as `if (i < n)` must keep away, or the index itself is wrong."),
        ("compared_for_another_line", "o condition around this line mentions `t`"),
    ],
)
def test_a_loop_that_does_not_bound_the_index_is_no_check(report, name, why):
    text = report(name, 96, arrays=(np.zeros(64, np.float32), np.zeros(64, np.float32))).problems[0].text
    assert why in text and "checked on line" not in text


def test_a_choice_is_a_check(report):
    arrays = np.zeros(32, np.float32), np.zeros(64, np.float32)
    text = report("choice_that_lets_one_too_many_through", arrays=arrays).problems[0].text
    assert f"`t` is checked on line {at('choice')} (`t < n`), so either the index itself is wrong" in text


TABLE = np.zeros((4, 16), np.float32), np.zeros(64, np.float32)


@pytest.mark.parametrize(
    ("name", "threads", "n", "why"),
    [
        ("row_checked_by_a_break", 8, 4, "`c` is 16 here, but a row of out has 16 numbers (0 to 15). No condition"),
        ("tile_that_a_loop_limits", 1, 4, "nly a loop's own bound limits `k0` (line {tile}: `k0 < 16`) and `k` (line"),
        (
            "both_are_checked",
            64,
            4,
            "`row` and what is added to it lead to number 4 here (row = 3 and 1 more), but out",
        ),
        ("row_checked_twice", 64, 5, "`row` is checked on line {inside} (`!inside`), so either the index itself"),
        ("checked_in_the_else", 70, 64, "`t` is checked on line {else} (`t >= n`), so either the index itself"),
        ("checked_for_the_reading_alone", 70, 64, "No condition around this line mentions `t`"),
        ("row_pointer", 96, 4, "is a check missing, or is the index itself wrong? This thread has c = 0."),
    ],
)
def test_parts_of_the_index_are_named_by_their_values_and_their_checks(report, name, threads, n, why):
    text = next(p.text for p in report(name, threads, n, arrays=TABLE).problems if p.kind == "out-of-bounds")
    assert why.format(**{mark: at(mark) for mark in ("inside", "else", "tile")}) in text


def test_where_it_is_not_known_which_line_has_read_all_of_them_are_named(report):
    text = report("read_late_by_another", 32).problems[0].text
    assert f"line {at('own-write')}: " in text and "another thread reads it" in text
    assert f"out is read on lines {at('own-read')} and {at('late-read')}." in text


def test_a_step_that_fits_no_axis_is_named(module):
    given = *TABLE, np.int32(4), np.int32(20)
    text = inspect(module[True].get_function("row_with_a_wrong_length"), (1,), (64,), given).problems[0].text
    assert (
        "Where `row` is 1 more, this index is 20 more; but in out, of shape (4, 16), the next row begins 16 numbers "
        "later. This thread has row = 3 and c = 4."
    ) in text


def test_a_parameter_of_a_helper_is_not_taken_for_the_kernels(report):
    text = report("calls_it_with_another_n", 64, 64, arrays=TABLE).problems[0].text
    assert "out[64]" in text and "This thread has t = 32." in text and "`t + n`" not in text


def test_division_is_advised_only_where_single_numbers_are_counted(report):
    arrays = np.zeros(64, np.float32), np.zeros(64, np.float32)
    text = report("divided_already", arrays=arrays).problems[0].text
    assert "x has 16 vectors. Which part of the index is too large?" in text and "Divide" not in text
    text = report("counts_single_numbers", arrays=arrays).problems[0].text
    assert f"Divide by 4 whatever counts single elements, the index or the bound on line {at('singles')}." in text


def test_what_the_index_is_made_of_is_worked_out_for_the_thread(report):
    text = report("wrong_stride", arrays=(np.zeros(64, np.float32), np.zeros(64, np.float32))).problems[0].text
    assert text.endswith("This thread has i = 32, row = 8, column = 0 and twice = 16."), (
        "changed and k have many values"
    )


def test_values_are_worked_out_only_where_they_are_sure():
    def value(text, known=None):
        return values.value(text, known or {})

    assert value("(3 + 4u) / 2 % 3 << 2") == 0 and value("(size_t)row * 8", {"row": 2}) == 16
    assert value("threadIdx.x >> 5", {"threadIdx_x": 70}) == 2
    for text in ("row", "1 - 2", "1 / 0", "f(1)", "a ? 1 : 2", "2.5", "x[1]", "5 //"):
        assert value(text) is None, text
    text = "int a = 1, b = f(2, 3); for (int k = 0; k < 9; k++) b += a; int c = k; c++; { int e = 1; } int d = 4;"
    declared = values.declared(text, len(text))
    assert declared == {"a": "1", "d": "4"}


def test_two_blocks_that_write_one_element_are_not_sent_to_atomics_first(module):
    arguments_ = np.zeros(32, np.float32), np.zeros(32, np.float32), np.int32(32)
    (found,) = inspect(module[True].get_function("last_block_decides"), (2,), (32,), arguments_).problems
    assert "whichever comes last decides: give each block elements of its own." in found.text


def test_no_barrier_is_advised_inside_a_loop_with_rounds_for_each_thread(report):
    text = report("both_in_an_uneven_loop", n=256).problems[0].text
    assert f"run the loop on line {at('uneven')} different numbers of times" in text and "two loops" in text


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [("rows_of_each_block", "first-of-row", "second-of-row"), ("tiles_from_zero", "tile-write", "tile-read")],
)
def test_a_loop_in_which_all_threads_begin_alike_may_hold_a_barrier(report, name, first, second):
    text = report(name, n=128).problems[0].text
    assert f"Put `__syncthreads();` between line {at(first)} and line {at(second)}, where all threads" in text


def test_else_of_the_preprocessor_is_no_branch(report):
    text = report("below_a_directive").problems[0].text
    assert f"between line {at('directive-write')} and line {at('directive-read')}, where all threads" in text


def test_in_a_branch_too_a_warps_barrier_is_not_enough_for_several_warps(report):
    text = report("both_in_a_branch", threads=32).problems[0].text
    assert "or `__syncthreads();` if other warps take part, but not inside the `if`" in text


def test_a_barrier_of_a_warp_does_not_count_between_warps(report):
    (found,) = report("warp_barrier_between_warps").problems
    assert f"Put `__syncthreads();` between line {at('write')} and line {at('read')}" in found.text


def test_a_condition_that_does_not_guard_the_index_is_not_blamed(report):
    text = report("checks_something_else", arrays=(np.zeros(64, np.float32), np.zeros(64, np.float32))).problems[0].text
    assert "x[64]" in text and "No condition around this line mentions `i`: is a check missing" in text


@pytest.mark.parametrize(
    ("name", "mark"), [("checks_the_column", "row-check"), ("checks_before_the_index", "early-check")]
)
def test_the_check_of_the_index_is_named_and_not_the_nearest(report, name, mark):
    arrays = np.zeros(64, np.float32), np.zeros(64, np.float32)
    text = report(name, 65, arrays=arrays).problems[0].text
    assert f"is checked on line {at(mark)} (`" in text


@pytest.mark.parametrize("name", ["check_is_right", "check_of_a_loop"])
def test_a_check_that_is_right_is_not_blamed(report, name):
    text = report(name, arrays=(np.zeros(64, np.float32), np.zeros(64, np.float32))).problems[0].text
    assert "x[64]" in text and "one too many" not in text


def test_a_check_that_lets_one_too_many_through_is(report):
    text = report("check_is_wrong", 128, arrays=(np.zeros(64, np.float32), np.zeros(64, np.float32))).problems[0].text
    assert f"The check on line {at('wrong-check')} lets one too many through" in text


# ------------------------------------------------------------------------------------------------ ends


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
    assert f"deadlock: kernel spins_forever, line {at('spin')}:" in text and "that no thread writes any more" in text


@pytest.mark.parametrize("check", [True, False])
def test_what_is_not_printed_is_counted(module, check, capsys):
    module[check].get_function("prints")((1,), (64,), arguments(np.int32, 2000))
    printed = capsys.readouterr().out
    shown, _, rest = printed.rpartition("\n... and ")
    total = sum(len(f"thread {t} says {k}\n") for t in range(64) for k in range(2000))
    assert len(shown) > 10**6 and rest.endswith(" characters more: a launch can print 1 MB, so print less.\n")
    assert len(shown) + int(rest.split()[0].replace(",", "")) == total


@pytest.mark.parametrize("check", [True, False])
def test_a_long_line_is_printed_whole(module, check, capsys):
    module[check].get_function("prints_a_long_line")((1,), (1,), arguments(np.int32, 5000))
    assert capsys.readouterr().out == f"{7:05000d}|\n"


# ------------------------------------------------------------------------------------------------ locals


def test_a_local_without_a_value_is_a_note(report):
    found = report("sum_without_a_start")
    assert found.ok
    (note,) = found.notes
    assert (note.kind, note.line, note.line2) == ("uninitialised-local", at("used"), at("declared"))
    assert f"may use sum, declared on line {at('declared')}, before it has got a value" in note.text
    (note,) = report("lanes_without_a_value", 32, 20).notes
    assert (note.line, note.line2) == (at("lane-used"), at("lane-declared"))


def test_a_local_that_a_check_rules_out_is_not(report):
    assert report("guarded_twice").notes == [] and report("helper_called_in_a_loop").notes == []
