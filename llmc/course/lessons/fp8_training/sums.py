"""Lesson 25: how Hopper's tensor cores add up products of 8 bits, imitated.

That 14 bits are left of each running sum is what DeepSeek (2024, DeepSeek-V3, section 3.3.2) measured; NVIDIA does not
say. The tensor core brings 32 products and the sum so far to the largest exponent among them, and cuts off the rest.
"""

import numpy as np

BITS, STEP = 14, 32  # of the sum that are kept; numbers of k in an instruction


def cut(x, bits=BITS):
    """x (any shape) with its first so many significant bits; the others are cut off. float64."""
    mantissa, exponent = np.frexp(np.asarray(x, np.float64))
    return np.ldexp(np.trunc(np.ldexp(mantissa, bits)), exponent - bits)


def tensor_core(total, a, b):
    """total (M, N) + a (M, k) · bᵀ (k, N), k up to 32, of which 14 significant bits are left; float32."""
    return cut(total + a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float32)  # (M, N)


def product(a, b, every=None):
    """a (M, K) · bᵀ (K, N) in steps of 32; every: after so many numbers of k the sum is added to a float32."""
    K = a.shape[1]
    total = np.zeros((len(a), len(b)), np.float32)  # (M, N)
    for start in range(0, K, every or K):
        part, end = np.zeros_like(total), min(start + (every or K), K)  # (M, N)
        for k in range(start, end, STEP):
            part = tensor_core(part, a[:, k : min(k + STEP, end)], b[:, k : min(k + STEP, end)])
        total += part
    return total
