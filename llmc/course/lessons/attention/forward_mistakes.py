"""Lesson 06: what each well-known mistake in the scores and in the forward returns.

For each output, mistakes are {sentence after "out equals ": (array, where to look)}.
"""

import numpy as np

from llmc.course.lessons.attention.references import (
    ALL_QUERIES,
    HEAD,
    HEADS,
    MASK,
    QUERY,
    SCALE,
    forward_of,
    merge,
    others_only,
    seen,
    softmax,
    split,
)

UNSCALED = "the reference with a running {} not adjusted when the maximum grows"


def scores_mistakes(q, k) -> dict:
    """Known wrong scores, with 0 in the future (as `without_future` leaves them)."""
    T, hs = q.shape
    products = q @ k.T  # (T, T)
    wrong = {
        "q · k not divided by √hs": products,
        "q · k divided by hs, not by its root": products / hs,
        "q · k multiplied by √hs, not divided by it": products * hs**0.5,
        "q · k divided by 2 · hs: only √hs divides": (products / (2 * hs)),
        "q · k divided by hs / 2: only √hs divides": (products / (hs / 2)),
        "q · k divided by √T: the sum runs over hs channels": products / T**0.5,
    }
    of_q, of_k = np.linalg.norm(q, axis=-1)[:, None], np.linalg.norm(k, axis=-1)  # (T, 1), (T,)
    divided = lambda by: np.divide(products, by, out=np.zeros_like(products), where=by > 0)  # noqa: E731
    both = {
        "q · k divided by the lengths of q and k: that is a cosine, and only √hs divides": (
            divided(of_q * of_k),
            SCALE,
        ),
        "q · k divided by the length of q: only √hs divides, the same number everywhere": (divided(of_q), SCALE),
        "q · k divided by the length of k: only √hs divides, the same number everywhere": (divided(of_k), SCALE),
        "the scores transposed: rows are queries, columns are keys": (products.T / hs**0.5, ALL_QUERIES),
        "the products of queries with queries: k is missing": (q @ q.T / hs**0.5, QUERY),
        "the products of keys with keys: q is missing": (k @ k.T / hs**0.5, QUERY),
    }
    all_ = {text: (array, SCALE) for text, array in wrong.items()} | both
    return {text: (np.where(seen(T), array, 0), where) for text, (array, where) in all_.items()}


def forward_mistakes(qkv, NH) -> dict:
    """Known wrong out and probabilities."""
    B, T, width = qkv.shape
    C, hs = width // 3, width // 3 // NH
    qkv = qkv.astype(np.float64)
    q, k, v = split(qkv, NH)  # (B, NH, T, hs) each
    s, mask = q @ k.swapaxes(-1, -2), seen(T)  # (B, NH, T, T), (T, T)
    hide = lambda s, mask=mask: np.where(mask, s, -np.inf)  # noqa: E731
    scaled, right = s / hs**0.5, softmax(hide(s / hs**0.5))  # (B, NH, T, T) each
    columns = hide(scaled)  # (B, NH, T, T)
    wrong = {
        "the reference without the scale 1/√hs": (softmax(hide(s)), SCALE),
        "the reference with 1/√C as its scale: hs = C / NH channels are summed, not C": (
            softmax(hide(s / C**0.5)),
            SCALE,
        ),
        "the reference with 1/√(3·hs) as its scale: hs = C / NH, and C is a third of qkv's last axis": (
            softmax(hide(s / (3 * hs) ** 0.5)),
            SCALE,
        ),
        "the reference with 1/√NH as its scale: the sum runs over hs = C / NH channels": (
            softmax(hide(s / NH**0.5)),
            SCALE,
        ),
        "the reference with 1/√T as its scale: the sum runs over hs = C / NH channels": (
            softmax(hide(s / T**0.5)),
            SCALE,
        ),
        "the reference with 1/hs as its scale, in all: it should be 1/√hs": (softmax(hide(s / hs)), SCALE),
        "the reference multiplied by √hs instead of divided by it": (softmax(hide(s * hs**0.5)), SCALE),
        "the reference without the causal mask": (softmax(scaled), MASK),
        "the reference with a mask that begins one column too late: each token sees the next": (
            softmax(hide(scaled, np.tril(np.ones((T, T), bool), 1))),
            MASK,
        ),
        "the reference with each token's own key masked too, except for the first's: a token may look at itself": (
            softmax(hide(scaled, others_only(T))),
            MASK,
        ),
        "the reference with the past masked instead of the future": (softmax(hide(scaled, mask.T)), MASK),
        "the reference masked after the softmax: its rows no longer add up to 1": (
            np.where(mask, softmax(scaled), 0),
            MASK,
        ),
        "the reference with 0 instead of -inf: e to the power of 0 is 1": (softmax(np.where(mask, scaled, 0)), MASK),
        "the softmax of each column: a query divides its attention among the keys, along the last axis": (
            softmax(columns, axis=-2),
            HEAD,
        ),
        "the masked scores: the softmax is missing": (np.where(mask, scaled, 0), HEAD),
    }
    by_p = {text: (merge(p @ v), where) for text, (p, where) in wrong.items()}
    layouts = _layouts(qkv, NH)
    wrong |= {text: (forward_of(parts).probabilities, HEADS) for text, parts in layouts.items()}
    by_p |= {text: (forward_of(parts).out, HEADS) for text, parts in layouts.items()}
    mixed = right @ v  # (B, NH, T, hs)
    late = np.exp(columns - np.maximum.accumulate(columns, axis=-1))  # (B, NH, T, T)   by the maximum of its time
    e = np.exp(columns - columns.max(axis=-1, keepdims=True))  # (B, NH, T, T)
    total, late_total = e.sum(axis=-1, keepdims=True), late.sum(axis=-1, keepdims=True)  # (B, NH, T, 1) each
    wrong[UNSCALED.format("sum of exponentials")] = (e / late_total, HEAD)
    by_p |= {
        UNSCALED.format("sum of exponentials"): (merge(e @ v / late_total), HEAD),
        UNSCALED.format("mixture of the values"): (merge(late @ v / total), HEAD),
        UNSCALED.format("sum and a running mixture"): (merge(late @ v / late_total), HEAD),
    }
    by_p |= {
        "the heads' outputs reshaped without moving the head axis back: (B, NH, T, hs) must become (B, T, NH, hs)": (
            mixed.reshape(B, T, C),
            HEADS,
        ),
        "the reference with each row of the output in the order (hs, NH)": (
            mixed.transpose(0, 2, 3, 1).reshape(B, T, C),
            HEADS,
        ),
        "the reference with v alone cut into heads as (hs, NH): it is (NH, hs)": (
            merge(right @ qkv[..., 2 * C :].reshape(B, T, hs, NH).transpose(0, 3, 1, 2)),
            HEADS,
        ),
        "the reference with the probabilities transposed in front of v": (merge(right.swapaxes(-1, -2) @ v), HEAD),
        "the mixture of the keys, not of the values": (merge(right @ k), HEAD),
        "the mixture of the queries, not of the values": (merge(right @ q), HEAD),
    }
    return {"probabilities": wrong, "out": by_p}


