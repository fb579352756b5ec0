// The products of attention, built from those of warp_products.cuh; lanes.cuh, it and warp_rows.cuh come before.
//
// The order of the eight numbers that an instruction sums up is free, as long as a and b agree on it:
//     dot_rows    a lane takes four neighbours in memory, one 16-byte load, and uses two of them in each of two steps
//     weigh_rows  number j is row 2 j of b, number j + 4 is row 2 j + 1: then d of one product is a of the next, in
//                 the same registers
//
// HS, EXACT, ROWS and M come from the file that includes this one. A warp owns 16 M of its block's ROWS rows. Reading
// from shared memory costs these kernels most: with M = 2 each number that comes from there is used twice.

const int OWN = 16 * M, THREADS = ROWS / OWN * 32;
const int STRIDE = HS + 4;         // from row to row of a tile in shared memory: no bank conflicts in either use
const int FOURS = HS / 16;         // 16 bytes of a row that a lane holds
typedef float Sums[M][HS / 8][4];  // d, (16 M, HS)

// Where this lane's c-th four channels begin.
__device__ int four_of(int c)
{
    return 8 * j_of_lane() + 4 * (c % 2) + 32 * (c / 2);
}

// What a lane needs of its warp's rows, 2 M FOURS times four numbers: in registers or, where those are full, in shared
// memory, ROWS HS numbers of a block, which no other lane looks at. Four numbers are a factor a: [(m FOURS + c) 2 + s]
// has rows 16 m + r and 16 m + r + 8 in turns, channels four_of(c) + 2 s and the next.
template <bool SHARED>
struct Rows {
    float4 fours[2 * M * FOURS];

    __device__ explicit Rows(float*) {}
    __device__ float4& operator[](int i) { return fours[i]; }
};

template <>
struct Rows<true> {
    float4* fours;

    __device__ explicit Rows(float* place) : fours(reinterpret_cast<float4*>(place) + threadIdx.x) {}
    __device__ float4& operator[](int i) { return fours[i * THREADS]; }
};

__device__ float4 load4(const float* p)
{
    return *reinterpret_cast<const float4*>(p);
}

// Four numbers as they are kept in Rows; zeros if they are not there.
__device__ float4 kept(float4 v, bool there)
{
    if (!there) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    return EXACT ? v : make_float4(to_tf32(v.x), to_tf32(v.y), to_tf32(v.z), to_tf32(v.w));
}

// A warp's rows first … of a matrix with T rows of hs numbers, `stride` apart; zero outside. They are used again and
// again: without EXACT they are rounded here, once.
template <bool SHARED>
__device__ void load_rows(Rows<SHARED>& rows, const float* from, int stride, int first, int T, int hs)
{
    float4 fours[M * FOURS][2];
    #pragma unroll
    for (int i = 0; i < 2 * M * FOURS; i++) {  // all loads are requested before one is used
        int t = first + i / 2 / FOURS * 16 + i % 2 * 8 + r_of_lane(), c = four_of(i / 2 % FOURS);
        fours[i / 2][i % 2] = load4(from + (t < T && c < hs ? (size_t)t * stride + c : 0));
    }
    #pragma unroll
    for (int i = 0; i < M * FOURS; i++) {
        int t = first + i / FOURS * 16 + r_of_lane(), c = four_of(i % FOURS);
        float4 top = kept(fours[i][0], t < T && c < hs), low = kept(fours[i][1], t + 8 < T && c < hs);
        rows[2 * i] = make_float4(top.x, low.x, top.y, low.y);
        rows[2 * i + 1] = make_float4(top.z, low.z, top.w, low.w);
    }
}

// Four numbers of Rows as a factor.
__device__ A own_factor(float4 v)
{
    if (EXACT) return factor_a(v.x, v.y, v.z, v.w);
    return {{v.x, v.y, v.z, v.w}, {}};
}

// d[m][n] += a[m] b[n]. A product takes some 20 cycles: those that add to the same numbers are kept apart.
template <int N>
__device__ void multiply(float (&d)[M][N][4], const A (&a)[M], const B (&b)[N])
{
    #pragma unroll
    for (int i = 0; i < M * N && EXACT; i++) multiply_tf32(d[i % M][i / M], a[i % M].small, b[i / M].big);
    #pragma unroll
    for (int i = 0; i < M * N && EXACT; i++) multiply_tf32(d[i % M][i / M], a[i % M].big, b[i / M].small);
    #pragma unroll
    for (int i = 0; i < M * N; i++) multiply_tf32(d[i % M][i / M], a[i % M].big, b[i / M].big);
}

// results (16 M, 8 N) = rows (16 M, HS) tileT, tile (8 N, HS).
template <int N, bool SHARED>
__device__ void dot_rows(float (&results)[M][N][4], Rows<SHARED>& rows, const float* tile)
{
    tile += r_of_lane() * STRIDE;
    set_zero(results);
    #pragma unroll
    for (int c = 0; c < FOURS; c++) {
        float4 four[N];
        #pragma unroll
        for (int n = 0; n < N; n++) four[n] = load4(tile + 8 * n * STRIDE + four_of(c));
        #pragma unroll
        for (int s = 0; s < 2; s++) {
            A a[M];
            B b[N];
            #pragma unroll
            for (int m = 0; m < M; m++) a[m] = own_factor(rows[(m * FOURS + c) * 2 + s]);
            #pragma unroll
            for (int n = 0; n < N; n++) b[n] = s ? factor_b(four[n].z, four[n].w) : factor_b(four[n].x, four[n].y);
            multiply(results, a, b);
        }
    }
}

// sums (16 M, HS) += weights (16 M, 8 N) tile (8 N, HS); the weights are results of dot_rows. Tensor cores cut what they
// add, so that a long sum drifts: for float32 the sum of these 8 N is taken first, and added to `sums` as usual.
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
        B b[HS / 8];
        #pragma unroll
        for (int c = 0; c < HS / 8; c++) {
            b[c] = factor_b(tile[8 * n * STRIDE + 8 * c], tile[(8 * n + 1) * STRIDE + 8 * c]);
        }
        multiply(target, a, b);
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

// Hides those scores whose key comes after the query. Rows are queries from `row` on and columns keys from `column` on;
// TURNED: rows are keys.
template <bool TURNED, int N>
__device__ void hide_later(float (&scores)[M][N][4], int row, int column)
{
    if (TURNED ? row + OWN <= column + 1 : column + 8 * N <= row + 1) return;  // every query sees every key
    #pragma unroll
    for (int i = 0; i < M * N * 4; i++) {
        int m = i / 4 / N, n = i / 4 % N, d = i % 4;
        int r = row + 16 * m + d / 2 * 8 + r_of_lane(), c = column + 8 * n + 2 * j_of_lane() + d % 2;
        if (TURNED ? r > c : c > r) scores[m][n][d] = LOWEST;
    }
}
