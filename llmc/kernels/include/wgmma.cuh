// Hopper's tensor cores (wgmma, compute capability 9.0 alone): four warps, a warpgroup, multiply (64, 16) by (16, N) numbers
// of 16 bits in shared memory, while they go on with something else. lanes.cuh and tma.cuh come before.
//
// The sums stay in registers: of eight neighbouring columns lane 4 r + j of warp w holds what it holds of an mma whose rows
// are 16 w … 16 w + 15, d[4 c … 4 c + 3] for the columns from 8 c on.
//
// A factor is described by 64 bits: where it begins, and how its parts follow each other. In squares, as TMA brings them,
// lines of eight are 1024 bytes apart. Where k runs along the lines, the lines of the next square are the next rows; where
// it does not, the next square, SQUARE_BYTES on, has the next 64 rows.

// With A_TYPE, e4m3 or e5m2, factors have 8 bits, and b is e4m3. k runs along the lines of both, twice as many numbers in
// each, of which an instruction multiplies 32: as many bytes as before.

#if FLOAT16
#define TYPES ".f32.f16.f16"
#else
#define TYPES ".f32.bf16.bf16"
#endif

// Of 64 N rows and 64 numbers of k, or of the part of it that begins at `start`.
__device__ unsigned long long describe(const floatX* start)
{
    const unsigned long long SWIZZLE_128 = 1, NEXT = SQUARE_BYTES / 16, EIGHT_LINES = 1024 / 16;
    return (shared_address(start) & 0x3ffff) / 16 | NEXT << 16 | EIGHT_LINES << 32 | SWIZZLE_128 << 62;
}

// How far a description moves for the next 16 numbers of k: along the lines, or down by 16 of them.
template <bool RUNS>
__device__ constexpr int next_k() { return (RUNS ? 32 : 16 * 128) / 16; }

#define D16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define D32 D16 ", " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define D64 D32 ", " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define D96 D64 ", " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define D128 D96 ", " \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define LIST16(how, x, i) SIXTEEN(how, x, i)
#define LIST32(how, x, i) SIXTEEN(how, x, i), SIXTEEN(how, x, i + 16)
#define LIST64(how, x, i) LIST32(how, x, i), LIST32(how, x, i + 32)
#define LIST96(how, x, i) LIST64(how, x, i), LIST32(how, x, i + 64)
#define LIST128(how, x, i) LIST64(how, x, i), LIST64(how, x, i + 64)
#ifdef A_TYPE
#define QUOTED(text) #text
#define NAME(type) QUOTED(type)
#define WGMMA(n, d, factors, add, orders) \
    "{ .reg .pred add; setp.ne.b32 add, " add ", 0;\n" \
    "wgmma.mma_async.sync.aligned.m64n" n "k32.f32." NAME(A_TYPE) ".e4m3 {" d "}, " factors ", add, 1, 1; }"
#else
#define WGMMA(n, d, factors, add, orders) \
    "{ .reg .pred add; setp.ne.b32 add, " add ", 0;\n" \
    "wgmma.mma_async.sync.aligned.m64n" n "k16" TYPES " {" d "}, " factors ", add, 1, 1, " orders "; }"
#endif

// d = or, with add, += a b. RUNS: whether k runs along the lines of a, of b. N columns have N / 2 sums in each thread.
template <bool A_K, bool B_K>
__device__ void multiply(float (&d)[32], unsigned long long a, unsigned long long b, bool add)
{
    asm volatile(WGMMA("64", D32, "%32, %33", "%34", "%35, %36")
        : LIST32("+f", d, 0) : "l"(a), "l"(b), "r"((int)add), "n"(!A_K), "n"(!B_K));
}

template <bool A_K, bool B_K>
__device__ void multiply(float (&d)[64], unsigned long long a, unsigned long long b, bool add)
{
    asm volatile(WGMMA("128", D64, "%64, %65", "%66", "%67, %68")
        : LIST64("+f", d, 0) : "l"(a), "l"(b), "r"((int)add), "n"(!A_K), "n"(!B_K));
}

template <bool A_K, bool B_K>
__device__ void multiply(float (&d)[96], unsigned long long a, unsigned long long b, bool add)
{
    asm volatile(WGMMA("192", D96, "%96, %97", "%98", "%99, %100")
        : LIST96("+f", d, 0) : "l"(a), "l"(b), "r"((int)add), "n"(!A_K), "n"(!B_K));
}

template <bool A_K, bool B_K>
__device__ void multiply(float (&d)[128], unsigned long long a, unsigned long long b, bool add)
{
    asm volatile(WGMMA("256", D128, "%128, %129", "%130", "%131, %132")
        : LIST128("+f", d, 0) : "l"(a), "l"(b), "r"((int)add), "n"(!A_K), "n"(!B_K));
}

// The same with a in registers, those of an a of mma_16.cuh in each warp; a must stay until the products are there.
template <bool B_K>
__device__ void multiply(float (&d)[16], const unsigned* a, unsigned long long b)
{
    asm volatile(WGMMA("32", D16, "{%16, %17, %18, %19}, %20", "%21", "%22")
        : LIST16("+f", d, 0) : FOUR("r", a, 0), "l"(b), "r"(1), "n"(!B_K));
}

template <bool B_K>
__device__ void multiply(float (&d)[32], const unsigned* a, unsigned long long b)
{
    asm volatile(WGMMA("64", D32, "{%32, %33, %34, %35}, %36", "%37", "%38")
        : LIST32("+f", d, 0) : FOUR("r", a, 0), "l"(b), "r"(1), "n"(!B_K));
}

template <bool B_K>
__device__ void multiply(float (&d)[64], const unsigned* a, unsigned long long b)
{
    asm volatile(WGMMA("128", D64, "{%64, %65, %66, %67}, %68", "%69", "%70")
        : LIST64("+f", d, 0) : FOUR("r", a, 0), "l"(b), "r"(1), "n"(!B_K));
}

// Needed before the first product that uses registers which other instructions have written.
__device__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// The products asked for since the last call become a group.
__device__ void end_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Wait until all but the last COUNT groups are there.
template <int COUNT>
__device__ void wait_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(COUNT) : "memory");
}

// After wait_products: keeps the compiler, which does not know that sums come later, from reading them earlier.
template <int N>
__device__ void use(float (&d)[N])
{
    #pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i]) :: "memory");
}

// d += the products of 64 numbers of k, a group; sums of earlier ones are not used in between.
template <bool A_K, bool B_K, int N>
__device__ void multiply_64(float (&d)[N], const floatX* a, const floatX* b, bool add)
{
    begin_products();
    #pragma unroll
    for (int k = 0; k < 4; k++)
        multiply<A_K, B_K>(d, describe(a) + k * next_k<A_K>(), describe(b) + k * next_k<B_K>(), add || k > 0);
    end_group();
}

// A warpgroup gives registers back, or takes those that others gave back.
template <int COUNT>
__device__ void give_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT>
__device__ void take_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

// The 128 threads of warpgroup `group` wait for each other; barrier 0 is the whole block's.
__device__ void meet(int group) { asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory"); }
