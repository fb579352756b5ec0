"""One missing barrier is one report, however many pairs of lines it should keep apart."""

import numpy as np
import pytest

from llmc.tests.emulator.marked import marked

CODE = r"""
extern "C" {
__global__ void three_writes_and_six_reads(float* out, const float* x, int n) {
    __shared__ float s[192];
    int t = threadIdx.x, other = 63 - t;
    s[t] = x[t];  // @first-write
    s[t + 64] = 2 * x[t];
    s[t + 128] = 3 * x[t];  // @last-write
    float sum = s[other];  // @first-read
    sum += s[other + 64];
    sum += s[other + 128];
    sum *= s[other ^ 1];
    sum *= s[(other ^ 1) + 64];
    sum *= s[(other ^ 1) + 128];
    out[t] = sum;
}
__global__ void two_writes_and_two_reads_in_a_loop(float* out, const float* x, int n) {
    __shared__ float s[128];
    int t = threadIdx.x, other = 63 - t;
    float sum = 0.0f;
    for (int round = 0; round < 3; round++) {
        s[t] = x[t] + round;
        s[t + 64] = x[t] - round;
        __syncthreads();
        sum += s[other];
        sum += s[other + 64];
    }
    out[t] = sum;
}
__global__ void two_barriers_are_missing(float* out, const float* x, int n) {
    __shared__ float s[64];
    int t = threadIdx.x, other = 63 - t;
    s[t] = x[t];  // @write
    float sum = s[other];  // @read
    __syncthreads();
    s[t] = sum;  // @second-write
    out[t] = s[other];  // @second-read
}
__global__ void two_arrays(float* out, const float* x, int n) {
    __shared__ float a[64], b[64];
    int t = threadIdx.x, other = 63 - t;
    a[t] = x[t];
    b[t] = x[t];
    out[t] = a[other];
    out[t] += b[other];
}
}
"""
at = marked(CODE)
pytestmark = pytest.mark.usefixtures("emulator", "one_second")


def test_a_missing_barrier_is_reported_once_between_the_nearest_lines(report):
    (found,) = report("three_writes_and_six_reads").problems
    last, first = at("last-write"), at("first-read")  # where one barrier serves all
    pairs = {(last - 2 + k, first + k + later) for k in range(3) for later in (0, 3)}
    assert {tuple(sorted(pair)) for pair in [(found.line, found.line2), *found.more]} == pairs
    assert f"Put `__syncthreads();` between line {last} and line {first}, where all threads" in found.text
    assert " The same barrier ends 5 more races: lines " in found.text and found.text.endswith(" and so on.")


def test_a_missing_barrier_at_the_end_of_a_loop_is_reported_once(report):
    (found,) = report("two_writes_and_two_reads_in_a_loop").problems
    ended = "The same barrier ends 1 more race: lines "
    assert f"put a second `__syncthreads();` at the end of the loop's body. {ended}" in found.text
    assert len(found.more) == 1


def test_two_missing_barriers_are_reported_apart(report):
    first, second = report("two_barriers_are_missing").problems
    assert sorted((first.line, first.line2)) == [at("write"), at("read")] and not first.more
    assert sorted((second.line, second.line2)) == [at("second-write"), at("second-read")] and not second.more


def test_each_array_has_a_report(report):
    found = report("two_arrays", arrays=(np.zeros(64, np.float32), np.ones(64, np.float32)))
    assert [problem.where[0] for problem in found.problems] == ["a", "b"]
