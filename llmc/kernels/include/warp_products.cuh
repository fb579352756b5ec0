// One product of a warp on tensor cores, which round their factors to TF32, 10 bits of mantissa, and add in float32.
//
// One instruction computes d (16, 8) += a (16, 8) b (8, 8). Lane 4 r + j (r < 8, j < 4) holds
//     a: [r][j], [r + 8][j], [r][j + 4], [r + 8][j + 4]      b: [j][r], [j + 4][r]
//     d: [r][2 j], [r][2 j + 1], [r + 8][2 j], [r + 8][2 j + 1]
//
// EXACT comes from the file that includes this one, after lanes.cuh. It is 1 for float32: each factor is the sum of two
// TF32 numbers, 22 bits, and the three products that matter are added up. Tensor cores cut what they add, so that a
// long sum drifts: sum up a few products here, and add that sum to the others as usual. Since Ampere (compute capability
// 8.0).

// A lane's part of a factor, each number as the sum of two that TF32 holds; `small` is used only if EXACT.
struct A {
    float big[4], small[4];
};

struct B {
    float big[2], small[2];
};

// Rounded to the nearest; not left to the product, which would cut.
__device__ float to_tf32(float x)
{
#if __CUDA_ARCH__ >= 900
    unsigned rounded;  // one instruction since Hopper, four before
    asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
    return __uint_as_float(rounded);
#elif __CUDA_ARCH__ >= 800
    unsigned rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
    return __uint_as_float(rounded);
#else
    return x;
#endif
}

__device__ void split(float& big, float& small, float x)
{
    big = to_tf32(x);
    small = EXACT ? to_tf32(x - big) : 0.0f;
}

__device__ A factor_a(float a0, float a1, float a2, float a3)
{
    A a;
    split(a.big[0], a.small[0], a0), split(a.big[1], a.small[1], a1);
    split(a.big[2], a.small[2], a2), split(a.big[3], a.small[3], a3);
    return a;
}

__device__ B factor_b(float b0, float b1)
{
    B b;
    split(b.big[0], b.small[0], b0), split(b.big[1], b.small[1], b1);
    return b;
}

__device__ void multiply_tf32(float (&d)[4], const float (&a)[4], const float (&b)[2])
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
          "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
#endif
}
