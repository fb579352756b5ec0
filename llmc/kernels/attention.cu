/* Causal attention: out = softmax(q kT / sqrt(hs)) v for each head, and its backward pass. No (T, T) array anywhere.

v1  one warp per query (in the backward pass also one per key), which reads all keys and values from memory for itself
v2  one block per tile of queries; keys and values come to shared memory tile by tile, results stay in registers

Both walk over the keys once and rescale their sums when a higher score turns up (online softmax: Milakov &
Gimelshein 2018; with tiles: FlashAttention, Dao et al. 2022). One number per query is kept for the backward pass, the
logarithm of the sum of exponentials: p = exp(score - stats) then needs no second softmax.

Shapes: qkv (B, T, 3C), a row is [q; k; v], each NH heads of hs; out, dout (B, T, C); stats, delta (B, NH, T).
Backward: p and dp = dout . v are computed again; ds = p (dp - delta) / sqrt(hs) with delta = dout . out; then
dq = ds k, dk = dsT q, dv = pT dout. dq sums over keys, dk and dv over queries: two kernels, so that every sum has one
owner and a fixed order. That makes two of the seven products more than one kernel would need, but no atomics.
*/

#ifndef HS
#define HS 64  // v2: head size, rounded up to a multiple of 32; llmc/kernels/attention.py defines it
#endif

const unsigned ALL = 0xffffffff;         // all 32 lanes of a warp take part
const float LOWEST = -3.402823466e+38f;  // where a maximum starts: finite, so that LOWEST - LOWEST is not NaN

__device__ float warp_sum(float v)
{
    for (int gap = 16; gap > 0; gap /= 2) v += __shfl_xor_sync(ALL, v, gap);
    return v;
}

// Sum of a[c] * b[c] over hs numbers, by one warp; every lane gets it.
__device__ float dot(const float* a, const float* b, int hs)
{
    float total = 0.0f;
    for (int c = threadIdx.x % 32; c < hs; c += 32) total += a[c] * b[c];
    return warp_sum(total);
}

// ------------------------------------------------------------------------------------------------- one warp a row

// One query and its n keys, by one warp: out (hs,) is where the sum grows. Returns log(sum of exponentials).
__device__ float attend(float* out, const float* q, const float* k, const float* v, size_t stride, int n, int hs)
{
    int lane = threadIdx.x % 32;
    float scale = rsqrtf((float)hs), top = LOWEST, total = 0.0f;
    for (int c = lane; c < hs; c += 32) out[c] = 0.0f;
    for (int i = 0; i < n; i++) {
        float score = dot(q, k + i * stride, hs) * scale;
        float higher = fmaxf(top, score), old = expf(top - higher), p = expf(score - higher);
        for (int c = lane; c < hs; c += 32) out[c] = out[c] * old + p * v[i * stride + c];
        total = total * old + p;
        top = higher;
    }
    for (int c = lane; c < hs; c += 32) out[c] /= total;
    return top + logf(total);
}

// Grid: T queries in x, four to a block of four warps; B * NH in y.
extern "C" __global__ void attention_forward_v1(float* out, float* stats, const float* qkv, int T, int NH, int hs)
{
    int t = blockIdx.x * 4 + threadIdx.x / 32, b = blockIdx.y / NH, h = blockIdx.y % NH, C = NH * hs;
    if (t >= T) return;  // a whole warp leaves
    const float* keys = qkv + (size_t)b * T * 3 * C + C + h * hs;
    const float* query = keys - C + (size_t)t * 3 * C;
    float* row = out + ((size_t)b * T + t) * C + h * hs;
    float sum = attend(row, query, keys, keys + C, 3 * C, t + 1, hs);
    if (threadIdx.x % 32 == 0) stats[(size_t)blockIdx.y * T + t] = sum;
}

// delta[b, h, t] = dout . out of that head. Grid and block as above.
extern "C" __global__ void attention_backward_delta_v1(float* delta, const float* dout, const float* out, int T, int NH,
                                                       int hs)
{
    int t = blockIdx.x * 4 + threadIdx.x / 32, b = blockIdx.y / NH, h = blockIdx.y % NH, C = NH * hs;
    if (t >= T) return;
    size_t row = ((size_t)b * T + t) * C + h * hs;
    float total = dot(dout + row, out + row, hs);
    if (threadIdx.x % 32 == 0) delta[(size_t)blockIdx.y * T + t] = total;
}

