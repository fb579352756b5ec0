/* The encoder's backward pass: dwte[tokens[b, t]] += dout[b, t], dwpe[t] += dout[b, t], rows of C numbers.

encoder_backward_tokens_v1     one block per position; the block of a token's first occurrence adds up all its rows
encoder_backward_positions_v1  one thread per element of dwpe adds over the batch

A token that occurs twice has two rows for one place. Atomics would add them in any order, and each run would round
differently; here the rows of a token have one owner, which adds them from the first to the last. Finding it takes no
sorting: a block checks whether its token occurs at an earlier position, and if so leaves the work to that block.
N = B*T positions; tokens is N ints, small enough for the cache, and is read by every block.
*/

const unsigned ALL = 0xffffffff;  // all 32 lanes of a warp take part
const int THREADS = 256;          // of a block: eight warps

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

extern "C" __global__ void encoder_backward_tokens_v1(float* dwte, const float* dout, const int* tokens, int N, int C)
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

extern "C" __global__ void encoder_backward_positions_v1(float* dwpe, const float* dout, int B, int T, int C)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < T * C) {
        float total = 0.0f;
        for (int b = 0; b < B; b++) total += dout[(size_t)b * T * C + i];
        dwpe[i] += total;
    }
}
