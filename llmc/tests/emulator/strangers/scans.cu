// Prefix sums, from the textbook's to the one that crosses the grid in a single pass.

#define FULL 0xffffffffu

// Hillis and Steele: log2(n) rounds over two buffers.
extern "C" __global__ void scan_hillis_steele(int* out, const int* x, int n) {
    extern __shared__ int buffers[];
    int t = threadIdx.x, from = 0;
    buffers[t] = x[t];
    __syncthreads();
    for (int step = 1; step < n; step *= 2) {
        int to = 1 - from;
        buffers[to * n + t] = buffers[from * n + t] + (t >= step ? buffers[from * n + t - step] : 0);
        from = to;
        __syncthreads();
    }
    out[t] = buffers[from * n + t];
}

#define PADDED(i) ((i) + ((i) >> 5))

// Blelloch: up the tree and down again, two elements a thread, indices padded against bank conflicts. Exclusive.
extern "C" __global__ void scan_blelloch(int* out, const int* x, int n) {
    __shared__ int s[PADDED(512) + 1];
    int t = threadIdx.x, stride = 1;
    s[PADDED(t)] = t < n ? x[t] : 0;
    s[PADDED(t + 256)] = t + 256 < n ? x[t + 256] : 0;
    for (int left = 256; left > 0; left /= 2, stride *= 2) {
        __syncthreads();
        if (t < left) s[PADDED(stride * (2 * t + 2) - 1)] += s[PADDED(stride * (2 * t + 1) - 1)];
    }
    if (t == 0) s[PADDED(511)] = 0;
    for (int left = 1; left < 512; left *= 2) {
        stride /= 2;
        __syncthreads();
        if (t < left) {
            int low = PADDED(stride * (2 * t + 1) - 1), high = PADDED(stride * (2 * t + 2) - 1), kept = s[low];
            s[low] = s[high];
            s[high] += kept;
        }
    }
    __syncthreads();
    if (t < n) out[t] = s[PADDED(t)];
    if (t + 256 < n) out[t + 256] = s[PADDED(t + 256)];
}

__device__ int warp_scan(int v) {
    int lane = threadIdx.x % 32;
    for (int step = 1; step < 32; step *= 2) {
        int before = __shfl_up_sync(FULL, v, step);
        if (lane >= step) v += before;
    }
    return v;
}

__device__ int block_scan(int v) {
    __shared__ int totals[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    v = warp_scan(v);
    if (lane == 31) totals[warp] = v;
    __syncthreads();
    if (warp == 0) totals[lane] = warp_scan(lane < warps ? totals[lane] : 0);
    __syncthreads();
    return warp > 0 ? v + totals[warp - 1] : v;
}

extern "C" __global__ void scan_by_warps(int* out, const int* x) { out[threadIdx.x] = block_scan(x[threadIdx.x]); }

enum : unsigned long long { NOTHING = 0, MINE = 1, ALL = 2 };

// Merrill and Garland's decoupled look-back: a tile publishes its own sum, walks back over its predecessors' until it
// meets a prefix, and publishes its prefix. State and value share 64 bits, so that one write shows both.
extern "C" __global__ void scan_decoupled_look_back(int* out, const int* x, volatile unsigned long long* tiles,
                                                    unsigned* next_tile, int n) {
    __shared__ unsigned tile;
    __shared__ int before;
    if (threadIdx.x == 0) tile = atomicAdd(next_tile, 1);  // the order of arrival: no tile waits for one not started
    __syncthreads();
    int i = tile * blockDim.x + threadIdx.x;
    int v = block_scan(i < n ? x[i] : 0);
    if (threadIdx.x == blockDim.x - 1) {
        tiles[tile] = (tile == 0 ? ALL : MINE) << 32 | (unsigned)v;
        int sum = 0;
        for (int k = (int)tile - 1; k >= 0; k--) {
            unsigned long long state;
            do state = tiles[k];
            while (state >> 32 == NOTHING);
            sum += (int)(unsigned)state;
            if (state >> 32 == ALL) break;
        }
        if (tile > 0) tiles[tile] = ALL << 32 | (unsigned)(sum + v);
        before = sum;
    }
    __syncthreads();
    if (i < n) out[i] = before + v;
}

// A scan that starts again at every flag: the pair (flag, sum) under an operator that is associative too.
extern "C" __global__ void scan_segmented(int* out, const int* x, const int* heads) {
    int lane = threadIdx.x % 32, v = x[threadIdx.x], head = heads[threadIdx.x];
    for (int step = 1; step < 32; step *= 2) {
        int other = __shfl_up_sync(FULL, v, step), other_head = __shfl_up_sync(FULL, head, step);
        if (lane >= step) {
            if (!head) v += other;
            head |= other_head;
        }
    }
    out[threadIdx.x] = v;
}
