// Tiles of 64 rows in shared memory, for blocks of 128 threads, and products of them with 4 x 8 numbers a thread, for
// heads of any size up to HS, a multiple of 32.
//
// A block has 16 x 8 threads (ty, tx). Of a tile of results, a thread has the rows ty + 16 i and the columns tx + 8 j.
// Rows in shared memory are 4 numbers longer than need be: eight threads that read eight rows then find them in
// different banks. The eight threads of one ty are neighbours in a warp, so rows are reduced by shuffles.

#include "warp.cuh"

const int THREADS = 128;
const int BIG = 64;                  // rows of a tile
const int SMALL = 32;                // of those that come one after the other in the backward pass
const int STRIDE = HS + 4;           // numbers from row to row of a tile of queries, keys or values
const int GROUPS = HS / 32;          // groups of four channels that a thread has: 4 tx + 32 g
typedef float Channels[4][GROUPS][4];  // a thread's results: rows ty + 16 i, channels 4 tx + 32 g + c

// Sum and maximum over the eight threads that share a row.
__device__ float row_sum(float v)
{
    for (int gap = 4; gap > 0; gap /= 2) v += __shfl_xor_sync(ALL, v, gap);
    return v;
}

__device__ float row_max(float v)
{
    for (int gap = 4; gap > 0; gap /= 2) v = fmaxf(v, __shfl_xor_sync(ALL, v, gap));
    return v;
}

__device__ float4 load4(const float* p)
{
    return *reinterpret_cast<const float4*>(p);
}

// Up to four numbers, in one access where the address allows it; the others are zero.
__device__ float4 load_some(const float* p, int left)
{
    if (left >= 4 && (size_t)p % 16 == 0) return load4(p);
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (left > 0) v.x = p[0];
    if (left > 1) v.y = p[1];
    if (left > 2) v.z = p[2];
    if (left > 3) v.w = p[3];
    return v;
}

__device__ void store_some(float* p, const float* v, int left)
{
    if (left >= 4 && (size_t)p % 16 == 0) {
        *reinterpret_cast<float4*>(p) = make_float4(v[0], v[1], v[2], v[3]);
    } else {
        for (int c = 0; c < 4 && c < left; c++) p[c] = v[c];
    }
}

// tile (ROWS, HS) = rows first … of a matrix with T rows of hs numbers, `stride` apart; zero outside.
template <int ROWS>
__device__ void load_tile(float* tile, const float* from, int stride, int first, int T, int hs)
{
    #pragma unroll
    for (int i = 0; i < ROWS * HS / 4 / THREADS; i++) {
        int j = i * THREADS + threadIdx.x, row = j / (HS / 4), c = j % (HS / 4) * 4;
        int left = first + row < T ? hs - c : 0;
        float4 v = load_some(from + (size_t)(first + row) * stride + c, left);
        *reinterpret_cast<float4*>(tile + row * STRIDE + c) = v;
    }
}

// results[i][j] = a[row ty + 16 i] . b[row tx + 8 j], both tiles with rows of HS.
template <int COLUMNS>
__device__ void dot_rows(float (&results)[4][COLUMNS], const float* a, const float* b)
{
    a += threadIdx.x / 8 * STRIDE;
    b += threadIdx.x % 8 * STRIDE;
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        #pragma unroll
        for (int j = 0; j < COLUMNS; j++) results[i][j] = 0.0f;
    }
    #pragma unroll 4
    for (int c = 0; c < HS; c += 4) {
        float4 y[COLUMNS];
        #pragma unroll
        for (int j = 0; j < COLUMNS; j++) y[j] = load4(b + 8 * j * STRIDE + c);
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            float4 x = load4(a + 16 * i * STRIDE + c);
            #pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                results[i][j] += x.x * y[j].x;
                results[i][j] += x.y * y[j].y;
                results[i][j] += x.z * y[j].z;
                results[i][j] += x.w * y[j].w;
            }
        }
    }
}

