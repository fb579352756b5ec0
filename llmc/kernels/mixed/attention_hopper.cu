/* Flash attention in 16 bits on Hopper's tensor cores (compute capability 9.0 alone).

forward v3  v2's idea with wgmma. A producer asks for queries, keys and values (TMA); each other warpgroup has 64 queries.
            Its scores come from shared memory, go through the softmax in registers, and stay there, rounded, as a factor
            of the next product. Products go on while it computes: those of the next scores, and of weights and values,
            are asked for together, and the softmax of the former runs beside the latter. Two warpgroups take turns: one
            asks for products once the other has, so that while one computes exponentials, the other's products run

There are as many blocks as fit, and each takes one tile of queries after another, longest first. hs is HS, which is 32,
64 or 128. The rest of what attention_tensor.cu says holds here.
*/

#include "number.cuh"

#ifndef HS
#define HS 64
#endif
#ifndef KEYS
#define KEYS 128  // of a stage
#define STAGES 2
#define GROUPS 2  // warpgroups with queries, 64 each; one more fetches
#define TURNS 1   // whether they take turns, if they are two
#endif

#include "lanes.cuh"
#include "warp_rows.cuh"
#include "tma.cuh"
#include "wgmma.cuh"
#include "heads.cuh"

static_assert(!TURNS || GROUPS == 2);
const int QUERIES = 64 * GROUPS, THREADS = 128 * (1 + GROUPS);
const int WIDE = (HS + 63) / 64, LONG = KEYS / 64;                           // squares side by side, below each other
const int TILE_BYTES = LONG * WIDE * SQUARE_BYTES;                           // of keys, of values
const int FEW = GROUPS == 2 ? 24 : 32, MANY = GROUPS == 2 ? 240 : 160;       // registers of the producer, of the others

struct Shared {
    floatX queries[2][WIDE][GROUPS][SQUARE];  // of this tile and the next one
    floatX keys[STAGES][WIDE][LONG][SQUARE], values[STAGES][LONG][WIDE][SQUARE];
    Barrier queries_there[2], queries_used[2];
    Barrier keys_there[STAGES], keys_used[STAGES], values_there[STAGES], values_used[STAGES];
};

// A tile of queries of one head; `rounds` stages of keys are not all hidden from them.
struct Task {
    int head, first, rounds;

    __device__ Task(int number, int heads, int T)
    {
        int tiles = (T + QUERIES - 1) / QUERIES;
        Place place = place_of(number, heads, tiles);
        head = place.head, first = (tiles - 1 - place.shorter) * QUERIES;
        rounds = (min(first + QUERIES, T) + KEYS - 1) / KEYS;
    }
};

__device__ void produce(Shared& shared, const TensorMap* qkv, int B, int T, int NH)
{
    Ring<2> queries;
    Ring<STAGES> stages;
    for (int number = blockIdx.x; number < B * NH * ((T + QUERIES - 1) / QUERIES); number += gridDim.x, queries.next()) {
        Task task(number, B * NH, T);
        int b = task.head / NH, q = task.head % NH * HS, k = q + NH * HS, v = k + NH * HS;  // columns of qkv
        Barrier* barrier = &shared.queries_there[queries.stage];
        wait(&shared.queries_used[queries.stage], queries.parity ^ 1);
        expect(barrier, sizeof(shared.queries[0]));
        for (int i = 0; i < WIDE * GROUPS; i++)
            load_square(shared.queries[queries.stage][i / GROUPS][i % GROUPS], qkv, q + i / GROUPS * 64,
                        task.first + i % GROUPS * 64, b, barrier);
        for (int round = 0; round < task.rounds; round++, stages.next()) {
            int s = stages.stage;
            wait(&shared.keys_used[s], stages.parity ^ 1);
            expect(&shared.keys_there[s], TILE_BYTES);
            for (int i = 0; i < WIDE * LONG; i++)
                load_square(shared.keys[s][i / LONG][i % LONG], qkv, k + i / LONG * 64, round * KEYS + i % LONG * 64, b,
                            &shared.keys_there[s]);
            wait(&shared.values_used[s], stages.parity ^ 1);
            expect(&shared.values_there[s], TILE_BYTES);
            for (int i = 0; i < WIDE * LONG; i++)
                load_square(shared.values[s][i / WIDE][i % WIDE], qkv, v + i % WIDE * 64, round * KEYS + i / WIDE * 64, b,
                            &shared.values_there[s]);
        }
    }
}

