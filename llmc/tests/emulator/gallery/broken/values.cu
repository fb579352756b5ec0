// Values that nobody wrote, and places that nobody writes.

extern "C" __global__ void shared_filled_in_part(float* out, const float* x, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    if (t < n) s[t] = x[t];
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (t < half) s[t] += s[t + half];  //! uninitialised
        __syncthreads();
    }
    if (t == 0) *out = s[0];
}

extern "C" __global__ void shared_counters_not_cleared(int* counts, const int* x) {
    __shared__ int mine[8];
    atomicAdd(&mine[x[threadIdx.x]], 1);  //! uninitialised
    __syncthreads();
    if (threadIdx.x < 8) counts[threadIdx.x] = mine[threadIdx.x];
}

extern "C" __global__ void dynamic_shared_not_filled(float* out) {
    extern __shared__ float s[];
    out[threadIdx.x] = s[threadIdx.x];  //! uninitialised
}

extern "C" __global__ void halo_not_loaded(float* out, const float* x) {
    __shared__ float s[66];
    int t = threadIdx.x;
    s[t + 1] = x[t];
    __syncthreads();
    out[t] = s[t] + s[t + 1] + s[t + 2];  //! uninitialised
}

extern "C" __global__ void adds_to_an_empty_output(float* out, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] += x[i];  //! uninitialised out[0]
}

extern "C" __global__ void atomic_on_an_empty_output(float* out, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(out, x[i]);  //! uninitialised out[0]
}

extern "C" __global__ void output_as_scratch(float* out, const float* x, int n) {
    float previous = threadIdx.x > 0 ? out[threadIdx.x - 1] : 0.0f;  //! uninitialised out[0]
    __syncthreads();
    out[threadIdx.x] = previous + x[threadIdx.x];
}

// Right, but launched with too few blocks.
extern "C" __global__ void copy(float* out, const float* x, int n) {  //! never-written out[64]
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i];
}

extern "C" __global__ void tail_left_out(float* out, const float* x, int n) {  //! never-written out[100]
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 4) {
        float4 v = reinterpret_cast<const float4*>(x)[i];
        reinterpret_cast<float4*>(out)[i] = v;
    }
}

extern "C" __global__ void last_element_left_out(float* out, const float* x, int n) {  //! never-written out[99]
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n - 1) out[i] = x[i];
}

// 256 written into the index, 128 into the launch: half of every stretch stays empty.
extern "C" __global__ void block_size_written_out(float* out, const float* x, int n) {  //! never-written out[128]
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) out[i] = x[i];
}

extern "C" __global__ void negative_values_forgotten(float* out, const float* x, int n) {  //! never-written
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0.0f) out[i] = x[i];
}

__device__ float no_value_for_the_negative_ones(float v) {  //! missing-return
    if (v >= 0) return sqrtf(v);
}

extern "C" __global__ void helper_without_a_return(float* out, const float* x) {
    int i = threadIdx.x;
    out[i] = no_value_for_the_negative_ones(x[i]);
}
