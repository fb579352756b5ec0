// Simulation, randomness, tables and graphs.

// All pairs: a block's worth of bodies at a time through shared memory.
extern "C" __global__ void n_body(float4* forces, const float4* bodies, int n, float softening) {
    extern __shared__ float4 tile[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 me = i < n ? bodies[i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float3 sum = make_float3(0.0f, 0.0f, 0.0f);
    for (int first = 0; first < n; first += blockDim.x) {
        int j = first + threadIdx.x;
        tile[threadIdx.x] = j < n ? bodies[j] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);  // no mass: no force
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < blockDim.x; k++) {
            float dx = tile[k].x - me.x, dy = tile[k].y - me.y, dz = tile[k].z - me.z;
            float near = rsqrtf(dx * dx + dy * dy + dz * dz + softening), s = tile[k].w * near * near * near;
            sum.x += dx * s;
            sum.y += dy * s;
            sum.z += dz * s;
        }
        __syncthreads();
    }
    if (i < n) forces[i] = make_float4(sum.x, sum.y, sum.z, 0.0f);
}

// Philox 4x32-10: a counter and a key in, four random words out.
__device__ uint4 philox(uint4 c, uint2 key) {
    for (int round = 0; round < 10; round++) {
        unsigned high0 = __umulhi(0xD2511F53u, c.x), low0 = 0xD2511F53u * c.x;
        unsigned high1 = __umulhi(0xCD9E8D57u, c.z), low1 = 0xCD9E8D57u * c.z;
        c = make_uint4(high1 ^ c.y ^ key.x, low1, high0 ^ c.w ^ key.y, low0);
        key.x += 0x9E3779B9u;
        key.y += 0xBB67AE85u;
    }
    return c;
}

extern "C" __global__ void random_words(uint4* out, unsigned seed, int n) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = philox(make_uint4(i, 0, 0, 0), make_uint2(seed, 0));
}

// Open addressing: whoever swaps its key into an empty slot owns it; values of equal keys are added up.
extern "C" __global__ void hash_insert(unsigned* keys, int* values, const unsigned* new_keys, int n, unsigned slots) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned key = new_keys[i];
    for (unsigned slot = key * 2654435769u % slots;; slot = (slot + 1) % slots) {
        unsigned found = atomicCAS(&keys[slot], 0xffffffffu, key);
        if (found == 0xffffffffu || found == key) {
            atomicAdd(&values[slot], i);
            return;
        }
    }
}

extern "C" __global__ void hash_find(int* out, const unsigned* keys, const int* values, int n, unsigned slots) {
    unsigned key = blockIdx.x * blockDim.x + threadIdx.x, slot = key * 2654435769u % slots;
    if (key >= n) return;
    while (keys[slot] != key && keys[slot] != 0xffffffffu) slot = (slot + 1) % slots;
    out[key] = keys[slot] == key ? values[slot] : -1;
}

// Breadth first: the frontier's neighbours make the next one. Many may reach a node; the swap lets one have it.
extern "C" __global__ void bfs_step(int* levels, int* next, int* next_size, const int* frontier, int frontier_size,
                                    const int* starts, const int* edges, int level) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= frontier_size) return;
    int node = frontier[i];
    for (int e = starts[node]; e < starts[node + 1]; e++)
        if (atomicCAS(&levels[edges[e]], -1, level) == -1) next[atomicAdd(next_size, 1)] = edges[e];
}

__device__ int root(int* parents, int node) {
    int parent;
    while ((parent = atomicAdd(&parents[node], 0)) != node) node = parent;
    return node;
}

// Union and find without locks: the larger root is hung under the smaller, again if somebody was quicker.
extern "C" __global__ void union_find(int* parents, const int* edges, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int a = edges[2 * i], b = edges[2 * i + 1];
    while (true) {
        a = root(parents, a);
        b = root(parents, b);
        if (a == b) return;
        int large = max(a, b), small = min(a, b);
        if (atomicCAS(&parents[large], large, small) == large) return;
    }
}

// A queue that blocks feed while they eat from it: each number n puts n / 2 and n / 3 back. `open` counts what is left.
extern "C" __global__ void work_queue(int* queue, volatile int* ready, int* tail, int* head, int* open, int capacity) {
    if (threadIdx.x > 0) return;
    while (atomicAdd(open, 0) > 0) {
        int mine = atomicAdd(head, 0);
        if (mine >= atomicAdd(tail, 0) || atomicCAS(head, mine, mine + 1) != mine) continue;
        while (!ready[mine]) {
        }
        __threadfence();
        int n = queue[mine];
        for (int divisor = 2; divisor <= 3; divisor++) {
            if (n / divisor == 0) continue;
            atomicAdd(open, 1);
            int place = atomicAdd(tail, 1);
            assert(place < capacity);
            queue[place] = n / divisor;
            __threadfence();
            ready[place] = 1;
        }
        atomicSub(open, 1);
    }
}
