// The products of attention by a warp on tensor cores, from the instructions of mma_16.cuh.
//
// Two d side by side, rounded, are an a: the scores of one product are the weights of the next, in the same registers.
//
// HS, M and WARPS come from the file that includes this one, after lanes.cuh, warp_rows.cuh and mma_16.cuh. A warp owns
// 16 M of its block's ROWS rows.

const int OWN = 16 * M, ROWS = WARPS * OWN, THREADS = WARPS * 32;
const int STRIDE = HS + 8;         // from row to row of a tile: 8 rows of a square then are in different banks
typedef Squares Rows[HS / 16][M];  // factors a, (16 M, HS)
typedef float Sums[M][HS / 8][4];  // d, (16 M, HS)

// a (16, 16), or transposed two b (16, 8): the numbers from `corner` on. Squares 0 and 1 are one below the other.
template <bool TRANSPOSED>
__device__ void load_down(Squares& squares, const floatX* corner)
{
    load_squares<TRANSPOSED>(squares, corner + threadIdx.x % 16 * STRIDE + threadIdx.x % 32 / 16 * 8);
}

// Two b (16, 8) whose columns are rows of a tile, 8 and the next 8. Squares 0 and 1 are side by side: the two pairs of
// a b come to neighbouring registers, as mma takes them, and need not be moved.
__device__ void load_across(Squares& squares, const floatX* corner)
{
    int lane = threadIdx.x % 32;
    load_squares<false>(squares, corner + (lane / 16 * 8 + lane % 8) * STRIDE + lane / 8 % 2 * 8);
}

// The first 16 columns of a warp's rows in shared memory.
__device__ void load_columns(Squares (&a)[M], const floatX* rows)
{
    #pragma unroll
    for (int m = 0; m < M; m++) load_down<false>(a[m], rows + 16 * m * STRIDE);
}

__device__ void load_rows(Rows& rows, const floatX* from)
{
    #pragma unroll
    for (int c = 0; c < HS / 16; c++) load_columns(rows[c], from + 16 * c);
}

// results (16 M, 8 N) += a (16 M, 16) tileT, tile (8 N, 16).
template <int N>
__device__ void add_products(float (&results)[M][N][4], const Squares (&a)[M], const floatX* tile)
{
    #pragma unroll
    for (int n = 0; n < N; n += 2) {
        Squares b;
        load_across(b, tile + 8 * n * STRIDE);
        #pragma unroll
        for (int m = 0; m < M; m++) {
            multiply(results[m][n], a[m], b[0], b[1]);
            multiply(results[m][n + 1], a[m], b[2], b[3]);
        }
    }
}

// results (16 M, 8 N) = rows (16 M, HS) tileT, tile (8 N, HS).
template <int N>
__device__ void dot_rows(float (&results)[M][N][4], const Rows& rows, const floatX* tile)
{
    set_zero(results);
    #pragma unroll
    for (int c = 0; c < HS / 16; c++) add_products(results, rows[c], tile + 16 * c);
}

// The same with rows in shared memory, where there are no registers for them.
template <int N>
__device__ void dot_tiles(float (&results)[M][N][4], const floatX* rows, const floatX* tile)
{
    set_zero(results);
    #pragma unroll
    for (int c = 0; c < HS / 16; c++) {
        Squares a[M];
        load_columns(a, rows + 16 * c);
        add_products(results, a, tile + 16 * c);
    }
}

// sums (16 M, HS) += weights (16 M, 8 N) tile (8 N, HS); the weights, results of a product, are rounded to 16 bits.
template <int N>
__device__ void weigh_rows(Sums& sums, const float (&weights)[M][N][4], const floatX* tile)
{
    #pragma unroll
    for (int n = 0; n < N; n += 2) {
        Squares a[M];
        #pragma unroll
        for (int i = 0; i < 4 * M; i++) {
            const float(&w)[4] = weights[i / 4][n + i % 4 / 2];
            a[i / 4][i % 4] = rounded_pair(w[i % 2 * 2], w[i % 2 * 2 + 1]);
        }
        #pragma unroll
        for (int c = 0; c < HS / 8; c += 2) {
            Squares b;
            load_down<true>(b, tile + 8 * n * STRIDE + 8 * c);
            #pragma unroll
            for (int m = 0; m < M; m++) {
                multiply(sums[m][c], a[m], b[0], b[1]);
                multiply(sums[m][c + 1], a[m], b[2], b[3]);
            }
        }
    }
}

// Results (16 M, 8 N), whose rows and columns are queries and keys, or TRANSPOSED keys and queries: those of a key that
// comes after the query become LOWEST. `row` and `column` are the first.
template <bool TRANSPOSED, int N>
__device__ void hide_later(float (&results)[M][N][4], int row, int column)
{
    int ahead = column + 2 * j_of_lane() - row - r_of_lane();  // columns from the diagonal to the lane's first result
    #pragma unroll
    for (int i = 0; i < M * N * 4; i++) {
        int m = i / 4 / N, n = i / 4 % N, d = i % 4, shift = 8 * n + d % 2 - (16 * m + d / 2 * 8);
        if (TRANSPOSED ? ahead < -shift : ahead > -shift) results[m][n][d] = LOWEST;
    }
}

// Writes a warp's rows first … that are below T, hs numbers of each, row 16 m + 8 n + r multiplied by factor[m][n].
__device__ void store_sums(floatX* to, const Sums& sums, const float (&factor)[M][2], size_t stride, int first, int T,
                           int hs)
{
    #pragma unroll
    for (int i = 0; i < 2 * M; i++) {
        int m = i / 2, n = i % 2, t = first + 8 * i + r_of_lane();
        #pragma unroll
        for (int c = 0; c < HS / 8; c++) {
            int channel = 8 * c + 2 * j_of_lane();
            unsigned two = rounded_pair(sums[m][c][2 * n] * factor[m][n], sums[m][c][2 * n + 1] * factor[m][n]);
            if (t < T && channel < hs) *reinterpret_cast<unsigned*>(to + t * stride + channel) = two;
        }
    }
}

// tile (N, HS) = rows first … of a matrix with T rows of hs numbers, `stride` apart, zero outside: copied in the
// background, 16 bytes at a time; batches.cuh must be included before.
template <int N>
__device__ void copy_tile(floatX* tile, const floatX* from, int stride, int first, int T, int hs)
{
    #pragma unroll
    for (int i = 0; i < N * HS / 8 / THREADS; i++) {
        int j = i * THREADS + threadIdx.x, t = first + j / (HS / 8), c = j % (HS / 8) * 8;
        floatX* to = tile + j / (HS / 8) * STRIDE + c;
        const floatX* eight = from + (size_t)t * stride + c;
        copy_async<4>(reinterpret_cast<float*>(to), reinterpret_cast<const float*>(eight), t < T && c < hs);
    }
}
