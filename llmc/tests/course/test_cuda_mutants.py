"""Mutants of CUDA C: the mistakes that are made, and their words."""

import pytest

from llmc.course.old.mutants.cuda_source import mutants

KERNEL = """// blockDim.x + 1
__global__ void add(float* y, const float* x, int n, int m)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;  // i < n
    // ### BEGIN SOLUTION
    __shared__ float s[64];
    s[threadIdx.x] = (float)m * x[i] + 2.0f;
    __syncthreads();
    for (int c = i; c < n; c += 32) {
        atomicAdd(&y[c], s[c]);
    }
    if (i < n) y[i] += fmaxf(s[i], m);
    // ### END SOLUTION
}
"""


@pytest.mark.parametrize(
    "words, line, text",
    [
        ("without the `__syncthreads();` of line 8", 8, ""),
        ("`<=` in place of `<`, line 9", 9, "for (int c = i; c <= n; c += 32) {"),
        ("`c = i + 1` in place of `c = i`, line 9", 9, "for (int c = i + 1; c < n; c += 32) {"),
        ("`c += 32 + 1` in place of `c += 32`, line 9", 9, "for (int c = i; c < n; c += 32 + 1) {"),
        ("`y[c] += s[c]` in place of `atomicAdd(&y[c], s[c])`, line 10", 10, "y[c] += s[c];"),
        ("without the `if (i < n)` of line 12", 12, "y[i] += fmaxf(s[i], m);"),
        ("`=` in place of `+=`, line 12", 12, "if (i < n) y[i] = fmaxf(s[i], m);"),
        ("`threadIdx.y` in place of `threadIdx.x`, line 7", 7, "s[threadIdx.y] = (float)m * x[i] + 2.0f;"),
        ("without the cast `(float)` of line 7", 7, "s[threadIdx.x] = m * x[i] + 2.0f;"),
        ("`x` in place of `y`, line 12", 12, "if (i < n) x[i] += fmaxf(s[i], m);"),
        ("`m` in place of `n`, line 12", 12, "if (i < m) y[i] += fmaxf(s[i], m);"),
        ("`33` in place of `32`, line 9", 9, "for (int c = i; c < n; c += 33) {"),
        ("`fminf` in place of `fmaxf`, line 12", 12, "if (i < n) y[i] += fminf(s[i], m);"),
    ],
)
def test_each_kind_of_mistake_is_made(words, line, text):
    (mutant,) = [code for said, code in mutants(KERNEL) if said == words]
    changed, lines = mutant.splitlines(), KERNEL.splitlines()
    assert changed[line - 1].strip() == text
    assert changed[: line - 1] + changed[line:] == lines[: line - 1] + lines[line:]


def test_only_the_learners_lines_change_and_each_mutant_comes_once():
    codes = [code for _, code in mutants(KERNEL)]
    given = KERNEL.splitlines()[:5]
    assert len(codes) > 40 and len(set(codes)) == len(codes) and KERNEL not in codes
    assert all(code.splitlines()[:5] == given for code in codes)
    assert mutants("// a < b\n") == [] and mutants("a < b") != []
