/* The backward pass of flash attention in 16 bits on Hopper's tensor cores (compute capability 9.0 alone).

query v3  dq: a warpgroup owns 64 queries, with their douts; keys and values come 64 at a time
key v3    dk and dv: a warpgroup owns 64 keys and values; queries and douts come 64 at a time

Both compute v2's products with wgmma, fetched by a producer as in attention_hopper.cu. They are one text: with queries and
keys, douts and values changing places, either has
    p = exp(own (64, HS) otherT), ds = p (own2 otherT2 - delta), sums += ds other, and the keys' sums2 += p other2
where p and ds stay in registers. delta is v2's, from attention_tensor_backward.cu.

In fp8 dqkv leaves times `gradients` in 8 bits, and its columns are summed: `partial` has a row for each 64 rows of it.
*/

#include "number.cuh"
#include "number_8.cuh"

#ifndef HS
#define HS 64  // 32 or 64: for more there are too few registers
#endif
#ifndef STAGES
#define STAGES 3
#endif

#include "lanes.cuh"
#include "column_sums.cuh"
#include "warp_rows.cuh"
#include "tma.cuh"
#include "wgmma.cuh"
#include "heads.cuh"

const int GROUPS = 2, OWN = 64 * GROUPS, THREADS = 128 * (1 + GROUPS);

struct Shared {
    floatX own[2][2][GROUPS][SQUARE];  // of this task and the next: own, own2
    floatX others[STAGES][2][SQUARE];  // other, other2
    Barrier own_there[2], own_used[2], others_there[STAGES], others_used[STAGES];
    float sums[GROUPS][4][64];  // of the columns of each warp's results
};

const bool EIGHT_BITS = sizeof(Gradient) == 1;

// A tile of one head, rows from `first` on, and what it meets: rounds of 64 others, from row `start` on.
template <bool KEY>
struct Task {
    int head, first, start, rounds;

    __device__ Task(int number, int heads, int T)
    {
        int tiles = (T + OWN - 1) / OWN;
        Place place = place_of(number, heads, tiles);
        head = place.head, first = (KEY ? place.shorter : tiles - 1 - place.shorter) * OWN;
        start = KEY ? first : 0;
        rounds = ((KEY ? T : min(first + OWN, T)) - start + 63) / 64;
    }
};

__device__ int count_tasks(int B, int T, int NH) { return B * NH * ((T + OWN - 1) / OWN); }

template <bool KEY>
__device__ void produce(Shared& shared, const TensorMap* qkv, const TensorMap* dout, int B, int T, int NH)
{
    Ring<2> owns;
    Ring<STAGES> stages;
    for (int number = blockIdx.x; number < count_tasks(B, T, NH); number += gridDim.x, owns.next()) {
        Task<KEY> task(number, B * NH, T);
        int b = task.head / NH, q = task.head % NH * HS, k = q + NH * HS, v = k + NH * HS;  // columns
        auto load_pair = [&](floatX* first, floatX* second, bool keys, int t, Barrier* barrier) {
            load_square(first, qkv, keys ? k : q, t, b, barrier);
            load_square(second, keys ? qkv : dout, keys ? v : q, t, b, barrier);
        };
        wait(&shared.own_used[owns.stage], owns.parity ^ 1);
        expect(&shared.own_there[owns.stage], sizeof(shared.own[0]));
        for (int i = 0; i < GROUPS; i++)
            load_pair(shared.own[owns.stage][0][i], shared.own[owns.stage][1][i], KEY, task.first + 64 * i,
                      &shared.own_there[owns.stage]);
        for (int round = 0; round < task.rounds; round++, stages.next()) {
            Barrier* barrier = &shared.others_there[stages.stage];
            wait(&shared.others_used[stages.stage], stages.parity ^ 1);
            expect(barrier, sizeof(shared.others[0]));
            load_pair(shared.others[stages.stage][0], shared.others[stages.stage][1], !KEY, task.start + 64 * round, barrier);
        }
    }
}

// results (64, 64) = own otherT: asked for.
__device__ void ask_for_dots(float (&results)[32], const floatX* own, const floatX* other)
{
    #pragma unroll
    for (int i = 0; i < HS / 16; i++)
        multiply<true, true>(results, describe(own) + i * next_k<true>(), describe(other) + i * next_k<true>(), i > 0);
    end_group();
}

// sums (64, HS) += weights (64, 64) other: asked for.
__device__ void ask_for_sums(float (&sums)[HS / 2], const unsigned (&weights)[16], const floatX* other)
{
    #pragma unroll
    for (int i = 0; i < 4; i++) multiply<false>(sums, weights + 4 * i, describe(other) + i * next_k<false>());
}

