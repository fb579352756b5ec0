// What the products of matmul_wmma.cu, matmul_mma.cu and matmul_stages.cu share: how tiles come to shared memory. lanes.cuh
// and product.cuh come before.
//
// A block of eight warps has a tile of BM x BN results, a warp one of WM x WN; both factors come BK numbers of k at a time.

#ifndef PAD
#define PAD 8  // numbers behind each line of a tile that is not swizzled: with none, reading it takes 8 times as long
#endif

const int BM = 128, BN = 128, BK = 64, WM = 64, WN = 32, THREADS = 32 * (BM / WM) * (BN / WN);

// A tile as it lies in memory: lines of BK numbers where k runs, else BK lines of rows. Padded: eight lines begin in
// different banks.
template <bool K_RUNS, int ROWS>
struct Padded {
    static const bool RUNS = K_RUNS;
    static const int LINES = RUNS ? ROWS : BK, ACROSS = RUNS ? BK : ROWS, WIDTH = ACROSS + PAD;
    __align__(128) floatX numbers[LINES * WIDTH];

    __device__ floatX* at(int line, int column) { return numbers + line * WIDTH + column; }
};

// The same without a gap: line l has its groups of eight numbers, 16 bytes, in another order, number g at g ^ l % 8.
template <bool K_RUNS, int ROWS>
struct Swizzled {
    static const bool RUNS = K_RUNS;
    static const int LINES = RUNS ? ROWS : BK, ACROSS = RUNS ? BK : ROWS;
    __align__(128) floatX numbers[LINES * ACROSS];

    __device__ floatX* at(int line, int column) { return numbers + line * ACROSS + (column ^ line % 8 * 8); }
};

// p[0 ... 7] as they lie in memory; of these, those from `left` on lie outside of the matrix and become zero.
__device__ uint4 eight(const floatX* p, int left)
{
    if (left >= 8 && aligned(p)) return *reinterpret_cast<const uint4*>(p);
    floatX x[8];
    #pragma unroll
    for (int i = 0; i < 8; i++) x[i].bits = i < left ? p[i].bits : 0;
    return make_uint4(pair(x[0], x[1]), pair(x[2], x[3]), pair(x[4], x[5]), pair(x[6], x[7]));
}

// The i-th eight numbers that this thread brings of a tile: where they belong, where they are, how many there are.
struct Part {
    int line, column, left;
    const floatX* from;
};

// rows `first` …, k `start` … of a matrix with n rows of K numbers, or K lines of n.
template <class Tile>
__device__ Part part_of(const floatX* a, int first, int start, int n, int K, int i)
{
    int number = i * THREADS + threadIdx.x, line = number / (Tile::ACROSS / 8), column = number % (Tile::ACROSS / 8) * 8;
    int down = line + (Tile::RUNS ? first : start), along = column + (Tile::RUNS ? start : first);
    int lines = Tile::RUNS ? n : K, length = Tile::RUNS ? K : n;
    return {line, column, down < lines ? length - along : 0, a + (size_t)down * length + along};
}

// How many eights a thread brings.
template <class Tile>
__device__ constexpr int parts_of()
{
    static_assert(Tile::LINES * Tile::ACROSS % (8 * THREADS) == 0, "all threads bring equally many");
    return Tile::LINES * Tile::ACROSS / 8 / THREADS;
}

// All of them are asked for before the first is needed.
template <class Tile>
__device__ void fetch(Tile& tile, const floatX* a, int first, int start, int n, int K)
{
    const int PARTS = parts_of<Tile>();
    uint4 words[PARTS];
    #pragma unroll
    for (int i = 0; i < PARTS; i++) {
        Part part = part_of<Tile>(a, first, start, n, K, i);
        words[i] = eight(part.from, part.left);
    }
    #pragma unroll
    for (int i = 0; i < PARTS; i++) {
        Part part = part_of<Tile>(a, first, start, n, K, i);
        *reinterpret_cast<uint4*>(tile.at(part.line, part.column)) = words[i];
    }
}

// The sums of a warp, WM x WN from (m0, n0) on, as mma leaves them.
__device__ void finish(floatX* result, const floatX* bias, const float (&sums)[WM / 16][WN / 8][4], int m0, int n0, int M,
                       int N)
{
    #pragma unroll
    for (int i = 0; i < WM / 8 * (WN / 8); i++) {
        int row = i / 2 / (WN / 8), column = i / 2 % (WN / 8), low = i % 2 * 2;
        int m = m0 + row * 16 + i % 2 * 8 + r_of_lane(), n = n0 + column * 8 + 2 * j_of_lane();
        finish(result, bias, sums[row][column][low], sums[row][column][low + 1], m, n, M, N);
    }
}
