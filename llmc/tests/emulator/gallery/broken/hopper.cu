// What goes wrong with Hopper's copies and tensor cores. out: (64, 8) of each product, in registers' order.
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

#define BEGIN(threads, arrivals)              \
    __shared__ Tiles s;                       \
    __shared__ uint64_t full;                 \
    int t = threadIdx.x;                      \
    if (t == 0) {                             \
        INIT(&full, arrivals);                \
        PROXY_FENCE;                          \
    }                                         \
    __syncthreads();
#define LOAD_BOTH(k)                          \
    if (t == 0) {                             \
        EXPECT(&full, BYTES);                 \
        LOAD(s.a, a, k, 0, &full);            \
        LOAD(s.b, b, k, 0, &full);            \
    }
#define PRODUCT(d) for (int k = 0; k < 64; k += 16) WGMMA(d, descriptor(s.a + k), descriptor(s.b + k))
#define OUT(d) for (int i = 0; i < 4; i++) out[4 * t + i] = d[i]

extern "C" __global__ void tile_read_without_a_wait(float* out, MAP a) {
    BEGIN(128, 1)
    if (t == 0) {
        EXPECT(&full, 64 * 64 * 2);
        LOAD(s.a, a, 0, 0, &full);  //! copy-race
    }
    __syncthreads();
    out[t] = __bfloat162float(s.a[t]);  //! copy-race
}

extern "C" __global__ void only_the_first_thread_waits(float* out, MAP a) {
    BEGIN(128, 1)
    if (t == 0) {
        EXPECT(&full, 64 * 64 * 2);
        LOAD(s.a, a, 0, 0, &full);  //! race|copy-race
        WAIT(&full, 0);
    }
    out[t] = __bfloat162float(s.a[t]);  //! race|copy-race
}

extern "C" __global__ void same_parity_in_every_round(float* out, MAP a) {
    BEGIN(128, 1)
    for (int i = 0; i < 2; i++) {
        if (t == 0) {
            EXPECT(&full, 64 * 64 * 2);
            LOAD(s.a, a, 64 * i, 0, &full);  //! race|copy-race
        }
        WAIT(&full, 0);
        out[128 * i + t] = __bfloat162float(s.a[t]);  //! race|copy-race
        __syncthreads();
    }
}

extern "C" __global__ void product_of_what_has_not_arrived(float* out, MAP a, MAP b) {
    BEGIN(128, 1)
    float d[4] = {};
    if (t == 0) {
        EXPECT(&full, BYTES);
        LOAD(s.a, a, 0, 0, &full);  //! copy-race
        LOAD(s.b, b, 0, 0, &full);  //! copy-race
    }
    FENCE;
    PRODUCT(d);  //! copy-race
    COMMIT;
    WAIT_PRODUCTS(0);
    OUT(d);
}

extern "C" __global__ void next_tile_over_what_is_read(float* out, MAP a) {
    __shared__ uint64_t next;
    if (threadIdx.x == 0) INIT(&next, 1);
    BEGIN(128, 1)
    if (t == 64) {
        EXPECT(&full, 64 * 64 * 2);
        LOAD(s.a, a, 0, 0, &full);
        WAIT(&full, 0);
        EXPECT(&next, 64 * 64 * 2);
        LOAD(s.a, a, 64, 0, &next);  //! race|copy-race
    }
    WAIT(&full, 0);
    out[t] = __bfloat162float(s.a[t]);  //! race|copy-race
    WAIT(&next, 0);
    out[128 + t] = __bfloat162float(s.a[t]);
}

extern "C" __global__ void stage_given_back_before_the_product_is_done(float* out, MAP a, MAP b) {
    __shared__ uint64_t empty;
    if (threadIdx.x == 0) INIT(&empty, 128);
    BEGIN(256, 1)
    if (t == 128) {
        for (int i = 0; i < 2; i++) {
            if (i) WAIT(&empty, 0);
            EXPECT(&full, BYTES);
            LOAD(s.a, a, 64 * i, 0, &full);  //! race
            LOAD(s.b, b, 64 * i, 0, &full);  //! race
        }
    }
    if (t >= 128) return;
    float d[4] = {};
    for (int i = 0; i < 2; i++) {
        WAIT(&full, i);
        FENCE;
        PRODUCT(d);  //! race
        COMMIT;
        if (i == 0) ARRIVE(&empty);
        WAIT_PRODUCTS(0);
    }
    OUT(d);
}