// Dots of keys that come after the query become LOWEST: rows t and t + 8, columns from `column` on.
template <bool KEY>
__device__ void hide_later(float (&dots)[32], int t, int column)
{
    int ahead = column + 2 * j_of_lane() - t;
    #pragma unroll
    for (int i = 0; i < 32; i++) {
        int shift = i / 4 * 8 + i % 2 - i % 4 / 2 * 8;
        if (KEY ? ahead < -shift : ahead > -shift) dots[i] = LOWEST;
    }
}

// Of 64 columns of results, `first` and those after it, what each has; those beyond T have what the last one has.
__device__ void load_columns(float (&to)[16], const float* from, int first, int T)
{
    int column = first + 2 * j_of_lane();
    #pragma unroll
    for (int i = 0; i < 16 && first + 64 <= T; i++) to[i] = from[column + i / 2 * 8 + i % 2];
    #pragma unroll
    for (int i = 0; i < 16 && first + 64 > T; i++) to[i] = from[min(column + i / 2 * 8 + i % 2, T - 1)];
}

__device__ void round_weights(unsigned (&weights)[16], const float (&values)[32])
{
    #pragma unroll
    for (int i = 0; i < 16; i++) weights[i] = rounded_pair(values[2 * i], values[2 * i + 1]);
}

// Rows t … of a matrix with rows `stride` apart, those below T.
__device__ void store_rows(Gradient* to, const float (&sums)[HS / 2], float factor, int t, int T, size_t stride)
{
    #pragma unroll
    for (int i = 0; i < HS / 4; i++) {
        int row = t + i % 2 * 8;
        Gradient* two = to + row * stride + i / 2 * 8 + 2 * j_of_lane();
        float low = sums[2 * i] * factor, high = sums[2 * i + 1] * factor;
        if (row < T && EIGHT_BITS) *reinterpret_cast<unsigned short*>(two) = narrow<e5m2>(low, high);
        if (row < T && !EIGHT_BITS) *reinterpret_cast<unsigned*>(two) = rounded_pair(low, high);
    }
}

// *to (HS,) = factor times the sums of the columns of a warpgroup's 64 rows, those below T. HS is 64.
__device__ void store_column_sums(float* to, Shared& shared, const float (&sums)[HS / 2], float factor, int t, int T, int group)
{
    int thread = threadIdx.x % 128;
    float totals[16];
    #pragma unroll
    for (int i = 0; i < HS / 4; i++)
        totals[i] = ((t < T ? sums[i / 2 * 4 + i % 2] : 0.0f) + (t + 8 < T ? sums[i / 2 * 4 + 2 + i % 2] : 0.0f)) * factor;
    meet(group);  // what was there has been read
    write_totals(shared.sums[group][thread / 32], totals, HS);
    meet(group);
    const float(&warps)[4][64] = shared.sums[group];
    if (thread < HS) to[thread] = warps[0][thread] + warps[1][thread] + warps[2][thread] + warps[3][thread];
}

