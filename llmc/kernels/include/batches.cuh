// Copies to shared memory that go on in the background, in batches (cp.async, since Ampere).

// Copy FLOATS floats to shared memory in the background, or zeros where there is nothing to copy.
template <int FLOATS>
__device__ void copy_async(float* to, const float* from, bool inside)
{
#if __CUDA_ARCH__ >= 800
    unsigned place = __cvta_generic_to_shared(to);
    if (FLOATS == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
            ::"r"(place), "l"(from), "r"(inside ? 16 : 0) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
            ::"r"(place), "l"(from), "r"(inside ? 4 : 0) : "memory");
#else  // before Ampere copies go through registers
    for (int i = 0; i < FLOATS; i++) to[i] = inside ? from[i] : 0.0f;
#endif
}

__device__ void end_batch()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;");
#endif
}

// Wait for all batches of this thread but the last BATCHES.
template <int BATCHES>
__device__ void wait_but()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(BATCHES) : "memory");
#endif
}
