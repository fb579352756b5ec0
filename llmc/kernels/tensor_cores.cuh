// Products on tensor cores in TF32: factors rounded to 10 bits of mantissa, sums in float32. Since Ampere.
//
// One instruction of a warp computes d (16, 8) += a (16, 8) b (8, 8). Lane 4 r + j (r < 8, j < 4) holds
//     a: [r][j], [r + 8][j], [r][j + 4], [r + 8][j + 4]      b: [j][r], [j + 4][r]
//     d: [r][2 j], [r][2 j + 1], [r + 8][2 j], [r + 8][2 j + 1]
// The order of the eight numbers that are summed up is free, as long as a and b agree on it, and so is that of the
// columns of b and d. Here it is chosen so that a lane's numbers are neighbours in memory, one 16-byte load:
//     rows_of    b is a tile transposed, b[k][n] = tile[n][k], as in q kT. Two steps of 8 take 4 neighbours of a lane.
//     columns_of b is a tile as it is, as in p v. The row of step j is 2 j, that of j + 4 is 2 j + 1: then d of one
//                product is a of the next, in the same registers.

const float LOG2E = 1.4426950408889634f;  // exp(x) = exp2(x LOG2E)
const unsigned ALL = 0xffffffff;          // all 32 lanes of a warp take part
const int THREADS = 128;
const int STRIDE = HS + 4;    // numbers from row to row of a tile in shared memory: no bank conflicts in either use
const int FOURS = HS / 16;    // 16 bytes of a row that a lane holds
typedef float Rows[2][2][FOURS][4];  // factor a, (32, HS): rows 16 m + 8 n + r, channels four_of(c) …
typedef float Sums[2][HS / 8][4];    // d, (32, HS)

__device__ int r_of_lane()
{
    return threadIdx.x % 32 / 4;
}

__device__ int j_of_lane()
{
    return threadIdx.x % 4;
}

// Where this lane's c-th four channels begin.
__device__ int four_of(int c)
{
    return 8 * j_of_lane() + 4 * (c % 2) + 32 * (c / 2);
}

// Rounded to the nearest; not left to the product, which would cut.
__device__ float to_tf32(float x)
{
#if __CUDA_ARCH__ >= 900
    unsigned rounded;  // one instruction since Hopper, four before
    asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
    return __uint_as_float(rounded);
#elif __CUDA_ARCH__ >= 800
    unsigned rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
    return __uint_as_float(rounded);
#else
    return x;
#endif
}

__device__ void multiply(float (&d)[4], float a0, float a1, float a2, float a3, float b0, float b1)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(__float_as_uint(a0)), "r"(__float_as_uint(a1)), "r"(__float_as_uint(a2)), "r"(__float_as_uint(a3)),
          "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)));
#endif
}

// Four neighbours, rounded to TF32.
__device__ void load_rounded(float (&to)[4], const float* p)
{
    float4 v = *reinterpret_cast<const float4*>(p);
    to[0] = to_tf32(v.x), to[1] = to_tf32(v.y), to[2] = to_tf32(v.z), to[3] = to_tf32(v.w);
}

// A warp's 32 rows first … of a matrix with T rows of hs numbers, `stride` apart; zero outside.
__device__ void load_rows(Rows& rows, const float* from, int stride, int first, int T, int hs)
{
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        int t = first + 8 * i + r_of_lane();
        #pragma unroll
        for (int c = 0; c < FOURS; c++) {
            float(&four)[4] = rows[i / 2][i % 2][c];
            if (t < T && four_of(c) < hs) {
                load_rounded(four, from + (size_t)t * stride + four_of(c));
            } else {
                four[0] = four[1] = four[2] = four[3] = 0.0f;
            }
        }
    }
}

// results (32, 8 N) = rows (32, HS) tileT, tile (8 N, HS).
template <int N>
__device__ void dot_rows(float (&results)[2][N][4], const Rows& rows, const float* tile)
{
    tile += r_of_lane() * STRIDE;
    #pragma unroll
    for (int m = 0; m < 2; m++) {
        #pragma unroll
        for (int i = 0; i < 4 * N; i++) results[m][i / 4][i % 4] = 0.0f;
    }
    #pragma unroll
    for (int c = 0; c < FOURS; c++) {
        #pragma unroll
        for (int n = 0; n < N; n++) {
            float b[4];
            load_rounded(b, tile + 8 * n * STRIDE + four_of(c));
            #pragma unroll
            for (int m = 0; m < 2; m++) {
                const float(&a)[2][FOURS][4] = rows[m];
                multiply(results[m][n], a[0][c][0], a[1][c][0], a[0][c][1], a[1][c][1], b[0], b[1]);
                multiply(results[m][n], a[0][c][2], a[1][c][2], a[0][c][3], a[1][c][3], b[2], b[3]);
            }
        }
    }
}

// results (32, 8 N) = a bT, a (32, HS) and b (8 N, HS) both in shared memory.
template <int N>
__device__ void dot_tiles(float (&results)[2][N][4], const float* a, const float* b)
{
    a += r_of_lane() * STRIDE + j_of_lane();
    b += r_of_lane() * STRIDE + j_of_lane();
    #pragma unroll
    for (int m = 0; m < 2; m++) {
        #pragma unroll
        for (int i = 0; i < 4 * N; i++) results[m][i / 4][i % 4] = 0.0f;
    }
    #pragma unroll
    for (int c = 0; c < HS; c += 8) {
        float x[2][4];
        #pragma unroll
        for (int i = 0; i < 8; i++) x[i / 4][i % 4] = to_tf32(a[(16 * (i / 4) + 8 * (i % 2)) * STRIDE + c + 4 * (i % 4 / 2)]);
        #pragma unroll
        for (int n = 0; n < N; n++) {
            float b0 = to_tf32(b[8 * n * STRIDE + c]), b1 = to_tf32(b[8 * n * STRIDE + c + 4]);
            #pragma unroll
            for (int m = 0; m < 2; m++) multiply(results[m][n], x[m][0], x[m][1], x[m][2], x[m][3], b0, b1);
        }
    }
}

// sums (32, HS) += weights (32, 8 N) tile (8 N, HS); the weights are results of dot_rows, not yet rounded.
template <int N>
__device__ void weigh_rows(Sums& sums, const float (&weights)[2][N][4], const float* tile)
{
    tile += 2 * j_of_lane() * STRIDE + r_of_lane();
    #pragma unroll
    for (int n = 0; n < N; n++) {
        float a[2][4];
        #pragma unroll
        for (int i = 0; i < 8; i++) a[i / 4][i % 4] = to_tf32(weights[i / 4][n][i % 4]);
        #pragma unroll
        for (int c = 0; c < HS / 8; c++) {
            float b0 = to_tf32(tile[8 * n * STRIDE + 8 * c]), b1 = to_tf32(tile[(8 * n + 1) * STRIDE + 8 * c]);
            #pragma unroll
            for (int m = 0; m < 2; m++) multiply(sums[m][c], a[m][0], a[m][2], a[m][1], a[m][3], b0, b1);
        }
    }
}

// Writes a warp's 32 rows first … that are below T, hs numbers of each, row 16 m + 8 n + r multiplied by factor[m][n].
__device__ void store_sums(float* to, const Sums& sums, const float (&factor)[2][2], size_t stride, int first, int T,
                           int hs)
{
    #pragma unroll
    for (int i = 0; i < 4; i++) {
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
