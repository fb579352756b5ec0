// From tiles in shared memory to what mma multiplies; mma_16.cuh and product_tiles.cuh come before.

// Four squares of a tile by ldmatrix, rows `row` …, k `k` …: an a (16, 16) if FIRST, else two b (16, 8) side by side. A
// tile in which k does not run is read transposed, and its squares lie the other way round.
template <bool FIRST, class Tile>
__device__ void get(Squares& squares, Tile& tile, int row, int k)
{
    int lane = threadIdx.x % 32, line = Tile::RUNS ? row : k, column = Tile::RUNS ? k : row;
    bool down = FIRST == Tile::RUNS;  // square 1 is below square 0, else beside it
    line += down ? lane % 16 : lane / 16 * 8 + lane % 8;
    column += down ? lane / 16 * 8 : lane / 8 % 2 * 8;
    load_squares<!Tile::RUNS>(squares, tile.at(line, column));
}

// sums += x y: 16 numbers of k.
__device__ void multiply(float (&sums)[WM / 16][WN / 8][4], const Squares (&x)[WM / 16], const Squares (&y)[WN / 16])
{
    #pragma unroll
    for (int i = 0; i < WM / 16 * (WN / 8); i++) {
        int row = i / (WN / 8), column = i % (WN / 8);
        multiply(sums[row][column], x[row], y[column / 2][column % 2 * 2], y[column / 2][column % 2 * 2 + 1]);
    }
}
