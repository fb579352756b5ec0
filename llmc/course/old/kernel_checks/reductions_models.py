"""Lesson 13: its kernels as `llmc.course.old.kernel_checks.masked` runs them, line by line like the solutions."""

WARP = """
def warp_max(v):
    for gap in halves(16, 0):
        v = fmaxf(v, __shfl_xor_sync(ALL, v, gap))
    return v

def warp_sum(v):
    for gap in halves(16, 0):
        v += __shfl_xor_sync(ALL, v, gap)
    return v
"""

TREE_SUM = """
def tree_sum(out, x, N, C):
    partial = shared(blockDim.x)
    t = threadIdx.x
    x += blockIdx.x * C
    sum = 0.0
    for c in range(t, C, blockDim.x):
        sum += x[c]
    partial[t] = sum
    for half in halves(blockDim.x // 2, 0):
        if t < half:
            partial[t] += partial[t + half]
    if t == 0:
        out[blockIdx.x] = partial[0]
"""

WARP_SOFTMAX = """
def warp_softmax(out, x, N, C):
    row = (blockIdx.x * blockDim.x + threadIdx.x) // 32
    lane = threadIdx.x % 32
    if row >= N:
        return
    x += row * C
    out += row * C
    top = -3.4e38
    total = 0.0
    for c in range(lane, C, 32):
        top = fmaxf(top, x[c])
    top = warp_max(top)
    for c in range(lane, C, 32):
        total += expf(x[c] - top)
    total = warp_sum(total)
    for c in range(lane, C, 32):
        out[c] = expf(x[c] - top) / total
"""

ONLINE_SOFTMAX = """
def online_softmax(out, x, N, C):
    row = (blockIdx.x * blockDim.x + threadIdx.x) // 32
    lane = threadIdx.x % 32
    if row >= N:
        return
    x += row * C
    out += row * C
    top = -3.4e38
    total = 0.0
    for c in range(lane, C, 32):
        higher = fmaxf(top, x[c])
        total = total * expf(top - higher) + expf(x[c] - higher)
        top = higher
    of_row = warp_max(top)
    total = warp_sum(total * expf(top - of_row))
    top = of_row
    for c in range(lane, C, 32):
        out[c] = expf(x[c] - top) / total
"""

WELFORD_LAYERNORM = """
def welford_layernorm(out, mean, rstd, x, w, b, N, C):
    row = (blockIdx.x * blockDim.x + threadIdx.x) // 32
    lane = threadIdx.x % 32
    if row >= N:
        return
    x += row * C
    out += row * C
    seen = Moments(0.0, 0.0, 0.0)
    for c in range(lane, C, 32):
        seen = merge(seen, Moments(1.0, x[c], 0.0))
    for gap in halves(16, 0):
        count = __shfl_down_sync(ALL, seen.count, gap)
        centre = __shfl_down_sync(ALL, seen.mean, gap)
        squares = __shfl_down_sync(ALL, seen.squares, gap)
        if lane + gap < 32:
            seen = merge(seen, Moments(count, centre, squares))
    seen.mean = __shfl_sync(ALL, seen.mean, 0)
    seen.squares = __shfl_sync(ALL, seen.squares, 0)
    m = seen.mean
    r = rsqrtf(seen.squares / C + 1e-5)
    for c in range(lane, C, 32):
        out[c] = (x[c] - m) * r * w[c] + b[c]
    if lane == 0:
        mean[row] = m
        rstd[row] = r

def merge(a, b):
    count = a.count + b.count
    gap = b.mean - a.mean
    share = b.count / count if count > 0.0 else 0.0
    return Moments(count, a.mean + gap * share, a.squares + b.squares + gap * gap * a.count * share)
"""

FUSED_LAYERNORM = """
def fused_layernorm(residual, out, mean, rstd, x1, x2, w, b, N, C):
    row = (blockIdx.x * blockDim.x + threadIdx.x) // 32
    lane = threadIdx.x % 32
    quads = C // 4
    if row >= N:
        return
    x1 += row * C
    x2 += row * C
    residual += row * C
    out += row * C
    total = 0.0
    for i in range(lane, quads, 32):
        u = x1[4 * i + slots] + x2[4 * i + slots]
        residual[4 * i + slots] = u
        total += sum4(u)
    total = warp_sum(total)
    m = total / C
    squares = 0.0
    for i in range(lane, quads, 32):
        u = residual[4 * i + slots]
        squares += sum4((u - m) * (u - m))
    squares = warp_sum(squares)
    r = rsqrtf(squares / C + 1e-5)
    for i in range(lane, quads, 32):
        u = residual[4 * i + slots]
        s = w[4 * i + slots]
        t = b[4 * i + slots]
        out[4 * i + slots] = (u - m) * r * s + t
    if lane == 0:
        mean[row] = m
        rstd[row] = r
"""

MODELS = {
    "tree_sum": TREE_SUM,
    "warp_softmax": WARP_SOFTMAX + WARP,
    "online_softmax": ONLINE_SOFTMAX + WARP,
    "welford_layernorm": WELFORD_LAYERNORM,
    "fused_layernorm": FUSED_LAYERNORM + WARP,
}
