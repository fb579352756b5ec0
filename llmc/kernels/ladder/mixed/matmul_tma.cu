/* The products of the linear layer on Hopper's tensor cores; see product.cuh for the shapes and macros.

v7  one warpgroup has 64 x BN results. One of its threads asks for the squares of both factors (TMA), a barrier says when
    they are there, and tensor cores read them from shared memory themselves (wgmma)
*/

#include "number.cuh"
#include "lanes.cuh"
#include "product.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

#ifndef BN
#define BN 128    // results of a block: 64 rows and BN columns
#define STAGES 4  // rounds of 64 numbers of k in shared memory
#endif

struct Stage {
    floatX a[SQUARE], b[BN / 64 * SQUARE];
};

extern "C" __global__ void __launch_bounds__(128)
matmul_v7(floatX* result, const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const floatX* bias,
          int M, int N, int K)
{
    extern __shared__ uint4 memory[];
    __shared__ Barrier there[STAGES];
    Stage* stages = reinterpret_cast<Stage*>(first_square(memory));  // (STAGES,)
    int across = (N + BN - 1) / BN, m0 = blockIdx.x / across * 64, n0 = blockIdx.x % across * BN;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) init(&there[i], 1);
        publish_barriers();
    }
    __syncthreads();

    auto ask = [&](int round) {
        if (threadIdx.x != 0 || round * 64 >= K) return;
        Barrier* barrier = &there[round % STAGES];
        expect(barrier, sizeof(Stage));
        load_squares<A_RUNS, 1>(stages[round % STAGES].a, &a, m0, round * 64, barrier);
        load_squares<B_RUNS, BN / 64>(stages[round % STAGES].b, &b, n0, round * 64, barrier);
    };
    for (int round = 0; round < STAGES; round++) ask(round);
    float sums[BN / 2];
    for (int round = 0; round * 64 < K; round++) {
        Stage& stage = stages[round % STAGES];
        wait(&there[round % STAGES], round / STAGES % 2);
        multiply_64<A_RUNS, B_RUNS>(sums, stage.a, stage.b, round > 0);
        wait_products<0>();
        __syncthreads();  // all four warps are done with this stage
        ask(round + STAGES);
    }
    use(sums);
    #pragma unroll
    for (int i = 0; i < BN / 4; i++) {  // rows r and r + 8, two neighbours of each
        int m = m0 + threadIdx.x / 32 * 16 + i % 2 * 8 + r_of_lane(), n = n0 + i / 2 * 8 + 2 * j_of_lane();
        finish(result, bias, sums[2 * i], sums[2 * i + 1], m, n, M, N);
    }
}
