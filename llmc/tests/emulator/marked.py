"""Kernels whose lines carry marks, `// @name`, and the arguments that all of them take."""

import numpy as np

SUMS = r"""
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
}"""


def marked(code):
    """A function of a mark: the number of the line of this code that ends with it."""

    def at(mark) -> int:
        return next(number for number, text in enumerate(code.splitlines(), 1) if text.endswith(f"@{mark}"))

    return at


def arguments(dtype, n, value=1):
    """out (256,) of zeros, x (256,) of `value`, and n."""
    return np.zeros(256, dtype), np.full(256, value, dtype), np.int32(n)
