"""Lesson 06: what attention should return, computed in float64, head by head, in the dtype of its input."""

from typing import NamedTuple

import numpy as np


class Forward(NamedTuple):
    """out (B, T, C), probabilities (B, NH, T, T)."""

    out: np.ndarray
    probabilities: np.ndarray


def seen(T):
    """(T, T) bool: may query (row) look at key (column)?"""
    return np.arange(T)[:, None] >= np.arange(T)


def scores(q, k):
    """(T, T) from q, k (T, hs): q · k / √hs, -inf where the key lies in the future."""
    products = np.einsum("ic,jc->ij", q.astype(np.float64), k.astype(np.float64))  # (T, T)
    return np.where(seen(len(q)), products / np.sqrt(q.shape[1]), -np.inf).astype(q.dtype)


def softmax(x, axis=-1):
    """Softmax that does not overflow, any shape."""
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def forward(qkv, NH) -> Forward:
    """Causal attention of qkv (B, T, 3C): one head after the other."""
    B, T, C = *qkv.shape[:2], qkv.shape[2] // 3
    q, k, v = np.split(qkv.astype(np.float64), 3, axis=-1)  # (B, T, C) each
    out, p = np.empty((B, T, C)), np.empty((B, NH, T, T))  # (B, T, C), (B, NH, T, T)
    for b, h in np.ndindex(B, NH):
        at = (b, slice(None), slice(h * C // NH, (h + 1) * C // NH))
        p[b, h] = softmax(scores(q[at], k[at]))  # (T, T)
        out[at] = p[b, h] @ v[at]  # (T, hs)
    return Forward(out.astype(qkv.dtype), p.astype(qkv.dtype))


def softmax_backward(dp, p):
    """dscores (…, T, T) through the Jacobian of each row, p_i · (δ_ij - p_j): slow, and not the lesson's formula."""
    p64, dp64 = p.astype(np.float64), dp.astype(np.float64)
    jacobian = p64[..., :, None] * (np.eye(p.shape[-1]) - p64[..., None, :])  # (…, T, T, T)
    return np.einsum("...ij,...i->...j", jacobian, dp64).astype(p.dtype)
