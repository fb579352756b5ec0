/* The products of the linear layer on tensor cores, since Ampere; see product.cuh and product_tiles.cuh.

v6  v5, and the tiles of the next rounds are on their way to shared memory (cp.async) while this one is multiplied
*/

#include "number.cuh"
#include "batches.cuh"
#include "lanes.cuh"
#include "mma_16.cuh"
#include "product.cuh"
#include "product_tiles.cuh"
#include "fragments.cuh"

#ifndef STAGES
#define STAGES 3  // rounds in shared memory
#define BLOCKS 1  // on a multiprocessor, at least; for two there are too few registers
#endif

const int GROUP = 8;  // blocks that follow each other share 8 rows of tiles: fewer columns to read

struct Stage {
    Swizzled<A_RUNS, BM> a;
    Swizzled<B_RUNS, BN> b;
};

// `fetch` in the background, except for edges and for rows that do not consist of whole words of 16 bytes.
template <class Tile>
__device__ void ask(Tile& tile, const floatX* a, int first, int start, int n, int K)
{
    #pragma unroll
    for (int i = 0; i < parts_of<Tile>(); i++) {
        Part part = part_of<Tile>(a, first, start, n, K, i);
        floatX* to = tile.at(part.line, part.column);
        if (part.left >= 8 && aligned(part.from))
            copy_async<4>(reinterpret_cast<float*>(to), reinterpret_cast<const float*>(part.from), true);
        else
            *reinterpret_cast<uint4*>(to) = eight(part.from, part.left);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
matmul_v6(floatX* result, const floatX* a, const floatX* b, const floatX* bias, int M, int N, int K)
{
    extern __shared__ uint4 memory[];
    Stage* stages = reinterpret_cast<Stage*>(memory);  // (STAGES,)
    int down = (M + BM - 1) / BM, across = (N + BN - 1) / BN;
    int group = blockIdx.x / (GROUP * across), place = blockIdx.x % (GROUP * across);
    int height = min(GROUP, down - group * GROUP);
    int m0 = (group * GROUP + place % height) * BM, n0 = place / height * BN;
    int warp = threadIdx.x / 32, wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;

    int next = 0;  // the round that is asked for next
    auto ask_next = [&] {
        if (next * BK < K) {
            ask(stages[next % STAGES].a, a, m0, next * BK, M, K);
            ask(stages[next % STAGES].b, b, n0, next * BK, N, K);
        }
        end_batch();  // also an empty one: the number of batches says how far the copies are
        next++;
    };
    for (int i = 0; i < STAGES - 1; i++) ask_next();
    float sums[WM / 16][WN / 8][4] = {};
    for (int round = 0; round * BK < K; round++) {
        wait_but<STAGES - 2>();
        __syncthreads();  // this round is there for all threads, and they are done with the one before
        ask_next();
        Stage& stage = stages[round % STAGES];
        #pragma unroll
        for (int k = 0; k < BK; k += 16) {
            Squares x[WM / 16], y[WN / 16];
            #pragma unroll
            for (int i = 0; i < WM / 16; i++) get<true>(x[i], stage.a, wm + 16 * i, k);
            #pragma unroll
            for (int i = 0; i < WN / 16; i++) get<false>(y[i], stage.b, wn + 16 * i, k);
            multiply(sums, x, y);
        }
    }
    finish(result, bias, sums, m0 + wm, n0 + wn, M, N);
}
