/* The products of the linear layer in tiles within tiles, each as large as the memory that holds it allows.

v9  a block computes BM x BN results from shared memory, each warp WM x WN of them, each thread TM x TN in registers

All sizes are macros: llmc/kernels/tiling.py has those that llmc uses, and `llmc.bench.kernels.tuning` tries others.
Shapes, products and the macros A_RUNS, B_RUNS, ADD and WORD: see matmul.cu. New here:
- The results of a warp are a rectangle, so that its lanes need only WM + WN numbers for each k; many read the same one.
- Numbers that must be turned on their way, because k runs through memory, wait in registers: 128 bits per load, where
  cp.async would take one number at a time. The others come by cp.async. STAGES slices are in shared memory.
- One barrier per slice: a slice goes where the one before the current one was.
- Blocks at work at the same time are neighbours, eight rows of tiles high: they read the same rows, out of L2.
- Where there are too few tiles for the GPU, blocks share one (split-K): block (tile, part) sums over its own part of k,
  and matmul_add_parts_v1 of matmul.cu adds.
- Bias and GELU are computed while the results are still in registers.
*/

#ifndef BM
#define A_RUNS true
#define B_RUNS true
#define ADD false
#define WORD 4
#define BM 128    // results of a block: rows and columns
#define BN 128
#define BK 8      // k in a slice
#define WM 64     // results of a warp
#define WN 64
#define TM 16     // results of a thread
#define TN 8
#define STAGES 3  // slices in shared memory
#define BLOCKS 2  // blocks that a multiprocessor must have room for
#endif

const int LANES_M = WM / TM, LANES_N = WN / TN, WARPS_N = BN / WN, THREADS = 32 * (BM / WM) * WARPS_N;
const int PAD = 4;    // floats behind each row of a tile, so that threads that write a column use different banks
const int GROUP = 8;  // rows of tiles

static_assert(LANES_M * LANES_N == 32, "a warp has 32 lanes");
static_assert(TM % 4 == 0 && TN % 4 == 0 && BK % 4 == 0, "numbers are read four at a time");

struct Stage {
    float a[BK][BM + PAD], b[BK][BN + PAD];  // [k][row of the result], [k][column]
};

// ---------------------------------------------------------------------------------- from memory to shared memory

#include "batches.cuh"
#include "gelu.cuh"

// Copy four neighbours between registers and memory, or as many of them as there are.
__device__ void copy4(float* to, const float* from, int there)
{
    if (WORD == 4 && there > 0) *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
    #pragma unroll
    for (int j = 0; j < 4 && WORD == 1; j++) {
        if (j < there) to[j] = from[j];
    }
}

// What a thread brings of the slices of a tile of ROWS rows (or columns) of the result. `ask` starts copying
// tile[k][i] = element (first + i, start + k), `put` ends it. Beyond the end of k come zeros; beyond the last row comes
// the last one again, and the results that it spoils are not stored.

// Where k does not run, numbers are copied as they lie.
template <int ROWS>
struct Straight {
    static const int ACROSS = ROWS / WORD, COUNT = ROWS * BK / WORD / THREADS;
    static_assert(COUNT * WORD * THREADS == ROWS * BK, "all threads copy equally much");
    const float* slice;    // where the numbers of this slice begin
    unsigned from[COUNT];  // and from there on, this thread's

    __device__ static int k(int j) { return (threadIdx.x + j * THREADS) / ACROSS; }
    __device__ static int row(int j) { return (threadIdx.x + j * THREADS) % ACROSS * WORD; }

    __device__ Straight(const float* a, int first, int start, int n, int K) : slice(a + (size_t)start * n + first)
    {
        #pragma unroll
        for (int j = 0; j < COUNT; j++) from[j] = (unsigned)k(j) * n + min(row(j), n - first - WORD);
    }
    __device__ void ask(float (*tile)[ROWS + PAD], int left, int n)  // left: k from the start of this slice to the end
    {
        #pragma unroll
        for (int j = 0; j < COUNT; j++) copy_async<WORD>(&tile[k(j)][row(j)], slice + from[j], k(j) < left);
        slice += (size_t)BK * n;
    }
    __device__ void put(float (*)[ROWS + PAD]) {}
};

// Where k runs, four numbers of a row wait in registers, and then go to four rows of the tile.
template <int ROWS>
struct Turned {
    static const int COUNT = ROWS * BK / 4 / THREADS;
    static_assert(COUNT * 4 * THREADS == ROWS * BK, "all threads bring equally much");
    const float* slice;
    unsigned from[COUNT];
    alignas(16) float waiting[COUNT][4];

    __device__ static int k(int j) { return (threadIdx.x + j * THREADS) % (BK / 4) * 4; }
    __device__ static int row(int j) { return (threadIdx.x + j * THREADS) / (BK / 4); }