extern "C" __global__ void attention_backward_query_v1(float* dqkv, const float* dout, const float* stats,
                                                       const float* delta, const float* qkv, int T, int NH, int hs)
{
    int t = blockIdx.x * 4 + threadIdx.x / 32, b = blockIdx.y / NH, h = blockIdx.y % NH, C = NH * hs;
    if (t >= T) return;
    size_t head = (size_t)b * T * 3 * C + h * hs;  // where this head's first query begins in qkv and in dqkv
    const float *q = qkv + head + (size_t)t * 3 * C, *d = dout + ((size_t)b * T + t) * C + h * hs;
    float* dq = dqkv + head + (size_t)t * 3 * C;
    float lse = stats[(size_t)blockIdx.y * T + t], mean = delta[(size_t)blockIdx.y * T + t];
    float scale = rsqrtf((float)hs);
    for (int c = threadIdx.x % 32; c < hs; c += 32) dq[c] = 0.0f;
    for (int i = 0; i <= t; i++) {
        const float *k = qkv + head + (size_t)i * 3 * C + C, *v = k + C;
        float p = expf(dot(q, k, hs) * scale - lse), ds = p * (dot(d, v, hs) - mean) * scale;
        for (int c = threadIdx.x % 32; c < hs; c += 32) dq[c] += ds * k[c];
    }
}

extern "C" __global__ void attention_backward_key_v1(float* dqkv, const float* dout, const float* stats,
                                                     const float* delta, const float* qkv, int T, int NH, int hs)
{
    int i = blockIdx.x * 4 + threadIdx.x / 32, b = blockIdx.y / NH, h = blockIdx.y % NH, C = NH * hs;
    if (i >= T) return;
    size_t head = (size_t)b * T * 3 * C + h * hs;
    const float *k = qkv + head + (size_t)i * 3 * C + C, *v = k + C;
    float *dk = dqkv + head + (size_t)i * 3 * C + C, *dv = dk + C;
    float scale = rsqrtf((float)hs);
    for (int c = threadIdx.x % 32; c < hs; c += 32) dk[c] = dv[c] = 0.0f;
    for (int t = i; t < T; t++) {  // the queries that see this key
        const float *q = qkv + head + (size_t)t * 3 * C, *d = dout + ((size_t)b * T + t) * C + h * hs;
        size_t query = (size_t)blockIdx.y * T + t;
        float p = expf(dot(q, k, hs) * scale - stats[query]), ds = p * (dot(d, v, hs) - delta[query]) * scale;
        for (int c = threadIdx.x % 32; c < hs; c += 32) {
            dv[c] += p * d[c];
            dk[c] += ds * q[c];
        }
    }
}

// ------------------------------------------------------------------------------------------------- with a cache

// Copies keys and values of n new positions to where they belong in cache (2, B, NH, maxT, hs). One thread per number.
extern "C" __global__ void attention_cached_keep_v1(float* cache, const float* qkv, int B, int n, int NH, int hs,
                                                    const int* start, int maxT)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, C = NH * hs;
    if (i >= B * n * 2 * C) return;
    int c = i % C, part = i / C % 2, row = i / (2 * C), b = row / n, t = row % n;  // row of qkv: b, t
    size_t head = ((size_t)part * B + b) * NH + c / hs;
    cache[(head * maxT + *start + t) * hs + c % hs] = qkv[(size_t)row * 3 * C + (1 + part) * C + c];
}

// Grid: n queries in x, four to a block of four warps; B * NH in y.
extern "C" __global__ void attention_cached_v1(float* out, const float* cache, const float* qkv, int B, int n, int NH,
                                               int hs, const int* start, int maxT)
{
    int t = blockIdx.x * 4 + threadIdx.x / 32, b = blockIdx.y / NH, h = blockIdx.y % NH, C = NH * hs;
    if (t >= n) return;
    const float* keys = cache + (size_t)blockIdx.y * maxT * hs;
    const float* values = keys + (size_t)B * NH * maxT * hs;
    const float* query = qkv + ((size_t)b * n + t) * 3 * C + h * hs;
    attend(out + ((size_t)b * n + t) * C + h * hs, query, keys, values, hs, *start + t + 1, hs);
}

