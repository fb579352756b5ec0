// Where a lane's numbers are in a result of tensor cores, (16, 8) float32, whatever they multiply: lane 4 r + j (r < 8,
// j < 4) holds [r][2 j], [r][2 j + 1], [r + 8][2 j], [r + 8][2 j + 1].

__device__ int r_of_lane()
{
    return threadIdx.x % 32 / 4;
}

__device__ int j_of_lane()
{
    return threadIdx.x % 4;
}

// Lists of operands for asm statements: SIXTEEN("+f", x, 0) is "+f"(x[0]), …, "+f"(x[15]).

#define FOUR(how, x, i) how(x[i]), how(x[i + 1]), how(x[i + 2]), how(x[i + 3])
#define EIGHT(how, x, i) FOUR(how, x, i), FOUR(how, x, i + 4)
#define SIXTEEN(how, x, i) EIGHT(how, x, i), EIGHT(how, x, i + 8)
