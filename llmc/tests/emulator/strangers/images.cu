// Grids of points and their neighbours.

#define R 2  // the filter's radius
#define W 16

__constant__ float taps[(2 * R + 1) * (2 * R + 1)];

// 2-D convolution: the tile with its halo in shared memory, filled by fewer threads than it has places.
extern "C" __global__ void convolution_with_halo(float* out, const float* x, int rows, int cols) {
    __shared__ float tile[W + 2 * R][W + 2 * R];
    int top = blockIdx.y * W - R, left = blockIdx.x * W - R, t = threadIdx.y * W + threadIdx.x;
    for (int k = t; k < (W + 2 * R) * (W + 2 * R); k += W * W) {
        int r = top + k / (W + 2 * R), c = left + k % (W + 2 * R);
        tile[k / (W + 2 * R)][k % (W + 2 * R)] = r >= 0 && r < rows && c >= 0 && c < cols ? x[r * cols + c] : 0.0f;
    }
    __syncthreads();
    int row = blockIdx.y * W + threadIdx.y, col = blockIdx.x * W + threadIdx.x;
    if (row >= rows || col >= cols) return;
    float sum = 0.0f;
    for (int r = 0; r <= 2 * R; r++)
        for (int c = 0; c <= 2 * R; c++)
            sum += taps[r * (2 * R + 1) + c] * tile[threadIdx.y + r][threadIdx.x + c];
    out[row * cols + col] = sum;
}

// 3-D stencil of seven points that walks along z: two planes in registers, the middle one shared.
extern "C" __global__ void stencil_along_z(float* out, const float* x, int nx, int ny, int nz) {
    __shared__ float plane[8 + 2][8 + 2];
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    int col = blockIdx.x * 8 + threadIdx.x + 1, row = blockIdx.y * 8 + threadIdx.y + 1, layer = nx * ny;
    int at = row * nx + col;
    bool inside = col < nx - 1 && row < ny - 1;
    float below = 0.0f, here = inside ? x[at] : 0.0f, above = inside ? x[at + layer] : 0.0f;
    for (int z = 1; z < nz - 1; z++) {
        at += layer;
        below = here;
        here = above;
        if (inside) above = x[at + layer];
        __syncthreads();
        if (inside) plane[ty][tx] = here;
        if (inside && tx == 1) plane[ty][0] = x[at - 1];
        if (inside && (tx == 8 || col == nx - 2)) plane[ty][tx + 1] = x[at + 1];
        if (inside && ty == 1) plane[0][tx] = x[at - nx];
        if (inside && (ty == 8 || row == ny - 2)) plane[ty + 1][tx] = x[at + nx];
        __syncthreads();
        if (inside) {
            float sum = plane[ty][tx - 1] + plane[ty][tx + 1] + plane[ty - 1][tx] + plane[ty + 1][tx];
            out[at] = sum + below + above - 6.0f * here;
        }
    }
}

extern "C" __global__ void mandelbrot(int* out, int rows, int cols, int limit) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= rows || col >= cols) return;
    double a = -2.0 + 3.0 * col / cols, b = -1.5 + 3.0 * row / rows, x = 0.0, y = 0.0;
    int n = 0;
    while (x * x + y * y <= 4.0 && n < limit) {
        double next = x * x - y * y + a;
        y = 2.0 * x * y + b;
        x = next;
        n++;
    }
    out[row * cols + col] = n;
}

// Life on a torus, 32 cells in the bits of a word: neighbours by carry-save addition, words of a row by shuffles.
extern "C" __global__ void life_in_bits(unsigned* out, const unsigned* x, int rows, int words) {
    int row = blockIdx.x, lane = threadIdx.x;
    unsigned mask = (1u << words) - 1, ones = 0, twos = 0, fours = 0, me = 0;
    for (int r = -1; r <= 1; r++) {
        unsigned w = x[(row + r + rows) % rows * words + lane];
        unsigned left = __shfl_sync(mask, w, (lane + words - 1) % words);
        unsigned right = __shfl_sync(mask, w, (lane + 1) % words);
        unsigned three[3] = {__funnelshift_l(left, w, 1), __funnelshift_r(w, right, 1), w};
        for (int k = 0; k < (r == 0 ? 2 : 3); k++) {
            unsigned carry = ones & three[k];
            ones ^= three[k];
            fours |= twos & carry;
            twos ^= carry;
        }
        if (r == 0) me = w;
    }
    out[row * words + lane] = twos & ~fours & (ones | me);
}

// Connected components: labels go down until nobody's changes; the host asks again.
extern "C" __global__ void label_components(int* labels, const unsigned char* image, int* changed, int rows, int cols) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= rows || col >= cols || !image[row * cols + col]) return;
    const int dr[4] = {-1, 1, 0, 0}, dc[4] = {0, 0, -1, 1};
    int at = row * cols + col;
    for (int k = 0; k < 4; k++) {
        int r = row + dr[k], c = col + dc[k];
        if (r < 0 || r >= rows || c < 0 || c >= cols || !image[r * cols + c]) continue;
        int other = atomicAdd(&labels[r * cols + c], 0);
        if (atomicMin(&labels[at], other) > other) *changed = 1;
    }
}
