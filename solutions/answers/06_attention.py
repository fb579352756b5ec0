"""Answers to the exercises of lesson 06 as learners write them: right ones that look different, and wrong ones.

Each wrong answer names words that its check must say. CI runs them all;
`python -m llmc.course.authoring.answers 06` runs those of this lesson.
"""

import math

import numpy as np

from llmc.course.authoring.answers import right, wrong


def _split(x, parts, NH):
    B, T, width = x.shape
    return x.reshape(B, T, parts, NH, width // parts // NH).transpose(2, 0, 3, 1, 4)


def _softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _merge(x):
    B, NH, T, hs = x.shape
    return x.transpose(0, 2, 1, 3).reshape(B, T, NH * hs)


# ------------------------------------------------------------------------------------------------ 1 attention_scores


@right("attention_scores")
def scores_with_loops(q, k):
    T, hs = q.shape
    scores = np.full((T, T), -np.inf, q.dtype)
    for i in range(T):
        for j in range(i + 1):
            scores[i, j] = sum(q[i, c] * k[j, c] for c in range(hs)) / math.sqrt(hs)
    return scores


@right("attention_scores")
def scores_with_einsum_and_added_mask(q, k):
    dots = np.einsum("ic,jc->ij", q, k)
    return dots * q.shape[1] ** -0.5 + np.triu(np.full(dots.shape, -np.inf, dtype=q.dtype), k=1)


@wrong("attention_scores", says="scores have wrong values")
def scores_by_the_length_of_the_query(q, k):
    dots = np.einsum("ic,jc->ij", q, k) / np.sqrt(np.sum(q * q, axis=1, keepdims=True))
    return np.where(np.tri(len(q), dtype=bool), dots, -np.inf)


@wrong("attention_scores", says="scores is -inf at [1, 1], expected")
def scores_masked_in_the_rows_below(q, k):
    scores = q.dot(k.T) * q.shape[1] ** -0.5
    for i in range(len(q)):
        scores[i:, i + 1 :] = -np.inf
    return scores


@wrong("attention_scores", says="and there alone, before any softmax")
def scores_go_on_to_the_softmax(q, k):
    return _softmax(scores_with_einsum_and_added_mask(q, k))


# ----------------------------------------------------------------------------------------------- 2 attention_forward


@right("attention_forward")
def forward_with_loops(qkv, NH):
    B, T, width = qkv.shape
    C, hs = width // 3, width // 3 // NH
    out, probabilities = np.zeros((B, T, C), qkv.dtype), np.zeros((B, NH, T, T), qkv.dtype)
    for b, h in np.ndindex(B, NH):
        q, k, v = (qkv[b, :, n * C + h * hs : n * C + (h + 1) * hs] for n in range(3))
        for t in range(T):
            s = k[: t + 1] @ q[t] / math.sqrt(hs)
            e = np.exp(s - max(s))
            probabilities[b, h, t, : t + 1] = e / e.sum()
            out[b, t, h * hs : (h + 1) * hs] = probabilities[b, h, t, : t + 1] @ v[: t + 1]
    return out, probabilities


@right("attention_forward")
def forward_with_einsum(qkv, NH):
    q, k, v = (x.reshape(*qkv.shape[:2], NH, -1) for x in np.split(qkv, 3, axis=-1))
    s = np.einsum("bihc,bjhc->bhij", q, k) * q.shape[-1] ** -0.5
    p = _softmax(np.where(np.tri(qkv.shape[1], dtype=bool), s, qkv.dtype.type(-1e30)))
    return np.einsum("bhij,bjhc->bihc", p, v).reshape(*qkv.shape[:2], -1), p


@wrong("attention_forward", says="out has NaN or infinite numbers where scores are thousands, above or below 0")
def forward_takes_the_maximum_before_the_mask(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    s = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    e = np.exp(s - s.max(-1, keepdims=True)) * np.tri(s.shape[-1], dtype=bool)
    return _merge(e @ v / e.sum(-1, keepdims=True)), e / e.sum(-1, keepdims=True)


@wrong("attention_forward", says="probabilities are not 0 above the diagonal, where a position looks at later ones")
def forward_with_an_added_mask_of_ten_thousand(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    s = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    p = _softmax(s - (1e4 * ~np.tri(s.shape[-1], dtype=bool)).astype(s.dtype))
    return _merge(p @ v), p


# -------------------------------------------------------------------------------------- 3 attention_softmax_backward


@right("attention_softmax_backward")
def softmax_through_the_jacobian(dp, p):
    ds = np.zeros_like(p)
    for at in np.ndindex(p.shape[:-1]):
        ds[at] = (np.diag(p[at]) - np.outer(p[at], p[at])) @ dp[at]
    return ds


@right("attention_softmax_backward")
def softmax_multiplied_out(dp, p):
    weighted = p * dp
    return weighted - p * np.einsum("bhij->bhi", weighted)[..., None]


@wrong("attention_softmax_backward", says="part of ds was never written")
def softmax_backward_of_the_past_alone(dp, p):
    ds = np.empty_like(p)
    for t in range(p.shape[2]):
        row, grad = p[:, :, t, : t + 1], dp[:, :, t, : t + 1]
        ds[:, :, t, : t + 1] = row * (grad - (row * grad).sum(-1)[:, :, None])
    return ds


@wrong("attention_softmax_backward", says="ds has wrong values")
def softmax_backward_with_the_sum_of_the_row_before(dp, p):
    ds = np.zeros_like(p)
    for b, n in np.ndindex(p.shape[:2]):
        D = 0.0
        for i in range(p.shape[2]):
            ds[b, n, i] = p[b, n, i] * (dp[b, n, i] - D)
            D = (p[b, n, i] * dp[b, n, i]).sum()
    return ds


# ---------------------------------------------------------------------------------------------- 4 attention_backward


@right("attention_backward")
def backward_with_loops(dout, qkv, probabilities, NH):
    hs, dqkv = dout.shape[2] // NH, np.zeros_like(qkv)
    for b, h, i in np.ndindex(probabilities.shape[:3]):
        Q, K, V = (slice((n * NH + h) * hs, (n * NH + h + 1) * hs) for n in range(3))
        p, do = probabilities[b, h, i], dout[b, i, Q]
        dp = np.array([do @ value for value in qkv[b, :, V]])
        ds = p * (dp - p @ dp) / math.sqrt(hs)
        for j in range(i + 1):
            dqkv[b, j, V] += p[j] * do
            dqkv[b, i, Q] += ds[j] * qkv[b, j, K]
            dqkv[b, j, K] += ds[j] * qkv[b, i, Q]
    return dqkv


def _parts_by_einsum(dout, qkv, p, NH):
    """dq, dk, dv (B, T, C): dout · out is the row sum of p · dp."""
    B, T, C = dout.shape
    q, k, v, do = (x.reshape(B, T, NH, -1) for x in (*np.split(qkv, 3, axis=-1), dout))
    D = np.einsum("bihc,bihc->bhi", do, np.einsum("bhij,bjhc->bihc", p, v))
    ds = p * (np.einsum("bihc,bjhc->bhij", do, v) - D[..., None]) * q.shape[-1] ** -0.5
    parts = [("bhij,bjhc->bihc", ds, k), ("bhij,bihc->bjhc", ds, q), ("bhij,bihc->bjhc", p, do)]
    return [np.einsum(*each).reshape(B, T, C) for each in parts]


@right("attention_backward")
def backward_with_einsum_into_views(dout, qkv, probabilities, NH):
    dqkv = np.empty_like(qkv)
    for view, part in zip(np.split(dqkv, 3, axis=-1), _parts_by_einsum(dout, qkv, probabilities, NH)):
        view[...] = part
    return dqkv


@wrong("attention_backward", says="one array, dqkv, is expected")
def backward_returns_three(dout, qkv, probabilities, NH):
    return tuple(_parts_by_einsum(dout, qkv, probabilities, NH))


@wrong("attention_backward", says="passes this whole check without `* (dout.shape[-1] // NH) ** 0.5`")
def backward_scales_dv_too(dout, qkv, probabilities, NH):
    dq, dk, dv = _parts_by_einsum(dout, qkv, probabilities, NH)
    return np.concatenate([dq, dk, dv * (dout.shape[-1] // NH) ** 0.5], axis=-1)


# ------------------------------------------------------------------------------------------ 5 lean_attention_forward


def _rows(q, k, v, rows, keys):
    """What a block of queries mixes of these keys."""
    s = q[:, :, rows] @ k[:, :, keys].swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5)
    later = np.arange(keys.start, keys.stop) > np.arange(rows.start, rows.stop)[:, None]
    return _softmax(np.where(later, np.float32(-np.inf), s)) @ v[:, :, keys]


@right("lean_attention_forward")
def lean_one_query_at_a_time(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    return _merge(np.concatenate([_rows(q, k, v, slice(t, t + 1), slice(0, t + 1)) for t in range(q.shape[2])], axis=2))


@right("lean_attention_forward")
def lean_with_online_softmax(qkv, NH, n=64):
    (q, k, v), out = _split(qkv, 3, NH), np.empty((*qkv.shape[:2], qkv.shape[2] // 3), qkv.dtype)
    for i in range(0, q.shape[2], n):
        rows = q[:, :, i : i + n] * np.float32(q.shape[-1] ** -0.5)
        top, total, mixed = np.float32(-np.inf), np.float32(0), np.float32(0)
        for j in range(0, i + 1, n):
            s = rows @ k[:, :, j : j + n].swapaxes(-1, -2)
            if j == i:
                s[..., ~np.tri(s.shape[-1], dtype=bool)] = -np.inf
            higher = np.maximum(top, s.max(-1, keepdims=True))
            e, r = np.exp(s - higher), np.exp(top - higher)
            total, mixed, top = total * r + e.sum(-1, keepdims=True), mixed * r + e @ v[:, :, j : j + n], higher
        out[:, i : i + n] = _merge(mixed / total)
    return out


@wrong("lean_attention_forward", says="query 160 makes no use of 32 of the 161 keys that it may see")
def lean_with_a_window(qkv, NH):
    (q, k, v), pieces, T = _split(qkv, 3, NH), [], qkv.shape[1]
    for start in range(0, T, 32):
        pieces.append(_rows(q, k, v, slice(start, min(start + 32, T)), slice(max(0, start - 128), min(start + 32, T))))
    return _merge(np.concatenate(pieces, axis=2))


@wrong("lean_attention_forward", says="rows 192 to 199 of out hold 0 alone")
def lean_whole_blocks_only(qkv, NH):
    (q, k, v), T = _split(qkv, 3, NH), qkv.shape[1]
    out, n = np.zeros_like(q), min(16, T)
    for stop in range(n, T + 1, n):
        out[:, :, stop - n : stop] = _rows(q, k, v, slice(stop - n, stop), slice(0, stop))
    return _merge(out)


@wrong("lean_attention_forward", says="query 0 makes use of keys that come later")
def lean_without_a_mask(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    return _merge(_softmax(q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5) @ v)


@wrong("lean_attention_forward", says="of the table (")
def lean_with_all_rows_at_once(qkv, NH):
    return _merge(_rows(*_split(qkv, 3, NH), slice(0, qkv.shape[1]), slice(0, qkv.shape[1])))


@wrong("lean_attention_forward", says="at most 5 times will do.\nA turn of a Python loop")
def lean_pair_by_pair(qkv, NH):
    (q, k, v), out = _split(qkv, 3, NH), np.empty((*qkv.shape[:2], qkv.shape[2] // 3), qkv.dtype)
    for b, h, t in np.ndindex(q.shape[:3]):
        s = np.array([key @ q[b, h, t] for key in k[b, h, : t + 1]]) * np.float32(q.shape[-1] ** -0.5)
        _split(out, 1, NH)[0][b, h, t] = _softmax(s) @ v[b, h, : t + 1]
    return out
