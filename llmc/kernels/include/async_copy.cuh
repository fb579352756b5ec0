// Copies from global to shared memory that need no register and do not hold the thread up (cp.async, since Ampere).

// Copies 16 bytes; writes zeros instead where `there` is false.
__device__ void copy16(float* to, const float* from, bool there)
{
#if __CUDA_ARCH__ >= 800
    unsigned address = (unsigned)__cvta_generic_to_shared(to);
    int bytes = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
#else
    float4 zeros = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    *reinterpret_cast<float4*>(to) = there ? *reinterpret_cast<const float4*>(from) : zeros;
#endif
}

// Copies one number; writes zero instead where `there` is false.
__device__ void copy4(float* to, const float* from, bool there)
{
#if __CUDA_ARCH__ >= 800
    unsigned address = (unsigned)__cvta_generic_to_shared(to);
    int bytes = there ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
#else
    *to = there ? *from : 0.0f;
#endif
}

// Waits until what this thread copies is there; a barrier must follow before other threads read it.
__device__ void wait_for_copies()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// tile (N, HS) = rows first … of a matrix with T rows of hs numbers, `stride` apart; zero outside. HS, STRIDE, THREADS
// are those of the tiles. Addresses grow by steps that are the same for all threads: few registers, few instructions.
template <int N>
__device__ void copy_tile(float* tile, const float* from, int stride, int first, int T, int hs)
{
    const int AT_ONCE = THREADS / (HS / 4);  // rows
    int row = threadIdx.x / (HS / 4), c = threadIdx.x % (HS / 4) * 4;
    tile += row * STRIDE + c;
    from += (size_t)(first + row) * stride + c;
    #pragma unroll
    for (int i = 0; i < N; i += AT_ONCE) {
        copy16(tile + i * STRIDE, from + (size_t)i * stride, first + row + i < T && c < hs);
    }
}
