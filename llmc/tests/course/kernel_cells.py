"""Three kernels, right ones, and the check cells of exercises that ask for them."""

import numpy as np
import pytest

from llmc.course import WrongAnswer, compare
from llmc.course.old.kernel_checks.check import BLOCKS, SIZES, kernel_check

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
WARP_SUM = r"""
extern "C" __global__ void warp_sum(float* out, const float* inp, int C)
{
    int lane = threadIdx.x;
    float sum = 0.0f;
    for (int c = lane; c < C; c += 32)
        sum += inp[blockIdx.x * C + c];
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, offset);
    if (lane == 0)
        out[blockIdx.x] = sum;
}
"""
WHERE = {"out-of-bounds": 'lesson 12, section "The edge"', "race": 'lesson 13, section "A barrier"'}


def check_scale(code, where=WHERE, efficiency=0.9):
    with kernel_check("scale", where) as c:
        for n in SIZES:
            inp = c.random(n)  # (n,)
            for block in BLOCKS:
                out = c.output(n)  # (n,)
                c.launch(code, (n + block - 1) // block, block, (out, inp, np.float32(1.5), n))
                compare("out", out, np.float32(1.5) * inp, known={"inp itself: nothing was multiplied": inp})
        c.demand(efficiency=efficiency)


def check_row_sum(code):
    with kernel_check("row_sum", WHERE) as c:
        for C in (7, 1, 129, 300):
            inp = c.random(3, C)  # (N, C)
            for block in BLOCKS:
                out = c.output(3)  # (N,)
                c.launch(code, 3, block, (out, inp, C), shared_mem=4 * block)
                compare("out", out, inp.sum(axis=1), known={"the sum without its last column": inp[:, :-1].sum(axis=1)})
        c.demand(bank_conflicts=0, barriers=8)


def check_warp_sum(code):
    with kernel_check("warp_sum") as c:
        for C in (7, 129):
            inp, out = c.random(3, C), c.output(3)  # (N, C), (N,)
            c.launch(code, 3, 32, (out, inp, C))
            compare("out", out, inp.sum(axis=1))
        c.demand(shared_requests=0, barriers=0)


def message(check_cell, *arguments):
    with pytest.raises(WrongAnswer) as caught:
        check_cell(*arguments)
    return str(caught.value)
