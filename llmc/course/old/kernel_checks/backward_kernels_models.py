"""Lesson 14: its kernels as `llmc.course.old.kernel_checks.masked` runs them, line by line like the solutions."""

from llmc.course.old.kernel_checks.reductions_models import WARP

BIAS_BACKWARD = """
def bias_backward(db, dout, N, C):
    partial = shared(blockDim.x)
    lane = threadIdx.x % 32
    warp = threadIdx.x // 32
    warps = blockDim.x // 32
    c = blockIdx.x * 32 + lane
    total = 0.0
    if c < C:
        for n in range(warp, N, warps):
            total += dout[n * C + c]
    partial[threadIdx.x] = total
    if warp == 0:
        if c < C:
            for k in range(1, warps, 1):
                total += partial[32 * k + lane]
            db[c] += total
"""

LAYERNORM_DX = """
def layernorm_dx(dx, dout, x, w, mean, rstd, N, C):
    row = (blockIdx.x * blockDim.x + threadIdx.x) // 32
    lane = threadIdx.x % 32
    if row >= N:
        return
    dx += row * C
    dout += row * C
    x += row * C
    m = mean[row]
    r = rstd[row]
    dnorms = 0.0
    products = 0.0
    for c in range(lane, C, 32):
        dnorm = dout[c] * w[c]
        dnorms += dnorm
        products += dnorm * (x[c] - m) * r
    dnorms = warp_sum(dnorms) / C
    products = warp_sum(products) / C
    for c in range(lane, C, 32):
        norm = (x[c] - m) * r
        dx[c] += (dout[c] * w[c] - dnorms - norm * products) * r
"""

LAYERNORM_PARTIALS = """
def layernorm_partials(partial, dout, x, mean, rstd, N, C):
    for c in range(threadIdx.x, C, blockDim.x):
        dw = 0.0
        db = 0.0
        for n in range(blockIdx.x, N, gridDim.x):
            d = dout[n * C + c]
            dw += d * (x[n * C + c] - mean[n]) * rstd[n]
            db += d
        partial[(2 * blockIdx.x + 0) * C + c] = dw
        partial[(2 * blockIdx.x + 1) * C + c] = db
"""

EMBEDDING_BACKWARD = """
def embedding_backward(dwte, dout, tokens, order, starts, C):
    first = starts[blockIdx.x]
    end = starts[blockIdx.x + 1]
    token = tokens[order[first]]
    for c in range(threadIdx.x, C, blockDim.x):
        total = 0.0
        for k in range(first, end, 1):
            total += dout[order[k] * C + c]
        dwte[token * C + c] += total
"""

PARTIAL_SQUARES = """
def partial_squares(partial, values, n):
    sums = shared(32)
    lane = threadIdx.x % 32
    warp = threadIdx.x // 32
    warps = blockDim.x // 32
    threads = gridDim.x * blockDim.x
    total = 0.0
    for i in range(blockIdx.x * blockDim.x + threadIdx.x, n, threads):
        total += values[i] * values[i]
    total = warp_sum(total)
    if lane == 0:
        sums[warp] = total
    if threadIdx.x == 0:
        for k in range(1, warps, 1):
            total += sums[k]
        partial[blockIdx.x] = total
"""

FUSED_LAYERNORM_BACKWARD = """
def fused_layernorm_backward(dx, partial, dout, x, w, mean, rstd, N, C):
    lane = threadIdx.x % 32
    warp = threadIdx.x // 32
    quads = C // 4
    sums = shared(16 * C)
    for i in range(threadIdx.x, 16 * C, 256):
        sums[i] = 0.0
    for row in range(blockIdx.x * 8 + warp, N, gridDim.x * 8):
        m = mean[row]
        r = rstd[row]
        start = row * C
        dnorms = 0.0
        products = 0.0
        for i in range(lane, quads, 32):
            d = dout[start + 4 * i + slots]
            norm = (x[start + 4 * i + slots] - m) * r
            sums[warp * 2 * C + 4 * i + slots] += d * norm
            sums[warp * 2 * C + C + 4 * i + slots] += d
            dnorm = d * w[4 * i + slots]
            dnorms += sum4(dnorm)
            products += sum4(dnorm * norm)
        dnorms = warp_sum(dnorms) / C
        products = warp_sum(products) / C
        for i in range(lane, quads, 32):
            norm = (x[start + 4 * i + slots] - m) * r
            dnorm = dout[start + 4 * i + slots] * w[4 * i + slots]
            dx[start + 4 * i + slots] += (dnorm - dnorms - norm * products) * r
    for i in range(threadIdx.x, 2 * quads, blockDim.x):
        total = 0.0
        for k in range(0, 8, 1):
            total += sums[k * 2 * C + 4 * i + slots]
        partial[blockIdx.x * 2 * C + 4 * i + slots] = total
"""

MODELS = {
    "bias_backward": BIAS_BACKWARD,
    "layernorm_dx": LAYERNORM_DX + WARP,
    "layernorm_partials": LAYERNORM_PARTIALS,
    "embedding_backward": EMBEDDING_BACKWARD,
    "partial_squares": PARTIAL_SQUARES + WARP,
    "fused_layernorm_backward": FUSED_LAYERNORM_BACKWARD + WARP,
}
