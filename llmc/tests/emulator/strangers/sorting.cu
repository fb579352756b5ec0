// Sorting and selecting.

#define FULL 0xffffffffu
#define RADIX 16

__device__ void order(float& low, float& high, bool ascending) {
    if ((low > high) == ascending) {
        float kept = low;
        low = high;
        high = kept;
    }
}

// Batcher's bitonic sort of a block's 2 * blockDim.x elements in shared memory.
extern "C" __global__ void bitonic_in_shared_memory(float* x) {
    extern __shared__ float s[];
    int t = threadIdx.x, n = 2 * blockDim.x;
    float* mine = x + blockIdx.x * n;
    s[t] = mine[t];
    s[t + blockDim.x] = mine[t + blockDim.x];
    for (int size = 2; size <= n; size *= 2)
        for (int stride = size / 2; stride > 0; stride /= 2) {
            __syncthreads();
            int at = 2 * t - (t & (stride - 1));
            order(s[at], s[at + stride], (t & (size / 2)) == 0);
        }
    __syncthreads();
    mine[t] = s[t];
    mine[t + blockDim.x] = s[t + blockDim.x];
}

// One step of it over the whole array; the host runs the loops.
extern "C" __global__ void bitonic_step(float* x, int size, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, other = i ^ stride;
    if (other > i) order(x[i], x[other], (i & size) == 0);
}

// Radix sort, 4 bits a pass: count by block, scan the counts (digit first), scatter in a stable order.
extern "C" __global__ void radix_count(unsigned* counts, const unsigned* keys, int n, int shift) {
    __shared__ unsigned mine[RADIX];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (t < RADIX) mine[t] = 0;
    __syncthreads();
    if (i < n) atomicAdd(&mine[keys[i] >> shift & (RADIX - 1)], 1u);
    __syncthreads();
    if (t < RADIX) counts[t * gridDim.x + blockIdx.x] = mine[t];
}

extern "C" __global__ void radix_scan(unsigned* counts, int n) {
    __shared__ unsigned carry;
    int lane = threadIdx.x;
    if (lane == 0) carry = 0;
    __syncwarp();
    for (int base = 0; base < n; base += 32) {
        unsigned v = base + lane < n ? counts[base + lane] : 0, sum = v;
        for (int step = 1; step < 32; step *= 2) {
            unsigned before = __shfl_up_sync(FULL, sum, step);
            if (lane >= step) sum += before;
        }
        if (base + lane < n) counts[base + lane] = carry + sum - v;
        __syncwarp();
        if (lane == 31) carry += sum;
        __syncwarp();
    }
}

extern "C" __global__ void radix_scatter(unsigned* out, const unsigned* keys, const unsigned* starts, int n,
                                         int shift) {
    __shared__ unsigned next[RADIX];
    int lane = threadIdx.x % 32, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x < RADIX) next[threadIdx.x] = starts[threadIdx.x * gridDim.x + blockIdx.x];
    // One warp after another, so that equal digits keep their order.
    for (int warp = 0; warp < blockDim.x / 32; warp++) {
        __syncthreads();
        if (threadIdx.x / 32 != warp) continue;
        unsigned here = __ballot_sync(FULL, i < n);
        if (i >= n) continue;
        unsigned key = keys[i], digit = key >> shift & (RADIX - 1), peers = __match_any_sync(here, digit);
        int leader = __ffs(peers) - 1;
        unsigned start = lane == leader ? atomicAdd(&next[digit], (unsigned)__popc(peers)) : 0;
        out[__shfl_sync(peers, start, leader) + __popc(peers & ((1u << lane) - 1))] = key;
    }
}

// The k largest of a row by k rounds of a block-wide argmax; packed, value above and index below.
extern "C" __global__ void top_k(float* values, int* indices, const float* x, int n, int k) {
    __shared__ unsigned long long best;
    const float* row = x + blockIdx.x * n;
    unsigned long long last = ~0ull;
    for (int round = 0; round < k; round++) {
        if (threadIdx.x == 0) best = 0;
        __syncthreads();
        unsigned long long mine = 0;
        for (int i = threadIdx.x; i < n; i += blockDim.x) {
            unsigned bits = __float_as_uint(row[i]);
            bits = bits >> 31 ? ~bits : bits | 0x80000000u;  // the order of floats as an order of unsigned integers
            unsigned long long packed = (unsigned long long)bits << 32 | (unsigned)(n - 1 - i);
            if (packed < last && packed > mine) mine = packed;
        }
        atomicMax(&best, mine);
        __syncthreads();
        last = best;
        __syncthreads();
        if (threadIdx.x == 0) {
            indices[blockIdx.x * k + round] = n - 1 - (int)(unsigned)last;
            values[blockIdx.x * k + round] = row[n - 1 - (int)(unsigned)last];
        }
    }
}

// Merging two sorted arrays: each thread finds by bisection where its diagonal crosses the path.
extern "C" __global__ void merge_path(int* out, const int* a, const int* b, int na, int nb, int each) {
    int diagonal = (blockIdx.x * blockDim.x + threadIdx.x) * each;
    if (diagonal >= na + nb) return;
    int low = max(0, diagonal - nb), high = min(diagonal, na);
    while (low < high) {
        int middle = (low + high) / 2;
        if (a[middle] <= b[diagonal - 1 - middle]) low = middle + 1;
        else high = middle;
    }
    int i = low, j = diagonal - low;
    for (int k = diagonal; k < min(diagonal + each, na + nb); k++)
        out[k] = j >= nb || (i < na && a[i] <= b[j]) ? a[i++] : b[j++];
}
