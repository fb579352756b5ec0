/* The step of attention to a cache before v3 of ../attention_cached.cu.

v2  many blocks per query, each with 64 keys; then a second kernel combines what they found, in a fixed order
*/

#include "../attention_cached.cu"

// found (B, NH, n, splits).
extern "C" __global__ void __launch_bounds__(128) attention_cached_split_v2(Found* found, float* cache,
                                                                            const float* qkv, int B, int n, int NH,
                                                                            const int* first, int maxT, int span)
{
    __shared__ Found groups[GROUPS];
    search(groups, cache, qkv, B, n, NH, first, maxT, span);
    combine(found + (size_t)blockIdx.x * gridDim.y + blockIdx.y, groups, GROUPS);
}

// One block per row of (B, NH, n).
extern "C" __global__ void attention_cached_combine_v2(float* out, const Found* found, int n, int NH, int splits)
{
    finish(out, found, n, NH, splits);
}