extern "C" __global__ void sums_read_too_early(float* out, MAP a, MAP b) {
    BEGIN(128, 1)
    float d[4] = {};
    LOAD_BOTH(0)
    WAIT(&full, 0);
    FENCE;
    PRODUCT(d);  //! unfinished-product
    COMMIT;
    OUT(d);  //! unfinished-product
    WAIT_PRODUCTS(0);
}

extern "C" __global__ void product_in_no_group(float* out, MAP a, MAP b) {
    BEGIN(128, 1)
    float d[4] = {};
    LOAD_BOTH(0)
    WAIT(&full, 0);
    FENCE;
    PRODUCT(d);  //! unfinished-product|never-waited-for
    WAIT_PRODUCTS(0);
    OUT(d);  //! unfinished-product
}

extern "C" __global__ void one_group_too_many_left(float* out, MAP a, MAP b) {
    BEGIN(128, 1)
    float d[4] = {};
    LOAD_BOTH(0)
    WAIT(&full, 0);
    FENCE;
    PRODUCT(d);  //! unfinished-product|never-waited-for
    COMMIT;
    WAIT_PRODUCTS(1);
    OUT(d);  //! unfinished-product
}

extern "C" __global__ void product_never_waited_for(float* out, MAP a, MAP b) {
    BEGIN(128, 1)
    float d[4] = {};
    LOAD_BOTH(0)
    WAIT(&full, 0);
    FENCE;
    PRODUCT(d);  //! never-waited-for
    COMMIT;
    out[t] = 1;
}

extern "C" __global__ void product_without_a_fence(float* out, MAP a, MAP b) {
    BEGIN(128, 1)
    float d[4] = {};
    LOAD_BOTH(0)
    WAIT(&full, 0);
    PRODUCT(d);  //! missing-fence
    COMMIT;
    WAIT_PRODUCTS(0);
    OUT(d);
}

extern "C" __global__ void sums_cleared_without_a_fence(float* out, MAP a, MAP b) {
    BEGIN(128, 1)
    float d[4] = {};
    LOAD_BOTH(0)
    WAIT(&full, 0);
    FENCE;
    for (int i = 0; i < 2; i++) {
        d[0] = 0;  //! missing-fence
        PRODUCT(d);  //! missing-fence
        COMMIT;
        WAIT_PRODUCTS(0);
    }
    OUT(d);
}

extern "C" __global__ void product_of_ordinary_stores(float* out, const bf16* x) {
    BEGIN(128, 1)
    float d[4] = {};
    for (int i = t; i < 64 * 64; i += 128) s.a[i] = x[i];  //! missing-fence
    for (int i = t; i < 8 * 64; i += 128) s.b[i] = x[i];  //! missing-fence
    __syncthreads();
    FENCE;
    PRODUCT(d);  //! missing-fence
    COMMIT;
    WAIT_PRODUCTS(0);
    OUT(d);
}

extern "C" __global__ void bulk_store_of_ordinary_stores(float* out) {
    __shared__ __align__(16) float s[128];
    int t = threadIdx.x;
    s[t] = t;  //! missing-fence
    __syncthreads();
    if (t == 0) {
        BULK_STORE(out, s, 512);  //! missing-fence
        COMMIT_STORES;
        WAIT_STORES(0);
    }
}

extern "C" __global__ void tile_overwritten_during_a_product(float* out, MAP a, MAP b) {
    BEGIN(128, 1)
    float d[4] = {};
    LOAD_BOTH(0)
    WAIT(&full, 0);
    FENCE;
    PRODUCT(d);  //! race
    COMMIT;
    s.b[t] = __float2bfloat16(0);  //! race
    WAIT_PRODUCTS(0);
    OUT(d);
}

extern "C" __global__ void overwritten_before_it_is_stored(float* out) {
    __shared__ __align__(16) float s[128];
    int t = threadIdx.x;
    for (int i = 0; i < 2; i++) {
        s[t] = t + i;  //! race
        PROXY_FENCE;
        __syncthreads();
        if (t == 0) {
            BULK_STORE(out + 128 * i, s, 512);  //! race
            COMMIT_STORES;
        }
    }
    if (t == 0) WAIT_STORES(0);
}

extern "C" __global__ void store_never_waited_for(float* out) {
    __shared__ __align__(16) float s[128];
    int t = threadIdx.x;
    s[t] = t;
    PROXY_FENCE;
    __syncthreads();
    if (t == 0) {
        BULK_STORE(out, s, 512);  //! never-waited-for
        COMMIT_STORES;
    }
}

