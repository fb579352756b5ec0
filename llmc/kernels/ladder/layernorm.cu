/* Steps of layernorm before the kernels of ../layernorm.cu, which says what they compute.

layernorm_forward
v1  one thread per row: neighbouring threads are C numbers apart
v2  one block per row: threads side by side; the two sums come together in a tree in shared memory
v3  the tree by warp shuffles: registers instead of shared memory, one barrier each
v4  one warp per row: no shared memory, no barrier
v5  online: mean and variance in one pass, merged from lane to lane (Welford 1962, Chan et al. 1979)

residual_layernorm_forward
v1  as v4 above
*/

#include "../layernorm.cu"

extern "C" __global__ void layernorm_forward_v1(float* out, float* mean, float* rstd, const float* x, const float* w,
                                                const float* b, int N, int C)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= N) return;
    x += (size_t)row * C;  // (C,)   size_t: N * C may exceed 2^31
    out += (size_t)row * C;
    float total = 0.0f, squares = 0.0f;
    for (int c = 0; c < C; c++) total += x[c];
    float m = total / C;
    for (int c = 0; c < C; c++) squares += (x[c] - m) * (x[c] - m);
    float r = rsqrtf(squares / C + EPS);
    for (int c = 0; c < C; c++) out[c] = (x[c] - m) * r * w[c] + b[c];
    mean[row] = m;
    rstd[row] = r;
}

// The sum over a block, by a tree: of a power of two of threads, each step halves those that still add. All get it.
__device__ float tree_sum(float v, float* partial)
{
    int t = threadIdx.x;
    partial[t] = v;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) partial[t] += partial[t + half];
        __syncthreads();
    }
    float total = partial[0];
    __syncthreads();  // all threads have read partial[0] before the next sum overwrites it
    return total;
}

extern "C" __global__ void __launch_bounds__(1024) layernorm_forward_v2(float* out, float* mean, float* rstd,
                                                                       const float* x, const float* w,
                                                                       const float* b, int N, int C)
{
    __shared__ float partial[1024];  // (blockDim.x,) of it: one number of each thread
    int t = threadIdx.x;
    x += (size_t)blockIdx.x * C;  // (C,)
    out += (size_t)blockIdx.x * C;
    float total = 0.0f, squares = 0.0f;
    for (int c = t; c < C; c += blockDim.x) total += x[c];
    float m = tree_sum(total, partial) / C;
    for (int c = t; c < C; c += blockDim.x) squares += (x[c] - m) * (x[c] - m);
    float r = rsqrtf(tree_sum(squares, partial) / C + EPS);
    for (int c = t; c < C; c += blockDim.x) out[c] = (x[c] - m) * r * w[c] + b[c];
    if (t == 0) {
        mean[blockIdx.x] = m;
        rstd[blockIdx.x] = r;
    }
}

// The sum over a block of whole warps; slots (32,) lies in shared memory, and each call needs its own.
__device__ float block_sum(float v, float* slots)
{
    v = warp_sum(v);
    if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = v;
    __syncthreads();
    return warp_sum(threadIdx.x % 32 < blockDim.x / 32 ? slots[threadIdx.x % 32] : 0.0f);
}

extern "C" __global__ void __launch_bounds__(1024) layernorm_forward_v3(float* out, float* mean, float* rstd,
                                                                       const float* x, const float* w,
                                                                       const float* b, int N, int C)
{
    __shared__ float totals[32], squares_[32];  // one number of each warp
    int t = threadIdx.x;
    x += (size_t)blockIdx.x * C;  // (C,)
    out += (size_t)blockIdx.x * C;
    float total = 0.0f, squares = 0.0f;
    for (int c = t; c < C; c += blockDim.x) total += x[c];
    float m = block_sum(total, totals) / C;
    for (int c = t; c < C; c += blockDim.x) squares += (x[c] - m) * (x[c] - m);
    float r = rsqrtf(block_sum(squares, squares_) / C + EPS);
    for (int c = t; c < C; c += blockDim.x) out[c] = (x[c] - m) * r * w[c] + b[c];
    if (t == 0) {
        mean[blockIdx.x] = m;
        rstd[blockIdx.x] = r;
    }
}

extern "C" __global__ void layernorm_forward_v4(float* out, float* mean, float* rstd, const float* x, const float* w,
                                                const float* b, int N, int C)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= N) return;  // a whole warp leaves, and there is no barrier to miss
    x += (size_t)row * C;  // (C,)
    out += (size_t)row * C;
    float total = 0.0f, squares = 0.0f;
    for (int c = lane; c < C; c += 32) total += x[c];
    float m = warp_sum(total) / C;
    for (int c = lane; c < C; c += 32) squares += (x[c] - m) * (x[c] - m);
    float r = rsqrtf(warp_sum(squares) / C + EPS);
    for (int c = lane; c < C; c += 32) out[c] = (x[c] - m) * r * w[c] + b[c];
    if (lane == 0) {
        mean[row] = m;
        rstd[row] = r;
    }
}

// What one pass knows about the numbers so far: their count, their mean, and the sum of (x - mean)^2.
struct Moments {
    float count, mean, squares;
};

// The moments of both together. It squares no large mean, so nothing cancels.
__device__ Moments merge(Moments a, Moments b)
{
    float count = a.count + b.count, gap = b.mean - a.mean;
    float share = count > 0.0f ? b.count / count : 0.0f;  // 0: two lanes that saw no number, where C < 32
    return {count, a.mean + gap * share, a.squares + b.squares + gap * gap * a.count * share};
}

extern "C" __global__ void layernorm_forward_v5(float* out, float* mean, float* rstd, const float* x, const float* w,
                                                const float* b, int N, int C)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= N) return;
    x += (size_t)row * C;  // (C,)
    out += (size_t)row * C;
    Moments seen = {0.0f, 0.0f, 0.0f};
    for (int c = lane; c < C; c += 32) seen = merge(seen, {1.0f, x[c], 0.0f});  // one number is its own mean
    for (int gap = 16; gap > 0; gap /= 2) {
        float count = __shfl_down_sync(ALL, seen.count, gap), centre = __shfl_down_sync(ALL, seen.mean, gap);
        seen = merge(seen, {count, centre, __shfl_down_sync(ALL, seen.squares, gap)});
    }
    float m = __shfl_sync(ALL, seen.mean, 0);  // lane 0 has merged them all; the others get its numbers, bit for bit
    float r = rsqrtf(__shfl_sync(ALL, seen.squares, 0) / C + EPS);
    for (int c = lane; c < C; c += 32) out[c] = (x[c] - m) * r * w[c] + b[c];
    if (lane == 0) {
        mean[row] = m;
        rstd[row] = r;
    }
}

extern "C" __global__ void residual_layernorm_forward_v1(float* residual, float* out, float* mean, float* rstd,
                                                         const float* x1, const float* x2, const float* w,
                                                         const float* b, int N, int C)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= N) return;
    size_t start = (size_t)row * C;
    layernorm_row<float, true>(residual + start, out + start, mean + row, rstd + row, x1 + start, x2 + start, w, b,
                               nullptr, C, C);
}
