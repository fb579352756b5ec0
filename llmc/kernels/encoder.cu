/* The encoder: out[b, t] = wte[tokens[b, t]] + wpe[t], and its backward pass, dwte[tokens[b, t]] += dout[b, t],
dwpe[t] += dout[b, t]; rows of C numbers.

encoder_forward v4   one warp per position: it finds its two rows once, and has four quads of each under way
encoder_backward v3  sorted buckets: positions sorted by token; a block adds up a segment of them, whatever tokens it holds

Earlier steps are in ladder/encoder.cu.
Shapes: out, dout (B, T, C), tokens (B, T) int32, wte (Vp, C), wpe (maxT, C). B*T*C is below 2^31 - 2^20.
A row of wpe is read B times, but it stays in the cache: only the rows of wte and out count, 8 bytes per element.

Backward, a token that occurs twice has two rows for one place. The sorted positions are divided into segments of equal
length. Where a run of equal tokens goes on in the next segments, each of those writes its share to scratch memory, and a
last kernel adds them up, all in a fixed order: equal runs give equal bits.
dout is read twice: in the order of the tokens for dwte, in the order of the positions for dwpe. No order serves both
sums, and a gradient of 100 MB does not stay in the cache in between: that is 4 bytes more per element than the 4 to 12
that are needed (4 if there is only one token, 12 if all are different). So a block takes 32 columns (or quads of them)
at a time, for both sums, so few that their rows are mostly in the cache when they are read again: on an H100 it takes
119 µs for what two kernels over all columns do in 150, and a copy of what is needed in 103.
N = B*T positions. A key is a token and its position, (token << 32) + n: no two are equal, so any way to sort gives the
same order.
*/

#include "warp.cuh"

