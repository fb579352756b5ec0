/* The products of the linear layer on Hopper's tensor cores; see product.cuh for the shapes and macros.

v9  v8 with as many blocks as there are multiprocessors, each of which has one tile after the other: while the results of
    one leave, squares for the next already come. Tiles follow each other such that what they read is still in L2. One
    warpgroup is some rounds ahead of the other, so that one multiplies while the other has results to finish.
    Blocks of a cluster, one above the other, share their squares of b, of which each asks for a part.
    Results leave through shared memory: TMA writes whole lines, at its own pace. On the way they meet a bias, GELU, or what
    GELU's backward pass or a sum of gradients needs

Where there are fewer tiles than multiprocessors, several blocks share one: each has a part of k, the sums are kept as they
are, and matmul_v9_add adds them, always in the same order.
*/

#include "number.cuh"
#include "lanes.cuh"
#include "registers.cuh"
#include "mma_16.cuh"
#include "product.cuh"

#ifndef BN
#define BN 256      // results of a block: 128 rows and BN columns
#define STAGES 4    // rounds of 64 numbers of k in shared memory
#define BUFFERS 2   // squares in which the results of a warpgroup leave
#define CLUSTER 2   // blocks that share their squares of b
#define DOWN 8      // tiles of a cluster below each other, before it is the next columns' turn
#define AHEAD 2     // rounds by which one warpgroup is ahead
#define GELU 0      // 1: result is GELU of the product, which goes to `other`; 2: the product is multiplied by GELU' of that
#endif

#include "tma.cuh"
#include "ring.cuh"
#include "wgmma.cuh"
#include "cluster.cuh"
#include "gelu_16.cuh"

const int GROUPS = 2, BM = 64 * GROUPS;              // warpgroups that multiply, rows of a block
const bool READS = ADD || GELU == 2;                 // results meet numbers of the same shape
const int LEAVING = GELU == 1 ? 2 : 1;               // squares for 64 x 64 results
const int SUMS = BN / 2;                             // of a thread
static_assert(!READS || BUFFERS == BN / 64, "a tile of these numbers comes at once");
static_assert(BUFFERS >= LEAVING && BN / 64 % CLUSTER == 0 && AHEAD < STAGES);

struct Stage {
    floatX a[GROUPS * SQUARE], b[BN / 64 * SQUARE];
};

struct Shared {
    Stage stages[STAGES];
    floatX leaving[GROUPS][BUFFERS][SQUARE];
    Barrier there[STAGES], used[STAGES], read[GROUPS];
};

// The work of a cluster: rows from m on, columns from n on, and rounds of k from `first` to `last`.
struct Task {
    int m, n, first, last;

    __device__ Task(int number, int M, int N, int K, int parts)
    {
        int down = (M + BM * CLUSTER - 1) / (BM * CLUSTER), across = (N + BN - 1) / BN, rounds = (K + 63) / 64;
        int part = number / (down * across), tile = number % (down * across);
        int band = tile / (DOWN * across), place = tile % (DOWN * across), height = min(DOWN, down - band * DOWN);
        m = (band * DOWN + place % height) * BM * CLUSTER, n = place / height * BN;
        first = (int)((long long)rounds * part / parts), last = (int)((long long)rounds * (part + 1) / parts);
    }
};

__device__ int count_tasks(int M, int N, int parts)
{
    return (M + BM * CLUSTER - 1) / (BM * CLUSTER) * ((N + BN - 1) / BN) * parts;
}

// The 128 threads of a warpgroup wait for each other.
__device__ void meet(int group) { asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory"); }

// The second warpgroup begins when the first one says so.
__device__ void wait_for_first() { asm volatile("bar.sync 3, 256;" ::: "memory"); }

__device__ void let_second_begin() { asm volatile("bar.arrive 3, 256;" ::: "memory"); }

// Four squares of 8 x 8 to shared memory, the opposite of load_squares of mma_16.cuh.
__device__ void write_squares(floatX* row, const Squares& squares)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
        ::"r"(shared_address(row)), "r"(squares[0]), "r"(squares[1]), "r"(squares[2]), "r"(squares[3]) : "memory");
}

