/* The products of the linear layer on tensor cores: a warp multiplies (16, 8) by (8, 8) matrices with one instruction.

v10  blocks and warps share the work as in v9, but a lane holds what the instruction wants from it. Three TF32 products
     make one of float32 (EXACT), as precise as v9; an infinite factor gives NaN where v9 may give infinity
v11  one product each, of numbers rounded to TF32: v10 compiled with EXACT=0

The tile is given by macros, as in matmul_warp.cu (TENSOR_CORES of llmc/kernels/tiling.py). One thing is simpler than
there: a lane reads single numbers, so they stay in shared memory as they lie in memory, and all come by cp.async.
Shapes, products and the macros A_RUNS, B_RUNS, ADD and WORD: see matmul.cu.
*/

#ifndef EXACT
#define EXACT 0  // 1: float32 by three products for each, see warp_products.cuh; 0: one, in TF32
#endif

#ifndef BM
#define A_RUNS true
#define B_RUNS true
#define ADD false
#define WORD 4
#define BM 96     // results of a block: rows and columns
#define BN 128
#define BK 16     // k in a slice
#define WM 48     // results of a warp
#define WN 64
#define STAGES 4  // slices in shared memory
#define BLOCKS 2  // blocks that a multiprocessor must have room for
#endif

#include "batches.cuh"
#include "lanes.cuh"
#include "warp_products.cuh"
#include "gelu.cuh"

const int THREADS = 32 * (BM / WM) * (BN / WN), GROUP = 8;
const int MI = WM / 16, NI = WN / 8, STEPS = BK / 8;  // a slice of a warp: MI x NI matrices of results, STEPS products

// A tile of a slice, as it lies in memory: rows of BK numbers where k runs, else BK rows. With 4 or 8 floats behind
// each, the lanes of a warp read from different banks.
template <bool RUNS, int ROWS>
struct Tile {
    static const int WIDTH = RUNS ? BK + 4 : ROWS + 8;
    float numbers[(RUNS ? ROWS : BK) * WIDTH];

    __device__ float at(int row, int k) const { return numbers[RUNS ? row * WIDTH + k : k * WIDTH + row]; }
};

struct Stage {
    Tile<A_RUNS, BM> a;
    Tile<B_RUNS, BN> b;
};

// What a thread copies of the slices of a tile: COUNT times four neighbours. Beyond the end of k come zeros; beyond the
// last row comes the last one again, or zeros, and the results that it spoils are not stored.
template <bool RUNS, int ROWS>
struct Copies {
    static const int ACROSS = (RUNS ? BK : ROWS) / 4, COUNT = ROWS * BK / 4 / THREADS;
    static_assert(COUNT * 4 * THREADS == ROWS * BK, "all threads copy equally much");
    const float* slice;    // where the numbers of this slice begin
    unsigned from[COUNT];  // and from there on, this thread's

    __device__ static int down(int j) { return (threadIdx.x + j * THREADS) / ACROSS; }
    __device__ static int along(int j) { return (threadIdx.x + j * THREADS) % ACROSS * 4; }

    __device__ Copies(const float* a, int first, int start, int n, int K)
    {
        slice = RUNS ? a + (size_t)first * K + start : a + (size_t)start * n + first;
        #pragma unroll
        for (int j = 0; j < COUNT; j++)
            from[j] = RUNS ? (unsigned)min(down(j), n - first - 1) * K + along(j) : (unsigned)down(j) * n + along(j);
    }
    __device__ void ask(Tile<RUNS, ROWS>& tile, int first, int left, int n)  // left: k from this slice to the end
    {
        #pragma unroll
        for (int j = 0; j < COUNT; j++) {
            int there = RUNS ? left - along(j) : down(j) < left ? n - first - along(j) : 0;
            float* to = tile.numbers + down(j) * Tile<RUNS, ROWS>::WIDTH + along(j);
            #pragma unroll
            for (int c = 0; c < 4; c += WORD) copy_async<WORD>(to + c, slice + from[j] + c, c < there);
        }
        slice += RUNS ? BK : (size_t)BK * n;
    }
};

