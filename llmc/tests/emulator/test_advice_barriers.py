"""Where the advice puts a barrier that is missing: between which lines, in which loop, outside of which branch."""

import numpy as np
import pytest

from llmc.cuda import inspect
from llmc.tests.emulator.marked import SUMS, marked

CODE = (
    SUMS
    + r"""
extern "C" {
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
__global__ void rows_of_each_warp(float* out, const float* x, int n) {
    int lane = threadIdx.x % 32;
    for (int row = threadIdx.x / 32; row < n / 32; row++) {  // @one-row-further
        float* here = out + 32 * row;
        float old = here[lane];
        here[lane] =
            old + x[lane];
    }
}
__global__ void twos_of_each_thread(float* out, const float* x, int n) {
    __shared__ float s[128];
    for (int k = 0; k < 2; k++) s[threadIdx.x + k] = x[k] + threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}
__global__ void all_columns_by_each_thread(float* out, const float* x, int n) {
    for (int k = threadIdx.x; k < n; k += blockDim.x) {  // @parted
        for (int c = 0; c < n; c++) out[c] += x[k];  // @all-columns
    }
}
__global__ void tail_by_all_behind(float* out, const float* x, int n) {
    int whole = n / 8, thread = threadIdx.x;
    if (thread >= whole)
        for (int k = 4 * whole; k < n; k++) out[k] += x[k];
}
__global__ void turns_by_a_condition(float* out, const float* x, int n) {
    __shared__ float s[32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int turn = 0; turn < 2; turn++) {  // @turn
        for (int k = 0; k < 1 && warp == turn; k++) {  // @only-its
            float old = turn ? s[lane] : 0.0f;
            s[lane] = old + x[lane];
        }
    }
    out[threadIdx.x] = 1;
}
__global__ void overwritten_before_it_is_read(float* out, const float* x, int n) {
    out[threadIdx.x] = 1.0f;  // @overwrites
    if (threadIdx.x == 0) out[40] = out[33];  // @reads-late
}
__global__ void read_late_by_another(float* out, const float* x, int n) {
    int t = threadIdx.x;
    float v = out[t];  // @own-read
    if (__any_sync(~0u, v < 0.0f)) v = 0.0f;
    out[t] = v;  // @own-write
    if (t == 0) out[63] = out[5];  // @late-read
}
__global__ void read_after_a_shuffle(float* out, const float* x, int n) {
    int t = threadIdx.x;
    float v = out[t];  // @passed-on
    v += __shfl_xor_sync(~0u, v, 1);
    out[t] = v;  // @write-after-shuffle
    if (t == 0) out[63] = out[5];  // @read-after-shuffle
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
}
"""
)
at = marked(CODE)
pytestmark = pytest.mark.usefixtures("emulator", "one_second")


@pytest.mark.parametrize(
    ("name", "threads"), [("one_element", 32), ("one_element", 64), ("counts", 32), ("counts", 64)]
)
def test_no_barrier_is_advised_where_two_threads_have_one_index(report, name, threads):
    (found,) = report(name, threads, dtype=np.int32).problems
    assert "The index is the same for both threads" in found.text and "__sync" not in found.text


@pytest.mark.parametrize("shape", [(2, 2), (4,)])
def test_in_a_table_two_threads_may_meet_because_one_has_left_its_row(report, shape):
    (found,) = report("counts", 32, arrays=(np.zeros(shape, np.int32), np.arange(32, dtype=np.int32))).problems
    row = "Does the column of one of them lie beyond the 2 of out, so that it writes into the next row?"
    assert (row in found.text) is (len(shape) == 2) and "let only one thread write" in found.text


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


def test_warps_whose_loops_bring_them_to_one_row_need_no_barrier(report):
    for found in report("rows_of_each_warp").problems:
        assert f"The loop on line {at('one-row-further')} brings both threads to `row` = 1" in found.text
        assert "and a step is 1" in found.text and "__sync" not in found.text and "atomicAdd" not in found.text


def test_a_loop_that_gives_all_threads_the_same_elements_is_named(report):
    text = report("all_columns_by_each_thread").problems[0].text
    assert "Nothing in `out[c]` differs between the threads of a block" in text and "atomicAdd" not in text
    assert f"begin the loop on line {at('all-columns')} at `c = threadIdx.x`, in steps of blockDim.x. Each" in text
    assert text.endswith(f"needs all turns of the loop on line {at('parted')}, not a part of them.")


def test_of_a_tail_that_many_do_it_is_asked_who_should(report):
    text = report("tail_by_all_behind").problems[0].text
    assert text.endswith("write the same elements. Should one of them alone do it, or each have elements of its own?")


def test_no_barrier_is_advised_inside_a_loop_whose_condition_picks_whose_turn_it_is(report):
    text = report("turns_by_a_condition").problems[0].text
    assert f"of the loop on line {at('turn')}, outside the loop on line {at('only-its')}, so that all" in text


def test_turns_in_which_two_threads_come_to_one_element_are_named(report):
    text = report("twos_of_each_thread").problems[0].text
    assert "`threadIdx.x + k` is " in text and "a step of `k` must lead past" in text and "atomicAdd" not in text
    assert "k = 0" in text and "k = 1" in text


def test_what_is_overwritten_before_it_is_read_may_have_to_be_read_earlier(report):
    text = report("overwritten_before_it_is_read").problems[0].text
    late, early = at("reads-late"), at("overwrites")
    assert f"Or should line {late} still see the old value? Then read it before line {early}." in text


def test_where_it_is_not_known_which_line_has_read_all_of_them_are_named(report):
    text = report("read_late_by_another", 32).problems[0].text
    assert f"line {at('own-write')}: " in text and "another thread reads it" in text
    assert f"out is read on lines {at('own-read')} and {at('late-read')}." in text


def test_a_read_behind_a_shuffle_is_not_excused_by_one_that_was_passed_on(report):
    text = report("read_after_a_shuffle", 32).problems[0].text
    assert f"lines {at('write-after-shuffle')} and {at('read-after-shuffle')}: " in text


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
