"""Lesson 06: what attention should return, computed in float64, head by head and row by row; where to look for more.

References return the dtype of their input.
"""

from typing import NamedTuple

import numpy as np

# where to look; a test compares these titles with the headings of notebooks/06_attention.ipynb
QUERY = 'lesson 06, section "One query by hand"'
ALL_QUERIES = 'lesson 06, section "All queries at once"'
SCALE = 'lesson 06, section "2.1 · Why divide by √hs"'
MASK = 'lesson 06, section "2.2 · The causal mask"'
HEAD = 'lesson 06, section "2.3 · One head, all rows"'
HEADS = 'lesson 06, section "2.4 · Many heads from one matmul"'
MIXTURE = 'lesson 06, section "3.1 · Through the mixture"'
SOFTMAX = 'lesson 06, section "3.2 · Through the softmax"'
SCORES = 'lesson 06, section "3.3 · Through the scores"'
ALL_HEADS = 'lesson 06, section "3.4 · All heads at once"'
ZERO = "a query of zeros, whose scores are all 0: scores like any others"
VERY_LOW = f"the maximum of a row is that of what the query may see; {MASK}"


class Forward(NamedTuple):
    """out (B, T, C), probabilities (B, NH, T, T)."""

    out: np.ndarray
    probabilities: np.ndarray


def seen(T):
    """(T, T) bool: may query (row) look at key (column)?"""
    return np.arange(T)[:, None] >= np.arange(T)


def others_only(T):
    """(T, T) bool, a mistake: no query looks at its own key, except for the first, which has no other one."""
    return np.tril(np.ones((T, T), bool), -1) | (np.arange(T) + np.arange(T)[:, None] == 0)


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
    q, k, v = split(qkv, NH)  # (B, NH, T, hs) each
    out, p = np.empty_like(q), np.empty((*q.shape[:3], q.shape[2]))  # (B, NH, T, hs), (B, NH, T, T)
    for at in np.ndindex(q.shape[:2]):
        p[at] = softmax(scores(q[at], k[at]))
        out[at] = p[at] @ v[at]
    return Forward(merge(out).astype(qkv.dtype), p.astype(qkv.dtype))


def split(qkv, NH, parts=3):
    """(B, T, parts·C) -> `parts` float64 arrays (B, NH, T, hs), cut out one head at a time."""
    width = qkv.shape[-1] // parts
    hs = width // NH
    cut = lambda part, h: qkv[..., part * width + h * hs : part * width + (h + 1) * hs]  # noqa: E731
    heads = [np.stack([cut(part, h) for h in range(NH)], axis=1) for part in range(parts)]
    return [part.astype(np.float64) for part in heads]


def merge(heads):
    """(B, NH, T, hs) -> (B, T, C)."""
    return np.concatenate(list(heads.swapaxes(0, 1)), axis=-1)


def softmax_backward(dp, p):
    """dscores (…, T, T) through the Jacobian of each row, p_i · (δ_ij - p_j): slow, and not the lesson's formula."""
    p64, dp64 = p.astype(np.float64), dp.astype(np.float64)
    jacobian = p64[..., :, None] * (np.eye(p.shape[-1]) - p64[..., None, :])  # (…, T, T, T)
    return np.einsum("...ij,...i->...j", jacobian, dp64).astype(p.dtype)


def backward(dout, qkv, NH):
    """dqkv (B, T, 3C), of qkv's dtype."""
    return np.concatenate(parts_of(dout, qkv, NH), axis=-1).astype(qkv.dtype)


def parts_of(dout, qkv, NH, p=None, ds=None):
    """[dq, dk, dv], (B, T, C) each, in float64; p or ds (B, NH, T, T) may be given, and wrong."""
    q, k, v = split(qkv, NH)  # (B, NH, T, hs) each
    (do,) = split(dout, NH, parts=1)  # (B, NH, T, hs)
    p = forward(qkv.astype(np.float64), NH).probabilities if p is None else p
    ds = softmax_backward(np.einsum("bhic,bhjc->bhij", do, v), p) if ds is None else ds
    scale = 1 / np.sqrt(q.shape[-1])
    dq, dk = np.einsum("bhij,bhjc->bhic", ds, k) * scale, np.einsum("bhij,bhic->bhjc", ds, q) * scale
    return [merge(part) for part in (dq, dk, np.einsum("bhij,bhic->bhjc", p, do))]


def forward_of(parts) -> Forward:
    """out and probabilities from (q, k, v), (B, NH, T, hs) each."""
    return forward(np.concatenate([merge(part) for part in parts], axis=-1), parts[0].shape[1])
