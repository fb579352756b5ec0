"""Arrays in shared memory whose declaration is known: which elements an access took, which index was too large."""

from types import SimpleNamespace

import pytest

from llmc.cuda.emulator.findings.places import item_of
from llmc.tests.emulator.marked import marked

CODE = r"""
extern "C" {
__global__ void fours(float* out, const float* x, int n) {
    __shared__ __align__(16) float first[32], lines[4][32];
    reinterpret_cast<float4*>(lines[1])[threadIdx.x % 8] = make_float4(1, 2, 3, 4);  // @four
    out[threadIdx.x] = lines[1][threadIdx.x % 32];  // @one
}
__global__ void narrow(float* out, const float* x, int n) {
    __shared__ float tile[32][31];  // @declared
    int row = threadIdx.x / 32, lane = threadIdx.x % 32;
    tile[row][lane] = x[threadIdx.x];  // @narrow
    out[threadIdx.x] = tile[row][0];
}
__global__ void filled_in_part(float* out, const float* x, int n) {
    __shared__ float s[64];
    if (threadIdx.x % 2) s[threadIdx.x] = x[threadIdx.x];  // @part
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}
__global__ void filled_with_else(float* out, const float* x, int n) {
    __shared__ float s[65];
    if (threadIdx.x < n / 2) s[threadIdx.x] = x[threadIdx.x];
    else s[threadIdx.x] = 0;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x + 1];
}
}
"""
at = marked(CODE)
pytestmark = pytest.mark.usefixtures("emulator", "one_second")


def test_a_vector_takes_several_elements(report):
    (problem,) = report("fours").problems
    assert "writes 16 bytes of lines, elements 60 to 63, `out" in problem.text


@pytest.mark.parametrize(
    "declared, item",
    [
        ("__shared__ float as[2][8][33], bs[2][8][33];", 4),
        ("__shared__ alignas(128) __nv_bfloat16 bs[8];", 2),
        ("extern __shared__ float4 bs[];", 16),
        ("__shared__ Moments bs[3];", 32),  # the access's own
    ],
)
def test_bytes_of_an_element(declared, item):
    assert item_of(declared, SimpleNamespace(array="bs", size=32)) == item


def test_which_index_was_too_large(report):
    text = report("narrow").problems[0].text
    told = f"`lane` is 31 here, and line {at('declared')} declares tile[32][31]"
    assert f"{told}: does `lane` go too far, or is the array too small?" in text


def test_what_is_filled_under_a_condition(report):
    text = report("filled_in_part").problems[0].text
    assert f"Line {at('part')} writes s only where `threadIdx.x % 2`." in text and "go too far" not in text
    assert "only where" not in report("filled_with_else").problems[0].text