__device__ float2 two_of(unsigned both)
{
    return make_float2(widen({(unsigned short)both}), widen({(unsigned short)(both >> 16)}));
}

// 64 x 64 sums on their way: the columns from n on, in squares of which `square` is the first.
__device__ void finish_square(floatX* square, const float* sums, const floatX* bias, int n, int N)
{
    int line = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 16, right = threadIdx.x % 32 / 16 * 8;
    #pragma unroll
    for (int c = 0; c < 4; c++, n += 16) {
        floatX* place = in_square(square, line, 16 * c + right);
        Squares old, now, active;
        if (READS) load_squares<false>(old, place);
        #pragma unroll
        for (int i = 0; i < 4; i++) {  // squares: rows r, r + 8; the same of the next eight columns
            int column = n + i / 2 * 8 + 2 * j_of_lane();
            float2 v = make_float2(sums[8 * c + 2 * i], sums[8 * c + 2 * i + 1]);
            if (bias && column < N) {
                float2 more = two_of(*reinterpret_cast<const unsigned*>(bias + column));
                v.x += more.x, v.y += more.y;
            }
            float2 before = READS ? two_of(old[i]) : make_float2(0.0f, 0.0f);
            if (ADD) v.x += before.x, v.y += before.y;
            if (GELU == 2) v.x *= gelu_slope(before.x), v.y *= gelu_slope(before.y);
            now[i] = rounded_pair(v.x, v.y);
            if (GELU == 1) active[i] = rounded_pair(gelu(v.x), gelu(v.y));
        }
        write_squares(place, now);
        if (GELU == 1) write_squares(place + SQUARE, active);
    }
}

// One thread brings the squares of all tasks of this block.
__device__ void produce(Shared& shared, const TensorMap* a, const TensorMap* b, int M, int N, int K, int parts)
{
    Ring<STAGES> ring;
    for (int number = blockIdx.x / CLUSTER; number < count_tasks(M, N, parts); number += gridDim.x / CLUSTER) {
        Task task(number, M, N, K, parts);
        for (int round = task.first; round < task.last; round++, ring.next()) {
            Stage& stage = shared.stages[ring.stage];
            Barrier* barrier = &shared.there[ring.stage];
            wait(&shared.used[ring.stage], ring.parity ^ 1);  // in all blocks of the cluster
            expect(barrier, sizeof(Stage));
            load_squares<A_RUNS, GROUPS>(stage.a, a, task.m + block_of_cluster() * BM, round * 64, barrier);
            load_squares_for_all<B_RUNS, BN / 64>(stage.b, b, task.n, round * 64, barrier);
        }
    }
}

// sums (64, BN) = the product of a task's rounds. leads: after some of them the other warpgroup may begin.
__device__ void multiply_rounds(float (&sums)[SUMS], Shared& shared, Ring<STAGES>& ring, int rounds, int group, bool leads)
{
    int last = 0, thread = threadIdx.x % 128;
    for (int round = 0; round < rounds; round++, ring.next()) {
        Stage& stage = shared.stages[ring.stage];
        wait(&shared.there[ring.stage], ring.parity);
        multiply_64<A_RUNS, B_RUNS>(sums, stage.a + group * SQUARE, stage.b, round > 0);
        wait_products<1>();  // those of the round before are there, these are under way
        if (round > 0 && thread < CLUSTER) arrive_at(&shared.used[last], thread);
        if (leads && round == min(AHEAD, rounds) - 1) let_second_begin();
        last = ring.stage;
    }
    wait_products<0>();
    use(sums);
    if (thread < CLUSTER) arrive_at(&shared.used[last], thread);
}

#if CLUSTER > 1
#define TOGETHER __cluster_dims__(CLUSTER)
#else
#define TOGETHER
#endif

