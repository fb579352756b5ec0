/* The products of the linear layer on Hopper's tensor cores; see product.cuh for the shapes and macros.

v9  v8 with as many blocks as there are multiprocessors, each of which does tile after tile. Its two warpgroups take
    turns, each with a tile of its own: while the results of one leave, the other multiplies, so that tensor cores never
    wait. Tiles follow each other so that what they read is still in L2. Blocks of a cluster, one above the other, share
    their squares of b, of which each asks for a part.
    Results leave through shared memory: TMA writes whole lines, at its own pace. On the way they meet a bias, GELU, or what
    GELU's backward pass or a sum of gradients needs; and a gradient's columns are summed, for that of a bias

Where tiles are few and sums long, a last turn would leave many multiprocessors idle. Then each cluster has the same number
of rounds instead, wherever that begins and ends; sums of a part of the rounds are kept as they are, and matmul_v9_add adds
them, always in the same order.

With A_TYPE the factors have 8 bits, sums are multiplied by `scale`, and what GELU or GELU' makes has 8 bits too. With ACTIVE,
GELU of what comes before leaves beside what is multiplied by GELU', as a transposed copy in e4m3, in pairs: see fp8.cu.
Tensor cores cut such sums off after 14 bits. With PROMOTE, float's own additions take over what they have summed in so many
rounds. Each warpgroup then needs two numbers for a result, so both do the same tile, and one adds while the other multiplies.
*/

#include "number.cuh"
#include "number_8.cuh"
#include "lanes.cuh"
#include "column_sums.cuh"
#include "mma_16.cuh"
#include "product.cuh"

#ifndef BN
#define HIGH 2      // a warpgroup has 64 HIGH rows of a tile
#define BN 128      // and this many columns
#define STAGES 6    // rounds of 64 numbers of k in shared memory
#define BUFFERS 2   // squares in which the results of a warpgroup leave
#define CLUSTER 2   // blocks that share their squares of b
#define DOWN 8      // tiles of a cluster below each other, before it is the next columns' turn
#define PROMOTE 0   // after so many rounds float's own additions take over; 0: never
#define GELU 0      // 1: result is GELU of the product, which goes to `other`; 2: the product is multiplied by GELU' of that
#endif
#ifndef ACTIVE
#define ACTIVE 0  // 1, with GELU' in 8 bits: `active` becomes GELU of `other`
#endif

#include "tma.cuh"
#include "wgmma.cuh"
#include "cluster.cuh"
#include "gelu_16.cuh"

const int GROUPS = 2;                                // warpgroups that multiply
const bool SHARED_TILES = PROMOTE > 0;               // by both: each has a half of a tile's rows
const int HEIGHT = SHARED_TILES ? GROUPS * HIGH : HIGH, BM = 64 * HEIGHT;  // of a tile: squares below each other, rows
const bool READS = ADD || GELU == 2;                 // results meet numbers of the same shape
const int LEAVING = GELU == 1 ? 2 : 1;               // squares in which, and copies by which, 64 x 64 results leave
const int SUMS = BN / 2, SQUARES = HIGH * BN / 64;   // sums of a thread in 64 rows; squares of a tile
#ifdef A_TYPE
const bool EIGHT_BITS = true;
#else
const bool EIGHT_BITS = false;
#endif
const int LINE = EIGHT_BITS ? 128 : 64;              // numbers of k in a round
static_assert(!READS || BUFFERS == SQUARES, "a tile of these numbers comes at once");
static_assert(BUFFERS >= LEAVING && BN / 64 >= CLUSTER);

struct Stage {
    floatX a[HEIGHT * SQUARE], b[BN / 64 * SQUARE];
};

struct Shared {
    Stage stages[STAGES];
    floatX leaving[GROUPS][BUFFERS][SQUARE];
    Barrier there[STAGES], used[STAGES], read[GROUPS];
};

// The tiles of a result, the rounds of LINE numbers of k of each, and how clusters share them.
struct Plan {
    int down, across, rounds, clusters;
    bool even;  // each cluster has the same number of rounds; otherwise whole tiles

    __device__ Plan(int M, int N, int K, int clusters, bool even)
        : rounds((K + LINE - 1) / LINE), clusters(clusters), even(even)
    {
        down = (M + BM * CLUSTER - 1) / (BM * CLUSTER), across = (N + BN - 1) / BN;
    }

