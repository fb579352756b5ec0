"""An index out of bounds: which part of it is too large, and which check should have kept it away."""

import numpy as np
import pytest

from llmc.cuda import RawKernel, inspect
from llmc.cuda.emulator.findings import values
from llmc.tests.emulator.marked import marked

CODE = r"""
extern "C" {
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
__global__ void row_with_anothers_length(float* out, const float* x, int n, int K, int N) {
    int row = threadIdx.x / N, c = threadIdx.x % N;
    out[row * K + c] = x[0];
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
__global__ void reads_behind_a_loop(float* out, const float* x, int n) {
    int k;
    for (k = 0; k < 64; k++) out[0] += x[k];  // @ended
    if (threadIdx.x == 0) out[1] = x[k];
}
__global__ void counts_again_behind_a_loop(float* out, const float* x, int n) {
    int k;
    for (k = 0; k < 4; k++) out[0] += x[k];
    k = 64;
    if (threadIdx.x == 0) out[1] = x[k];
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
}
"""
at = marked(CODE)
pytestmark = pytest.mark.usefixtures("emulator", "one_second")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("loop_that_bounds_the_column", "o condition around this line mentions `row`"),
        ("moved_pointer", "o condition around this line mentions `row`"),
        ("loop_that_counts_down", "a check such as `if (i < n)` must keep them away, or the index itself is wrong."),
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


def test_a_step_that_fits_no_axis_is_named(module):
    given = *TABLE, np.int32(4), np.int32(20)
    text = inspect(module[True].get_function("row_with_a_wrong_length"), (1,), (64,), given).problems[0].text
    assert (
        "Where `row` is 1 more, this index is 20 more; but in out, of shape (4, 16), the next row begins 16 numbers "
        "later. This thread has row = 3 and c = 4."
    ) in text


def test_another_argument_in_place_of_a_rows_length_is_named(module):
    given = *TABLE, np.int32(4), np.int32(20), np.int32(16)
    text = inspect(module[True].get_function("row_with_anothers_length"), (1,), (64,), given).problems[0].text
    assert (
        "This index multiplies by `K`, which is 20, but a row of out has 16 numbers: with `N` in its place, this is "
        "row 3, column 4."
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


def test_a_condition_that_does_not_guard_the_index_is_not_blamed(report):
    text = report("checks_something_else", arrays=(np.zeros(64, np.float32), np.zeros(64, np.float32))).problems[0].text
    assert "x[64]" in text and "No condition around this line mentions `i`; the one on line " in text
    assert "lets this thread pass: should it compare another number, is a check missing, or" in text


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


def test_an_index_that_a_loop_has_left_is_named(report):
    one = (np.zeros(64, np.float32), np.zeros(64, np.float32))
    told = f"After the loop on line {at('ended')}, `k` is the first number for which it no longer runs."
    assert told in report("reads_behind_a_loop", 1, arrays=one).problems[0].text
    assert "After the loop" not in report("counts_again_behind_a_loop", 1, arrays=one).problems[0].text


def test_the_argument_that_is_null_is_named(emulator):
    code = 'extern "C" __global__ void k(float* out, const float* x) { *out = x[threadIdx.x]; }'
    text = inspect(RawKernel(code, "k"), (1,), (1,), (np.zeros(1, np.float32), 0)).problems[0].text
    assert "`x` is null in this launch." in text


BEHIND = "acc[c] = make_float4(1, 2, 3, 4);", "at = acc + c, at->x = at->y = at->z = at->w = 1;"


@pytest.mark.parametrize("body", BEHIND)
def test_what_is_written_behind_a_local_array_ends_the_kernel_and_not_the_process(body):
    code = f"""extern "C" __global__ void k(float* x, int n) {{
        float4 acc[8], *at;
        for (int c = 0; c <= n; c++) {body}
        x[0] = acc[n - 2].x;
    }}"""
    report = inspect(RawKernel(code, "k"), (1,), (1,), (np.zeros(1, np.float32), 8))
    assert "something was written past the end of a local array" in report.problems[0].text


PAST_A_ROW = r"""
extern "C" __global__ void squares(float* out, int M, int N)
{
    int row = threadIdx.x / 8, column = threadIdx.x % 8, at = row * N + column;
    if (at < M * N) out[at] = threadIdx.x;
}
"""


def test_a_column_beyond_its_row_is_named_where_two_threads_meet():
    out = np.zeros((4, 7), np.float32)
    text = inspect(RawKernel(PAST_A_ROW, "squares"), (1,), (32,), (out, 4, 7)).problems[0].text
    assert "`column` is 7 in one of them, but a row of out has 7 numbers (0 to 6)" in text and "__sync" not in text
    square = np.zeros((4, 8), np.float32)
    assert not inspect(RawKernel(PAST_A_ROW, "squares"), (1,), (32,), (square, 4, 8)).problems