// -------------------------------------------------------------------------------------------------------- tiles
// A block has 16 x 8 threads (ty, tx). Of a tile of results, a thread has the rows ty + 16 i and the columns tx + 8 j.
// Rows in shared memory are 4 numbers longer than they hold: eight threads that read eight rows then find them in
// different banks. The eight threads of one ty are neighbours in a warp, so rows are reduced by shuffles.

const int THREADS = 128;
const int BIG = 64, SMALL = 32;      // rows of a tile
const int STRIDE = HS + 4;           // numbers from row to row of a tile of queries, keys or values
const int GROUPS = HS / 32;          // groups of four channels that a thread has: 4 tx + 32 g
typedef float Channels[4][GROUPS][4];  // a thread's results: rows ty + 16 i, channels 4 tx + 32 g + c

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

// Sum, maximum over the eight threads that share a row.
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

// Grid: B * NH in x, tiles of 64 queries in y, the longest first. Shared memory: 3 tiles of 64 rows; the second must
// have room for 64 x 68 weights. At most 168 registers a thread, so that three blocks share a multiprocessor.
extern "C" __global__ void __launch_bounds__(128, 3) attention_forward_v2(float* out, float* stats, const float* qkv,
                                                                          int T, int NH, int hs)
{
    extern __shared__ __align__(16) float shared[];
    const int middle = BIG * (STRIDE > BIG + 4 ? STRIDE : BIG + 4);
    float *queries = shared, *keys = queries + BIG * STRIDE, *values = keys + middle;
    float* weights = keys;  // the keys are not needed once the scores are there
    int b = blockIdx.x / NH, h = blockIdx.x % NH, C = NH * hs, q0 = (gridDim.y - 1 - blockIdx.y) * BIG;
    const float* head = qkv + (size_t)b * T * 3 * C + h * hs;
    float top[4] = {LOWEST, LOWEST, LOWEST, LOWEST}, total[4] = {}, scale = rsqrtf((float)hs);
    Channels sums = {};

    load_tile<BIG>(queries, head, 3 * C, q0, T, hs);
    for (int k0 = 0; k0 <= q0; k0 += BIG) {
        __syncthreads();  // all threads are done with the tiles of the round before
        load_tile<BIG>(keys, head + C, 3 * C, k0, T, hs);
        load_tile<BIG>(values, head + 2 * C, 3 * C, k0, T, hs);
        __syncthreads();
        float scores[4][8];
        dot_rows(scores, queries, keys);
        online_softmax(scores, top, total, sums, q0, k0, scale);
        __syncthreads();  // all threads have read the keys
        store_weights(weights, scores);
        __syncwarp();  // a row of weights is written and read by the same warp
        weigh_rows<BIG>(sums, weights, values);
    }
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        int t = q0 + threadIdx.x / 8 + 16 * i;
        total[i] = row_sum(total[i]);
        if (threadIdx.x % 8 == 0 && t < T) stats[(size_t)blockIdx.x * T + t] = top[i] + logf(total[i]);
        total[i] = 1.0f / total[i];
    }
    store_rows(out + (size_t)b * T * C + h * hs, sums, total, C, q0, T, hs);
}

// Turns scores and dp of queries q and keys k into p and ds; `scores` becomes p, dp becomes ds.
__device__ void softmax_backward(float& score, float& dp, int q, int k, int T, float lse, float mean, float scale)
{
    score = k <= q && q < T ? expf(score * scale - lse) : 0.0f;
    dp = score * (dp - mean) * scale;
}