    __device__ Turned(const float* a, int first, int start, int n, int K) : slice(a + (size_t)first * K + start)
    {
        #pragma unroll
        for (int j = 0; j < COUNT; j++) from[j] = (unsigned)min(row(j), n - first - 1) * K + k(j);
    }
    __device__ void ask(float (*)[ROWS + PAD], int left, int)
    {
        #pragma unroll
        for (int j = 0; j < COUNT; j++) {
            *reinterpret_cast<float4*>(waiting[j]) = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            copy4(waiting[j], slice + from[j], left - k(j));
        }
        slice += BK;
    }
    __device__ void put(float (*tile)[ROWS + PAD])
    {
        #pragma unroll
        for (int j = 0; j < COUNT; j++) {
            #pragma unroll
            for (int c = 0; c < 4; c++) tile[k(j) + c][row(j)] = waiting[j][c];
        }
    }
};

template <bool RUNS, int ROWS> struct Way { typedef Straight<ROWS> type; };
template <int ROWS> struct Way<true, ROWS> { typedef Turned<ROWS> type; };

// ------------------------------------------------------------------------------- from shared memory to registers

// COUNT numbers of a row of a tile, 4 by 4, with those of the other lanes in between.
template <int COUNT, int LANES>
__device__ void take(float* to, const float* row, int lane)
{
    #pragma unroll
    for (int j = 0; j < COUNT / 4; j++)
        reinterpret_cast<float4*>(to)[j] = reinterpret_cast<const float4*>(row)[lane + j * LANES];
}

__device__ void multiply(float (*sums)[TN], const Stage& stage, int m, int n, int lane_m, int lane_n)
{
    #pragma unroll
    for (int k = 0; k < BK; k++) {
        alignas(16) float x[TM], y[TN];
        take<TM, LANES_M>(x, stage.a[k] + m, lane_m);
        take<TN, LANES_N>(y, stage.b[k] + n, lane_n);
        #pragma unroll
        for (int i = 0; i < TM * TN; i++) sums[i / TN][i % TN] += x[i / TN] * y[i % TN];
    }
}

// --------------------------------------------------------------------------------------- from registers to memory

// Finish `there` neighbouring sums and write them. bias: four numbers; gelu_place: null where GELU is not wanted.
__device__ void store(float* place, float* gelu_place, const float* sums, const float* bias, int there)
{
    alignas(16) float out[4] = {};
    if (ADD) copy4(out, place, there);
    #pragma unroll
    for (int j = 0; j < 4; j++) out[j] += sums[j] + bias[j];
    copy4(place, out, there);
    if (!gelu_place) return;
    #pragma unroll
    for (int j = 0; j < 4; j++) out[j] = gelu(out[j]);
    copy4(gelu_place, out, there);
}

// part: how many k a block sums over, for result (blocks along y, M, N). gelu_out and bias: 0 where there are none.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) matmul_v9(float* result, float* gelu_out, const float* a,
                                                                        const float* b, const float* bias, int M,
                                                                        int N, int K, int part)
{
    extern __shared__ float4 memory[];
    Stage* stages = reinterpret_cast<Stage*>(memory);  // (STAGES,)
    int down = (M + BM - 1) / BM, across = (N + BN - 1) / BN;  // tiles
    int group = blockIdx.x / (GROUP * across), place = blockIdx.x % (GROUP * across);
    int height = min(GROUP, down - group * GROUP);
    int m0 = (group * GROUP + place % height) * BM, n0 = place / height * BN;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int wm = warp / WARPS_N * WM, wn = warp % WARPS_N * WN, lane_m = lane / LANES_N, lane_n = lane % LANES_N;
    int k0 = blockIdx.y * part, left = min(part, K - k0);
    result += (size_t)blockIdx.y * M * N;

    Way<A_RUNS, BM>::type from_a(a, m0, k0, M, K);
    Way<B_RUNS, BN>::type from_b(b, n0, k0, N, K);
    #pragma unroll
    for (int s = 0; s < STAGES - 1; s++, left -= BK) {  // the first slices; left: k from the start of the next one on
        from_a.ask(stages[s].a, left, M);
        from_b.ask(stages[s].b, left, N);
        end_batch();
        from_a.put(stages[s].a);
        from_b.put(stages[s].b);
    }
    alignas(16) float sums[TM][TN] = {};
    for (int now = 0, next = STAGES - 1; left > (1 - STAGES) * BK; left -= BK) {
        wait_but<STAGES - 2>();
        __syncthreads();  // this slice is there for all threads, and they are done with the one before
        from_a.ask(stages[next].a, left, M);
        from_b.ask(stages[next].b, left, N);
        end_batch();
        multiply(sums, stages[now], wm, wn, lane_m, lane_n);
        from_a.put(stages[next].a);
        from_b.put(stages[next].b);
        now = now + 1 == STAGES ? 0 : now + 1;
        next = next + 1 == STAGES ? 0 : next + 1;
    }
    #pragma unroll
    for (int j = 0; j < TN; j += 4) {
        int n = n0 + wn + 4 * (lane_n + j / 4 * LANES_N);
        if (n >= N) continue;
        alignas(16) float b4[4] = {};
        if (bias) copy4(b4, bias + n, N - n);
        #pragma unroll
        for (int i = 0; i < TM; i++) {
            int m = m0 + wm + 4 * (lane_m + i / 4 * LANES_M) + i % 4;
            size_t at = (size_t)m * N + n;
            if (m < M) store(result + at, gelu_out ? gelu_out + at : nullptr, &sums[i][j], b4, N - n);
        }
    }
}