    // With even shares: the first round of a cluster's, if the rounds of all tiles are counted.
    __device__ int begin(int cluster) { return (int)((long long)down * across * rounds * cluster / clusters); }

    // The first row of a tile, its first column: DOWN tiles below each other, then those on their right.
    __device__ int row(int tile)
    {
        return (tile / (DOWN * across) * DOWN + tile % (DOWN * across) % height(tile)) * BM * CLUSTER;
    }

    __device__ int column(int tile) { return tile % (DOWN * across) / height(tile) * BN; }
    __device__ int height(int tile) { return max(min(DOWN, down - tile / (DOWN * across) * DOWN), 1); }
};

// Piece `number` of a cluster's work: the rounds from `first` to `last` of a tile.
struct Piece {
    int tile, first = 0, last = 0;  // there is none if they are equal

    __device__ Piece(Plan plan, int cluster, int number) : tile(cluster + number * plan.clusters)
    {
        if (plan.even) {
            int begin = plan.begin(cluster), end = plan.begin(cluster + 1);
            tile = begin / plan.rounds + number;
            first = max(begin - tile * plan.rounds, 0), last = max(min(end - tile * plan.rounds, plan.rounds), first);
        } else if (tile < plan.down * plan.across) {
            last = plan.rounds;
        }
    }
};

// Where sums of a part of the rounds are kept. A cluster has at most two such parts: the end of a tile, the beginning of one.
__device__ float4* kept_sums(float4* kept, int cluster, bool from_start)
{
    return kept + (size_t)((2 * cluster + from_start) * CLUSTER + block_of_cluster()) * HEIGHT * SUMS / 4 * 128;
}

// A warpgroup begins its rounds when the other one has seen all of its squares arrive: a barrier only shows whether
// its last phase is over.
__device__ void wait_for_turn(int group) { asm volatile("bar.sync %0, 256;" ::"r"(3 + group) : "memory"); }

__device__ void let_begin(int group) { asm volatile("bar.arrive %0, 256;" ::"r"(3 + group) : "memory"); }

// Four squares of 8 x 8 to shared memory, the opposite of load_squares of mma_16.cuh.
__device__ void write_squares(floatX* row, const Squares& squares)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
        ::"r"(shared_address(row)), "r"(squares[0]), "r"(squares[1]), "r"(squares[2]), "r"(squares[3]) : "memory");
}

// Two squares of 8 x 8 to shared memory, their columns as rows.
__device__ void write_columns(unsigned char* row, unsigned left, unsigned right)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};"
        ::"r"(shared_address(row)), "r"(left), "r"(right) : "memory");
}

__device__ float2 two_of(unsigned both)
{
    return make_float2(widen({(unsigned short)both}), widen({(unsigned short)(both >> 16)}));
}

// Where a number of 8 bits leaves, in the first half of a square or in the second: lines of 64 bytes, whose groups of 16 are
// swizzled, group g of line l to g ^ l / 2 % 4.
__device__ unsigned char* in_half(floatX* square, int half, int line, int column)
{
    return reinterpret_cast<unsigned char*>(square) + half * SQUARE_BYTES / 2 + line * 64 + (column ^ line / 2 % 4 * 16);
}

