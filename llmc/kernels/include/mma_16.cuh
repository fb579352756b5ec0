// Tensor cores, as a warp uses them since Ampere: they multiply numbers of 16 bits and add in float.
//
// One instruction, mma, computes d (16, 8) += a (16, 16) b (16, 8). Lane 4 r + j (r < 8, j < 4) holds
//     a: [r][2 j], [r + 8][2 j], [r][2 j + 8], [r + 8][2 j + 8], each with its neighbour to the right: 4 pairs
//     b: [2 j][r], [2 j + 8][r], each with its neighbour below: 2 pairs
//     d: [r][2 j], [r][2 j + 1], [r + 8][2 j], [r + 8][2 j + 1]: 4 floats
//
// Another instruction, ldmatrix, gets four squares of 8 x 8 from shared memory, and gives each lane [r][2 j] of each
// square, and its neighbour: of the square as it lies there, or transposed. Four squares make an a, two a b.

typedef unsigned Squares[4];  // a lane's pairs of four squares of 8 x 8: an a, or two b

#if FLOAT16
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#else
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#endif

// d += a b, where b0 and b1 are the pairs of b.
__device__ void multiply(float (&d)[4], const Squares& a, unsigned b0, unsigned b1)
{
#if __CUDA_ARCH__ >= 800
    asm volatile(MMA " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// A lane's pairs of four squares in shared memory; lanes 8 i … 8 i + 7 say where the rows of square i begin.
template <bool TRANSPOSED>
__device__ void load_squares(Squares& squares, const floatX* row)
{
    unsigned address = (unsigned)__cvta_generic_to_shared(row);
    if (TRANSPOSED) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
            : "=r"(squares[0]), "=r"(squares[1]), "=r"(squares[2]), "=r"(squares[3]) : "r"(address) : "memory");
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
            : "=r"(squares[0]), "=r"(squares[1]), "=r"(squares[2]), "=r"(squares[3]) : "r"(address) : "memory");
    }
}
