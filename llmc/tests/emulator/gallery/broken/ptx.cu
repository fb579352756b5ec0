// What goes wrong with asynchronous copies and tensor cores.
#include <cuda_fp16.h>

__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
#define COPY(to, from) \
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from) : "memory")
#define COMMIT asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")

extern "C" __global__ void copy_without_a_wait(float* out, const float* x) {
    __shared__ float s[64];
    int t = threadIdx.x;
    COPY(&s[t], x + t);  //! copy-race
    COMMIT;
    __syncthreads();
    out[t] = s[63 - t];  //! copy-race
}

extern "C" __global__ void copy_without_a_commit(float* out, const float* x) {
    __shared__ float s[64];
    int t = threadIdx.x;
    COPY(&s[t], x + t);  //! copy-race
    WAIT(0);
    out[t] = s[t];  //! copy-race
}

extern "C" __global__ void waits_for_the_group_before(float* out, const float* x) {
    __shared__ float s[2][64];
    int t = threadIdx.x;
    COPY(&s[0][t], x + t);
    COMMIT;
    COPY(&s[1][t], x + 64 + t);  //! copy-race
    COMMIT;
    WAIT(1);
    __syncthreads();
    out[t] = s[0][63 - t];
    out[t] += s[1][63 - t];  //! copy-race
}

extern "C" __global__ void copies_of_others_without_a_barrier(float* out, const float* x) {
    __shared__ float s[64];
    int t = threadIdx.x;
    COPY(&s[t], x + t);  //! race|copy-race
    COMMIT;
    WAIT(0);
    out[t] = s[(t + 32) % 64];  //! race|copy-race
}

extern "C" __global__ void next_copy_over_what_is_read(float* out, const float* x) {
    __shared__ float s[64];
    int t = threadIdx.x;
    for (int k = 0; k < 2; k++) {
        COPY(&s[t], x + 64 * k + t);  //! race
        COMMIT;
        WAIT(0);
        __syncthreads();
        out[64 * k + t] = s[(t + 32) % 64];  //! race
    }
}

extern "C" __global__ void copy_from_past_the_end(float* out, const float* x, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    COPY(&s[t], x + t + 1);  //! out-of-bounds x[64]
    COMMIT;
    WAIT(0);
    out[t] = s[t];
}

extern "C" __global__ void vector_copy_misaligned(float* out, const float* x) {
    __shared__ __align__(16) float s[16];
    int t = threadIdx.x;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(s + 4 * t)), "l"(x + 4 * t + 2));  //! misaligned
    COMMIT;
    WAIT(0);
    out[t] = s[4 * t];
}

extern "C" __global__ void vector_load_past_the_end(float* out, const float* x) {
    int t = threadIdx.x;
    float a, b, c, d;
    asm volatile(
        "ld.global.nc.v4.f32 {%0, %1, %2, %3},"  //! out-of-bounds
        " [%4];"
        : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(x + 4 * t));
    out[t] = a + b + c + d;
}

extern "C" __global__ void store_by_all_to_one_place(float* out, const float* x) {
    asm volatile("st.global.f32 [%0], %1;" ::"l"(out), "f"(x[threadIdx.x]));  //! missing-syncwarp|race out[0]
}

#define LDMATRIX(r, p)                                                                                 \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"                            \
                 : "=r"((r)[0]), "=r"((r)[1]) : "r"(shared_address(p)))

extern "C" __global__ void rows_of_a_matrix_misaligned(unsigned* out, const __half* x) {
    __shared__ __align__(16) __half s[16][12];
    int t = threadIdx.x;
    for (int i = t; i < 192; i += 32) s[i / 12][i % 12] = x[i];
    __syncwarp();
    unsigned r[2];
    LDMATRIX(r, s[t % 16]);  //! misaligned
    out[t] = r[0] + r[1];
}

extern "C" __global__ void matrix_read_too_early(unsigned* out, const __half* x) {
    __shared__ __align__(16) __half s[16][8];
    int t = threadIdx.x;
    for (int i = t; i < 128; i += 32) s[i / 8][i % 8] = x[i];  //! missing-syncwarp
    unsigned r[2];
    LDMATRIX(r, s[t % 16]);  //! missing-syncwarp
    out[t] = r[0] + r[1];
}

#define MMA(d, a, b)                                                                                   \
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};" \
                 : "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]) : "r"((a)[0]), "r"((a)[1]), "r"(b))

extern "C" __global__ void product_by_half_of_the_warp(float* out, const unsigned* x) {
    int t = threadIdx.x;
    float d[4] = {0, 0, 0, 0};
    if (t < 16) MMA(d, x + 2 * t, x[t]);  //! deadlock
    __syncthreads();  //! deadlock
    out[t] = d[0];
}

extern "C" __global__ void product_after_some_left(float* out, const unsigned* x, int n) {
    int t = threadIdx.x;
    if (t >= n) return;
    float d[4] = {0, 0, 0, 0};
    MMA(d, x + 2 * t, x[t]);  //! inactive-lane
    out[t] = d[0];
}

extern "C" __global__ void product_by_24_threads(float* out, const unsigned* x) {
    int t = threadIdx.x;
    float d[4] = {0, 0, 0, 0};
    MMA(d, x + 2 * t, x[t]);  //! inactive-lane
    out[t] = d[0];
}

extern "C" __global__ void two_products_at_once(float* out, const unsigned* x) {
    int t = threadIdx.x;
    float d[4] = {0, 0, 0, 0};
    if (t % 2) MMA(d, x + 2 * t, x[t]);  //! inactive-lane
    else MMA(d, x + t, x[t]);  //! inactive-lane
    out[t] = d[0];
}

extern "C" __global__ void numbered_barrier_of_too_few(float* out, const float* x) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];  //! race
    asm volatile("bar.sync %0, 32;" ::"r"(1 + t / 32) : "memory");
    out[t] = s[63 - t];  //! race
}