def far_below(qkv, NH):
    """qkv (B, T, 3C), hs >= T, Q and K replaced: scores are -30,000 where seen, from 30,000 on in the future."""
    B, T, width = qkv.shape
    hs = width // 3 // NH
    heads = qkv.reshape(B, T, 3, NH, hs)  # a view
    future = 3e4 + 1e3 * np.arange(hs)  # (hs,)
    heads[:, :, 0] = np.where(np.tri(T, hs, dtype=bool), -3e4, future)[:, None] * hs**0.5  # (T, 1, hs)
    heads[:, :, 1] = np.eye(T, hs)[:, None]  # (T, 1, hs)   key j reads number j of the query
    return qkv


def finite_masks(qkv, NH) -> dict:
    """Known wrong out and probabilities: a mask of -10,000. Only scores in the thousands show it."""
    q, k, v = split(qkv, NH)  # (B, NH, T, hs) each
    mask, s = seen(q.shape[2]), q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5  # (T, T), (B, NH, T, T)
    wrong = {
        "the reference with -10,000 instead of -np.inf for future keys: scores can be lower than that": (
            softmax(np.where(mask, s, -1e4))
        ),
        "the reference with -10,000 added for future keys: their scores can be higher by more than that": (
            softmax(s + np.where(mask, 0, -1e4))
        ),
    }
    return {
        "probabilities": {text: (array, MASK) for text, array in wrong.items()},
        "out": {text: (merge(array @ v), MASK) for text, array in wrong.items()},
    }


def _layouts(qkv, NH) -> dict:
    """{sentence: (q, k, v) (B, NH, T, hs) each}: ways to cut qkv that fit and are wrong."""
    B, T, width = qkv.shape
    hs = width // 3 // NH
    q, k, v = split(qkv, NH)
    thirds = [qkv[..., i * NH * hs : (i + 1) * NH * hs] for i in range(3)]  # (B, T, C) each
    dealt = [third.reshape(B, T, hs, NH).transpose(0, 3, 1, 2) for third in thirds]  # (B, NH, T, hs) each
    return {
        "the reference with q alone cut into heads as (hs, NH): it is (NH, hs)": [dealt[0], k, v],
        "the reference with k alone cut into heads as (hs, NH): it is (NH, hs)": [q, dealt[1], v],
        "the reference with heads cut by reshape(B, NH, T, hs) alone: that mixes tokens": [
            third.reshape(B, NH, T, hs) for third in thirds
        ],
        "the reference with qkv read as [q, k, v] of head 0, then of head 1, …: all of Q comes first": list(
            qkv.reshape(B, T, NH, 3, hs).transpose(3, 0, 2, 1, 4)
        ),
        "the reference with channel c given to head c mod NH: a head's channels lie side by side": dealt,
        "the reference with queries and keys swapped: qkv is [Q, K, V]": [k, q, v],
        "the reference with qkv read as [V, K, Q]": [v, k, q],
        "the reference with qkv read as [Q, V, K]": [q, v, k],
        "the reference with q, k and v taken from every third channel: they are three blocks": [
            qkv[..., i::3].reshape(B, T, NH, hs).transpose(0, 2, 1, 3) for i in range(3)
        ],
    }
