// Inline PTX as fast matmuls and flash attention use it: cp.async, ldmatrix, mma.sync, and friends.
#include <cuda_fp16.h>
#include <stdint.h>

__device__ unsigned shared_address(const void* p) {
    unsigned a;
    asm("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }" : "=r"(a) : "l"(p));
    return a;
}
__device__ void copy_16_bytes(void* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(shared_address(to)), "l"(from) : "memory");
}
__device__ void commit_copies() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
template <int n>
__device__ void wait_for_copies() {  // all but the last n groups
    asm volatile("cp.async.wait_group %0;\n" ::"n"(n) : "memory");
}
#define LDMATRIX_X4(r, p)                                                                   \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"       \
                 : "=r"((r)[0]), "=r"((r)[1]), "=r"((r)[2]), "=r"((r)[3]) : "r"(shared_address(p)))
#define LDMATRIX_X2(r, p)                                                                   \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];\n"               \
                 : "=r"((r)[0]), "=r"((r)[1]) : "r"(shared_address(p)))

// out (M, N) = a (M, K) @ b (N, K)^T in tiles of 32 x 16 with four warps, two buffers of 16 columns each.
extern "C" __global__ void matmul_with_copies_and_mma(float* out, const __half* a, const __half* b, int N, int K) {
    __shared__ __align__(16) __half sa[2][32][16], sb[2][16][16];
    int t = threadIdx.x, lane = t % 32, warp = t / 32, row = 32 * blockIdx.y, column = 16 * blockIdx.x;
    float d[4] = {0, 0, 0, 0};
    auto load = [&](int k) {
        int line = t % 64 / 2, half = t % 2 * 8, buffer = k / 16 % 2;
        if (t < 64) copy_16_bytes(&sa[buffer][line][half], a + (row + line) * K + k + half);
        else if (t < 96) copy_16_bytes(&sb[buffer][line][half], b + (column + line) * K + k + half);
        commit_copies();
    };
    load(0);
    for (int k = 0; k < K; k += 16) {
        if (k + 16 < K) load(k + 16);
        else commit_copies();
        wait_for_copies<1>();
        __syncthreads();
        uint32_t fa[4], fb[2];
        LDMATRIX_X4(fa, &sa[k / 16 % 2][warp / 2 * 16 + lane % 16][lane / 16 * 8]);
        LDMATRIX_X2(fb, &sb[k / 16 % 2][warp % 2 * 8 + lane % 8][lane / 8 % 2 * 8]);
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
        __syncthreads();
    }
    float* to = out + (row + warp / 2 * 16 + lane / 4) * N + column + warp % 2 * 8 + lane % 4 * 2;
    asm volatile("st.global.cs.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(d[0]), "f"(d[1]) : "memory");
    asm volatile("st.global.cs.v2.f32 [%0], {%1, %2};" ::"l"(to + 8 * N), "f"(d[2]), "f"(d[3]) : "memory");
}

__device__ unsigned to_tf32(float x) {
    unsigned y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return y;
}
__device__ float load(const float* x) {
    float y;
    asm volatile("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(y) : "l"(x));
    return y;
}
// out (16, 8) = a (16, K) @ b (K, 8) by one warp, straight from global memory.
extern "C" __global__ void matmul_tf32(float* out, const float* a, const float* b, int K) {
    int g = threadIdx.x / 4, t = threadIdx.x % 4;
    float d[4] = {0, 0, 0, 0};
    for (int k = 0; k < K; k += 8) {
        unsigned a0 = to_tf32(load(a + g * K + k + t)), a1 = to_tf32(load(a + (g + 8) * K + k + t));
        unsigned a2 = to_tf32(load(a + g * K + k + t + 4)), a3 = to_tf32(load(a + (g + 8) * K + k + t + 4));
        unsigned b0 = to_tf32(load(b + (k + t) * 8 + g)), b1 = to_tf32(load(b + (k + t + 4) * 8 + g));
        asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
    for (int i = 0; i < 4; i++) out[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
}

// Sum of all: a butterfly in each warp, then one addition per warp.
extern "C" __global__ void sum_by_shuffles(float* total, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = 0;
    asm volatile("{ .reg .pred p;\n setp.lt.s32 p, %1, %2;\n @p ld.global.f32 %0, [%3];\n }"
                 : "+f"(v) : "r"(i), "r"(n), "l"(x + i));
    for (int step = 16; step > 0; step /= 2) {
        float other;
        asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(other) : "f"(v), "r"(step));
        v += other;
    }
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    if (lane == 0) asm volatile("red.global.add.f32 [%0], %1;" ::"l"(total), "f"(v) : "memory");
}

// Warp 1 fills two buffers in turn, warp 0 empties them; four barriers with numbers say which one is full or free.
extern "C" __global__ void buffers_passed_by_numbered_barriers(float* out, const float* x, int rounds) {
    __shared__ float s[2][32];
    int lane = threadIdx.x % 32;
    for (int k = 0; k < rounds; k++) {
        int full = 1 + k % 2, empty = 3 + k % 2;
        if (threadIdx.x >= 32) {
            if (k >= 2) asm volatile("bar.sync %0, 64;" ::"r"(empty) : "memory");
            s[k % 2][lane] = x[32 * k + lane];
            asm volatile("bar.arrive %0, 64;" ::"r"(full) : "memory");
        } else {
            asm volatile("bar.sync %0, 64;" ::"r"(full) : "memory");
            out[32 * k + lane] = s[k % 2][31 - lane];
            if (k + 2 < rounds) asm volatile("bar.arrive %0, 64;" ::"r"(empty) : "memory");
        }
    }
}
