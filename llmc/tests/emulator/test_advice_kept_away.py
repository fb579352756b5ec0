"""Which branch, loop or `return` kept threads from barriers, lanes from a shuffle, or an array from being written."""

import pytest

from llmc.cuda.emulator.findings.absences import lane_names, what_keeps_threads_away
from llmc.tests.emulator.marked import marked

CODE = r"""
__device__ float warp_sum(float v) {
    for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(~0u, v, step);  // @shuffle
    return v;
}
extern "C" {
__global__ void shuffles_with_half_a_warp(float* out, const float* x, int n) {
    float v = warp_sum(x[threadIdx.x]);
    out[threadIdx.x] = warp_sum(v);  // @second-sum
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
__global__ void a_barrier_for_some_in_a_loop_of_all(float* out, const float* x, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    for (int k = 0; k < n; k += 32) {
        s[t] = x[t];
        __syncthreads();
        if (t < 32) {  // @some-meet-again
            out[t] = s[63 - t];
            __syncthreads();  // @again
        }
    }
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
__global__ void a_row_for_each_lane(float* out, const float* x, int n) {
    int lane = threadIdx.x % 32, row = blockIdx.x * blockDim.x + threadIdx.x;  // @row
    if (row >= n) return;
    out[row] = __shfl_xor_sync(0xffffffff, x[lane], 16);
}
__global__ void sum_of_a_warp_in_a_loop(float* out, const float* x, int n) {
    float v = 0.0f;
    if (blockIdx.x > 0) return;  // @whole-warps-leave
    for (int c = threadIdx.x; c < n; c += 32) {  // @rounds-differ
        v += warp_sum(x[c]);
    }
    out[threadIdx.x] = v;
}
__global__ void two_sums(float* out, const float* x, int n) {
    float v = x[threadIdx.x], first = 0.0f;
    if (threadIdx.x == 0)  // @lane-0
        first = warp_sum(v);  // @of-lane-0
    out[threadIdx.x] = first + warp_sum(v * v);  // @of-all
}
__global__ void a_sum_of_each_warps_sum(float* out, const float* x, int n) {
    __shared__ float sums[2];
    float v = warp_sum(x[threadIdx.x]);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x < 2) {  // @a-lane-for-each-warp
        out[threadIdx.x] = warp_sum(sums[threadIdx.x]);
    }
}
__global__ void a_loop_with_a_bound_of_the_lanes_own(float* out, const float* x, int n) {
    float v = 0.0f;
    int lane = threadIdx.x, most = lane % 5 + 1;
    for (int c = 0; c < most; c++) {  // @bound-of-its-own
        v += warp_sum(x[c + lane]);
    }
    out[threadIdx.x] = v;
}
__global__ void sums_in_a_loop_and_behind_it(float* out, const float* x, int n) {
    float v = 0.0f;
    for (int c = threadIdx.x; c < n; c += 32) {  // @has-a-sum
        v += warp_sum(x[c]);  // @sum-in-the-loop
    }
    out[threadIdx.x] = warp_sum(v);
}
__global__ void shuffles_in_a_loop_and_behind_it(float* out, const float* x, int n) {
    float v = 0.0f;
    if (blockIdx.x > 0) return;
    for (int c = threadIdx.x; c < n; c += 32) {  // @some-have-left
        v += __shfl_xor_sync(0xffffffff, x[c], 1);
    }
    out[threadIdx.x] = __shfl_xor_sync(0xffffffff, v, 1);
}
}
"""
at = marked(CODE)
pytestmark = pytest.mark.usefixtures("emulator", "one_second")


def test_an_unwritten_element_between_rows_may_be_padding(report):
    text = report("padded").problems[0].text
    assert "So far s[0] to s[31] and s[33] are written, but s[32] between them is not: is it the padding" in text


def test_threads_that_break_out_of_a_loop_may_have_written_nothing(report):
    text = report("leaves_a_loop").problems[0].text
    assert f"Do threads leave by the `break` on line {at('breaks')} before they have written their elements?" in text


def test_a_barrier_in_a_branch_is_named_by_its_if(report):
    texts = {problem.kind: problem.text for problem in report("barrier_in_a_branch").problems}
    assert f"and the `if` on line {at('some')} keeps some threads away: end the `if`" in texts["barrier-divergence"]
    assert (
        "that was the first of 6 times" in texts["barrier-divergence"] and "happened" not in texts["barrier-divergence"]
    )
    assert f"but it is inside the `if` on line {at('some')}" in texts["race"]


def test_a_barrier_in_a_branch_comes_before_one_that_its_threads_come_to_once_more(report):
    first = next(each for each in report("a_barrier_for_some_in_a_loop_of_all").problems if "barrier" in each.kind)
    assert first.line == at("again") and "the loop" not in first.text
    assert f"the `if` on line {at('some-meet-again')} keeps some threads away: end the `if` before it." in first.text