// The two warpgroups ask for products in turns.
__device__ void wait_for_turn(int group)
{
    if (TURNS) asm volatile("bar.sync %0, 256;" ::"r"(1 + group) : "memory");
}

__device__ void pass_turn(int group)
{
    if (TURNS) asm volatile("bar.arrive %0, 256;" ::"r"(2 - group) : "memory");
}

// scores (64, KEYS) = queries keysT: asked for.
__device__ void ask_for_scores(float (&scores)[KEYS / 2], floatX (&queries)[WIDE][GROUPS][SQUARE],
                               floatX (&keys)[WIDE][LONG][SQUARE], int group)
{
    begin_products();
    #pragma unroll
    for (int i = 0; i < HS / 16; i++)
        multiply<true, true>(scores, describe(queries[i / 4][group]) + i % 4 * next_k<true>(),
                             describe(keys[i / 4][0]) + i % 4 * next_k<true>(), i > 0);
    end_group();
}

// sums (64, HS) += weights values: asked for.
__device__ void ask_for_sums(float (&sums)[HS / 2], const unsigned (&weights)[KEYS / 4],
                             floatX (&values)[LONG][WIDE][SQUARE])
{
    begin_products();
    #pragma unroll
    for (int i = 0; i < KEYS / 16; i++)
        multiply<false>(sums, weights + 4 * i, describe(values[i / 4][0]) + i % 4 * next_k<false>());
    end_group();
}

// Scores of keys that come after the query become LOWEST: rows q + 8 n, columns from k on.
__device__ void hide_later(float (&scores)[KEYS / 2], int q, int k)
{
    int ahead = k + 2 * j_of_lane() - q;
    #pragma unroll
    for (int i = 0; i < KEYS / 2; i++) {
        int shift = i / 4 * 8 + i % 2 - i % 4 / 2 * 8;
        if (ahead > -shift) scores[i] = LOWEST;
    }
}

// Turns scores into probabilities relative to top[n]. It may grow: what was summed up so far must shrink by shrink[n].
__device__ void online_softmax(float (&scores)[KEYS / 2], float (&top)[2], float (&total)[2], float (&shrink)[2],
                               float scale)
{
    #pragma unroll
    for (int n = 0; n < 2; n++) {
        float higher = top[n], more = 0.0f;
        #pragma unroll
        for (int i = 0; i < KEYS / 4; i++) higher = fmaxf(higher, scores[i / 2 * 4 + 2 * n + i % 2]);
        higher = row_max(higher);
        shrink[n] = power_of_two((top[n] - higher) * scale);
        top[n] = higher;
        #pragma unroll
        for (int i = 0; i < KEYS / 4; i++) {
            float& score = scores[i / 2 * 4 + 2 * n + i % 2];
            more += score = power_of_two(score * scale - higher * scale);
        }
        total[n] = total[n] * shrink[n] + more;  // of this lane's keys; the four are added at the end
    }
}

__device__ void round_weights(unsigned (&weights)[KEYS / 4], const float (&scores)[KEYS / 2])
{
    #pragma unroll
    for (int i = 0; i < KEYS / 4; i++) weights[i] = rounded_pair(scores[2 * i], scores[2 * i + 1]);
}