extern "C" __global__ void another_swizzle(float* out, MAP a, MAP b) {
    BEGIN(128, 1)
    float d[4] = {};
    if (t == 0) {
        EXPECT(&full, BYTES);
        LOAD(s.a, a, 0, 0, &full);  //! wrong-tile
        LOAD(s.b, b, 0, 0, &full);
    }
    WAIT(&full, 0);
    FENCE;
    for (int k = 0; k < 64; k += 16) WGMMA(d, descriptor(s.a + k, 2), descriptor(s.b + k, 2));  //! wrong-tile
    COMMIT;
    WAIT_PRODUCTS(0);
    OUT(d);
}

extern "C" __global__ void tile_misaligned(float* out, MAP a) {
    BEGIN(128, 1)
    if (t == 0) {
        EXPECT(&full, 64 * 64 * 2);
        LOAD(s.a + 8, a, 0, 0, &full);  //! wrong-tile
    }
    WAIT(&full, 0);
    out[t] = __bfloat162float(s.a[t]);
}

extern "C" __global__ void expects_the_wrong_number_of_bytes(float* out, MAP a) {
    BEGIN(128, 1)
    if (t == 0) {
        EXPECT(&full, 64 * 64 * 4);
        LOAD(s.a, a, 0, 0, &full);
    }
    WAIT(&full, 0);  //! deadlock full
    out[t] = __bfloat162float(s.a[t]);
}

extern "C" __global__ void fewer_arrivals_than_counted(float* out) {
    BEGIN(128, 128)
    if (t < 96) ARRIVE(&full);
    WAIT(&full, 0);  //! deadlock full
    out[t] = t;
}

extern "C" __global__ void parity_begins_with_1(float* out) {
    BEGIN(128, 128)
    ARRIVE(&full);
    WAIT(&full, 0);
    WAIT(&full, 1);  //! deadlock full
    out[t] = t;
}

extern "C" __global__ void more_arrivals_than_counted(float* out) {
    __shared__ uint64_t go;
    if (threadIdx.x == 0) INIT(&go, 128);
    BEGIN(128, 2)
    ARRIVE(&go);
    if (t == 0) EXPECT(&full, 16);
    else if (t < 4) ARRIVE(&full);  //! mbarrier full
    WAIT(&go, 0);
    out[t] = t;
}

extern "C" __global__ void barrier_not_initialised(float* out) {
    __shared__ uint64_t full;
    int t = threadIdx.x;
    ARRIVE(&full);  //! mbarrier full
    WAIT(&full, 0);
    out[t] = t;
}

extern "C" __global__ void barrier_used_too_early(float* out) {
    __shared__ uint64_t full;
    int t = threadIdx.x;
    if (t == 0) INIT(&full, 128);  //! race|missing-syncwarp
    ARRIVE(&full);  //! race|missing-syncwarp
    WAIT(&full, 0);  //! race|missing-syncwarp
    out[t] = t;
}

extern "C" __global__ void barrier_written_over(float* out) {
    __shared__ struct {
        float row[32];
        uint64_t full;
    } u;
    int t = threadIdx.x;
    if (t == 0) INIT(&u.full, 34);
    __syncthreads();
    float* row = u.row;
    row[t] = t;
    __syncthreads();
    ARRIVE(&u.full);  //! mbarrier
    WAIT(&u.full, 0);
    out[t] = row[t];
}

extern "C" __global__ void product_by_three_warps(float* out, MAP a, MAP b) {
    BEGIN(128, 1)
    float d[4] = {};
    LOAD_BOTH(0)
    WAIT(&full, 0);
    if (t < 96) {
        FENCE;
        PRODUCT(d);  //! part-of-a-warpgroup
        COMMIT;
        WAIT_PRODUCTS(0);
    }
    OUT(d);
}

extern "C" __global__ void product_by_warps_1_to_4(float* out, MAP a, MAP b) {
    BEGIN(256, 1)
    float d[4] = {};
    LOAD_BOTH(0)
    WAIT(&full, 0);
    if (t >= 32 && t < 160) {
        FENCE;
        PRODUCT(d);  //! part-of-a-warpgroup
        COMMIT;
        WAIT_PRODUCTS(0);
    }
    OUT(d);
}

extern "C" __global__ void product_by_two_warps(float* out, MAP a, MAP b) {
    BEGIN(64, 1)
    float d[4] = {};
    LOAD_BOTH(0)
    WAIT(&full, 0);
    FENCE;
    PRODUCT(d);  //! part-of-a-warpgroup
    COMMIT;
    WAIT_PRODUCTS(0);
    OUT(d);
}
