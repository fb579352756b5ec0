// What a transformer needs, in one kernel each.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_fp16.h>

namespace cg = cooperative_groups;
#define FULL 0xffffffffu
#define ROWS 16
#define HS 32

// Flash attention, causal: a block holds 16 queries and walks over the keys by 16; maximum and sum are kept as it goes.
extern "C" __global__ void flash_attention(float* out, const float* q, const float* k, const float* v, int T,
                                           float scale) {
    extern __shared__ float s[];
    float *qs = s, *ks = qs + ROWS * HS, *vs = ks + ROWS * (HS + 1), *p = vs + ROWS * HS;
    int t = threadIdx.x, row = t / 8, part = t % 8, first = blockIdx.x * ROWS;
    size_t head = (size_t)blockIdx.y * T * HS;
    for (int i = t; i < ROWS * HS; i += blockDim.x) qs[i] = first + i / HS < T ? q[head + first * HS + i] : 0.0f;
    float largest = -1e30f, sum = 0.0f, acc[HS / 8] = {};
    for (int tile = 0; tile <= first; tile += ROWS) {
        __syncthreads();
        for (int i = t; i < ROWS * HS; i += blockDim.x) {
            bool inside = tile + i / HS < T;
            ks[i / HS * (HS + 1) + i % HS] = inside ? k[head + tile * HS + i] : 0.0f;
            vs[i] = inside ? v[head + tile * HS + i] : 0.0f;
        }
        __syncthreads();
        float scores[ROWS / 8], tile_max = -1e30f;
        for (int j = 0; j < ROWS / 8; j++) {
            int key = part + 8 * j;
            float score = 0.0f;
            for (int c = 0; c < HS; c++) score += qs[row * HS + c] * ks[key * (HS + 1) + c];
            scores[j] = tile + key <= first + row ? score * scale : -1e30f;
            tile_max = fmaxf(tile_max, scores[j]);
        }
        for (int step = 4; step > 0; step /= 2) tile_max = fmaxf(tile_max, __shfl_xor_sync(FULL, tile_max, step, 8));
        float now = fmaxf(largest, tile_max), shrink = __expf(largest - now), tile_sum = 0.0f;
        for (int j = 0; j < ROWS / 8; j++) {
            float e = __expf(scores[j] - now);
            p[row * ROWS + part + 8 * j] = e;
            tile_sum += e;
        }
        for (int step = 4; step > 0; step /= 2) tile_sum += __shfl_xor_sync(FULL, tile_sum, step, 8);
        __syncwarp();  // a row's weights come from 8 lanes of one warp
        sum = sum * shrink + tile_sum;
        largest = now;
        for (int c = 0; c < HS / 8; c++) {
            acc[c] *= shrink;
            for (int j = 0; j < ROWS; j++) acc[c] += p[row * ROWS + j] * vs[j * HS + part + 8 * c];
        }
    }
    if (first + row < T)
        for (int c = 0; c < HS / 8; c++) out[head + (first + row) * HS + part + 8 * c] = acc[c] / sum;
}

struct Welford {
    float mean, m2, count;
};

__device__ Welford combine(Welford a, Welford b) {
    float count = a.count + b.count, delta = b.mean - a.mean, share = count > 0.0f ? b.count / count : 0.0f;
    return {a.mean + delta * share, a.m2 + b.m2 + delta * delta * a.count * share, count};
}

// Layernorm by Welford's formula: structs through shuffles, warps through shared memory, float4 where it fits.
extern "C" __global__ void layernorm_welford(float* out, const float* x, const float* w, const float* b, int C) {
    __shared__ Welford parts[32];
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    const float4* row = reinterpret_cast<const float4*>(x + blockIdx.x * C);
    Welford mine = {0.0f, 0.0f, 0.0f};
    for (int i = threadIdx.x; i < C / 4; i += blockDim.x) {
        float4 v = __ldcs(row + i);
        float values[4] = {v.x, v.y, v.z, v.w};
        for (float value : values) mine = combine(mine, {value, 0.0f, 1.0f});
    }
    for (int step = 16; step > 0; step /= 2)
        mine = combine(mine, {warp.shfl_xor(mine.mean, step), warp.shfl_xor(mine.m2, step),
                              warp.shfl_xor(mine.count, step)});
    if (warp.thread_rank() == 0) parts[warp.meta_group_rank()] = mine;
    block.sync();
    Welford all = parts[0];
    for (int k = 1; k < warp.meta_group_size(); k++) all = combine(all, parts[k]);
    float rstd = rsqrtf(all.m2 / C + 1e-5f);
    for (int i = threadIdx.x; i < C; i += blockDim.x)
        out[blockIdx.x * C + i] = (x[blockIdx.x * C + i] - all.mean) * rstd * w[i] + b[i];
}

// Half precision in, packed by two; float inside.
extern "C" __global__ void softmax_half2(__half2* out, const __half2* x, int rows, int pairs) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = warp.thread_rank();
    if (row >= rows) return;
    __half2 largest = __float2half2_rn(-65504.0f);
    for (int i = lane; i < pairs; i += 32) largest = __hmax2(largest, x[row * pairs + i]);
    float top = cg::reduce(warp, fmaxf(__low2float(largest), __high2float(largest)), cg::greater<float>()), sum = 0.0f;
    for (int i = lane; i < pairs; i += 32) {
        float2 v = __half22float2(x[row * pairs + i]);
        sum += expf(v.x - top) + expf(v.y - top);
    }
    sum = cg::reduce(warp, sum, cg::plus<float>());
    for (int i = lane; i < pairs; i += 32) {
        float2 v = __half22float2(x[row * pairs + i]);
        out[row * pairs + i] = __floats2half2_rn(expf(v.x - top) / sum, expf(v.y - top) / sum);
    }
}

// The gradient of an embedding without atomics on floats: a block a token, which finds its own places.
extern "C" __global__ void embedding_backward(float* dw, const float* dout, const int* tokens, int n, int C) {
    __shared__ int places[64], found;
    for (int first = 0; first < n; first += blockDim.x) {
        if (threadIdx.x == 0) found = 0;
        __syncthreads();
        int i = first + threadIdx.x;
        if (i < n && tokens[i] == blockIdx.x) places[atomicAdd(&found, 1)] = i;
        __syncthreads();
        for (int c = threadIdx.x; c < C; c += blockDim.x)
            for (int k = 0; k < found; k++) dw[blockIdx.x * C + c] += dout[places[k] * C + c];
        __syncthreads();
    }
}

// The family of reductions of NVIDIA's old slides, the last of it: unrolled by templates, many elements a thread.
template <int BLOCK>
__global__ void reduce(float* out, const float* x, int n) {
    __shared__ float s[BLOCK];
    int t = threadIdx.x;
    float sum = 0.0f;
    for (int i = blockIdx.x * BLOCK * 2 + t; i < n; i += gridDim.x * BLOCK * 2)
        sum += x[i] + (i + BLOCK < n ? x[i + BLOCK] : 0.0f);
    s[t] = sum;
    __syncthreads();
    if (BLOCK >= 256 && t < 128) s[t] = sum = sum + s[t + 128];
    __syncthreads();
    if (BLOCK >= 128 && t < 64) s[t] = sum = sum + s[t + 64];
    __syncthreads();
    if (t < 32) {
        sum += s[t + 32];
        for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(FULL, sum, step);
        if (t == 0) atomicAdd(out, sum);
    }
}
