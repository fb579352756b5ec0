/* The products of the linear layer on tensor cores; see product.cuh and product_tiles.cuh.

v2  wmma: a warp multiplies (16, 16) by (16, 16) at a time. Which lane holds what is the GPU's secret: it reads and
    writes these squares itself, from and to shared memory. float16 since Volta, bfloat16 since Ampere

In C++ these instructions are nvcuda::wmma of mma.h, a file that neither a GPU's driver nor NVRTC brings along.
*/

#include "number.cuh"
#include "lanes.cuh"
#include "product.cuh"
#include "product_tiles.cuh"

#if A_RUNS
#define A_ORDER "row"
#else
#define A_ORDER "col"
#endif
#if B_RUNS
#define B_ORDER "col"  // a matrix B (K, N) in which k runs
#else
#define B_ORDER "row"
#endif

#define D_REGISTERS "{%0, %1, %2, %3, %4, %5, %6, %7}"
#if FLOAT16
#define TYPE "f16"
#define TYPES "f32.f32"
#define REGISTERS D_REGISTERS                     // of a factor
#define POINTER "[%8], %9"                        // operands behind those
#define A_REGISTERS "{%8, %9, %10, %11, %12, %13, %14, %15}"  // of the factors behind a sum's
#define B_REGISTERS "{%16, %17, %18, %19, %20, %21, %22, %23}"
#define ALL_OF(how, x) EIGHT(how, x, 0)
typedef unsigned Factor[8];  // a lane's part of a square of 16-bit numbers; each number is with two lanes
#else
#define TYPE "bf16"
#define TYPES "f32.bf16.bf16.f32"
#define REGISTERS "{%0, %1, %2, %3}"
#define POINTER "[%4], %5"
#define A_REGISTERS "{%8, %9, %10, %11}"
#define B_REGISTERS "{%12, %13, %14, %15}"
#define ALL_OF(how, x) FOUR(how, x, 0)
typedef unsigned Factor[4];
#endif
typedef float Square[8];  // a lane's part of a square of sums

#if __CUDA_ARCH__ >= (FLOAT16 ? 700 : 800)
#define THERE 1  // this GPU can do it; for others the kernel is compiled but empty
#endif

__device__ void load_a(Factor& x, const floatX* corner, int width)
{
#if THERE
    unsigned address = (unsigned)__cvta_generic_to_shared(corner);
    asm volatile("wmma.load.a.sync.aligned." A_ORDER ".m16n16k16.shared." TYPE " " REGISTERS ", " POINTER ";"
        : ALL_OF("=r", x) : "r"(address), "r"(width) : "memory");
#endif
}

__device__ void load_b(Factor& x, const floatX* corner, int width)
{
#if THERE
    unsigned address = (unsigned)__cvta_generic_to_shared(corner);
    asm volatile("wmma.load.b.sync.aligned." B_ORDER ".m16n16k16.shared." TYPE " " REGISTERS ", " POINTER ";"
        : ALL_OF("=r", x) : "r"(address), "r"(width) : "memory");
#endif
}

// d += a b
__device__ void multiply(Square& d, const Factor& a, const Factor& b)
{
#if THERE
    asm volatile("wmma.mma.sync.aligned." A_ORDER "." B_ORDER ".m16n16k16." TYPES " " D_REGISTERS ", " A_REGISTERS ", "
        B_REGISTERS ", " D_REGISTERS ";" : EIGHT("+f", d, 0) : ALL_OF("r", a), ALL_OF("r", b));
#endif
}

__device__ void write(float* corner, const Square& d, int width)
{
#if THERE
    unsigned address = (unsigned)__cvta_generic_to_shared(corner);
    asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%8], " D_REGISTERS ", %9;"
        :: EIGHT("f", d, 0), "r"(address), "r"(width) : "memory");
#endif
}

const int WIDTH = 20;  // of a square in shared memory, 16 and a gap

extern "C" __global__ void __launch_bounds__(THREADS) matmul_v2(floatX* result, const floatX* a, const floatX* b,
                                                                const floatX* bias, int M, int N, int K)
{
    typedef Padded<A_RUNS, BM> A;
    typedef Padded<B_RUNS, BN> B;
    __shared__ A as;
    __shared__ B bs;
    __shared__ __align__(128) float squares[THREADS / 32][16 * WIDTH];
    int across = (N + BN - 1) / BN, m0 = blockIdx.x / across * BM, n0 = blockIdx.x % across * BN;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
    Square sums[WM / 16][WN / 16] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        __syncthreads();  // all threads are done with the tiles of the round before
        fetch(as, a, m0, k0, M, K);
        fetch(bs, b, n0, k0, N, K);
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; k += 16) {
            Factor x[WM / 16], y[WN / 16];
            #pragma unroll
            for (int i = 0; i < WM / 16; i++)
                load_a(x[i], A_RUNS ? as.at(wm + 16 * i, k) : as.at(k, wm + 16 * i), A::WIDTH);
            #pragma unroll
            for (int i = 0; i < WN / 16; i++)
                load_b(y[i], B_RUNS ? bs.at(wn + 16 * i, k) : bs.at(k, wn + 16 * i), B::WIDTH);
            #pragma unroll
            for (int i = 0; i < WM / 16 * (WN / 16); i++)
                multiply(sums[i / (WN / 16)][i % (WN / 16)], x[i / (WN / 16)], y[i % (WN / 16)]);
        }
    }
    #pragma unroll
    for (int i = 0; i < WM / 16 * (WN / 16); i++) {  // one square after the other passes through shared memory
        float* square = squares[warp];
        write(square, sums[i / (WN / 16)][i % (WN / 16)], WIDTH);
        __syncwarp();
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            int row = j * 4 + lane / 8, column = lane % 8 * 2;
            float2 two = *reinterpret_cast<float2*>(square + row * WIDTH + column);
            finish(result, bias, two.x, two.y, m0 + wm + i / (WN / 16) * 16 + row, n0 + wn + i % (WN / 16) * 16 + column,
                   M, N);
        }
        __syncwarp();
    }
}