// sums += the products of a slice; m, n: where this warp's rows of both tiles begin.
__device__ void multiply(float (&sums)[MI][NI][4], const Stage& stage, int m, int n)
{
    int r = r_of_lane(), j = j_of_lane();
    A x[STEPS][MI];
    #pragma unroll
    for (int i = 0; i < STEPS * MI; i++) {
        int row = m + i % MI * 16 + r, k = i / MI * 8 + j;
        x[i / MI][i % MI] = factor_a(stage.a.at(row, k), stage.a.at(row + 8, k), stage.a.at(row, k + 4),
                                     stage.a.at(row + 8, k + 4));
    }
    #pragma unroll
    for (int column = 0; column < NI; column++) {
        float more[MI][4] = {};  // the sums of this slice alone
        #pragma unroll
        for (int s = 0; s < STEPS; s++) {
            int row = n + column * 8 + r, k = s * 8 + j;
            B y = factor_b(stage.b.at(row, k), stage.b.at(row, k + 4));
            #pragma unroll
            for (int i = 0; i < MI && EXACT; i++) multiply_tf32(more[i], x[s][i].small, y.big);
            #pragma unroll
            for (int i = 0; i < MI && EXACT; i++) multiply_tf32(more[i], x[s][i].big, y.small);
            #pragma unroll
            for (int i = 0; i < MI; i++) multiply_tf32(EXACT ? more[i] : sums[i][column], x[s][i].big, y.big);
        }
        #pragma unroll
        for (int i = 0; i < 4 * MI && EXACT; i++) sums[i / 4][column][i % 4] += more[i / 4][i % 4];
    }
}

// Finish two neighbouring sums, of which `there` exist, and write them. gelu_place: null where GELU is not wanted.
__device__ void store(float* place, float* gelu_place, float2 sums, const float* bias, int there)
{
    float2 old = make_float2(0.0f, 0.0f), both;
    if (ADD && WORD == 4) old = *reinterpret_cast<float2*>(place);
    if (ADD && WORD == 1) old = make_float2(place[0], there > 1 ? place[1] : 0.0f);
    both.x = sums.x + old.x + (bias ? bias[0] : 0.0f);
    both.y = sums.y + old.y + (bias && there > 1 ? bias[1] : 0.0f);
    #pragma unroll
    for (int turn = 0; turn < 2; turn++) {
        if (WORD == 4) *reinterpret_cast<float2*>(place) = both;
        if (WORD == 1) place[0] = both.x;
        if (WORD == 1 && there > 1) place[1] = both.y;
        if (!gelu_place) return;
        place = gelu_place, both = make_float2(gelu(both.x), gelu(both.y));
    }
}

// part: how many k a block sums over, for result (blocks along y, M, N). gelu_out and bias: 0 where there are none.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) matmul_v10(float* result, float* gelu_out, const float* a,
                                                                         const float* b, const float* bias, int M,
                                                                         int N, int K, int part)
{
    extern __shared__ float4 memory[];
    Stage* stages = reinterpret_cast<Stage*>(memory);  // (STAGES,)
    int down = (M + BM - 1) / BM, across = (N + BN - 1) / BN;  // tiles
    int group = blockIdx.x / (GROUP * across), place = blockIdx.x % (GROUP * across);
    int height = min(GROUP, down - group * GROUP);
    int m0 = (group * GROUP + place % height) * BM, n0 = place / height * BN;
    int warp = threadIdx.x / 32, wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
    int k0 = blockIdx.y * part, left = min(part, K - k0);
    result += (size_t)blockIdx.y * M * N;

    Copies<A_RUNS, BM> from_a(a, m0, k0, M, K);
    Copies<B_RUNS, BN> from_b(b, n0, k0, N, K);
    #pragma unroll
    for (int s = 0; s < STAGES - 1; s++, left -= BK) {  // the first slices; left: k from the start of the next one on
        from_a.ask(stages[s].a, m0, left, M);
        from_b.ask(stages[s].b, n0, left, N);
        end_batch();
    }
    float sums[MI][NI][4] = {};
    for (int now = 0, next = STAGES - 1; left > (1 - STAGES) * BK; left -= BK) {
        wait_but<STAGES - 2>();
        __syncthreads();  // this slice is there for all threads, and they are done with the one before
        from_a.ask(stages[next].a, m0, left, M);
        from_b.ask(stages[next].b, n0, left, N);
        end_batch();
        multiply(sums, stages[now], wm, wn);
        now = now + 1 == STAGES ? 0 : now + 1;
        next = next + 1 == STAGES ? 0 : next + 1;
    }
    #pragma unroll
    for (int i = 0; i < 2 * MI * NI; i++) {
        int row = i / 2 / NI, column = i / 2 % NI, low = i % 2;  // d holds rows r and r + 8, two neighbours of each
        int m = m0 + wm + row * 16 + low * 8 + r_of_lane(), n = n0 + wn + column * 8 + 2 * j_of_lane();
        if (m >= M || n >= N) continue;
        size_t at = (size_t)m * N + n;
        float2 both = make_float2(sums[row][column][2 * low], sums[row][column][2 * low + 1]);
        store(result + at, gelu_out ? gelu_out + at : nullptr, both, bias ? bias + n : nullptr, N - n);
    }
}
