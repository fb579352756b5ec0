/* Steps of the encoder and its backward pass before the kernels of ../encoder.cu, which says what they compute.

encoder_forward
v1  one thread per position (b, t), with a loop over C: neighbouring threads are C elements apart
v2  one thread per element (b, t, c): neighbouring threads touch neighbouring elements
v3  one thread per four elements of a row, moved by 128-bit loads and stores; single ones where C % 4 != 0

encoder_backward
v1  atomics: one thread per element of dout adds it to both
v2  owners: the block of a token's first occurrence looks for the others and adds up all its rows

Atomics add in any order, so that each run of v1 rounds differently; v2 adds in a fixed order. It needs no sorting, but
each of its blocks reads all earlier tokens, N^2 in all, and a frequent token, which has many rows, keeps one block busy
for a long time.
*/

#include "../encoder.cu"

extern "C" __global__ void encoder_forward_v1(float* out, const int* tokens, const float* wte, const float* wpe,
                                              int B, int T, int C)
{
    int bt = blockIdx.x * blockDim.x + threadIdx.x;
    if (bt < B * T) {
        const float* token_row = wte + tokens[bt] * C;
        const float* position_row = wpe + bt % T * C;
        for (int c = 0; c < C; c++) {
            out[bt * C + c] = token_row[c] + position_row[c];
        }
    }
}

extern "C" __global__ void encoder_forward_v2(float* out, const int* tokens, const float* wte, const float* wpe,
                                              int B, int T, int C)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < B * T * C) {
        int bt = i / C;
        int c = i % C;
        out[i] = wte[tokens[bt] * C + c] + wpe[bt % T * C + c];
    }
}

extern "C" __global__ void encoder_forward_v3(float* out, const int* tokens, const float* wte, const float* wpe,
                                              int B, int T, int C)
{
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    int n = B * T * C;
    if (aligned(out, wte, wpe, C)) {
        if (i < n) {  // n is a multiple of 4 as well, and all four are in one row
            int bt = i / C;
            int c = i % C;
            float4 a = *reinterpret_cast<const float4*>(wte + tokens[bt] * C + c);
            float4 b = *reinterpret_cast<const float4*>(wpe + bt % T * C + c);
            *reinterpret_cast<float4*>(out + i) = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
        }
    } else {
        for (int k = i; k < n && k < i + 4; k++) {
            out[k] = wte[tokens[k / C] * C + k % C] + wpe[k / C % T * C + k % C];
        }
    }
}

const int THREADS = 256;  // of a block in v2: eight warps

extern "C" __global__ void encoder_backward_v1(float* dwte, float* dwpe, const float* dout, const int* tokens, int B,
                                               int T, int C)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < B * T * C) {
        int bt = i / C, c = i % C;
        atomicAdd(&dwte[(size_t)tokens[bt] * C + c], dout[i]);
        atomicAdd(&dwpe[(size_t)(bt % T) * C + c], dout[i]);
    }
}

// List the positions start … start + 255 that hold `token`, in order, in found; returns how many.
__device__ int list_positions(int* found, const int* tokens, int token, int start, int N)
{
    __shared__ int counts[THREADS / 32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n = start + threadIdx.x;
    bool here = n < N && tokens[n] == token;
    unsigned votes = __ballot_sync(ALL, here);  // bit l: whether lane l found it
    if (lane == 0) counts[warp] = __popc(votes);
    __syncthreads();
    int before = __popc(votes & ((1u << lane) - 1)), total = 0;  // found by lower lanes, then by lower warps too
    for (int w = 0; w < THREADS / 32; w++) {
        if (w < warp) before += counts[w];
        total += counts[w];
    }
    if (here) found[before] = n;
    __syncthreads();
    return total;
}

extern "C" __global__ void encoder_backward_tokens_v2(float* dwte, const float* dout, const int* tokens, int N, int C)
{
    __shared__ int found[THREADS];
    int first = blockIdx.x, token = tokens[first];
    int c = blockIdx.y * THREADS + threadIdx.x;
    int earlier = 0;
    for (int n = threadIdx.x; n < first; n += THREADS) earlier |= tokens[n] == token;
    if (__syncthreads_or(earlier)) return;  // another block's work; the whole block leaves

    float total = 0.0f;
    for (int start = first; start < N; start += THREADS) {
        int count = list_positions(found, tokens, token, start, N);
        for (int i = 0; i < count && c < C; i++) total += dout[(size_t)found[i] * C + c];
        __syncthreads();  // all threads have read found before it is overwritten
    }
    if (c < C) dwte[(size_t)token * C + c] += total;
}

extern "C" __global__ void encoder_backward_positions_v2(float* dwpe, const float* dout, int B, int T, int C)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < T * C) {
        float total = 0.0f;
        for (int b = 0; b < B; b++) total += dout[(size_t)b * T * C + i];
        dwpe[i] += total;
    }
}