// 64 x 64 sums on their way: the columns from n on, in squares of which `square` is the first. With GELU' the results of
// each column of this lane are added to `totals`.
__device__ void finish_square(floatX* square, const float* sums, const floatX* bias, int n, int N, float (&totals)[16],
                              float scale, int group)
{
    int warp = threadIdx.x % 128 / 32, line = warp * 16 + threadIdx.x % 16, right = threadIdx.x % 32 / 16 * 8;
    Squares olds[4];
    if (READS && EIGHT_BITS) {  // all of them before the first is written over
        #pragma unroll
        for (int c = 0; c < 4; c++) load_squares<false>(olds[c], in_square(square, line, 16 * c + right));
        meet(group);
    }
    #pragma unroll
    for (int c = 0; c < 4; c++, n += 16) {
        floatX* place = in_square(square, line, 16 * c + right);
        Squares &old = olds[c], now, active;
        if (READS && !EIGHT_BITS) load_squares<false>(old, place);
        float2 activated[4], more[2] = {};  // the biases of two columns, and of two that are eight farther on
        #pragma unroll
        for (int i = 0; i < 2 && GELU != 2; i++) {
            int column = n + i * 8 + 2 * j_of_lane();
            if (bias && column < N) more[i] = two_of(*reinterpret_cast<const unsigned*>(bias + column));
        }
        #pragma unroll
        for (int i = 0; i < 4; i++) {  // squares: rows r, r + 8; the same of the next eight columns
            float2 v = make_float2(sums[8 * c + 2 * i], sums[8 * c + 2 * i + 1]);
            if (EIGHT_BITS) v.x *= scale, v.y *= scale;
            if (GELU != 2) v.x += more[i / 2].x, v.y += more[i / 2].y;
            float2 before = READS ? two_of(old[i]) : make_float2(0.0f, 0.0f);
            if (ADD) v.x += before.x, v.y += before.y;
            if (GELU == 2) v.x *= gelu_slope(before.x), v.y *= gelu_slope(before.y);
            if (GELU == 2) totals[4 * c + i / 2 * 2] += v.x, totals[4 * c + i / 2 * 2 + 1] += v.y;
            if (ACTIVE) activated[i] = make_float2(gelu(before.x), gelu(before.y));
            now[i] = rounded_pair(v.x, v.y);
            if (GELU == 1 && EIGHT_BITS) v = two_of(now[i]);  // from which the backward pass takes GELU again
            if (GELU == 1) v = make_float2(gelu(v.x), gelu(v.y)), active[i] = rounded_pair(v.x, v.y);
            if (GELU && EIGHT_BITS)
                *(unsigned short*)in_half(GELU == 1 ? square + SQUARE : square, 0, warp * 16 + r_of_lane() + i % 2 * 8,
                    16 * c + i / 2 * 8 + 2 * j_of_lane()) = narrow<GELU == 1 ? e4m3 : e5m2>(v.x, v.y);
        }
        if (GELU != 2 || !EIGHT_BITS) write_squares(place, now);
        if (GELU == 1 && !EIGHT_BITS) write_squares(place + SQUARE, active);
        if (ACTIVE) {
            unsigned columns[2];  // two of each, rows r and r + 8
            #pragma unroll
            for (int i = 0; i < 2; i++) {
                float2 low = activated[2 * i], high = activated[2 * i + 1];
                columns[i] = narrow<e4m3>(low.x, high.x) | (unsigned)narrow<e4m3>(low.y, high.y) << 16;
            }
            write_columns(in_half(square, 1, 16 * c + threadIdx.x % 16, 16 * warp), columns[0], columns[1]);
        }
    }
}

// The sums of each 64 x 64 results take the place of those before them, where a loop expects them. With GELU the end of a
// tile is 500 or 700 instructions then, four times, and not 3,400 or 4,800 in a row, which have to be fetched.
__device__ void move_up(float (&sums)[HIGH][SUMS])
{
    #pragma unroll
    for (int i = 0; i < (SQUARES - 1) * 32; i++) {
        int to = i / 32, from = to + 1;
        sums[to % HIGH][to / HIGH * 32 + i % 32] = sums[from % HIGH][from / HIGH * 32 + i % 32];
    }
}

// One thread brings the squares of all pieces.
__device__ void produce(Shared& shared, const TensorMap* a, const TensorMap* b, Plan plan)
{
    Ring<STAGES> ring;
    for (int number = 0;; number++) {
        Piece piece(plan, blockIdx.x / CLUSTER, number);
        if (piece.first == piece.last) return;
        int m = plan.row(piece.tile) + block_of_cluster() * BM, n = plan.column(piece.tile);
        for (int round = piece.first; round < piece.last; round++, ring.next()) {
            Stage& stage = shared.stages[ring.stage];
            Barrier* barrier = &shared.there[ring.stage];
            wait(&shared.used[ring.stage], ring.parity ^ 1);  // in all blocks of the cluster
            expect(barrier, sizeof(Stage));
            load_squares<A_RUNS, HEIGHT>(stage.a, a, m, round * LINE, barrier);
            load_squares_for_all<B_RUNS, BN / 64>(stage.b, b, n, round * LINE, barrier);
        }
    }
}

// sums = or, but for the first time, += what tensor cores have summed apart.
__device__ void promote(float (&sums)[HIGH][SUMS], float (&apart)[HIGH][SUMS], bool first)
{
    wait_products<0>();
    #pragma unroll
    for (int i = 0; i < HIGH; i++) {
        use(apart[i]);
        #pragma unroll
        for (int s = 0; s < SUMS; s++) sums[i][s] = apart[i][s] + (first ? 0.0f : sums[i][s]);
    }
}

