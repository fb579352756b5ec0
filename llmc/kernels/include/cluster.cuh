// Clusters: blocks that run at the same time and can reach into each other's shared memory, where a barrier and a square
// have the same place in each of them. tma.cuh comes before. CLUSTER is their number; one is no cluster at all.

// Blocks of this cluster have numbers 0 … CLUSTER - 1.
__device__ int block_of_cluster() { return blockIdx.x % CLUSTER; }

// Wait until all threads of the cluster have come here.
__device__ void meet_cluster()
{
    if (CLUSTER == 1) return __syncthreads();
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// Arrive at the barrier that this block or another one of the cluster has in this place. What it guards has been read, not
// written, so nothing must become visible first: with .release.cluster the warp would wait for all its stores.
__device__ void arrive_at(Barrier* barrier, int block)
{
    if (CLUSTER == 1) return arrive(barrier);
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there]; }"
        ::"r"(shared_address(barrier)), "r"(block) : "memory");
}

// `load_square` for all blocks of the cluster at once; each one's barrier counts the bytes.
__device__ void load_square_for_all(floatX* square, const TensorMap* map, int x, int y, Barrier* barrier)
{
    if (CLUSTER == 1) return load_square(square, map, x, y, barrier);
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3}], [%4], %5;"
        ::"r"(shared_address(square)), "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier)),
          "h"((unsigned short)((1 << CLUSTER) - 1)) : "memory");
}

// `load_squares` for all of them: each block asks for every CLUSTER-th.
template <bool RUNS, int COUNT>
__device__ void load_squares_for_all(floatX* tile, const TensorMap* map, int first, int k, Barrier* barrier)
{
    #pragma unroll
    for (int i = 0; i < COUNT; i += CLUSTER) {
        int square = i + block_of_cluster(), row = first + 64 * square;
        if (square < COUNT) load_square_for_all(tile + square * SQUARE, map, RUNS ? k : row, RUNS ? row : k, barrier);
    }
}