__device__ void consume(Shared& shared, floatX* out, float* stats, int B, int T, int NH, int group)
{
    Ring<2> queries;
    Ring<STAGES> keys, values;
    bool first_thread = threadIdx.x % 128 == 0;
    float scale = rsqrtf((float)HS);
    if (group == 1) pass_turn(group);  // the first one begins
    for (int number = blockIdx.x; number < B * NH * ((T + QUERIES - 1) / QUERIES); number += gridDim.x, queries.next()) {
        Task task(number, B * NH, T);
        int q = task.first + group * 64 + threadIdx.x % 128 / 32 * 16 + r_of_lane();  // this lane's first query
        float scores[KEYS / 2] = {}, sums[HS / 2] = {}, top[2] = {LOWEST, LOWEST}, total[2] = {}, shrink[2];
        unsigned weights[KEYS / 4];
        auto& own = shared.queries[queries.stage];
        auto done_with = [&](Barrier* barrier) {
            if (first_thread) arrive(barrier);
        };
        auto soften = [&](int round) {  // what has become scores is there
            use(scores);
            done_with(&shared.keys_used[keys.stage]);
            keys.next();
            if ((round + 1) * KEYS > task.first + group * 64 + 1) hide_later(scores, q, round * KEYS);
            online_softmax(scores, top, total, shrink, scale * LOG2E);
        };
        wait(&shared.queries_there[queries.stage], queries.parity);
        wait(&shared.keys_there[keys.stage], keys.parity);
        ask_for_scores(scores, own, shared.keys[keys.stage], group);
        wait_products<0>();
        soften(0);
        for (int round = 1; round < task.rounds; round++) {
            round_weights(weights, scores);
            wait(&shared.keys_there[keys.stage], keys.parity);
            wait(&shared.values_there[values.stage], values.parity);
            wait_for_turn(group);
            ask_for_scores(scores, own, shared.keys[keys.stage], group);
            ask_for_sums(sums, weights, shared.values[values.stage]);
            pass_turn(group);
            wait_products<1>();  // the sums of the round before are under way
            soften(round);
            wait_products<0>();
            use(sums);
            done_with(&shared.values_used[values.stage]);
            values.next();
            #pragma unroll
            for (int i = 0; i < HS / 2; i++) sums[i] *= shrink[i % 4 / 2];
        }
        done_with(&shared.queries_used[queries.stage]);
        round_weights(weights, scores);
        wait(&shared.values_there[values.stage], values.parity);
        ask_for_sums(sums, weights, shared.values[values.stage]);
        wait_products<0>();
        use(sums);
        done_with(&shared.values_used[values.stage]);
        values.next();

        int b = task.head / NH, h = task.head % NH;
        #pragma unroll
        for (int n = 0; n < 2; n++) {
            int t = q + 8 * n;
            total[n] = row_sum(total[n]);
            if (t >= T) continue;
            if (j_of_lane() == 0) stats[(size_t)task.head * T + t] = top[n] * scale + logf(total[n]);
            floatX* row = out + ((size_t)b * T + t) * NH * HS + h * HS + 2 * j_of_lane();
            float factor = 1.0f / total[n];
            #pragma unroll
            for (int c = 0; c < HS / 8; c++)
                *reinterpret_cast<unsigned*>(row + 8 * c) =
                    rounded_pair(sums[4 * c + 2 * n] * factor, sums[4 * c + 2 * n + 1] * factor);
        }
    }
}

// Grid: as many blocks as fit at once, in x. qkv: a stack of B matrices (T, 3 NH HS).
extern "C" __global__ void __launch_bounds__(THREADS, 1)
attention_forward_v3(floatX* out, float* stats, const __grid_constant__ TensorMap qkv, int B, int T, int NH)
{
    extern __shared__ uint4 memory[];
    Shared& shared = *reinterpret_cast<Shared*>(first_square(memory));
    int group = __shfl_sync(ALL, (int)threadIdx.x / 128, 0) - 1;  // -1: the producer; the same for a whole warp
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) {
            init(&shared.queries_there[i], 1);
            init(&shared.queries_used[i], GROUPS);
        }
        for (int i = 0; i < STAGES; i++) {
            init(&shared.keys_there[i], 1);
            init(&shared.values_there[i], 1);
            init(&shared.keys_used[i], GROUPS);
            init(&shared.values_used[i], GROUPS);
        }
        publish_barriers();
    }
    __syncthreads();
    if (group < 0) {
        give_registers<FEW>();
        if (threadIdx.x == 0) produce(shared, &qkv, B, T, NH);
    } else {
        take_registers<MANY>();
        consume(shared, out, stats, B, T, NH, group);
    }
}
