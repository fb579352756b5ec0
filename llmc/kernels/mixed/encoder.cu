/* The encoder: out[b, t] = wte[tokens[b, t]] + wpe[t], and its backward pass, the sums of dout for each row of both.

forward             one warp per position, eight numbers of its row for each lane
forward_at          the same for one position of each sequence, whose number lies in device memory
backward_positions  one thread per eight numbers of dwpe: it adds up the sequences
backward_tokens     positions sorted by token, as in llmc/kernels/encoder.cu, which sorts them; the block that
                    begins with a token's first position adds up all its rows

out and dout belong to the residual stream; the rows of dwte and dwpe are rounded once, when everything has been added,
in a fixed order. A key is a token and its position, (token << 32) + n, of N = B*T positions.
*/

#include "number.cuh"

typedef unsigned long long Key;

const int WARPS = 8;  // of a block

// out = token + position, rows of C numbers, by a warp.
__device__ void add_rows(Stream* out, const floatX* token, const floatX* position, int C)
{
    for (int c = threadIdx.x % 32 * 8; c < C; c += 32 * 8) {
        Eight a, b;
        load(a, token + c, C - c);
        load(b, position + c, C - c);
        #pragma unroll
        for (int e = 0; e < 8; e++) a[e] += b[e];
        store(out + c, a, C - c);
    }
}

extern "C" __global__ void encoder_forward_v1(Stream* out, const int* tokens, const floatX* wte, const floatX* wpe,
                                              int N, int T, int C)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= N) return;
    add_rows(out + (size_t)row * C, wte + (size_t)tokens[row] * C, wpe + (size_t)(row % T) * C, C);
}

extern "C" __global__ void encoder_forward_at_v1(Stream* out, const int* tokens, const floatX* wte, const floatX* wpe,
                                                 const int* start, int B, int C)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= B) return;
    add_rows(out + (size_t)row * C, wte + (size_t)tokens[row] * C, wpe + (size_t)*start * C, C);
}

extern "C" __global__ void encoder_backward_positions_v1(floatX* dwpe, const Stream* dout, int B, int T, int C)
{
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 8, n = T * C;
    if (i >= n) return;
    Eight total = {}, old, row;
    for (int b = 0; b < B; b++) {
        load(row, dout + (size_t)b * n + i, n - i);
        #pragma unroll
        for (int e = 0; e < 8; e++) total[e] += row[e];
    }
    load(old, dwpe + i, n - i);
    #pragma unroll
    for (int e = 0; e < 8; e++) total[e] += old[e];
    store(dwpe + i, total, n - i);
}

__device__ int token_of(Key key) { return (int)(key >> 32); }
__device__ int position_of(Key key) { return (int)(key & 0xffffffff); }

// Grid: sorted positions in x, chunks of 256 columns in y. Block (32, WARPS): eight columns for each lane; the warps
// divide the rows among them, and warp 0 adds what they found, in order.
extern "C" __global__ void __launch_bounds__(256)
    encoder_backward_tokens_v1(floatX* dwte, const Stream* dout, const Key* sorted, int N, int C)
{
    __shared__ Eight sums[WARPS][32];
    int first = blockIdx.x, token = token_of(sorted[first]);
    if (first > 0 && token_of(sorted[first - 1]) == token) return;  // another block's work; the whole block leaves
    int lane = threadIdx.x, warp = threadIdx.y, c = (blockIdx.y * 32 + lane) * 8;
    Eight total = {}, row;
    for (int k = first + warp; k < N && token_of(sorted[k]) == token && c < C; k += WARPS) {
        load(row, dout + (size_t)position_of(sorted[k]) * C + c, C - c);
        #pragma unroll
        for (int e = 0; e < 8; e++) total[e] += row[e];
    }
    store(sums[warp][lane], total, 8);
    __syncthreads();
    if (warp > 0 || c >= C) return;
    floatX* place = dwte + (size_t)token * C + c;
    load(row, place, C - c);
    for (int w = 1; w < WARPS; w++) {
        #pragma unroll
        for (int e = 0; e < 8; e++) total[e] += sums[w][lane][e];
    }
    #pragma unroll
    for (int e = 0; e < 8; e++) total[e] += row[e];
    store(place, total, C - c);
}
