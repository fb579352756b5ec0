"""Lesson 06: what attention should return, computed in float64, head by head, in the dtype of its input."""

from collections import namedtuple

import numpy as np

from llmc.course.lessons.softmax_crossentropy.references import softmax

Forward = namedtuple("Forward", "out probabilities")  # (B, T, C), (B, NH, T, T)


def scores(q, k):
    """(T, T) from q, k (T, hs): q · k / √hs, -inf where the key lies in the future."""
    products = np.einsum("ic,jc->ij", q.astype(np.float64), k.astype(np.float64))  # (T, T)
    return np.where(np.tri(len(q), dtype=bool), products / np.sqrt(q.shape[1]), -np.inf).astype(q.dtype)


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