template <bool KEY>
__device__ void consume(Shared& shared, Gradient* dqkv, float* partial, float gradients, const float* stats,
                        const float* delta, int B, int T, int NH, int group)
{
    Ring<2> owns;
    Ring<STAGES> stages;
    bool first_thread = threadIdx.x % 128 == 0;
    float scale = rsqrtf((float)HS);
    for (int number = blockIdx.x; number < count_tasks(B, T, NH); number += gridDim.x, owns.next()) {
        Task<KEY> task(number, B * NH, T);
        int mine = task.first + 64 * group, t = mine + threadIdx.x % 128 / 32 * 16 + r_of_lane();
        int begin = KEY ? min(group, task.rounds - 1) : 0;  // all is hidden in the rounds before
        int end = KEY ? task.rounds : min(task.rounds, mine / 64 + 1);  // and after
        const float *lse = stats + (size_t)task.head * T, *mean = delta + (size_t)task.head * T;
        float p[32] = {}, ds[32] = {}, sums[HS / 2] = {}, sums2[HS / 2] = {};
        unsigned weights[16], slopes[16];
        float row_lse[2], row_mean[2];
        #pragma unroll
        for (int n = 0; n < 2 && !KEY; n++) {
            row_lse[n] = lse[min(t + 8 * n, T - 1)] * LOG2E;
            row_mean[n] = mean[min(t + 8 * n, T - 1)];
        }

        auto skip = [&] {
            wait(&shared.others_there[stages.stage], stages.parity);
            if (first_thread) arrive(&shared.others_used[stages.stage]);
            stages.next();
        };
        auto ask = [&] {
            wait(&shared.others_there[stages.stage], stages.parity);
            begin_products();
            ask_for_dots(p, shared.own[owns.stage][0][group], shared.others[stages.stage][0]);
            ask_for_dots(ds, shared.own[owns.stage][1][group], shared.others[stages.stage][1]);
        };
        auto soften = [&](int round) {  // p, and then ds, while the former's exponentials are computed
            int other = task.start + 64 * round;
            float column_lse[16], column_mean[16];
            if (KEY) load_columns(column_lse, lse, other, T), load_columns(column_mean, mean, other, T);
            wait_products<1>();
            use(p);
            if (KEY ? other < mine + 63 : other + 63 > mine) hide_later<KEY>(p, t, other);
            #pragma unroll
            for (int i = 0; i < 32; i++) {
                float log_sum = KEY ? column_lse[i / 4 * 2 + i % 2] * LOG2E : row_lse[i % 4 / 2];
                p[i] = power_of_two(p[i] * (scale * LOG2E) - log_sum);
            }
            wait_products<0>();
            use(ds);
            #pragma unroll
            for (int i = 0; i < 32; i++)
                ds[i] = p[i] * (ds[i] - (KEY ? column_mean[i / 4 * 2 + i % 2] : row_mean[i % 4 / 2]));
            if (KEY) round_weights(weights, p);
            round_weights(slopes, ds);
        };
        auto add = [&] {
            begin_products();
            if (KEY) ask_for_sums(sums2, weights, shared.others[stages.stage][1]);
            ask_for_sums(sums, slopes, shared.others[stages.stage][0]);
            end_group();
        };

        wait(&shared.own_there[owns.stage], owns.parity);
        for (int round = 0; round < begin; round++) skip();
        ask();
        soften(begin);
        add();
        for (int round = begin + 1; round < end; round++) {
            int last = stages.stage;
            stages.next();
            ask();
            wait_products<2>();  // the sums of the round before, which has been used then
            if (first_thread) arrive(&shared.others_used[last]);
            soften(round);
            add();
        }
        wait_products<0>();
        if (first_thread) arrive(&shared.others_used[stages.stage]);
        stages.next();
        use(sums);
        if (KEY) use(sums2);
        if (first_thread) arrive(&shared.own_used[owns.stage]);
        for (int round = end; round < task.rounds; round++) skip();

        int C = NH * HS;
        Gradient* to = dqkv + (size_t)(task.head / NH) * T * 3 * C + task.head % NH * HS;
        store_rows(KEY ? to + C : to, sums, scale * gradients, t, T, 3 * C);
        if (KEY) store_rows(to + 2 * C, sums2, gradients, t, T, 3 * C);
        if (EIGHT_BITS) {
            int rows = (T + OWN - 1) / OWN * GROUPS;  // of partial, for each b
            float* place = partial + ((size_t)(task.head / NH) * rows + mine / 64) * 3 * C + task.head % NH * HS;
            store_column_sums(KEY ? place + C : place, shared, sums, scale, t, T, group);
            if (KEY) store_column_sums(place + 2 * C, shared, sums2, 1.0f, t, T, group);
        }
    }
}

template <bool KEY>
__device__ void backward(Shared& shared, Gradient* dqkv, float* partial, float gradients, const float* stats,
                         const float* delta, const TensorMap* qkv, const TensorMap* dout, int B, int T, int NH)
{
    int group = __shfl_sync(ALL, (int)threadIdx.x / 128, 0) - 1;  // -1: the producer; one for a warp, as the compiler sees
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) init(&shared.own_there[i], 1), init(&shared.own_used[i], GROUPS);
        for (int i = 0; i < STAGES; i++) init(&shared.others_there[i], 1), init(&shared.others_used[i], GROUPS);
        publish_barriers();
    }
    __syncthreads();
    if (group < 0) {
        give_registers<24>();
        if (threadIdx.x == 0) produce<KEY>(shared, qkv, dout, B, T, NH);
    } else {
        take_registers<240>();
        consume<KEY>(shared, dqkv, partial, gradients, stats, delta, B, T, NH, group);
    }
}

// Grid: as many blocks as fit at once, in x. qkv, dout: stacks of B matrices (T, 3 NH HS), (T, NH HS).
extern "C" __global__ void __launch_bounds__(THREADS, 1)
attention_backward_query_v3(Gradient* dqkv, float* partial, float gradients, const float* stats, const float* delta,
                            const __grid_constant__ TensorMap qkv, const __grid_constant__ TensorMap dout, int B, int T,
                            int NH)
{
    extern __shared__ uint4 memory[];
    backward<false>(*reinterpret_cast<Shared*>(first_square(memory)), dqkv, partial, gradients, stats, delta, &qkv, &dout, B, T,
                    NH);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
attention_backward_key_v3(Gradient* dqkv, float* partial, float gradients, const float* stats, const float* delta,
                          const __grid_constant__ TensorMap qkv, const __grid_constant__ TensorMap dout, int B, int T,
                          int NH)
{
    extern __shared__ uint4 memory[];
    backward<true>(*reinterpret_cast<Shared*>(first_square(memory)), dqkv, partial, gradients, stats, delta, &qkv, &dout, B, T,
                   NH);
}
