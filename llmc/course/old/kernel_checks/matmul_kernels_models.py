"""Lesson 15: its kernels as `llmc.course.old.kernel_checks.masked` runs them, line by line like the solutions.

A tile is an array of two axes. Threads go in lockstep and nothing is copied in the background, so one buffer is enough.
What is given in an exercise is in functions that look compiled, so that no time is lost with mistakes in them.
"""

GIVEN = """
@jit
def tile_row(n, size):
    return blockIdx.x // ((n + size - 1) // size) * size

@jit
def tile_column(n, size):
    return blockIdx.x % ((n + size - 1) // size) * size

@jit
def thread_row(width):
    return threadIdx.x // width

@jit
def thread_column(width):
    return threadIdx.x % width

@jit
def multiplied(totals, as_, bs, row, column):
    for k in range(0, 8, 1):
        totals += as_[k, row + slots] * bs[k, column]
    return totals
"""

TILED_MATMUL = """
def tiled_matmul(result, a, b, M, N, K):
    m0 = tile_row(N, 16)
    n0 = tile_column(N, 16)
    row = thread_row(16)
    column = thread_column(16)
    as_ = shared(16, 17)
    bs = shared(16, 17)
    total = 0.0
    for k0 in range(0, K, 16):
        as_[row, column] = 0.0
        bs[row, column] = 0.0
        if k0 + column < K:
            if m0 + row < M:
                as_[row, column] = a[(m0 + row) * K + k0 + column]
            if n0 + row < N:
                bs[row, column] = b[(n0 + row) * K + k0 + column]
        for k in range(0, 16, 4):
            total += sum4(as_[row, k + slots] * bs[column, k + slots])
    if m0 + row < M:
        if n0 + column < N:
            result[(m0 + row) * N + n0 + column] = total
"""

TURN_TILE = """
def turn_tile(turned, a, M, K):
    m0 = tile_row(K, 32)
    k0 = tile_column(K, 32)
    lane = thread_column(32)
    warp = thread_row(32)
    tile = shared(32, 33)
    for row in range(warp, 32, 8):
        if m0 + row < M:
            if k0 + lane < K:
                tile[row, lane] = a[(m0 + row) * K + k0 + lane]
    for k in range(warp, 32, 8):
        if k0 + k < K:
            if m0 + lane < M:
                turned[(k0 + k) * M + m0 + lane] = tile[lane, k]
"""

REGISTER_TILE = """
@jit
def register_tile(result, a, b, M, N, K):
    as_ = shared(8, 64)
    bs = shared(8, 64)
    row = 4 * thread_row(16)
    column = 4 * thread_column(16)
    m0 = tile_row(N, 64)
    n0 = tile_column(N, 64)
    totals = 0.0 * outer(slots, slots)
    for k0 in range(0, K, 8):
        fetch(as_, a, m0, k0, M, K, 0)
        fetch(bs, b, n0, k0, N, K, 0)
        totals = added(totals, as_, bs, row, column)
    stored(result, totals, m0, n0, row, column, M, N)

def added(totals, as_, bs, row, column):
    for k in range(0, 8, 1):
        totals += outer(as_[k, row + slots], bs[k, column + slots])
    return totals

def stored(result, totals, m0, n0, row, column, M, N):
    for i in range(0, 4, 1):
        if m0 + row + i < M:
            if n0 + column + slots < N:
                result[(m0 + row + i) * N + n0 + column + slots] += row_of(totals, i)
"""

DOUBLE_BUFFER = """
@jit
def double_buffer(result, a, b, M, N, K):
    as_ = shared(8, 33)
    bs = shared(8, 33)
    row = 4 * thread_row(32)
    column = thread_column(32)
    m0 = tile_row(N, 32)
    n0 = tile_column(N, 32)
    totals = looped(a, b, as_, bs, m0, n0, row, column, M, N, K)
    for i in range(0, 4, 1):
        if m0 + row + i < M:
            if n0 + column < N:
                result[(m0 + row + i) * N + n0 + column] = pick(totals, i)

def looped(a, b, as_, bs, m0, n0, row, column, M, N, K):
    totals = 0.0 * slots
    for k0 in range(0, K, 8):
        fetch(as_, a, m0, k0, M, K, 1)
        fetch(bs, b, n0, k0, N, K, 0)
        totals = multiplied(totals, as_, bs, row, column)
    return totals
"""

MODELS = {
    "tiled_matmul": TILED_MATMUL + GIVEN,
    "turn_tile": TURN_TILE + GIVEN,
    "register_tile": REGISTER_TILE + GIVEN,
    "double_buffer": DOUBLE_BUFFER + GIVEN,
}
