"""Lesson 16: its kernels as `llmc.course.old.kernel_checks.masked` runs them, line by line like the solutions."""

from llmc.course.old.kernel_checks.reductions_models import WARP

MASKED_SOFTMAX = """
def masked_softmax(p, stats, scores, heads, T):
    row = (blockIdx.x * blockDim.x + threadIdx.x) // 32
    lane = threadIdx.x % 32
    if row >= heads * T:
        return
    n = row % T + 1
    scores += row * T
    p += row * T
    top = -3.4e38
    total = 0.0
    for i in range(lane, n, 32):
        top = fmaxf(top, scores[i])
    top = warp_max(top)
    for i in range(lane, n, 32):
        total += expf(scores[i] - top)
    total = warp_sum(total)
    for i in range(lane, T, 32):
        p[i] = expf(scores[i] - top) / total if i < n else 0.0
    if lane == 0:
        stats[row] = top + logf(total)
"""

MERGE_PARTS = """
def merge_parts(out, stats, top, total, sums, rows, parts, hs):
    row = (blockIdx.x * blockDim.x + threadIdx.x) // 32
    lane = threadIdx.x % 32
    if row >= rows:
        return
    top += row * parts
    total += row * parts
    sums += row * parts * hs
    out += row * hs
    highest = -3.4e38
    whole = 0.0
    for s in range(0, parts, 1):
        highest = fmaxf(highest, top[s])
    for s in range(0, parts, 1):
        whole += total[s] * expf(top[s] - highest)
    for c in range(lane, hs, 32):
        sum = 0.0
        for s in range(0, parts, 1):
            sum += sums[s * hs + c] * expf(top[s] - highest)
        out[c] = sum / whole
    if lane == 0:
        stats[row] = highest + logf(whole)
"""

FLASH = """
def flash_forward(out, stats, q, k, v, T):
    keys = shared(32 * 33)
    values = shared(32 * 33)
    lane = threadIdx.x % 32
    warps = blockDim.x // 32
    tiles = (T + warps - 1) // warps
    head = blockIdx.x // tiles
    first = blockIdx.x % tiles * warps
    t = first + threadIdx.x // 32
    q += head * T * 32
    k += head * T * 32
    v += head * T * 32
    out += head * T * 32
    stats += head * T
    mine = 0.0
    if t < T:
        mine = q[t * 32 + lane]
    top = -3.4e38
    total = 0.0
    sum = 0.0
    for k0 in range(0, fminf(first + warps, T), 32):
        for i in range(threadIdx.x, 32 * 32, blockDim.x):
            row = i // 32
            c = i % 32
            if k0 + row < T:
                keys[row * 33 + c] = k[(k0 + row) * 32 + c]
                values[row * 33 + c] = v[(k0 + row) * 32 + c]
            else:
                keys[row * 33 + c] = 0.0
                values[row * 33 + c] = 0.0
        score = 0.0
        for c in range(0, 32, 1):
            score += __shfl_sync(ALL, mine, c) * keys[lane * 33 + c]
        score = score * rsqrtf(32.0) if k0 + lane <= t else -3.4e38
        higher = fmaxf(top, warp_max(score))
        old = expf(top - higher)
        p = expf(score - higher)
        total = total * old + p
        sum *= old
        for i in range(0, 32, 1):
            sum += __shfl_sync(ALL, p, i) * values[i * 33 + lane]
        top = higher
    total = warp_sum(total)
    if t < T:
        out[t * 32 + lane] = sum / total
        if lane == 0:
            stats[t] = top + logf(total)
"""

ATTENTION_DQ = """
def attention_dq(dq, delta, dout, out, stats, q, k, v, heads, T):
    row = (blockIdx.x * blockDim.x + threadIdx.x) // 32
    lane = threadIdx.x % 32
    if row >= heads * T:
        return
    head = row // T
    t = row % T
    k += head * T * 32
    v += head * T * 32
    query = q[row * 32 + lane]
    d = dout[row * 32 + lane]
    D = warp_sum(d * out[row * 32 + lane])
    scale = rsqrtf(32.0)
    sum = 0.0
    for i in range(0, t + 1, 1):
        key = k[i * 32 + lane]
        value = v[i * 32 + lane]
        p = expf(warp_sum(query * key) * scale - stats[row])
        dp = warp_sum(d * value)
        sum += p * (dp - D) * scale * key
    dq[row * 32 + lane] = sum
    if lane == 0:
        delta[row] = D
"""

ATTENTION_DKDV = """
def attention_dkdv(dk, dv, dout, stats, delta, q, k, v, heads, T):
    row = (blockIdx.x * blockDim.x + threadIdx.x) // 32
    lane = threadIdx.x % 32
    if row >= heads * T:
        return
    head = row // T
    i = row % T
    q += head * T * 32
    dout += head * T * 32
    stats += head * T
    delta += head * T
    key = k[row * 32 + lane]
    value = v[row * 32 + lane]
    scale = rsqrtf(32.0)
    dkey = 0.0
    dvalue = 0.0
    for t in range(i, T, 1):
        query = q[t * 32 + lane]
        d = dout[t * 32 + lane]
        p = expf(warp_sum(query * key) * scale - stats[t])
        ds = p * (warp_sum(d * value) - delta[t]) * scale
        dvalue += p * d
        dkey += ds * query
    dk[row * 32 + lane] = dkey
    dv[row * 32 + lane] = dvalue
"""

FEWEST_REQUESTS = """
def fewest_requests(out, stats, q, k, v, T):
    tiles = (T + 63) // 64
    head = blockIdx.x // tiles
    t = blockIdx.x % tiles * 64 + threadIdx.x
    if t >= T:
        return
    q += head * T * 32
    k += head * T * 32
    v += head * T * 32
    out += head * T * 32
    stats += head * T
    for c in range(0, 32, 4):
        out[t * 32 + c + slots] = 0.0
    top = -3.4e38
    total = 0.0
    scale = rsqrtf(32.0)
    for i in range(0, t + 1, 1):
        score = 0.0
        for c in range(0, 32, 4):
            score += sum4(q[t * 32 + c + slots] * k[i * 32 + c + slots])
        score *= scale
        higher = fmaxf(top, score)
        old = expf(top - higher)
        p = expf(score - higher)
        total = total * old + p
        for c in range(0, 32, 4):
            out[t * 32 + c + slots] = out[t * 32 + c + slots] * old + p * v[i * 32 + c + slots]
        top = higher
    for c in range(0, 32, 4):
        out[t * 32 + c + slots] = out[t * 32 + c + slots] / total
    stats[t] = top + logf(total)
"""

MODELS = {
    "masked_softmax": MASKED_SOFTMAX + WARP,
    "merge_parts": MERGE_PARTS,
    "flash_forward": FLASH + WARP,
    "attention_dq": ATTENTION_DQ + WARP,
    "attention_dkdv": ATTENTION_DKDV + WARP,
    "fewest_requests": FEWEST_REQUESTS,
}