// dq, a block per tile of 64 queries, longest first; keys and values come 32 at a time. Grid as above.
extern "C" __global__ void __launch_bounds__(128) attention_backward_query_v2(float* dqkv, const float* dout,
                                                                              const float* stats, const float* delta,
                                                                              const float* qkv, int T, int NH, int hs)
{
    extern __shared__ __align__(16) float shared[];
    float *queries = shared, *douts = queries + BIG * STRIDE, *keys = douts + BIG * STRIDE;
    float *values = keys + SMALL * STRIDE, *weights = values;  // the values are not needed once dp is there
    int b = blockIdx.x / NH, h = blockIdx.x % NH, C = NH * hs, q0 = (gridDim.y - 1 - blockIdx.y) * BIG;
    int ty = threadIdx.x / 8, tx = threadIdx.x % 8;
    const float* head = qkv + (size_t)b * T * 3 * C + h * hs;
    float lse[4], mean[4], ones[4] = {1.0f, 1.0f, 1.0f, 1.0f}, scale = rsqrtf((float)hs);
    Channels dq = {};

    load_tile<BIG>(queries, head, 3 * C, q0, T, hs);
    load_tile<BIG>(douts, dout + (size_t)b * T * C + h * hs, C, q0, T, hs);
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        int t = q0 + ty + 16 * i;
        lse[i] = t < T ? stats[(size_t)blockIdx.x * T + t] : 0.0f;
        mean[i] = t < T ? delta[(size_t)blockIdx.x * T + t] : 0.0f;
    }
    for (int k0 = 0; k0 < q0 + BIG && k0 < T; k0 += SMALL) {
        __syncthreads();
        load_tile<SMALL>(keys, head + C, 3 * C, k0, T, hs);
        load_tile<SMALL>(values, head + 2 * C, 3 * C, k0, T, hs);
        __syncthreads();
        float p[4][4], ds[4][4];
        dot_rows(p, queries, keys);
        dot_rows(ds, douts, values);
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            #pragma unroll
            for (int j = 0; j < 4; j++) {
                softmax_backward(p[i][j], ds[i][j], q0 + ty + 16 * i, k0 + tx + 8 * j, T, lse[i], mean[i], scale);
            }
        }
        __syncthreads();  // all threads have read the values
        store_weights(weights, ds);
        __syncwarp();
        weigh_rows<SMALL>(dq, weights, keys);
    }
    store_rows(dqkv + (size_t)b * T * 3 * C + h * hs, dq, ones, 3 * C, q0, T, hs);
}

// dk and dv, a block per tile of 64 keys; the queries that see them come 32 at a time. The first tile has most of them.
extern "C" __global__ void __launch_bounds__(128) attention_backward_key_v2(float* dqkv, const float* dout,
                                                                            const float* stats, const float* delta,
                                                                            const float* qkv, int T, int NH, int hs)
{
    extern __shared__ __align__(16) float shared[];
    float *keys = shared, *values = keys + BIG * STRIDE, *queries = values + BIG * STRIDE;
    float *douts = queries + SMALL * STRIDE, *weights = douts + SMALL * STRIDE;
    int b = blockIdx.x / NH, h = blockIdx.x % NH, C = NH * hs, k0 = blockIdx.y * BIG;
    int ty = threadIdx.x / 8, tx = threadIdx.x % 8;
    const float* head = qkv + (size_t)b * T * 3 * C + h * hs;
    float ones[4] = {1.0f, 1.0f, 1.0f, 1.0f}, scale = rsqrtf((float)hs);
    Channels dk = {}, dv = {};

    load_tile<BIG>(keys, head + C, 3 * C, k0, T, hs);
    load_tile<BIG>(values, head + 2 * C, 3 * C, k0, T, hs);
    for (int q0 = k0; q0 < T; q0 += SMALL) {
        __syncthreads();
        load_tile<SMALL>(queries, head, 3 * C, q0, T, hs);
        load_tile<SMALL>(douts, dout + (size_t)b * T * C + h * hs, C, q0, T, hs);
        __syncthreads();
        float p[4][4], ds[4][4];  // transposed: rows are keys, columns queries
        dot_rows(p, keys, queries);
        dot_rows(ds, values, douts);
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            int t = q0 + tx + 8 * j;
            float lse = t < T ? stats[(size_t)blockIdx.x * T + t] : 0.0f;
            float mean = t < T ? delta[(size_t)blockIdx.x * T + t] : 0.0f;
            #pragma unroll
            for (int i = 0; i < 4; i++) {
                softmax_backward(p[i][j], ds[i][j], t, k0 + ty + 16 * i, T, lse, mean, scale);
            }
        }
        store_weights(weights, p);
        __syncwarp();
        weigh_rows<SMALL>(dv, weights, douts);
        __syncwarp();  // the warp has read p before ds takes its place
        store_weights(weights, ds);
        __syncwarp();
        weigh_rows<SMALL>(dk, weights, queries);
    }
    float* to = dqkv + (size_t)b * T * 3 * C + h * hs;
    store_rows(to + C, dk, ones, 3 * C, k0, T, hs);
    store_rows(to + 2 * C, dv, ones, 3 * C, k0, T, hs);
}