// sums (64 HIGH, BN) = the product of so many rounds. above: how many squares of a come before those of this warpgroup.
// next: the warpgroup that begins then, or -1.
__device__ void multiply_rounds(float (&sums)[HIGH][SUMS], Shared& shared, Ring<STAGES>& ring, int rounds, int above, int next)
{
    float apart[HIGH][SUMS];  // with PROMOTE
    auto& into = PROMOTE ? apart : sums;
    int last = 0, thread = threadIdx.x % 128, kept = 0;  // rounds in `into`
    for (int round = 0; round < rounds; round++, ring.next()) {
        Stage& stage = shared.stages[ring.stage];
        wait(&shared.there[ring.stage], ring.parity);
        begin_products();
        #pragma unroll
        for (int k = 0; k < 4; k++)
            #pragma unroll
            for (int i = 0; i < HIGH; i++)
                multiply<A_RUNS, B_RUNS>(into[i], describe(stage.a + (above + i) * SQUARE) + k * next_k<A_RUNS>(),
                    describe(stage.b) + k * next_k<B_RUNS>(), kept > 0 || k > 0);
        end_group();
        kept++;
        if (round == rounds - 1 && next >= 0) let_begin(next);
        wait_products<1>();  // those of the round before are there, these are under way
        if (round > 0 && thread < CLUSTER) arrive_at(&shared.used[last], thread);
        last = ring.stage;
        if (PROMOTE && (kept == PROMOTE || round == rounds - 1)) promote(sums, apart, round < PROMOTE), kept = 0;
    }
    wait_products<0>();
    #pragma unroll
    for (int i = 0; i < HIGH; i++) use(sums[i]);
    if (thread < CLUSTER) arrive_at(&shared.used[last], thread);
}

#if CLUSTER > 1
#define TOGETHER __cluster_dims__(CLUSTER)
#else
#define TOGETHER
#endif

// 64 x 64 finished results leave for (m, n), from `square` on. One thread asks for it.
__device__ void store_results(const TensorMap* result, const TensorMap* other, const TensorMap* active, int n, int m,
                              floatX* square)
{
    if (GELU == 1) store_square(other, n, m, square), square += SQUARE;
    store_square(result, n, m, square);
    if (ACTIVE) store_square(active, m, n, square + SQUARE / 2);
}

