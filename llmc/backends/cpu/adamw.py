"""AdamW, on float32 weights or on the exact weights behind those of 16 bits, in one pass over memory.

Stochastic rounding is that of `llmc/backends/mixed.py`, with the same random bits: every weight ends up the same.
"""

import math

import numpy as np
from numba import njit, prange, types
from numba.extending import overload

from llmc.backends.cpu.bfloat16 import HALF_WORD, in_bits, load, product, rounded
from llmc.backends.cpu.compiled import ONE, ZERO, parallel, serial

LOWER_HALF, EXPONENT = np.uint32(0xFFFF), np.uint32(0x7F800000)
SHIFT, FIRST_FACTOR, SECOND_FACTOR = np.uint32(15), np.uint32(0x7FEB352D), np.uint32(0x846CA68B)


@serial
def _moments(g, m, v, beta1, beta2):
    return m + (ONE - beta1) * (g - m), v + (ONE - beta2) * (g * g - v)


@serial
def _moved(weight, first, second, step, root, eps, keep):
    return weight * keep - step * first / (math.sqrt(second) * root + eps)


@parallel
def _update(params, grads, m, v, step, root, beta1, beta2, eps, keep, clear):
    for i in prange(params.size):
        first, second = _moments(grads[i], m[i], v[i], beta1, beta2)
        m[i], v[i] = first, second
        params[i] = _moved(params[i], first, second, step, root, eps, keep)
        if clear:
            grads[i] = ZERO


def exact_weight(master, params, i):
    """The number that is trained: master[i], or params[i] where master is an array of uint16, which means none."""
    raise NotImplementedError("only inside a compiled kernel")


def keep_exact(master, i, value):
    """master[i] = value, if there is one."""
    raise NotImplementedError("only inside a compiled kernel")


@overload(exact_weight)
def _exact_weight(master, params, i):
    absent = master.dtype == types.uint16
    return (lambda master, params, i: load(params, i)) if absent else (lambda master, params, i: master[i])


@overload(keep_exact)
def _keep_exact(master, i, value):
    def store_it(master, i, value):
        master[i] = value

    return (lambda master, i, value: None) if master.dtype == types.uint16 else store_it


@parallel
def _update_rounded(params, grads, m, v, master, key, place, factor, step, root, beta1, beta2, eps, keep, kept_bits):
    """The same with params and grads in bfloat16. kept_bits: of the gradients, all or none.

    The loop is free of branches: with any, the compiler would compute one number at a time.
    """
    salt = shuffled(key)
    for i in prange(params.size):
        g = product(load(grads, i), factor)
        first, second = _moments(g, m[i], v[i], beta1, beta2)
        m[i], v[i] = first, second
        weight = _moved(exact_weight(master, params, i), first, second, step, root, eps, keep)
        keep_exact(master, i, weight)
        params[i] = _rounded_stochastically(
            weight, shuffled(np.uint32(shuffled(np.uint32(np.uint32(i) + place)) + salt))
        )
        grads[i] = grads[i] & kept_bits


@njit
def _rounded_stochastically(value, bits):
    """mixed.py's round_stochastically of one float32: up with the probability of its distance from below."""
    pattern = np.float32(value).view(np.uint32)
    is_finite = np.uint32(pattern & EXPONENT) != EXPONENT
    up = np.uint32(pattern + np.uint32(bits & LOWER_HALF))
    return np.uint16(up >> HALF_WORD) if is_finite else rounded(value)


@njit
def shuffled(x):
    """mixed.py's permutation of uint32 in which every bit of the result depends on all bits."""
    x = np.uint32(np.uint32(x ^ np.uint32(x >> HALF_WORD)) * FIRST_FACTOR)
    x = np.uint32(np.uint32(x ^ np.uint32(x >> SHIFT)) * SECOND_FACTOR)
    return np.uint32(x ^ np.uint32(x >> HALF_WORD))


def adamw_update(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t, clear=False):
    """AdamW. Seven numbers move per parameter: params, grads, m and v in; params, m, v (and with clear grads) out."""
    _update(params, grads, m, v, **_constants(m.dtype, lr, beta1, beta2, eps, weight_decay, t), clear=clear)


@in_bits
def adamw_update_rounded(params, grads, m, v, master, key, place=0, factor=1.0, clear=False, **numbers):
    """AdamW on the master weights or, without them, on the weights; these become their stochastic rounding."""
    master = params[:0] if master is None else master  # (0,) uint16 or (n,)
    key, place = np.uint32(key & 0xFFFFFFFF), np.uint32(place & 0xFFFFFFFF)
    factor, bits = m.dtype.type(factor), np.uint16(0 if clear else 0xFFFF)
    _update_rounded(params, grads, m, v, master, key, place, factor, **_constants(m.dtype, **numbers), kept_bits=bits)


def _constants(dtype, lr, beta1, beta2, eps, weight_decay, t):
    """The kernels' numbers in that dtype, with the bias corrections of step t folded into two of them."""
    step = lr / (1.0 - beta1**t)
    root = (1.0 - beta2**t) ** -0.5
    numbers = dict(step=step, root=root, beta1=beta1, beta2=beta2, eps=eps, keep=1.0 - lr * weight_decay)
    return {name: dtype.type(number) for name, number in numbers.items()}