// results += weights (64, K) tile (K, HS); the rows of weights are K + 4 apart.
template <int K>
__device__ void weigh_rows(Channels& results, const float* weights, const float* tile)
{
    weights += threadIdx.x / 8 * (K + 4);
    tile += threadIdx.x % 8 * 4;
    #pragma unroll 2
    for (int k = 0; k < K; k += 4) {
        float w[4][4];  // of the rows ty + 16 i, columns k …
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            float4 v = load4(weights + 16 * i * (K + 4) + k);
            w[i][0] = v.x, w[i][1] = v.y, w[i][2] = v.z, w[i][3] = v.w;
        }
        #pragma unroll
        for (int n = 0; n < 4; n++) {
            #pragma unroll
            for (int g = 0; g < GROUPS; g++) {
                float4 v = load4(tile + (k + n) * STRIDE + 32 * g);
                #pragma unroll
                for (int i = 0; i < 4; i++) {
                    results[i][g][0] += w[i][n] * v.x;
                    results[i][g][1] += w[i][n] * v.y;
                    results[i][g][2] += w[i][n] * v.z;
                    results[i][g][3] += w[i][n] * v.w;
                }
            }
        }
    }
}

// Writes the rows first + ty + 16 i below T, hs numbers of each, multiplied by factor[i].
__device__ void store_rows(float* to, const Channels& results, const float* factor, size_t stride, int first, int T,
                           int hs)
{
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        int row = first + threadIdx.x / 8 + 16 * i;
        #pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            int c = threadIdx.x % 8 * 4 + 32 * g;
            float v[4];
            #pragma unroll
            for (int n = 0; n < 4; n++) v[n] = results[i][g][n] * factor[i];
            if (row < T) store_some(to + row * stride + c, v, hs - c);
        }
    }
}

// Writes a thread's part of a tile (64, 8 COLUMNS) of weights.
template <int COLUMNS>
__device__ void store_weights(float* weights, const float (&values)[4][COLUMNS])
{
    int ty = threadIdx.x / 8, tx = threadIdx.x % 8;
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        #pragma unroll
        for (int j = 0; j < COLUMNS; j++) weights[(ty + 16 * i) * (8 * COLUMNS + 4) + tx + 8 * j] = values[i][j];
    }
}

// Turns scores (rows q0 + ty + 16 i, keys k0 + tx + 8 j) into probabilities relative to top[i]. It may grow: then what
// was summed up so far shrinks.
__device__ void online_softmax(float (&scores)[4][8], float (&top)[4], float (&total)[4], Channels& sums, int q0,
                               int k0, float scale)
{
    int ty = threadIdx.x / 8, tx = threadIdx.x % 8;
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        float higher = top[i];
        #pragma unroll
        for (int j = 0; j < 8; j++) {
            bool seen = k0 + tx + 8 * j <= q0 + ty + 16 * i;  // a query sees no later key
            scores[i][j] = seen ? scores[i][j] * scale : LOWEST;
            higher = fmaxf(higher, scores[i][j]);
        }
        higher = row_max(higher);
        float old = expf(top[i] - higher), more = 0.0f;
        top[i] = higher;
        #pragma unroll
        for (int j = 0; j < 8; j++) more += scores[i][j] = expf(scores[i][j] - higher);
        total[i] = total[i] * old + more;  // of this thread's keys; the eight are added at the end
        #pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            #pragma unroll
            for (int n = 0; n < 4; n++) sums[i][g][n] *= old;
        }
    }
}

// Turns scores and dp of queries q and keys k into p and ds; `scores` becomes p, dp becomes ds.
__device__ void softmax_backward(float& score, float& dp, int q, int k, int T, float lse, float mean, float scale)
{
    score = k <= q && q < T ? expf(score * scale - lse) : 0.0f;
    dp = score * (dp - mean) * scale;
}
