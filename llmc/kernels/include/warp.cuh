// The 32 lanes of a warp, and two constants of softmax.

const unsigned ALL = 0xffffffff;  // all of them take part

// Where a maximum starts (finite, so that LOWEST - LOWEST is not NaN), and exp(x) = exp2(x LOG2E).
[[maybe_unused]] const float LOWEST = -3.402823466e+38f, LOG2E = 1.4426950408889634f;

// The sum over the 32 lanes of a warp; every lane gets it.
__device__ float warp_sum(float v)
{
    for (int gap = 16; gap > 0; gap /= 2) v += __shfl_xor_sync(ALL, v, gap);
    return v;
}

// The same with the maximum.
__device__ float warp_max(float v)
{
    for (int gap = 16; gap > 0; gap /= 2) v = fmaxf(v, __shfl_xor_sync(ALL, v, gap));
    return v;
}
