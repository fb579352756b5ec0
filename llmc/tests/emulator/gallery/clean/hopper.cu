// Hopper's copies and tensor cores, used as they should be.
#include <cuda.h>
#include <cuda_bf16.h>
#include <stdint.h>

__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ uint64_t descriptor(const void* p, uint64_t mode = 1) {  // of rows of 64 along k; mode 1: the 128-byte swizzle
    return (shared_address(p) & 0x3ffff) >> 4 | (uint64_t)1 << 16 | (uint64_t)64 << 32 | mode << 62;
}
#define INIT(bar, n) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(n) : "memory")
#define ARRIVE(bar) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(bar)) : "memory")
#define EXPECT(bar, bytes) \
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes) : "memory")
#define WAIT(bar, parity)                                                    \
    asm volatile(                                                            \
        "{\n.reg .pred done;\nAGAIN:\n"                                      \
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"         \
        "@done bra.uni DONE;\nbra.uni AGAIN;\nDONE:\n}\n" ::"r"(shared_address(bar)), "r"(parity) : "memory")
#define LOAD(to, map, x, y, bar)                                                                                   \
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"                \
                 " [%0], [%1, {%3, %4}], [%2];" ::"r"(shared_address(to)), "l"(&map), "r"(shared_address(bar)),    \
                 "r"(x), "r"(y) : "memory")
#define STORE(map, x, y, from)                                                                                     \
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map),   \
                 "r"(shared_address(from)), "r"(x), "r"(y) : "memory")
#define BULK_LOAD(to, from, bytes, bar)                                                                            \
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"         \
                 ::"r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(bar)) : "memory")
#define BULK_STORE(to, from, bytes)                                                                                \
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)), \
                 "r"(bytes) : "memory")