extern "C" TOGETHER __global__ void __launch_bounds__(128 * (1 + GROUPS), 1)
matmul_v9(const __grid_constant__ TensorMap result, const __grid_constant__ TensorMap other,
          const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float4* kept, const floatX* bias, int M,
          int N, int K, int parts)
{
    extern __shared__ uint4 memory[];
    Shared& shared = *reinterpret_cast<Shared*>(first_square(memory));
    int group = __shfl_sync(0xffffffff, (int)threadIdx.x / 128, 0) - 1;  // -1: the producer; the same for a whole warp
    int thread = threadIdx.x % 128;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            init(&shared.there[i], 1);
            init(&shared.used[i], GROUPS * CLUSTER);
        }
        for (int i = 0; i < GROUPS; i++) init(&shared.read[i], 1);
        publish_barriers();
    }
    meet_cluster();

    if (group < 0) {
        give_registers<40>();
        if (thread == 0) produce(shared, &a, &b, M, N, K, parts);
    } else {
        take_registers<232>();
        Ring<STAGES> ring;
        float sums[SUMS];
        bool leads = AHEAD > 0 && group == 0;
        if (AHEAD > 0 && group == 1) wait_for_first();
        int turn = 0, reading = 0;  // the next square to leave in; the parity of what comes before
        for (int number = blockIdx.x / CLUSTER; number < count_tasks(M, N, parts); number += gridDim.x / CLUSTER) {
            Task task(number, M, N, K, parts);
            int m = task.m + block_of_cluster() * BM + group * 64;
            if (READS && parts == 1 && thread == 0) {
                wait_stores_read<0>();
                expect(&shared.read[group], sizeof(shared.leaving[0]));
                for (int i = 0; i < BUFFERS; i++)
                    load_square(shared.leaving[group][i], ADD ? &result : &other, task.n + 64 * i, m, &shared.read[group]);
            }
            multiply_rounds(sums, shared, ring, task.last - task.first, group, leads);
            leads = false;
            if (parts > 1) {
                float4* place = kept + ((size_t)(number * CLUSTER + block_of_cluster()) * GROUPS + group) * SUMS / 4 * 128;
                #pragma unroll
                for (int i = 0; i < SUMS; i += 4)
                    place[i / 4 * 128 + thread] = make_float4(sums[i], sums[i + 1], sums[i + 2], sums[i + 3]);
                continue;
            }
            if (READS) wait(&shared.read[group], reading);
            reading ^= 1;
            #pragma unroll
            for (int i = 0; i < BN / 64; i++) {
                if (!READS) {
                    if (thread == 0) wait_stores_read<BUFFERS - LEAVING>();
                    meet(group);  // what left in these squares has been read
                }
                floatX* square = shared.leaving[group][READS ? i : turn];
                finish_square(square, sums + 32 * i, bias, task.n + 64 * i, N);
                publish_writes();
                meet(group);
                if (thread == 0) {
                    store_square(GELU == 1 ? &other : &result, task.n + 64 * i, m, square);
                    if (GELU == 1) store_square(&result, task.n + 64 * i, m, square + SQUARE);
                }
                turn = turn + LEAVING < BUFFERS ? turn + LEAVING : 0;
            }
        }
        if (thread == 0) wait_stores_read<0>();  // shared memory must last until then
    }
    meet_cluster();  // and until the other blocks have arrived at barriers in it
}

// The parts of a tile together; a block for each that matmul_v9 had, with the threads that multiplied.
extern "C" __global__ void __launch_bounds__(128 * GROUPS, 2) matmul_v9_add(floatX* result, const float4* kept,
                                                                         const floatX* bias, int M, int N, int K, int parts)
{
    int group = threadIdx.x / 128, thread = threadIdx.x % 128, number = blockIdx.x / CLUSTER;
    Task task(number, M, N, K, parts);
    int m0 = task.m + block_of_cluster() * BM + group * 64 + thread / 32 * 16;
    #pragma unroll 4
    for (int i = 0; i < SUMS / 4; i++) {
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        for (int part = 0; part < parts; part++) {
            int of = number + part * count_tasks(M, N, 1);
            float4 more = kept[(((size_t)(of * CLUSTER + block_of_cluster()) * GROUPS + group) * SUMS / 4 + i) * 128 + thread];
            sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
        }
        int m = m0 + r_of_lane(), n = task.n + 8 * i + 2 * j_of_lane();
        finish(result, bias, sum.x, sum.y, m, n, M, N);
        finish(result, bias, sum.z, sum.w, m + 8, n, M, N);
    }
}
