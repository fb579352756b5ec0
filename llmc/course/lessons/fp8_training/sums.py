"""Lesson 25: how Hopper's tensor cores add up products of 8 bits, imitated.

That 14 bits are left is what DeepSeek (2024, DeepSeek-V3, section 3.3.2) measured; NVIDIA does not say. The tensor core
brings 32 products and the sum so far to the largest exponent among them, and cuts off what sticks out below. On an
H200, the errors of our own product are those of this imitation.
"""

import numpy as np

BITS, STEP = 14, 32  # of the sum that are kept; numbers of k in an instruction


def tensor_core(total, a, b):
    """total (M, N) + a (M, k) · bᵀ (k, N), k up to 32, each addend cut off after 14 bits of the largest; float32."""
    if a.shape[-1] > STEP:
        raise ValueError(f"the tensor core takes up to {STEP} numbers of k at once, not {a.shape[-1]}")
    products = a[:, None].astype(np.float64) * b  # (M, N, k)
    addends = np.concatenate([total[..., None], products], axis=-1)  # (M, N, 1 + k)
    unit = np.ldexp(1.0, np.frexp(np.abs(addends).max(axis=-1, keepdims=True))[1] - BITS)  # (M, N, 1)
    return (np.trunc(addends / unit) * unit).sum(axis=-1).astype(np.float32)  # (M, N)


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
