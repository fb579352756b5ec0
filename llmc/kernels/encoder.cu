/* The encoder: out[b, t] = wte[tokens[b, t]] + wpe[t], rows of C numbers.

v1  one thread per position (b, t), with a loop over C: neighbouring threads are C elements apart
v2  one thread per element (b, t, c): neighbouring threads touch neighbouring elements
v3  one thread per four elements of a row, moved by 128-bit loads and stores; single ones where C % 4 != 0
v4  one warp per position: it finds its two rows once, without a division a number, and has four quads of each under way

Shapes: out (B, T, C), tokens (B, T) int32, wte (Vp, C), wpe (maxT, C). B*T*C is below 2^31 - 2^20.
A row of wpe is read B times, but it stays in the cache: only the rows of wte and out count, 8 bytes per element.
*/

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

// 128-bit accesses need addresses that are multiples of 16, in every row: so C must be a multiple of 4 too.
__device__ bool aligned(const float* out, const float* wte, const float* wpe, int C)
{
    return C % 4 == 0 && ((size_t)out | (size_t)wte | (size_t)wpe) % 16 == 0;
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

__device__ float add(float a, float b) { return a + b; }
__device__ float4 add(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

const int AHEAD = 4;  // numbers or quads of each row that a lane has under way

// A row of n numbers or quads, by a warp; T is float or float4.
template <typename T>
__device__ void add_rows(T* out, const T* token_row, const T* position_row, int n)
{
    for (int first = threadIdx.x % 32; first < n; first += 32 * AHEAD) {
        T a[AHEAD], b[AHEAD];
        #pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            int i = first + 32 * k;
            if (i < n) a[k] = token_row[i], b[k] = position_row[i];
        }
        #pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            int i = first + 32 * k;
            if (i < n) out[i] = add(a[k], b[k]);
        }
    }
}

// One row of out, (C,), by a warp.
__device__ void add_rows(float* out, const float* token_row, const float* position_row, int C)
{
    if (aligned(out, token_row, position_row, C)) {
        add_rows((float4*)out, (const float4*)token_row, (const float4*)position_row, C / 4);
    } else {
        add_rows<float>(out, token_row, position_row, C);
    }
}

extern "C" __global__ void encoder_forward_v4(float* out, const int* tokens, const float* wte, const float* wpe,
                                              int B, int T, int C)
{
    int bt = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (bt >= B * T) return;
    add_rows(out + (size_t)bt * C, wte + (size_t)tokens[bt] * C, wpe + (size_t)(bt % T) * C, C);
}

// For one position of each sequence, whose number lies in device memory: tokens (B,), out (B, 1, C).
extern "C" __global__ void encoder_forward_at_v1(float* out, const int* tokens, const float* wte, const float* wpe,
                                                 const int* start, int B, int C)
{
    int b = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (b >= B) return;
    add_rows(out + (size_t)b * C, wte + (size_t)tokens[b] * C, wpe + (size_t)*start * C, C);
}
