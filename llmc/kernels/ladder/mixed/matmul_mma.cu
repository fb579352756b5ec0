/* The products of the linear layer on tensor cores, since Ampere; see product.cuh and product_tiles.cuh.

v3  mma: a warp multiplies (16, 16) by (16, 8) at a time, and its lanes hold the factors, which each reads for itself
v4  ldmatrix: a warp reads four squares of 8 x 8 at once, and every lane gets what mma wants from it
v5  swizzled tiles: no bank is asked twice, and there is no gap between the lines
*/

#include "number.cuh"
#include "lanes.cuh"
#include "mma_16.cuh"
#include "product.cuh"
#include "product_tiles.cuh"
#include "fragments.cuh"

const int BLOCKS = 2;  // on a multiprocessor: while one waits for its tiles, the other multiplies

enum Way { BY_HAND, LDMATRIX };

// A lane's share of the squares of `get`, number by number.
template <bool FIRST, class Tile>
__device__ void get_by_hand(Squares& squares, Tile& tile, int row, int k)
{
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        int x = row + r_of_lane() + (FIRST ? i % 2 : i / 2) * 8, y = k + 2 * j_of_lane() + (FIRST ? i / 2 : i % 2) * 8;
        squares[i] = Tile::RUNS ? *reinterpret_cast<unsigned*>(tile.at(x, y)) : pair(*tile.at(y, x), *tile.at(y + 1, x));
    }
}

template <Way WAY, class A, class B>
__device__ void product(A& as, B& bs, floatX* result, const floatX* a, const floatX* b, const floatX* bias, int M, int N,
                        int K)
{
    int across = (N + BN - 1) / BN, m0 = blockIdx.x / across * BM, n0 = blockIdx.x % across * BN;
    int warp = threadIdx.x / 32, wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
    float sums[WM / 16][WN / 8][4] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        __syncthreads();  // all threads are done with the tiles of the round before
        fetch(as, a, m0, k0, M, K);
        fetch(bs, b, n0, k0, N, K);
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; k += 16) {
            Squares x[WM / 16], y[WN / 16];
            #pragma unroll
            for (int i = 0; i < WM / 16; i++)
                WAY == BY_HAND ? get_by_hand<true>(x[i], as, wm + 16 * i, k) : get<true>(x[i], as, wm + 16 * i, k);
            #pragma unroll
            for (int i = 0; i < WN / 16; i++)
                WAY == BY_HAND ? get_by_hand<false>(y[i], bs, wn + 16 * i, k) : get<false>(y[i], bs, wn + 16 * i, k);
            multiply(sums, x, y);
        }
    }
    finish(result, bias, sums, m0 + wm, n0 + wn, M, N);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
matmul_v3(floatX* result, const floatX* a, const floatX* b, const floatX* bias, int M, int N, int K)
{
    __shared__ Padded<A_RUNS, BM> as;
    __shared__ Padded<B_RUNS, BN> bs;
    product<BY_HAND>(as, bs, result, a, b, bias, M, N, K);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
matmul_v4(floatX* result, const floatX* a, const floatX* b, const floatX* bias, int M, int N, int K)
{
    __shared__ Padded<A_RUNS, BM> as;
    __shared__ Padded<B_RUNS, BN> bs;
    product<LDMATRIX>(as, bs, result, a, b, bias, M, N, K);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
matmul_v5(floatX* result, const floatX* a, const floatX* b, const floatX* bias, int M, int N, int K)
{
    __shared__ Swizzled<A_RUNS, BM> as;
    __shared__ Swizzled<B_RUNS, BN> bs;
    product<LDMATRIX>(as, bs, result, a, b, bias, M, N, K);
}
