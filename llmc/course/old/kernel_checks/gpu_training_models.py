"""Lesson 17: its kernels as `llmc.course.old.kernel_checks.masked` runs them, line by line like the solutions."""

from llmc.course.old.kernel_checks.reductions_models import WARP

CLASSIFIER_KERNEL = """
def classifier_kernel(losses, logits, targets, dloss, N, V, Vp):
    row = (blockIdx.x * blockDim.x + threadIdx.x) // 32
    lane = threadIdx.x % 32
    if row >= N:
        return
    logits += row * Vp
    target = targets[row]
    of_target = logits[target]
    top = -3.4e38
    total = 0.0
    for v in range(lane, V, 32):
        higher = fmaxf(top, logits[v])
        total = total * expf(top - higher) + expf(logits[v] - higher)
        top = higher
    of_row = warp_max(top)
    total = warp_sum(total * expf(top - of_row))
    if lane == 0:
        losses[row] = logf(total) + of_row - of_target
    for v in range(lane, Vp, 32):
        p = expf(logits[v] - of_row) / total if v < V else 0.0
        y = 1.0 if v == target else 0.0
        logits[v] = dloss * (p - y)
"""

GELU_AGAIN = """
def gelu_again(gelu_out, d, x, n):
    i = 4 * (blockIdx.x * blockDim.x + threadIdx.x)
    if i + 3 < n:
        v = x[i + slots]
        gelu_out[i + slots] = v * gate(v)
        d[i + slots] = d[i + slots] * slope(v)
    else:
        for k in range(i, n, 1):
            gelu_out[k] = x[k] * gate(x[k])
            d[k] = d[k] * slope(x[k])

def gate(x):
    u = 0.7978845608 * (x + 0.044715 * x * x * x)
    return 1.0 / (1.0 + expf(-2.0 * u))

def slope(x):
    g = gate(x)
    return g + 2.0 * x * g * (1.0 - g) * 0.7978845608 * (1.0 + 3.0 * 0.044715 * x * x)
"""

ADAMW_REPLAYED = """
def adamw_replayed(params, grads, m, v, lr, t, norm, max_norm, beta1, beta2, eps, weight_decay, n):
    i = blockIdx.x * blockDim.x + threadIdx.x
    if i >= n:
        return
    g = grads[i]
    size = norm[0]
    rate = lr[0]
    grads[i] = 0.0
    if not isfinite(size):
        return
    if size > max_norm:
        g *= max_norm / (size + 1e-6)
    m[i] += (1.0 - beta1) * (g - m[i])
    v[i] += (1.0 - beta2) * (g * g - v[i])
    step = m[i] / (1.0 - powf(beta1, t[0]))
    root = sqrtf(v[i] / (1.0 - powf(beta2, t[0])))
    params[i] = (1.0 - rate * weight_decay) * params[i] - rate * step / (root + eps)
"""

MODELS = {
    "classifier_kernel": CLASSIFIER_KERNEL + WARP,
    "gelu_again": GELU_AGAIN,
    "adamw_replayed": ADAMW_REPLAYED,
}