@pytest.mark.parametrize(
    "body, words",
    [
        ("if (t < n) __syncthreads();", "take the barrier out of the `if`."),
        ("if (t < n) {\n s[t] = 1;\n __syncthreads();\n }", "end the `if` before it."),
        ("if (t < n) {\n __syncthreads();\n s[t] = 1;\n }", "begin the `if` after it."),
        ("if (t < n) {\n s[t] = 1;\n __syncthreads();\n s[t] = 2;\n }", "and begin another one after it."),
        ("if (t < n) {\n for (int k = 0; k < 2; k++) {\n __syncthreads();\n }\n }", "put the `if` in there"),
        ("for (int k = 0; k < n; k++) {\n __syncthreads();\n }", None),
        ("for (int k = 0; k < t; k++) {\n __syncthreads();\n }", "go through the loop the same number of times"),
        (
            "for (int k = 0; k < n; k++) {\n if (t) break;\n __syncthreads();\n }",
            "go through the loop the same number of times",
        ),
    ],
)
def test_what_to_do_about_a_barrier_depends_on_what_is_around_it(body, words):
    code = f"__global__ void f(float* s, int n) {{\n int t = threadIdx.x;\n {body}\n}}"
    line = code[: code.index("__syncthreads")].count("\n") + 1
    found = [to_do for _, to_do in what_keeps_threads_away(code, line)]
    assert words in found[0] if words else not found


def test_where_two_things_may_keep_threads_from_a_barrier_neither_is_blamed(report):
    text = report("left_before_the_barrier").problems[0].text
    which = f"the `if` on line {at('all-take-it')} or the `return` on line {at('leaves')}?"
    assert f"Which of these keeps some threads away: {which}" in text


def test_the_line_on_which_lanes_left_is_named(report):
    text = report("lanes_that_left").problems[0].text
    assert f"and the `return` on line {at('lanes-leave')} keeps some lanes away" in text
    assert "keeps some lanes away: the lanes of a warp must leave together, or all stay." in text


def test_a_return_that_asks_for_a_number_of_the_threads_own_may_mean_one_of_the_warps(report):
    text = report("a_row_for_each_lane", 32, 20).problems[0].text
    assert f"it asks for `row`, which differs between the lanes of a warp (line {at('row')})" in text
    assert "If a whole warp should have one `row`, divide the thread's number by 32 there" in text


def test_a_loop_that_asks_for_the_lane_is_named_and_a_return_that_does_not_is_not(report):
    text = report("sum_of_a_warp_in_a_loop", 32, 40).problems[0].text
    assert f"and the loop on line {at('rounds-differ')} keeps some lanes away" in text
    assert f"line {at('whole-warps-leave')}" not in text
    assert "with numbers of its own (`c = threadIdx.x`)" in text and "put it after the loop" in text


def test_a_call_in_a_loop_is_named_where_lanes_meet_in_another_one(report):
    text = report("sums_in_a_loop_and_behind_it", 32, 40).problems[0].text
    where = f"For the call in line {at('sum-in-the-loop')}, the loop on line {at('has-a-sum')} keeps some lanes away"
    assert where in text


def test_lanes_with_another_bound_each_are_not_told_to_put_an_if_around_the_call():
    text = advice_on_rounds("a_loop_with_a_bound_of_the_lanes_own", "bound-of-its-own")
    assert "go through the loop the same number of times" in text and "but not around the call" in text


def advice_on_rounds(kernel, mark):
    code = CODE[: CODE.index(f"// @{mark}")]
    return dict(what_keeps_threads_away(CODE, code.count("\n") + 2, lanes=True))[f"the loop on line {at(mark)}"]


def test_lanes_that_made_an_earlier_call_and_ended_do_not_wait_there(report):
    text = report("a_sum_of_each_warps_sum", 64, 64).problems[0].text
    assert f"the `if` on line {at('a-lane-for-each-warp')} keeps some lanes away: let all lanes of the warp" in text
    assert "wait for the others" not in text


def test_a_call_that_only_some_lanes_make_is_named_with_the_one_where_the_others_wait(report):
    text = report("two_sums", 32, 32).problems[0].text
    assert f"Line {at('of-lane-0')} makes the call in the `if` on line {at('lane-0')}, so only some lanes" in text
    assert f"come to the call in line {at('of-all')}. Take the call out of the `if`." in text


@pytest.mark.parametrize(
    "text, parted",
    [
        ("int lane = threadIdx.x % 32; float v = x[lane];", {"threadIdx", "lane", "v"}),
        ("int warp = threadIdx.x / 32, l = threadIdx.x & 31;", {"threadIdx", "l"}),
        ("int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32; float y = x[row];", {"threadIdx"}),
        ("int i = blockIdx.x * blockDim.x + threadIdx.x;", {"threadIdx", "i"}),
    ],
)
def test_what_differs_between_the_lanes_of_a_warp(text, parted):
    assert lane_names(text) == parted


def test_a_loop_that_some_lanes_have_left_for_the_next_call(report):
    text = report("shuffles_in_a_loop_and_behind_it", 32, 41).problems[0].text
    assert (
        f"lanes leave the loop on line {at('some-have-left')} at different turns: put the call after the loop" in text
    )


def test_lanes_that_a_block_does_not_have(report):
    assert "its last warp has only 16 lanes" in report("shuffles_with_half_a_warp", 48).problems[0].text
