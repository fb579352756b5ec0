// Matrices by tiles in shared memory.

#define TILE 8

extern "C" __global__ void matmul_in_tiles(float* out, const float* a, const float* b, int n) {
    __shared__ float as[TILE][TILE], bs[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
    float sum = 0.0f;
    for (int tile = 0; tile < n; tile += TILE) {
        as[y][x] = row < n && tile + x < n ? a[row * n + tile + x] : 0.0f;
        bs[y][x] = col < n && tile + y < n ? b[(tile + y) * n + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < TILE; k++) sum += as[y][k] * bs[k][x];
        __syncthreads();
    }
    if (row < n && col < n) out[row * n + col] = sum;
}

// One barrier a round is enough with two buffers: the one that is written was last read before that barrier.
extern "C" __global__ void matmul_with_two_buffers(float* out, const float* a, const float* b, int n) {
    __shared__ float as[2][TILE][TILE], bs[2][TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
    float sum = 0.0f;
    for (int tile = 0, buffer = 0; tile < n; tile += TILE, buffer ^= 1) {
        as[buffer][y][x] = a[row * n + tile + x];
        bs[buffer][y][x] = b[(tile + y) * n + col];
        __syncthreads();
        for (int k = 0; k < TILE; k++) sum += as[buffer][y][k] * bs[buffer][k][x];
    }
    out[row * n + col] = sum;
}

extern "C" __global__ void transpose_padded(float* out, const float* x, int rows, int cols) {
    __shared__ float tile[16][17];
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row < rows && col < cols) tile[threadIdx.y][threadIdx.x] = x[row * cols + col];
    __syncthreads();
    int out_col = blockIdx.y * 16 + threadIdx.x, out_row = blockIdx.x * 16 + threadIdx.y;
    if (out_row < cols && out_col < rows) out[out_row * rows + out_col] = tile[threadIdx.x][threadIdx.y];
}
