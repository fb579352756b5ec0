"""Kernels for tests of how kernels are called, on a GPU and on the emulator."""

CODE = r"""
__constant__ float table[4];
extern "C" __global__ void scale(float* out, const float* x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a * x[i];
}
extern "C" __global__ void look(float* out) { out[threadIdx.x] = table[threadIdx.x]; }
extern "C" __global__ void talk(int n) { printf("n is %d\n", n); }
extern "C" __global__ void tile(float* out) {
    extern __shared__ float s[];
    __shared__ float fixed[1024];
    s[threadIdx.x] = fixed[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = (s[threadIdx.x] + fixed[threadIdx.x]) / 2;
}
template <class T, int N> __global__ void fill(T* out) { out[threadIdx.x] = N; }
__global__ void cpp(float* out) {}
#ifdef EXTRA
extern "C" __global__ void extra(int* out) { *out = EXTRA; }
#endif
"""
