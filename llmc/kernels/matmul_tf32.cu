/* The products of the linear layer on tensor cores: a warp multiplies (16, 8) by (8, 8) matrices with one instruction.

Inputs are rounded to TF32: 8 bits of exponent like float, but 10 of mantissa instead of 23; sums are float. Results are
right to about 1e-3. Needs compute capability 8.0.

As in v9 of matmul_warp.cu, a block has a tile of BM x BN results, a warp a part of WM x WN, slices of BK come by cp.async
into one of STAGES buffers, and blocks may share a tile. What is simpler: an instruction reads single numbers of a row, so
numbers stay in shared memory as they lie in memory, and nothing is turned. Macros and products: see matmul.cu;
WORD: see matmul_tiles.cu.
*/

#ifndef A_RUNS
#define A_RUNS true
#define B_RUNS true
#define ADD false
#define WORD 4
#endif

const int BM = 128, BN = 128, BK = 16, WM = 64, WN = 64, STAGES = 4;
const int THREADS = 32 * (BM / WM) * (BN / WN), GROUP = 8;
const int MI = WM / 16, NI = WN / 8;  // the matrices of a warp's results: MI x NI of (16, 8)

// A tile of a slice, as it lies in memory: rows of BK where k runs, else BK rows. Their ends keep warps off each other's
// banks: lane 4 g + t reads row g, k = t.
template <bool RUNS, int ROWS>
struct Tile {
    static const int WIDTH = RUNS ? BK + 4 : ROWS + 8;
    float numbers[(RUNS ? ROWS : BK) * WIDTH];

    __device__ static int place(int row, int k) { return RUNS ? row * WIDTH + k : k * WIDTH + row; }
};

struct Stage {
    Tile<A_RUNS, BM> a;
    Tile<B_RUNS, BN> b;
};

// Copy FLOATS floats to shared memory in the background, or zeros where there is nothing to copy.
template <int FLOATS>
__device__ void copy_async(float* to, const float* from, bool inside)
{
    unsigned place = __cvta_generic_to_shared(to);
    if (FLOATS == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(inside ? 16 : 0));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(place), "l"(from), "r"(inside ? 4 : 0));
}

__device__ void end_batch()
{
    asm volatile("cp.async.commit_group;");
}

// Wait for all batches of this thread but the last BATCHES.
template <int BATCHES>
__device__ void wait_but()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(BATCHES) : "memory");
}

// What a thread copies of the slices of a tile: COUNT times four neighbours. Behind the end of k come zeros; behind the last
// row comes the last one again, and the results that it spoils are not stored.
template <bool RUNS, int ROWS>
struct Copies {
    static const int ACROSS = (RUNS ? BK : ROWS) / 4, COUNT = ROWS * BK / 4 / THREADS;
    const float* slice;
    unsigned from[COUNT];

    __device__ static int down(int j) { return (threadIdx.x + j * THREADS) / ACROSS; }
    __device__ static int along(int j) { return (threadIdx.x + j * THREADS) % ACROSS * 4; }

    __device__ Copies(const float* a, int first, int start, int n, int K)
    {
        slice = RUNS ? a + (size_t)first * K + start : a + (size_t)start * n + first;
        #pragma unroll
        for (int j = 0; j < COUNT; j++)
            from[j] = RUNS ? (unsigned)min(down(j), n - first - 1) * K + along(j) : (unsigned)down(j) * n + along(j);
    }
    __device__ void ask(Tile<RUNS, ROWS>& tile, int first, int left, int n)
    {
        #pragma unroll
        for (int j = 0; j < COUNT; j++) {
            int there = RUNS ? left - along(j) : down(j) < left ? n - first - along(j) : 0;
            float* to = tile.numbers + down(j) * tile.WIDTH + along(j);
            #pragma unroll
            for (int c = 0; c < 4; c += WORD) copy_async<WORD>(to + c, slice + from[j] + c, c < there);
        }
        slice += RUNS ? BK : (size_t)BK * n;
    }
};

__device__ unsigned tf32(float x)
{
    unsigned rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
    return rounded;
}

// sums (16, 8) += x (16, 8) y (8, 8). Lane 4 g + t has rows g and g + 8, columns t and t + 4 of x, column g of y, and
// columns 2 t and 2 t + 1 of the sums.
__device__ void mma(float* sums, const unsigned* x, const unsigned* y)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
}

__device__ void multiply(float (*sums)[NI][4], const Stage& stage, int m, int n)
{
    int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    #pragma unroll
    for (int k = 0; k < BK; k += 8) {
        unsigned x[MI][4], y[NI][2];
        #pragma unroll
        for (int i = 0; i < 4 * MI; i++) {
            int row = m + i / 4 * 16 + g + i % 2 * 8;
            x[i / 4][i % 4] = tf32(stage.a.numbers[stage.a.place(row, k + t + i % 4 / 2 * 4)]);
        }
        #pragma unroll
        for (int j = 0; j < 2 * NI; j++)
            y[j / 2][j % 2] = tf32(stage.b.numbers[stage.b.place(n + j / 2 * 8 + g, k + t + j % 2 * 4)]);
        #pragma unroll
        for (int i = 0; i < MI * NI; i++) mma(sums[i / NI][i % NI], x[i / NI], y[i % NI]);
    }
}

__device__ float gelu(float x)
{
    float u = 0.7978845608f * (x + 0.044715f * x * x * x);
    return __fdividef(x, 1.0f + expf(-2.0f * u));  // 0.5 x (1 + tanh(u))
}

// part: how many k a block sums over, for result (blocks along y, M, N). gelu_out and bias: 0 where there are none.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
matmul_tf32_v1(float* result, float* gelu_out, const float* a, const float* b, const float* bias, int M, int N, int K,
               int part)
{
    extern __shared__ float4 memory[];
    Stage* stages = reinterpret_cast<Stage*>(memory);  // (STAGES,)
    int down = (M + BM - 1) / BM, across = (N + BN - 1) / BN;  // tiles
    int group = blockIdx.x / (GROUP * across), place = blockIdx.x % (GROUP * across);
    int height = min(GROUP, down - group * GROUP);
    int m0 = (group * GROUP + place % height) * BM, n0 = place / height * BN;
    int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    int wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
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
    for (int i = 0; i < 4 * MI * NI; i++) {
        int m = m0 + wm + i / (4 * NI) * 16 + g + i % 4 / 2 * 8, n = n0 + wn + i / 4 % NI * 8 + 2 * t + i % 2;
        if (m >= M || n >= N) continue;
        size_t at = (size_t)m * N + n;
        float out = sums[i / (4 * NI)][i / 4 % NI][i % 4] + (bias ? bias[n] : 0.0f);
        if (ADD) out += result[at];
        result[at] = out;
        if (gelu_out) gelu_out[at] = gelu(out);
    }
}
