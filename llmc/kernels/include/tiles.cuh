// Tiles of 128 rows in shared memory, for blocks of 128 threads, and products of them with 8 x 8 numbers a thread.
// HS, a multiple of 32, is the head size rounded up; a row of a tile is STRIDE numbers from the next.
//
// Each of the four warps owns 32 rows of the block's 128. Of a tile of results, a thread has the rows row() + 4 i and
// the columns column() + 8 j; eight neighbouring lanes share a row. In one cycle shared memory gives a multiprocessor
// 32 numbers, and its units do 128 multiply-adds: a number must be used four times to keep them busy, and here it is.

#include "warp.cuh"

const int THREADS = 128, BIG = 128;
const int STRIDE = HS + 4;             // eight rows, 16 bytes of each, then lie in different banks
const int GROUPS = HS / 32;            // groups of four channels that a thread has: 4 column() + 32 g
typedef float Channels[8][GROUPS][4];  // a thread's results: rows row() + 4 i, channels 4 column() + 32 g + c

__device__ int row()
{
    return threadIdx.x / 32 * 32 + threadIdx.x % 32 / 8;
}

__device__ int column()
{
    return threadIdx.x % 8;
}

// Sum and maximum over the eight lanes that share a row.
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

// results[i][j] = a[row() + 4 i] . b[column() + 8 j], both tiles with rows of HS numbers.
template <int COLUMNS>
__device__ void dot_rows(float (&results)[8][COLUMNS], const float* a, const float* b)
{
    a += row() * STRIDE;
    b += column() * STRIDE;
    #pragma unroll
    for (int i = 0; i < 8; i++) {
        #pragma unroll
        for (int j = 0; j < COLUMNS; j++) results[i][j] = 0.0f;
    }
    #pragma unroll 2
    for (int c = 0; c < HS; c += 4) {
        float4 y[COLUMNS];
        #pragma unroll
        for (int j = 0; j < COLUMNS; j++) y[j] = load4(b + 8 * j * STRIDE + c);
        #pragma unroll
        for (int i = 0; i < 8; i++) {
            float4 x = load4(a + 4 * i * STRIDE + c);
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

// results += weights (128, K) tile (K, HS); the rows of weights are K + 8 apart.
template <int K>
__device__ void weigh_rows(Channels& results, const float* weights, const float* tile)
{
    weights += row() * (K + 8);
    tile += 4 * column();
    #pragma unroll 1
    for (int k = 0; k < K; k += 4) {
        float4 v[4][GROUPS];  // of the rows k + n
        #pragma unroll
        for (int n = 0; n < 4; n++) {
            #pragma unroll
            for (int g = 0; g < GROUPS; g++) v[n][g] = load4(tile + (k + n) * STRIDE + 32 * g);
        }
        #pragma unroll
        for (int i = 0; i < 8; i++) {
            float4 four = load4(weights + 4 * i * (K + 8) + k);
            float w[4] = {four.x, four.y, four.z, four.w};
            #pragma unroll
            for (int n = 0; n < 4; n++) {
                #pragma unroll
                for (int g = 0; g < GROUPS; g++) {
                    results[i][g][0] += w[n] * v[n][g].x;
                    results[i][g][1] += w[n] * v[n][g].y;
                    results[i][g][2] += w[n] * v[n][g].z;
                    results[i][g][3] += w[n] * v[n][g].w;
                }
            }
        }
    }
}

// Writes a thread's part of a tile (128, 8 COLUMNS) of weights. Four rows, eight columns of each: 32 different banks.
template <int COLUMNS>
__device__ void store_weights(float* weights, const float (&values)[8][COLUMNS])
{
    #pragma unroll
    for (int i = 0; i < 8; i++) {
        #pragma unroll
        for (int j = 0; j < COLUMNS; j++) weights[(row() + 4 * i) * (8 * COLUMNS + 8) + column() + 8 * j] = values[i][j];
    }
}

// Writes the rows first + row() + 4 i below T, hs numbers of each, multiplied by factor[i].
__device__ void store_rows(float* to, const Channels& results, const float (&factor)[8], size_t stride, int first,
                           int T, int hs)
{
    #pragma unroll
    for (int i = 0; i < 8; i++) {
        int t = first + row() + 4 * i;
        #pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            int c = 4 * column() + 32 * g;
            const float* v = results[i][g];
            float4 four = make_float4(v[0] * factor[i], v[1] * factor[i], v[2] * factor[i], v[3] * factor[i]);
            if (t < T && c < hs) *reinterpret_cast<float4*>(to + t * stride + c) = four;
        }
    }
}
