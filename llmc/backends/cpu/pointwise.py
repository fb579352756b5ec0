"""Functions that touch every element once: residual, zero, scale, norm, AdamW. Memory bounds them: one pass each."""

import math

from numba import get_num_threads, prange

from llmc.backends.cpu.compiled import ONE, ZERO, bounds, parallel
from llmc.backends.cpu.scratch import scratch


@parallel
def _add(out, x1, x2):
    for i in prange(out.size):
        out[i] = x1[i] + x2[i]


@parallel
def _fill(array, value):
    for i in prange(array.size):
        array[i] = value


@parallel
def _scale(array, factor):
    for i in prange(array.size):
        array[i] *= factor


@parallel
def _squares(array, sums):
    """sums (parts,) float64 = the sum of squares in each part."""
    parts = sums.size
    for part in prange(parts):
        start, end = bounds(part, parts, array.size)
        total = 0.0  # float64: a long float32 sum would lose small terms
        for i in range(start, end):
            total += float(array[i]) * float(array[i])
        sums[part] = total


@parallel
def _adamw(params, grads, m, v, step, root, beta1, beta2, eps, keep, clear):
    for i in prange(params.size):
        g = grads[i]
        first = m[i] + (ONE - beta1) * (g - m[i])
        second = v[i] + (ONE - beta2) * (g * g - v[i])
        m[i], v[i] = first, second
        params[i] = params[i] * keep - step * first / (math.sqrt(second) * root + eps)
        if clear:
            grads[i] = ZERO


def residual_forward(out, x1, x2):
    """out = x1 + x2."""
    _add(out.reshape(-1), x1.reshape(-1), x2.reshape(-1))


def zero(array):
    """Set every element to zero."""
    _fill(array.reshape(-1), array.dtype.type(ZERO))


def scale(grads, factor):
    """Multiply in place."""
    _scale(grads, grads.dtype.type(factor))


def global_norm(grads):
    """√(sum of squares), summed in double precision."""
    sums = scratch("squares", (get_num_threads(),), "float64")
    _squares(grads, sums)
    return math.sqrt(sums.sum())


def adamw_update(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t, clear=False):
    """AdamW. Seven numbers move per parameter: params, grads, m and v in; params, m, v (and with clear grads) out."""
    step = lr / (1.0 - beta1**t)  # bias corrections, folded into two scalars
    root = (1.0 - beta2**t) ** -0.5
    numbers = dict(step=step, root=root, beta1=beta1, beta2=beta2, eps=eps, keep=1.0 - lr * weight_decay)
    numbers = {name: params.dtype.type(number) for name, number in numbers.items()}
    _adamw(params, grads, m, v, **numbers, clear=clear)
