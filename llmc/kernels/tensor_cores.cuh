// The products of attention, made of those of warp_products.cuh, which must be included before.
//
// The order of the eight numbers that an instruction sums up is free, as long as a and b agree on it:
//     dot_rows    a lane takes four neighbours in memory, one 16-byte load, and uses two of them in each of two steps
//     weigh_rows  number j is row 2 j of b, number j + 4 is row 2 j + 1: then d of one product is a of the next, in
//                 the same registers
//
// HS, EXACT, ROWS and M come from the file that includes this one. A warp owns 16 M of its block's ROWS rows.

const float LOG2E = 1.4426950408889634f;  // exp(x) = exp2(x LOG2E)
const unsigned ALL = 0xffffffff;          // all 32 lanes of a warp take part
const int OWN = 16 * M, THREADS = ROWS / OWN * 32;
const int STRIDE = HS + 4;  // numbers from row to row of a tile in shared memory: no bank conflicts in either use
const int FOURS = HS / 16;  // 16 bytes of a row that a lane holds
typedef float Rows[M][2][FOURS][4];  // rows 16 m + 8 n + r, channels four_of(c) …
typedef float Sums[M][HS / 8][4];    // d, (16 M, HS)

// Where this lane's c-th four channels begin.
__device__ int four_of(int c)
{
    return 8 * j_of_lane() + 4 * (c % 2) + 32 * (c / 2);
}

// A warp's rows first … of a matrix with T rows of hs numbers, `stride` apart; zero outside.
__device__ void load_rows(Rows& rows, const float* from, int stride, int first, int T, int hs)
{
    #pragma unroll
    for (int i = 0; i < 2 * M; i++) {
        int t = first + 8 * i + r_of_lane();
        #pragma unroll
        for (int c = 0; c < FOURS; c++) {  // all loads are requested before one is used
            bool there = t < T && four_of(c) < hs;
            float4 v = *reinterpret_cast<const float4*>(from + (there ? (size_t)t * stride + four_of(c) : 0));
            float(&four)[4] = rows[i / 2][i % 2][c];
            four[0] = there ? v.x : 0.0f, four[1] = there ? v.y : 0.0f;
            four[2] = there ? v.z : 0.0f, four[3] = there ? v.w : 0.0f;
        }
    }
}

template <int N>
__device__ void set_zero(float (&results)[M][N][4])
{
    #pragma unroll
    for (int i = 0; i < M * N * 4; i++) results[i / 4 / N][i / 4 % N][i % 4] = 0.0f;
}

// results (16 M, 8 N) = rows (16 M, HS) tileT, tile (8 N, HS).
template <int N>
__device__ void dot_rows(float (&results)[M][N][4], const Rows& rows, const float* tile)
{
    tile += r_of_lane() * STRIDE;
    set_zero(results);
    #pragma unroll
    for (int c = 0; c < FOURS; c++) {
        A a[M][2];
        #pragma unroll
        for (int m = 0; m < M; m++) {
            const float(&top)[4] = rows[m][0][c], (&low)[4] = rows[m][1][c];
            a[m][0] = factor_a(top[0], low[0], top[1], low[1]);
            a[m][1] = factor_a(top[2], low[2], top[3], low[3]);
        }
        #pragma unroll
        for (int n = 0; n < N; n++) {
            float4 v = *reinterpret_cast<const float4*>(tile + 8 * n * STRIDE + four_of(c));
            B b[2] = {factor_b(v.x, v.y), factor_b(v.z, v.w)};
            #pragma unroll
            for (int m = 0; m < M; m++) {
                multiply(results[m][n], a[m][0], b[0]);
                multiply(results[m][n], a[m][1], b[1]);
            }
        }
    }
}

// results (16 M, 8 N) = a bT, a (16 M, HS) and b (8 N, HS) both in shared memory.
template <int N>
__device__ void dot_tiles(float (&results)[M][N][4], const float* a, const float* b)
{
    a += r_of_lane() * STRIDE + j_of_lane();
    b += r_of_lane() * STRIDE + j_of_lane();
    set_zero(results);
    #pragma unroll
    for (int c = 0; c < HS; c += 8) {
        A x[M];
        #pragma unroll
        for (int m = 0; m < M; m++) {
            const float *top = a + 16 * m * STRIDE + c, *low = top + 8 * STRIDE;
            x[m] = factor_a(top[0], low[0], top[4], low[4]);
        }
        #pragma unroll
        for (int n = 0; n < N; n++) {
            B y = factor_b(b[8 * n * STRIDE + c], b[8 * n * STRIDE + c + 4]);
            #pragma unroll
            for (int m = 0; m < M; m++) multiply(results[m][n], x[m], y);
        }
    }
}

// sums (16 M, HS) += weights (16 M, 8 N) tile (8 N, HS); the weights are results of dot_rows. Tensor cores cut what they
// add, so that a long sum drifts: for float32 the sum of these 8 N is made first, and added to `sums` as usual.
template <int N>
__device__ void weigh_rows(Sums& sums, const float (&weights)[M][N][4], const float* tile)
{
    tile += 2 * j_of_lane() * STRIDE + r_of_lane();
    Sums more;
    if (EXACT) set_zero(more);
    Sums& target = EXACT ? more : sums;
    #pragma unroll
    for (int n = 0; n < N; n++) {
        A a[M];
        #pragma unroll
        for (int m = 0; m < M; m++) {
            const float(&w)[4] = weights[m][n];
            a[m] = factor_a(w[0], w[2], w[1], w[3]);
        }
        #pragma unroll
        for (int c = 0; c < HS / 8; c++) {
            B b = factor_b(tile[8 * n * STRIDE + 8 * c], tile[(8 * n + 1) * STRIDE + 8 * c]);
            #pragma unroll
            for (int m = 0; m < M; m++) multiply(target[m][c], a[m], b);
        }
    }
    #pragma unroll
    for (int i = 0; i < M * HS / 2 && EXACT; i++) {
        sums[i / (HS / 2)][i / 4 % (HS / 8)][i % 4] += more[i / (HS / 2)][i / 4 % (HS / 8)][i % 4];
    }
}

// Writes a warp's rows first … that are below T, hs numbers of each, row 16 m + 8 n + r multiplied by factor[m][n].
__device__ void store_sums(float* to, const Sums& sums, const float (&factor)[M][2], size_t stride, int first, int T,
                           int hs)
{
    #pragma unroll
    for (int i = 0; i < 2 * M; i++) {
        int m = i / 2, n = i % 2, t = first + 8 * i + r_of_lane();
        #pragma unroll
        for (int c = 0; c < HS / 8; c++) {
            int channel = 8 * c + 2 * j_of_lane();
            float2 v = make_float2(sums[m][c][2 * n] * factor[m][n], sums[m][c][2 * n + 1] * factor[m][n]);
            if (t < T && channel < hs) *reinterpret_cast<float2*>(to + t * stride + channel) = v;
        }
    }
}

// Sum, maximum over the four lanes that share a row.
__device__ float row_sum(float v)
{
    v += __shfl_xor_sync(ALL, v, 1);
    return v + __shfl_xor_sync(ALL, v, 2);
}

__device__ float row_max(float v)
{
    v = fmaxf(v, __shfl_xor_sync(ALL, v, 1));
    return fmaxf(v, __shfl_xor_sync(ALL, v, 2));
}

// 2^x for x <= 0 to 2 bits of float32, in one instruction; 0 below 2^-126.
__device__ float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
