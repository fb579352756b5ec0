/* The products of the linear layer on Hopper's tensor cores; see product.cuh for the shapes and macros.

v8  warpgroups have roles: one thread of the producer does nothing but ask for squares, as soon as their place in shared
    memory is free; two warpgroups multiply what is there, each 64 rows of a larger tile, and need not wait for each other
*/

#include "number.cuh"
#include "lanes.cuh"
#include "product.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

#ifndef BN
#define BN 256    // results of a block: 128 rows and BN columns
#define STAGES 4  // rounds of 64 numbers of k in shared memory
#endif

const int GROUPS = 2;  // that multiply

struct Stage {
    floatX a[GROUPS * SQUARE], b[BN / 64 * SQUARE];
};

extern "C" __global__ void __launch_bounds__(128 * (1 + GROUPS), 1)
matmul_v8(floatX* result, const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const floatX* bias,
          int M, int N, int K)
{
    extern __shared__ uint4 memory[];
    __shared__ Barrier there[STAGES], used[STAGES];
    Stage* stages = reinterpret_cast<Stage*>(first_square(memory));  // (STAGES,)
    int across = (N + BN - 1) / BN, m0 = blockIdx.x / across * 64 * GROUPS, n0 = blockIdx.x % across * BN;
    int rounds = (K + 63) / 64, group = (int)threadIdx.x / 128 - 1;  // -1: the producer
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            init(&there[i], 1);
            init(&used[i], GROUPS);
        }
        publish_barriers();
    }
    __syncthreads();

    if (group < 0) {
        give_registers<40>();
        if (threadIdx.x > 0) return;
        for (int round = 0; round < rounds; round++) {
            Stage& stage = stages[round % STAGES];
            Barrier* barrier = &there[round % STAGES];
            wait(&used[round % STAGES], round / STAGES % 2 ^ 1);  // at first all are free: the phase before phase 0 is over
            expect(barrier, sizeof(Stage));
            load_squares<A_RUNS, GROUPS>(stage.a, &a, m0, round * 64, barrier);
            load_squares<B_RUNS, BN / 64>(stage.b, &b, n0, round * 64, barrier);
        }
    } else {
        take_registers<232>();
        float sums[BN / 2];
        for (int round = 0; round < rounds; round++) {
            Stage& stage = stages[round % STAGES];
            wait(&there[round % STAGES], round / STAGES % 2);
            multiply_64<A_RUNS, B_RUNS>(sums, stage.a + group * SQUARE, stage.b, round > 0);
            wait_products<1>();  // those of the round before are there, these are under way
            if (round > 0 && threadIdx.x % 128 == 0) arrive(&used[(round - 1) % STAGES]);
        }
        wait_products<0>();
        use(sums);
        #pragma unroll
        for (int i = 0; i < BN / 4; i++) {  // rows r and r + 8, two neighbours of each
            int row = group * 64 + threadIdx.x % 128 / 32 * 16 + i % 2 * 8 + r_of_lane(), n = n0 + i / 2 * 8 + 2 * j_of_lane();
            finish(result, bias, sums[2 * i], sums[2 * i + 1], m0 + row, n, M, N);
        }
    }
}