// 128-bit accesses need addresses that are multiples of 16, in every row: so C must be a multiple of 4 too.
__device__ bool aligned(const float* out, const float* wte, const float* wpe, int C)
{
    return C % 4 == 0 && ((size_t)out | (size_t)wte | (size_t)wpe) % 16 == 0;
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

// --------------------------------------------------------------------------------------------- backward: sort, then add

typedef unsigned long long Key;

const int RUN = 1024;   // keys that a block sorts
const int SEGMENT = 8;  // sorted positions of which a warp adds up the rows, all under way at a time
const int LOOK = 4;     // segments that a block looks at, for runs that go on behind them
const int WARPS = 8;    // of a block in which they share work
const Key LAST = ~0ull; // fills the last run

// Each block sorts RUN keys in shared memory (bitonic sort, Batcher 1968): runs (blocks, RUN), each in rising order.
extern "C" __global__ void __launch_bounds__(RUN / 2)
    encoder_backward_sort_v3(Key* runs, const int* tokens, int N)
{
    __shared__ Key keys[RUN];
    int start = blockIdx.x * RUN;
    for (int i = threadIdx.x; i < RUN; i += blockDim.x) {
        int n = start + i;
        keys[i] = n < N ? ((Key)tokens[n] << 32) + n : LAST;
    }
    __syncthreads();
    for (int size = 2; size <= RUN; size *= 2) {          // sorted pieces of this size will be there next,
        for (int gap = size / 2; gap > 0; gap /= 2) {      // rising and falling in turns
            if (gap < 32) __syncwarp();  // a warp has 64 keys, and exchanges only those since gap was 32
            else __syncthreads();
            int i = 2 * threadIdx.x - (threadIdx.x & (gap - 1)), other = i + gap;  // a pair for each thread
            bool rising = (i & size) == 0;
            Key low = keys[i], high = keys[other];
            if ((low > high) == rising) {
                keys[i] = high;
                keys[other] = low;
            }
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < RUN; i += blockDim.x) runs[start + i] = keys[i];
}

// How many keys of a sorted run are smaller. Its loads depend on one another, but not on those in other runs.
__device__ int smaller(const Key* run, Key key)
{
    int count = 0;
    #pragma unroll
    for (int step = RUN / 2; step > 0; step /= 2) {
        if (run[count + step - 1] < key) count += step;
    }
    return count + (run[count] < key);
}

// The place of a key among all keys is the number of smaller ones: sorted (N,). Block (32, WARPS): the lanes have
// neighbouring keys, and therefore look at the same places of a run; the warps divide the runs among them.
extern "C" __global__ void encoder_backward_merge_v3(Key* sorted, const Key* runs, int count)
{
    __shared__ int counts[WARPS][32];
    int lane = threadIdx.x, warp = threadIdx.y, place = 0;
    Key key = runs[blockIdx.x * 32 + lane];
    for (int r = warp; r < count; r += WARPS) place += smaller(runs + (size_t)r * RUN, key);
    counts[warp][lane] = place;
    __syncthreads();
    if (warp > 0 || key == LAST) return;
    for (int w = 1; w < WARPS; w++) place += counts[w][lane];
    sorted[place] = key;
}

__device__ int token_of(Key key) { return (int)(key >> 32); }
__device__ int position_of(Key key) { return (int)(key & 0xffffffff); }
__device__ void clear(float& v) { v = 0.0f; }
__device__ void clear(float4& v) { v = make_float4(0.0f, 0.0f, 0.0f, 0.0f); }
__device__ float4 operator+(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

// The token in front of a segment that begins at place `first`. A run of that token began earlier, all others here.
__device__ int token_before(const Key* sorted, int first) { return first ? token_of(sorted[first - 1]) : -1; }

// Is place k the last of its run in this segment?
__device__ bool ends(const Key* sorted, int k, int N)
{
    return k + 1 == N || (k + 1) % SEGMENT == 0 || token_of(sorted[k + 1]) != token_of(sorted[k]);
}

// The rows of a segment, column i of n; T is float or float4. partial (segments, n). dwte passes by the cache.
template <typename T>
__device__ void add_segment(T* dwte, T* partial, const T* dout, const Key* sorted, int segment, int N, int n, int i)
{
    int start = segment * SEGMENT, before = token_before(sorted, start);
    T rows[SEGMENT], old[SEGMENT], total;
    clear(total);
    #pragma unroll
    for (int j = 0; j < SEGMENT; j++) {  // all loads are under way before the first of them is needed
        int k = start + j;
        clear(rows[j]), clear(old[j]);
        if (k >= N) continue;
        int token = token_of(sorted[k]);
        rows[j] = dout[(size_t)position_of(sorted[k]) * n + i];
        if (ends(sorted, k, N) && token != before) old[j] = __ldcs(dwte + (size_t)token * n + i);
    }
    #pragma unroll
    for (int j = 0; j < SEGMENT; j++) {
        int k = start + j;
        if (k >= N) continue;
        int token = token_of(sorted[k]);
        total = total + rows[j];
        if (!ends(sorted, k, N)) continue;
        T* place = token != before ? dwte + (size_t)token * n + i : partial + (size_t)segment * n + i;
        __stcs(place, old[j] + total);
        clear(total);
    }
}

// The rows at place t of all B sequences, column i of n.
template <typename T>
__device__ void add_place(T* dwpe, const T* dout, int t, int B, int length, int n, int i)
{
    T total;
    clear(total);
    #pragma unroll 8
    for (int b = 0; b < B; b++) total = total + dout[((size_t)b * length + t) * n + i];
    dwpe[(size_t)t * n + i] = dwpe[(size_t)t * n + i] + total;
}

// 32 columns of rows of n numbers or quads: blockIdx.y tells which. A warp has a place in the sequence or a segment.
template <typename T>
__device__ void add_rows(T* dwte, T* dwpe, T* partial, const T* dout, const Key* sorted, int B, int length, int n)
{
    int job = blockIdx.x * WARPS + threadIdx.y, segment = job - length, i = blockIdx.y * 32 + threadIdx.x;
    if (i >= n) return;
    if (segment < 0) add_place(dwpe, dout, job, B, length, n, i);
    else if (segment * SEGMENT < B * length) add_segment(dwte, partial, dout, sorted, segment, B * length, n, i);
}

// How many of the next segments begin with this token: the first that does not is found by halving, as keys are sorted.
__device__ int segments_of(const Key* sorted, int token, int next, int N)
{
    int low = 0, high = (N - next + SEGMENT - 1) / SEGMENT;  // `low` of them do, and no more than `high`
    while (low < high) {
        int middle = (low + high) / 2;
        if (token_of(sorted[next + middle * SEGMENT]) == token) low = middle + 1;
        else high = middle;
    }
    return low;
}

// Does a run of equal tokens begin in this segment that goes on in the next one?
__device__ bool goes_on(const Key* sorted, int segment, int N)
{
    int start = segment * SEGMENT, next = start + SEGMENT;
    if (next >= N) return false;
    int token = token_of(sorted[next]);
    return token_of(sorted[next - 1]) == token && token_before(sorted, start) != token;
}

// That run: the shares that the next segments have written. Block (32, WARPS): a number or quad for each lane; the warps
// divide the shares among them, and warp 0 adds what they found, in order.
template <typename T>
__device__ void add_run(T* dwte, const T* partial, const Key* sorted, int segment, int N, int n, T (*sums)[32])
{
    int next = (segment + 1) * SEGMENT, token = token_of(sorted[next]), count = segments_of(sorted, token, next, N);
    int lane = threadIdx.x, warp = threadIdx.y, i = blockIdx.y * 32 + lane;
    const T* shares = partial + (size_t)(segment + 1) * n + i;  // (count, n), from this lane's column on
    T total;
    clear(total);
    if (i < n) {
        #pragma unroll 4
        for (int s = warp; s < count; s += WARPS) total = total + shares[(size_t)s * n];
    }
    sums[warp][lane] = total;
    __syncthreads();
    if (warp == 0 && i < n) {
        for (int w = 1; w < WARPS; w++) total = total + sums[w][lane];
        dwte[(size_t)token * n + i] = dwte[(size_t)token * n + i] + total;
    }
    __syncthreads();  // the sums have been read before the next run overwrites them
}

// LOOK segments, each looked at by a lane: most runs are short, and then there is nothing to do.
template <typename T>
__device__ void add_shares(T* dwte, const T* partial, const Key* sorted, int N, int n, T (*sums)[32])
{
    int first = blockIdx.x * LOOK, lane = threadIdx.x;
    unsigned runs = __ballot_sync(ALL, lane < LOOK && goes_on(sorted, first + lane, N));  // bit l: what lane l found
    for (; runs; runs &= runs - 1) add_run(dwte, partial, sorted, first + __ffs(runs) - 1, N, n, sums);
}

extern "C" __global__ void __launch_bounds__(256)
    encoder_backward_rows_v3(float* dwte, float* dwpe, float* partial, const float* dout, const Key* sorted, int B,
                             int T, int C)
{
    if (aligned(dwte, dwpe, dout, C)) {
        add_rows((float4*)dwte, (float4*)dwpe, (float4*)partial, (const float4*)dout, sorted, B, T, C / 4);
    } else {
        add_rows(dwte, dwpe, partial, dout, sorted, B, T, C);
    }
}

extern "C" __global__ void __launch_bounds__(256)
    encoder_backward_shares_v3(float* dwte, float* dwpe, const float* partial, const float* dout, const Key* sorted,
                               int B, int T, int C)
{
    __shared__ float4 sums[WARPS][32];
    if (aligned(dwte, dwpe, dout, C)) {
        add_shares((float4*)dwte, (const float4*)partial, sorted, B * T, C / 4, sums);
    } else {
        add_shares(dwte, partial, sorted, B * T, C, reinterpret_cast<float(*)[32]>(sums));
    }
}