#define COMMIT_STORES asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define WAIT_STORES(n) asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(n) : "memory")
#define PROXY_FENCE asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#define FENCE asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define COMMIT asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WAIT_PRODUCTS(n) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory")
#define WGMMA(d, a, b)                                                                                             \
    asm volatile("{\nwgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;\n}\n" \
                 : "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]) : "l"(a), "l"(b))

typedef __nv_bfloat16 bf16;
struct __align__(1024) Tiles {  // 64 x 64 and 8 x 64
    bf16 a[64 * 64], b[8 * 64];
};
constexpr int BYTES = 72 * 64 * 2;
#define MAP const __grid_constant__ CUtensorMap

#define MEET(name, threads) asm volatile("bar.sync %0, %1;" ::"n"(name), "n"(threads) : "memory")
// Where a thread's sums of a 64 x 8 product belong.
#define ROW(t, i) ((t) % 128 / 32 * 16 + (t) % 32 / 4 + (i) / 2 * 8)
#define COLUMN(t, i) ((t) % 4 * 2 + (i) % 2)

// out (64, 8) = a (64, k) @ b (8, k)^T, one stage.
extern "C" __global__ void matmul_with_one_stage(float* out, MAP a, MAP b, int k) {
    __shared__ Tiles s;
    __shared__ uint64_t full;
    int t = threadIdx.x;
    if (t == 0) {
        INIT(&full, 1);
        PROXY_FENCE;  // spare
    }
    __syncthreads();
    float d[4] = {};
    for (int i = 0; i < k / 64; i++) {
        if (t == 0) {
            EXPECT(&full, BYTES);
            LOAD(s.a, a, 64 * i, 0, &full);
            LOAD(s.b, b, 64 * i, 0, &full);
        }
        WAIT(&full, i & 1);
        FENCE;
        for (int j = 0; j < 64; j += 16) WGMMA(d, descriptor(s.a + j), descriptor(s.b + j));
        COMMIT;
        WAIT_PRODUCTS(0);
        __syncthreads();  // spare: a product that one thread has waited for is done with by all
    }
    for (int i = 0; i < 4; i++) out[8 * ROW(t, i) + COLUMN(t, i)] = d[i];
}

// The same with a ring of two stages, a warp that loads, and two warpgroups, each with 64 of the 128 rows.
extern "C" __global__ void matmul_with_a_ring(float* out, MAP a, MAP b, int k) {
    extern __shared__ uint8_t memory[];
    Tiles* s = (Tiles*)(((uintptr_t)memory + 1023) & ~(uintptr_t)1023);  // [2][2], the second of each without a b
    __shared__ uint64_t full[2], empty[2];
    int t = threadIdx.x, rounds = k / 64;
    if (t == 0)
        for (int i = 0; i < 2; i++) {
            INIT(&full[i], 1);
            INIT(&empty[i], 2);
        }
    if (t == 0) asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncthreads();
    if (t >= 256) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        unsigned first = 0;
        asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\n@p mov.u32 %0, 1;\n}" : "+r"(first));
        for (int i = 0; i < rounds && first; i++) {
            int stage = i % 2;
            WAIT(&empty[stage], (i / 2 & 1) ^ 1);
            EXPECT(&full[stage], BYTES + 64 * 64 * 2);
            LOAD(s[2 * stage].a, a, 64 * i, 0, &full[stage]);
            LOAD(s[2 * stage + 1].a, a, 64 * i, 64, &full[stage]);
            LOAD(s[2 * stage].b, b, 64 * i, 0, &full[stage]);
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    int group = t / 128;
    float d[4] = {};
    FENCE;
    for (int i = 0; i < rounds; i++) {
        int stage = i % 2;
        WAIT(&full[stage], i / 2 & 1);
        for (int j = 0; j < 64; j += 16) WGMMA(d, descriptor(s[2 * stage + group].a + j), descriptor(s[2 * stage].b + j));
        COMMIT;
        WAIT_PRODUCTS(1);
        if (i > 0 && t % 128 == 0) ARRIVE(&empty[(i - 1) % 2]);
    }
    WAIT_PRODUCTS(0);
    for (int i = 0; i < 4; i++) out[8 * (64 * group + ROW(t, i)) + COLUMN(t, i)] = d[i];
}

// out (64, 8) = a @ b by way of shared memory and a bulk store: what ordinary stores wrote needs a fence.
extern "C" __global__ void product_stored_as_a_tile(MAP out, const bf16* a, const bf16* b) {
    __shared__ Tiles s;
    __shared__ __align__(128) float tile[64 * 8];
    int t = threadIdx.x;
    // 16-byte pieces of a row change places by its number: this is the 128-byte swizzle
    for (int i = t; i < 64 * 64; i += 128) s.a[i ^ (i / 64 % 8 * 8)] = a[i];
    for (int i = t; i < 8 * 64; i += 128) s.b[i ^ (i / 64 % 8 * 8)] = b[i];
    PROXY_FENCE;
    __syncthreads();
    float d[4];
    FENCE;
    for (int j = 0; j < 64; j += 16) {
        int adds = j > 0;
        asm volatile(
            "{\n"
            ".reg .pred p;\n"
            "setp.ne.b32 p, %6, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;\n"
            "}\n"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "l"(descriptor(s.a + j)), "l"(descriptor(s.b + j)), "r"(adds));
    }
    COMMIT;
    WAIT_PRODUCTS(0);
    for (int i = 0; i < 4; i++) tile[8 * ROW(t, i) + COLUMN(t, i)] = d[i];
    PROXY_FENCE;
    MEET(1, 128);
    if (t == 0) {
        STORE(out, 0, 0, tile);
        COMMIT_STORES;
        WAIT_STORES(0);
    }
}

// out = x + 1 in pieces of 128 floats, two stages; a stage is filled again when its store has been read.
extern "C" __global__ void bytes_there_and_back(float* out, const float* x, int pieces) {
    __shared__ __align__(16) float s[2][128];
    __shared__ uint64_t full[2];
    int t = threadIdx.x;
    if (t < 2) INIT(&full[t], 1);
    __syncthreads();
    for (int i = 0; i < pieces + 1; i++) {
        if (t == 0 && i < pieces) {
            WAIT_STORES(0);
            EXPECT(&full[i % 2], 512);
            BULK_LOAD(s[i % 2], x + 128 * i, 512, &full[i % 2]);
        }
        if (i == 0) continue;
        int stage = (i - 1) % 2;
        WAIT(&full[stage], (i - 1) / 2 & 1);
        s[stage][t] += 1;
        PROXY_FENCE;
        __syncthreads();
        if (t == 0) {
            BULK_STORE(out + 128 * (i - 1), s[stage], 512);
            COMMIT_STORES;
        }
    }
    if (t == 0) WAIT_STORES(0);
}

// Two warps hand a number to and fro, with the state of a phase instead of its parity.
extern "C" __global__ void to_and_fro(float* out, int rounds) {
    __shared__ float ball;
    __shared__ uint64_t ready[2];
    int t = threadIdx.x, me = t / 32;
    if (t < 2) INIT(&ready[t], 32);
    if (t == 0) ball = 0;
    __syncthreads();
    for (int i = 0; i < rounds; i++) {
        if (me == 1 || i > 0) WAIT(&ready[!me], (me ? i : i - 1) & 1);
        if (t % 32 == 0) ball += me ? 2 : 1;
        uint64_t state;
        asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(shared_address(&ready[me])));
        unsigned done = 0;
        while (!done)
            asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                         : "=r"(done) : "r"(shared_address(&ready[me])), "l"(state) : "memory");
    }
    if (t == 32) out[0] = ball;
}