// partial (4 x tiles below each other, N), or 0: sums of the columns of results times GELU', a row for each warp of a tile.
// scale: of sums; unscale: of those of columns, where the results themselves are multiplied by something.
extern "C" TOGETHER __global__ void __launch_bounds__(128 * (1 + GROUPS), 1)
matmul_v9(const __grid_constant__ TensorMap result, const __grid_constant__ TensorMap other,
          const __grid_constant__ TensorMap active, const __grid_constant__ TensorMap a,
          const __grid_constant__ TensorMap b, float4* kept, const floatX* bias, float* partial, int M, int N, int K, int even,
          float scale, float unscale)
{
    extern __shared__ uint4 memory[];
    Shared& shared = *reinterpret_cast<Shared*>(first_square(memory));
    int group = __shfl_sync(0xffffffff, (int)threadIdx.x / 128, 0) - 1;  // -1: the producer; the same for a whole warp
    int thread = threadIdx.x % 128, cluster = blockIdx.x / CLUSTER;
    Plan plan(M, N, K, gridDim.x / CLUSTER, even);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            init(&shared.there[i], 1);
            init(&shared.used[i], CLUSTER * HEIGHT / HIGH);
        }
        for (int i = 0; i < GROUPS; i++) init(&shared.read[i], 1);
        publish_barriers();
    }
    meet_cluster();

    if (group < 0) {
        give_registers<40>();
        if (thread == 0) produce(shared, &a, &b, plan);
    } else {
        take_registers<232>();
        Ring<STAGES> ring;
        float sums[HIGH][SUMS];
        int turn = 0, reading = 0;  // the next square to leave in; the parity of what comes before
        for (int number = 0;; number++) {
            Piece piece(plan, cluster, number);
            int rounds = piece.last - piece.first;
            if (rounds == 0) break;
            if (!SHARED_TILES && number % GROUPS != group) {
                ring.skip(rounds);
                continue;
            }
            int above = SHARED_TILES ? group * HIGH : 0;
            int m = plan.row(piece.tile) + block_of_cluster() * BM + 64 * above, n = plan.column(piece.tile);
            bool whole = rounds == plan.rounds;
            if (READS && whole && thread == 0) {
                wait_stores_read<0>();
                expect(&shared.read[group], sizeof(shared.leaving[0]));
                for (int i = 0; i < BUFFERS; i++)
                    load_square(shared.leaving[group][i], ADD ? &result : &other, n + i / HIGH * 64, m + i % HIGH * 64,
                        &shared.read[group]);
            }
            Piece next(plan, cluster, number + 1);
            if (!SHARED_TILES && number > 0) wait_for_turn(group);
            multiply_rounds(sums, shared, ring, rounds, above, !SHARED_TILES && next.first < next.last ? 1 - group : -1);
            if (!whole) {
                float4* place = kept_sums(kept, cluster, piece.first == 0) + above * SUMS / 4 * 128 + thread;
                #pragma unroll
                for (int h = 0; h < HIGH; h++)
                    #pragma unroll
                    for (int i = 0; i < SUMS; i += 4, place += 128)
                        *place = make_float4(sums[h][i], sums[h][i + 1], sums[h][i + 2], sums[h][i + 3]);
                continue;
            }
            if (READS) wait(&shared.read[group], reading);
            reading ^= 1;
            float totals[16] = {};
            #pragma unroll (GELU ? 1 : SQUARES)
            for (int i = 0; i < SQUARES; i++) {
                int right = i / HIGH, down = i % HIGH;
                if (!READS) {
                    if (thread == 0) wait_stores_read<(BUFFERS / LEAVING - 1) * LEAVING>();
                    meet(group);  // what left in these squares has been read
                }
                floatX* square = shared.leaving[group][READS ? i : turn];
                finish_square(square, GELU ? sums[0] : sums[down] + 32 * right, bias, n + 64 * right, N, totals, scale, group);
                if (GELU) move_up(sums);
                publish_writes();
                meet(group);
                if (thread == 0) store_results(&result, &other, &active, n + 64 * right, m + 64 * down, square);
                turn = turn + LEAVING < BUFFERS ? turn + LEAVING : 0;
                if (GELU == 2 && partial && down == HIGH - 1) {
                    float* place = partial + (size_t)(m / BM * 4 + thread / 32) * N + n + 64 * right;
                    #pragma unroll
                    for (int e = 0; e < 16; e++) totals[e] *= EIGHT_BITS ? unscale : 1.0f;
                    write_totals(place, totals, N - n - 64 * right);
                    #pragma unroll
                    for (int e = 0; e < 16; e++) totals[e] = 0.0f;
                }
            }
        }
        if (thread == 0) wait_stores_read<0>();  // shared memory must last until then
    }
    meet_cluster();  // and until the other blocks have arrived at barriers in it
}

// The parts of a tile together: for each block of a cluster, and each four sums of its threads, a block of 128 threads.
extern "C" __global__ void __launch_bounds__(128) matmul_v9_add(floatX* result, float4* kept, const floatX* bias, int M, int N,
                                                                int K, int clusters, float scale)
{
    Plan plan(M, N, K, clusters, true);
    int tile = blockIdx.x / CLUSTER, start = tile * plan.rounds, end = start + plan.rounds;
    int cluster = (int)((long long)tile * clusters / (plan.down * plan.across));
    while (plan.begin(cluster + 1) <= start) cluster++;
    if (plan.begin(cluster) <= start && plan.begin(cluster + 1) >= end) return;  // one cluster had all of it
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (bool from_start = true; plan.begin(cluster) < end; cluster++, from_start = false) {
        float4 more = kept_sums(kept, cluster, from_start)[blockIdx.y * 128 + threadIdx.x];
        sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
    }
    if (EIGHT_BITS) sum.x *= scale, sum.y *= scale, sum.z *= scale, sum.w *= scale;
    int h = blockIdx.y / (SUMS / 4), i = blockIdx.y % (SUMS / 4), n = plan.column(tile) + 8 * i + 2 * j_of_lane();
    int m = plan.row(tile) + block_of_cluster() * BM + 64 * h + threadIdx.x / 32 * 16 + r_of_lane();
    finish(result, bias, sum.x, sum.y, m, n, M, N);
    finish(result, bias, sum.z, sum.w, m + 8, n, M, N);
}
