"""Helpers, and locals without a value: which lines and which calls of them a report names."""

import numpy as np
import pytest

from llmc.tests.emulator.marked import SUMS, marked

CODE = (
    SUMS
    + r"""
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
)
at = marked(CODE)
pytestmark = pytest.mark.usefixtures("emulator", "one_second")


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


def test_a_local_without_a_value_is_a_note(report):
    found = report("sum_without_a_start")
    assert found.ok
    (note,) = found.notes
    assert (note.kind, note.line, note.line2) == ("uninitialised-local", at("used"), at("declared"))
    assert f"may use sum, declared on line {at('declared')}, before it has a value" in note.text
    (note,) = report("lanes_without_a_value", 32, 20).notes
    assert (note.line, note.line2) == (at("lane-used"), at("lane-declared"))


def test_a_local_that_a_check_rules_out_is_not(report):
    assert report("guarded_twice").notes == [] and report("helper_called_in_a_loop").notes == []
