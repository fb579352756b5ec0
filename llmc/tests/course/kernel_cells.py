"""Two kernels, right ones, and the check cells of exercises that ask for them."""

import numpy as np
import pytest

from llmc.course import WrongAnswer
from llmc.course.checks.exercise import Exercise
from llmc.course.kernel_checks.check import kernel_check

SCALE = r"""
extern "C" __global__ void scale(float* out, const float* inp, float factor, int n)
{
    // ### BEGIN SOLUTION
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = factor * inp[i];
    // ### END SOLUTION
}
"""
ROW_SUM = r"""
extern "C" __global__ void row_sum(float* out, const float* inp, int C)
{
    extern __shared__ float partial[];
    int t = threadIdx.x;
    const float* row = inp + (size_t)blockIdx.x * C;
    float sum = 0.0f;
    for (int c = t; c < C; c += blockDim.x)
        sum += row[c];
    partial[t] = sum;
    __syncthreads();
    int length = blockDim.x;
    while (length > 1) {
        int half = (length + 1) / 2;
        if (t + half < length)
            partial[t] += partial[t + half];
        __syncthreads();
        length = half;
    }
    if (t == 0)
        out[blockIdx.x] = partial[0];
}
"""
SIZES = (1, 31, 127, 129, 1000)  # around a warp, around a block
BLOCKS = (256, 128, 96, 32)  # threads; the largest first, because most kernels that assume one are right there
LOOK = {"out-of-bounds": "The edge", "race": 'lesson 13, section "A barrier"'}


def rows(c):
    for C in (7, 1, 129, 300):
        for block in BLOCKS:
            yield C, block


def scales(c):
    for n in SIZES:
        inp = c.random(n)  # (n,)
        for block in BLOCKS:
            yield inp, block


Exercise("scale", "12", reference=lambda out, inp, factor, n: factor * inp, writes="out", cases=scales, look=LOOK)
Exercise("row_sum", "12", reference=lambda out, inp, C: inp.sum(axis=1), writes="out", cases=rows, look=LOOK)


def check_scale(code, efficiency=0.9):
    with kernel_check("scale") as c:
        for inp, block in c.cases():
            n = len(inp)
            c.compare(code, (n + block - 1) // block, block, (c.output(n), inp, np.float32(1.5), n))
        c.demand(efficiency=efficiency)


def check_row_sum(code):
    with kernel_check("row_sum") as c:
        for C, block in c.cases():
            c.compare(code, 3, block, (c.output(3), c.random(3, C), C), shared_mem=4 * block)
        c.demand(bank_conflicts=0, barriers=8)


def message(check_cell, *arguments):
    with pytest.raises(WrongAnswer) as caught:
        check_cell(*arguments)
    return str(caught.value)
