"""Lesson 12: its kernels as `llmc.course.old.kernel_checks.masked` runs them, line by line like the solutions."""

LEAKY_RELU = """
def leaky_relu(out, x, slope, n):
    i = blockIdx.x * blockDim.x + threadIdx.x
    if i < n:
        out[i] = x[i] if x[i] > 0.0 else slope * x[i]
"""

SWAP_AXES = """
def swap_axes(out, x, B, T, C):
    i = blockIdx.x * blockDim.x + threadIdx.x
    if i < B * T * C:
        c = i % C
        t = i // C % T
        b = i // (T * C)
        out[(b * C + c) * T + t] = x[i]
"""

RESIDUAL_VEC4 = """
def residual_vec4(out, x1, x2, n):
    i = 4 * (blockIdx.x * blockDim.x + threadIdx.x)
    if i + 3 < n:
        out[i + slots] = x1[i + slots] + x2[i + slots]
    else:
        for k in range(i, n, 1):
            out[k] = x1[k] + x2[k]
"""

AXPY = """
def axpy(y, x, a, n):
    thread = blockIdx.x * blockDim.x + threadIdx.x
    threads = gridDim.x * blockDim.x
    for i in range(thread, n, threads):
        y[i] += a * x[i]
"""

SPLIT_HEADS = """
def split_heads(out, qkv, B, T, NH, hs):
    i = 4 * (blockIdx.x * blockDim.x + threadIdx.x)
    if i < 3 * B * NH * T * hs:
        j = i % hs
        t = i // hs % T
        h = i // (hs * T) % NH
        b = i // (hs * T * NH) % B
        s = i // (hs * T * NH * B)
        out[i + slots] = qkv[((b * T + t) * 3 + s) * NH * hs + h * hs + j + slots]
"""

MODELS = {
    "leaky_relu": LEAKY_RELU,
    "swap_axes": SWAP_AXES,
    "residual_vec4": RESIDUAL_VEC4,
    "axpy": AXPY,
    "split_heads": SPLIT_HEADS,
}
