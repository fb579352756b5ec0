// Hopper's machine for copies (TMA) and the barriers that say when they have arrived.
//
// One thread asks for a square of 64 x 64 numbers of 16 bits, 8 KB, of a matrix that a TensorMap describes; what lies
// outside of the matrix comes as zeros, and is not written. In shared memory a square has 64 lines of 128 bytes, in each of
// which the groups of eight numbers are swizzled as in product_tiles.cuh: group g of line l is at g ^ l % 8. A square must
// begin at a multiple of 1024 bytes there.
//
// A barrier (mbarrier) counts arrivals, and the bytes of the copies that it has been told to expect. When all are there, a
// phase is over and the next begins: phases 0, 1, 2, … have the parities 0, 1, 0, … number.cuh comes before.

struct __align__(64) TensorMap {
    unsigned long long words[16];  // as cuTensorMapEncodeTiled makes it: see llmc/cuda/tensor_maps.py
};

typedef unsigned long long Barrier;

const int SQUARE = 64 * 64, SQUARE_BYTES = 2 * SQUARE;

__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// The number in a square: line 0 … 63, column 0 … 63.
__device__ floatX* in_square(floatX* square, int line, int column) { return square + line * 64 + (column ^ line % 8 * 8); }

// The first multiple of 1024 bytes in shared memory from p on.
__device__ floatX* first_square(void* p)
{
    return reinterpret_cast<floatX*>(static_cast<char*>(p) + (-shared_address(p) & 1023));
}

__device__ void init(Barrier* barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Barriers that this thread has initialised can be used by the machine, once the other threads know of them too.
__device__ void publish_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ void arrive(Barrier* barrier)
{
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }" ::"r"(shared_address(barrier))
        : "memory");
}

// Arrive, and let the barrier wait for this many bytes too.
__device__ void expect(Barrier* barrier, int bytes)
{
    asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1; }"
        ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// Until the phase with this parity is over; one that has not begun counts as over.
__device__ void wait(Barrier* barrier, int parity)
{
    asm volatile(
        "{\n"
        ".reg .pred over;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
        "@!over bra again;\n"
        "}" ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}

// Ask for the square whose first number is number x of line y; the barrier counts its bytes.
__device__ void load_square(floatX* square, const TensorMap* map, int x, int y, Barrier* barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
        ::"r"(shared_address(square)), "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier)) : "memory");
}

// The same from a stack of matrices, matrix z.
__device__ void load_square(floatX* square, const TensorMap* map, int x, int y, int z, Barrier* barrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];"
        ::"r"(shared_address(square)), "l"(map), "r"(x), "r"(y), "r"(z), "r"(shared_address(barrier)) : "memory");
}

// The squares of a tile of 64 COUNT rows and 64 numbers of k, from (first, k) on.
template <bool RUNS, int COUNT>
__device__ void load_squares(floatX* tile, const TensorMap* map, int first, int k, Barrier* barrier)
{
    #pragma unroll
    for (int i = 0; i < COUNT; i++) {
        int row = first + 64 * i;
        load_square(tile + i * SQUARE, map, RUNS ? k : row, RUNS ? row : k, barrier);
    }
}

// What this thread has written to shared memory is visible to the machine and to tensor cores, which take a path of
// their own; a barrier must follow before another thread asks for a copy of it.
__device__ void publish_writes() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// The way back, in groups of copies.
__device__ void store_square(const TensorMap* map, int x, int y, const floatX* square)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\n"
                 "cp.async.bulk.commit_group;" ::"l"(map), "r"(x), "r"(y), "r"(shared_address(square)) : "memory");
}

// Wait until all but the last COUNT copies of this thread have been read from shared memory.
template <int COUNT>
__device__ void wait_stores_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(COUNT) : "memory");
}

// Stages of shared memory that are used one after the other, again and again: which one is next, and the parity of its
// barriers' phase.
template <int COUNT>
struct Ring {
    int stage = 0, parity = 0;

    __device__ void next()
    {
        if (++stage == COUNT) stage = 0, parity ^= 1;
    }

    __device__ void skip(int count)
    {
        parity ^= (stage + count) / COUNT & 1;
        stage = (stage + count) % COUNT;
    }
};
