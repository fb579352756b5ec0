"""Answers to the exercises of lesson 06 as learners write them: right ones that look different, and wrong ones.

Each wrong answer carries words that its check must say. CI runs them all, and
`python -m llmc.course.old.authoring.answers 06` runs those of this lesson.
"""

import math

import numpy as np

from llmc.course.old.authoring.answers import right, wrong

# --------------------------------------------------------------------------------------------- 1 attention_scores


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
    T, hs = q.shape
    mask = np.triu(np.full((T, T), -np.inf, dtype=q.dtype), k=1)
    return np.einsum("ic,jc->ij", q, k) * hs**-0.5 + mask


@right("attention_scores")
def scores_written_in_place(q, k):
    scores = (q / q.shape[1] ** 0.5) @ k.T
    scores[np.triu_indices(len(q), 1)] = -np.inf
    return scores


@wrong("attention_scores", says="q · k not divided by √hs")
def scores_without_scale(q, k):
    T = len(q)
    return np.where(np.tril(np.ones((T, T))) == 1, q @ k.T, -np.inf)


@wrong("attention_scores", says="divided by hs, not by its root")
def scores_divided_by_hs(q, k):
    T, hs = q.shape
    return np.where(np.tril(np.ones((T, T))) == 1, q @ k.T / hs, -np.inf)


@wrong("attention_scores", says="divided by √T: the sum runs over hs channels")
def scores_take_the_wrong_size(q, k):
    T = q.shape[0]
    return np.where(np.tril(np.ones((T, T))) == 1, q @ k.T / T**0.5, -np.inf)


@wrong("attention_scores", says='columns are keys.\n→ Where to look: lesson 06, section "All queries at once"')
def scores_with_keys_as_rows(q, k):
    T, hs = q.shape
    return np.where(np.tril(np.ones((T, T))) == 1, k @ q.T / hs**0.5, -np.inf)


@wrong("attention_scores", says="the past masked instead of the future")
def scores_mask_the_past(q, k):
    T, hs = q.shape
    return np.where(np.triu(np.ones((T, T))) == 1, q @ k.T / hs**0.5, -np.inf)


@wrong("attention_scores", says="its diagonal masked too: a token may look at itself")
def scores_mask_the_diagonal(q, k):
    T, hs = q.shape
    return np.where(np.triu(np.ones((T, T), bool)), -np.inf, q @ k.T / hs**0.5)


@wrong("attention_scores", says="its diagonal masked too, from row 1 on: a token may look at itself")
def scores_see_themselves_in_row_0_only(q, k):
    T, hs = q.shape
    scores = np.full((T, T), -np.inf)
    scores[0, 0] = q[0] @ k[0] / hs**0.5
    for t in range(1, T):
        scores[t, :t] = k[:t] @ q[t] / hs**0.5
    return scores


@wrong("attention_scores", says="lets each token see the next one")
def scores_leak(q, k):
    T, hs = q.shape
    return np.where(np.triu(np.ones((T, T), bool), k=2), -np.inf, q @ k.T / hs**0.5)


@wrong("attention_scores", says="scores is nowhere -inf")
def scores_without_mask(q, k):
    return q @ k.T / q.shape[1] ** 0.5


@wrong("attention_scores", says="0 for future keys: e to the power of 0 is 1")
def scores_multiply_by_the_mask(q, k):
    return np.tril(q @ k.T / q.shape[1] ** 0.5)


@wrong("attention_scores", says="-10000 for future keys: -np.inf belongs there")
def scores_with_a_large_number(q, k):
    T, hs = q.shape
    return np.where(np.triu(np.ones((T, T), bool), k=1), -1e4, q @ k.T / hs**0.5)


@wrong("attention_scores", says="0 · ∞ is NaN")
def scores_multiply_by_infinity(q, k):
    T, hs = q.shape
    with np.errstate(all="ignore"):
        return q @ k.T / hs**0.5 + np.triu(np.ones((T, T)), k=1) * -np.inf


@wrong("attention_scores", says="for float32 inputs scores should be float32 too, but is float64")
def scores_in_float64(q, k):
    T, hs = q.shape
    return np.where(np.triu(np.ones((T, T), bool), k=1), -np.inf, q @ k.T / np.sqrt(hs))


@wrong("attention_scores", says="with q (5, 7), k (5, 7)")
def scores_forget_the_transpose(q, k):
    return q @ k / q.shape[1] ** 0.5


@wrong("attention_scores", says="scores has shape (7, 7), expected (5, 5)")
def scores_transpose_the_query(q, k):
    scores = q.T @ k / len(q) ** 0.5
    scores[np.triu_indices(len(scores), 1)] = -np.inf
    return scores


@wrong("attention_scores", says="scores holds shares, because every row adds up to 1, and not the scores themselves")
def scores_go_on_to_the_softmax(q, k):
    T, hs = q.shape
    return _softmax(np.where(np.tril(np.ones((T, T), bool)), q @ k.T / hs**0.5, -np.inf))


@wrong("attention_scores", says="that is a cosine, and only √hs divides")
def scores_are_cosines(q, k):
    T, hs = q.shape
    n = np.linalg.norm(q, axis=1)[:, None] * np.linalg.norm(k, axis=1)
    s = q @ k.T / np.where(n == 0, 1, n)
    s[np.triu_indices(T, 1)] = -np.inf
    return s


# -------------------------------------------------------------------------------------------- 2 attention_forward


def _split(x, parts, NH):
    B, T, width = x.shape
    return x.reshape(B, T, parts, NH, width // parts // NH).transpose(2, 0, 3, 1, 4)


def _softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _merge(x):
    B, NH, T, hs = x.shape
    return x.transpose(0, 2, 1, 3).reshape(B, T, NH * hs)


def _seen(T):
    return np.tril(np.ones((T, T), bool))


@right("attention_forward")
def forward_with_loops(qkv, NH):
    B, T, width = qkv.shape
    C = width // 3
    hs = C // NH
    out, probabilities = np.zeros((B, T, C), qkv.dtype), np.zeros((B, NH, T, T), qkv.dtype)
    for b in range(B):
        for h in range(NH):
            q, k, v = (qkv[b, :, n * C + h * hs : n * C + (h + 1) * hs] for n in range(3))
            for t in range(T):
                s = k[: t + 1] @ q[t] / math.sqrt(hs)
                e = np.exp(s - max(s))
                probabilities[b, h, t, : t + 1] = e / e.sum()
                out[b, t, h * hs : (h + 1) * hs] = probabilities[b, h, t, : t + 1] @ v[: t + 1]
    return out, probabilities


@right("attention_forward")
def forward_with_einsum(qkv, NH):
    B, T, width = qkv.shape
    q, k, v = (x.reshape(B, T, NH, -1) for x in np.split(qkv, 3, axis=-1))
    s = np.einsum("bihc,bjhc->bhij", q, k) * q.shape[-1] ** -0.5
    s[:, :, ~_seen(T)] = -np.inf
    s = np.exp(s - s.max(-1, keepdims=True))
    p = s / s.sum(-1, keepdims=True)
    return np.einsum("bhij,bjhc->bihc", p, v).reshape(B, T, width // 3), p


@right("attention_forward")
def forward_in_place_with_a_large_number(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    p = q @ k.swapaxes(-1, -2)
    p *= q.shape[-1] ** -0.5
    np.putmask(p, np.broadcast_to(~_seen(p.shape[-1]), p.shape), -1e30)
    p -= p.max(-1, keepdims=True)
    np.exp(p, out=p)
    p /= p.sum(-1, keepdims=True)
    return _merge(p @ v), p


@wrong("attention_forward", says="without the scale 1/√hs")
def forward_forgets_the_scale(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    p = _softmax(np.where(_seen(q.shape[2]), q @ k.swapaxes(-1, -2), -np.inf))
    return _merge(p @ v), p


@wrong("attention_forward", says="with 1/√C as its scale")
def forward_scales_with_c(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    C = qkv.shape[-1] // 3
    p = _softmax(np.where(_seen(q.shape[2]), q @ k.swapaxes(-1, -2) / C**0.5, -np.inf))
    return _merge(p @ v), p


@wrong("attention_forward", says="without the causal mask")
def forward_forgets_the_mask(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    p = _softmax(q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5)
    return _merge(p @ v), p


@wrong("attention_forward", says="with each token's own key masked too, except for the first's")
def forward_looks_at_earlier_tokens_only(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    p = np.zeros((*q.shape[:3], q.shape[2]), qkv.dtype)
    for t in range(q.shape[2]):
        n = max(t, 1)
        p[:, :, t, :n] = _softmax((k[:, :, :n] @ q[:, :, t, :, None])[..., 0] / q.shape[-1] ** 0.5)
    return _merge(p @ v), p


@wrong("attention_forward", says="each token sees the next")
def forward_leaks(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    T, hs = q.shape[2:]
    p = _softmax(np.where(np.tril(np.ones((T, T)), 1) > 0, q @ k.swapaxes(-1, -2) / hs**0.5, -np.inf))
    return _merge(p @ v), p


@wrong("attention_forward", says="masked after the softmax: its rows no longer add up to 1")
def forward_masks_too_late(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    p = _softmax(q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5) * _seen(q.shape[2])
    return _merge(p @ v), p


@wrong("attention_forward", says="the reference with 0 instead of -inf")
def forward_zeroes_the_scores(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    p = _softmax(np.tril(q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5))
    return _merge(p @ v), p


@wrong("attention_forward", says="the softmax of each column")
def forward_with_softmax_over_queries(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    s = np.where(_seen(q.shape[2]), q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5, -np.inf)
    e = np.exp(s - s.max(axis=-2, keepdims=True))
    p = e / e.sum(axis=-2, keepdims=True)
    return _merge(p @ v), p


@wrong("attention_forward", says="heads cut by reshape(B, NH, T, hs) alone: that mixes tokens")
def forward_cuts_heads_by_reshape(qkv, NH):
    B, T, width = qkv.shape
    q, k, v = (x.reshape(B, NH, T, -1) for x in np.split(qkv, 3, axis=-1))
    p = _softmax(np.where(_seen(T), q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5, -np.inf))
    return _merge(p @ v), p


@wrong("attention_forward", says="qkv read as [q, k, v] of head 0, then of head 1")
def forward_with_qkv_inside_heads(qkv, NH):
    B, T, width = qkv.shape
    q, k, v = qkv.reshape(B, T, NH, 3, -1).transpose(3, 0, 2, 1, 4)
    p = _softmax(np.where(_seen(T), q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5, -np.inf))
    return _merge(p @ v), p


@wrong("attention_forward", says="queries and keys swapped")
def forward_swaps_q_and_k(qkv, NH):
    k, q, v = _split(qkv, 3, NH)
    p = _softmax(np.where(_seen(q.shape[2]), q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5, -np.inf))
    return _merge(p @ v), p


@wrong("attention_forward", says="channel c given to head c mod NH")
def forward_deals_channels_like_cards(qkv, NH):
    B, T, width = qkv.shape
    q, k, v = (x.reshape(B, T, -1, NH).transpose(0, 3, 1, 2) for x in np.split(qkv, 3, axis=-1))
    p = _softmax(np.where(_seen(T), q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5, -np.inf))
    return _merge(p @ v), p


@wrong("attention_forward", says="reshaped without moving the head axis back")
def forward_merges_by_reshape(qkv, NH):
    B, T, width = qkv.shape
    q, k, v = _split(qkv, 3, NH)
    p = _softmax(np.where(_seen(T), q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5, -np.inf))
    return (p @ v).reshape(B, T, width // 3), p


@wrong("attention_forward", says="probabilities equals the masked scores: the softmax is missing")
def forward_returns_scores(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    s = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5 * _seen(q.shape[2])
    return _merge(_softmax(np.where(_seen(q.shape[2]), s, -np.inf)) @ v), s


@wrong("attention_forward", says="NaN or infinite")
def forward_overflows(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    e = np.exp(np.where(_seen(q.shape[2]), q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5, -np.inf))
    p = e / e.sum(-1, keepdims=True)
    return _merge(p @ v), p


@wrong("attention_forward", says="your code stopped with ValueError")
def forward_does_not_transpose_keys(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    p = _softmax(np.where(_seen(q.shape[2]), q @ k / q.shape[-1] ** 0.5, -np.inf))
    return _merge(p @ v), p


@wrong("attention_forward", says="is right: move its axes first, `.transpose(0, 2, 1, 3)`, then reshape")
def forward_forgets_to_merge(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    p = _softmax(np.where(_seen(q.shape[2]), q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5, -np.inf))
    return p @ v, p


def _right_forward(qkv, NH):
    """Both results as they should be: these answers go wrong in what they return."""
    q, k, v = _split(qkv, 3, NH)
    p = _softmax(np.where(_seen(q.shape[2]), q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5, -np.inf))
    return p @ v, p


@wrong("attention_forward", says="only out was returned, but the exercise needs two arrays")
def forward_returns_out_alone(qkv, NH):
    return _merge(_right_forward(qkv, NH)[0])


@wrong("attention_forward", says="in the wrong order: `return out, probabilities`")
def forward_returns_p_first(qkv, NH):
    mixed, p = _right_forward(qkv, NH)
    return p, _merge(mixed)


@wrong("attention_forward", says="the heads lie one after the other along the first axis")
def forward_concatenates_along_the_first_axis(qkv, NH):
    mixed, p = _right_forward(qkv, NH)
    return np.concatenate([mixed[:, h] for h in range(NH)]), p


@wrong("attention_forward", says="for float32 inputs probabilities should be float32 too")
def forward_in_float64(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    p = _softmax(np.where(_seen(q.shape[2]), q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), -np.inf))
    return _merge(p @ v), p


@wrong("attention_forward", says="your code uses llmc.backends")
def forward_calls_the_package(qkv, NH):
    from llmc.backends import reference

    B, T, width = qkv.shape
    out, p = np.empty((B, T, width // 3)), np.empty((B, NH, T, T))
    reference.attention_forward(out, p, qkv, NH)
    return out, p


@wrong("attention_forward", says="v alone cut into heads as (hs, NH)")
def attention_cuts_v_the_other_way(qkv, NH):
    B, T, C3 = qkv.shape
    C = C3 // 3
    hs = C // NH
    q, k, v = np.split(qkv, 3, axis=-1)
    q, k = (a.reshape(B, T, NH, hs).transpose(0, 2, 1, 3) for a in (q, k))
    v = v.reshape(B, T, hs, NH).transpose(0, 3, 1, 2)
    s = q @ k.transpose(0, 1, 3, 2) / np.sqrt(hs)
    s = np.where(np.tri(T, dtype=bool), s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    return (p @ v).transpose(0, 2, 1, 3).reshape(B, T, C), p


@wrong("attention_forward", says="1/√NH as its scale")
def attention_scales_by_the_heads(qkv, NH):
    B, T, C3 = qkv.shape
    C = C3 // 3
    hs = C // NH
    q, k, v = (a.reshape(B, T, NH, hs).transpose(0, 2, 1, 3) for a in np.split(qkv, 3, axis=-1))
    s = q @ k.transpose(0, 1, 3, 2) / np.sqrt(NH)
    s = np.where(np.tri(T, dtype=bool), s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    return (p @ v).transpose(0, 2, 1, 3).reshape(B, T, C), p


# ----------------------------------------------------------------------------------- 3 attention_softmax_backward


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


@wrong("attention_softmax_backward", says="p · dp: the row's sum is not subtracted")
def softmax_forgets_the_competition(dp, p):
    return p * dp


@wrong("attention_softmax_backward", says="only the diagonal of the Jacobian")
def softmax_like_a_sigmoid(dp, p):
    return p * (1 - p) * dp


@wrong("attention_softmax_backward", says="not multiplied by p")
def softmax_forgets_p_in_front(dp, p):
    return dp - (p * dp).sum(-1, keepdims=True)


@wrong("attention_softmax_backward", says="the sum is not multiplied by p")
def softmax_misses_brackets(dp, p):
    return p * dp - (p * dp).sum(-1, keepdims=True)


@wrong("attention_softmax_backward", says="the sum of dp alone")
def softmax_sums_dp(dp, p):
    return p * (dp - dp.sum(axis=-1, keepdims=True))


@wrong("attention_softmax_backward", says="the mean of p · dp instead of its sum")
def softmax_with_a_mean(dp, p):
    return p * (dp - (p * dp).mean(axis=-1, keepdims=True))


@wrong("attention_softmax_backward", says="sums over the queries, axis -2")
def softmax_over_the_wrong_axis(dp, p):
    return p * (dp - (p * dp).sum(axis=2, keepdims=True))


@wrong("attention_softmax_backward", says="one sum over the whole array")
def softmax_with_one_sum(dp, p):
    return p * (dp - (p * dp).sum())


@wrong("attention_softmax_backward", says="ds has the wrong sign")
def softmax_with_wrong_sign(dp, p):
    return p * ((p * dp).sum(-1, keepdims=True) - dp)


@wrong("attention_softmax_backward", says="your code stopped with ValueError")
def softmax_without_keepdims(dp, p):
    return p * (dp - (p * dp).sum(axis=-1))


@wrong("attention_softmax_backward", says="An input was written to")
def softmax_in_place(dp, p):
    dp -= (p * dp).sum(-1, keepdims=True)
    dp *= p
    return dp


@wrong("attention_softmax_backward", says="dp and p are swapped")
def softmax_with_swapped_arguments(p, dp):
    return p * (dp - (p * dp).sum(-1, keepdims=True))


@wrong("attention_softmax_backward", says="the backward pass needs no mask")
def softmax_masks_the_gradient(dp, p):
    ds = p * (dp - (p * dp).sum(-1, keepdims=True))
    return np.where(np.tril(np.ones(ds.shape[-2:], bool)), ds, -np.inf)


# ------------------------------------------------------------------------------------------- 4 attention_backward


def _joined(dq, dk, dv):
    return np.concatenate([_merge(dq), _merge(dk), _merge(dv)], axis=-1)


def _gradients(dout, qkv, p, NH):
    """The five lines as they should be: these answers go wrong around them."""
    q, k, v = _split(qkv, 3, NH)
    do = _split(dout, 1, NH)[0]
    dp = do @ v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * q.shape[-1] ** -0.5
    return ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ do


@right("attention_backward")
def backward_with_loops(dout, qkv, probabilities, NH):
    B, T, C = dout.shape
    hs = C // NH
    dqkv = np.zeros_like(qkv)
    for b in range(B):
        for h in range(NH):
            Q, K, V = (slice(n * C + h * hs, n * C + (h + 1) * hs) for n in range(3))
            do = dout[b, :, h * hs : (h + 1) * hs]
            for i in range(T):
                p = probabilities[b, h, i]
                dp = np.array([do[i] @ qkv[b, j, V] for j in range(T)])
                ds = p * (dp - p @ dp) / math.sqrt(hs)
                for j in range(i + 1):
                    dqkv[b, j, V] += p[j] * do[i]
                    dqkv[b, i, Q] += ds[j] * qkv[b, j, K]
                    dqkv[b, j, K] += ds[j] * qkv[b, i, Q]
    return dqkv


@right("attention_backward")
def backward_with_einsum_into_views(dout, qkv, probabilities, NH):
    B, T, C = dout.shape
    p, dqkv = probabilities, np.empty_like(qkv)
    q, k, v = (x.reshape(B, T, NH, -1) for x in np.split(qkv, 3, axis=-1))
    do = dout.reshape(B, T, NH, -1)
    dp = np.einsum("bihc,bjhc->bhij", do, v)
    out = np.einsum("bhij,bjhc->bihc", p, v)
    D = np.einsum("bihc,bihc->bhi", do, out)  # dout · out is the row sum of p · dp
    ds = p * (dp - D[..., None]) * q.shape[-1] ** -0.5
    dqkv[..., :C] = np.einsum("bhij,bjhc->bihc", ds, k).reshape(B, T, C)
    dqkv[..., C : 2 * C] = np.einsum("bhij,bihc->bjhc", ds, q).reshape(B, T, C)
    dqkv[..., 2 * C :] = np.einsum("bhij,bihc->bjhc", p, do).reshape(B, T, C)
    return dqkv


@wrong("attention_backward", says="dq equals the reference without the scale 1/√hs")
def backward_forgets_the_scale(dout, qkv, probabilities, NH):
    dq, dk, dv = _gradients(dout, qkv, probabilities, NH)
    root = dq.shape[-1] ** 0.5
    return _joined(dq * root, dk * root, dv)


@wrong("attention_backward", says="dk equals the reference without the scale 1/√hs")
def backward_scales_dq_alone(dout, qkv, probabilities, NH):
    dq, dk, dv = _gradients(dout, qkv, probabilities, NH)
    return _joined(dq, dk * dq.shape[-1] ** 0.5, dv)


@wrong("attention_backward", says="dscores that are dp itself: the step through the softmax is missing")
def backward_skips_the_softmax(dout, qkv, probabilities, NH):
    q, k, v = _split(qkv, 3, NH)
    do, p = _split(dout, 1, NH)[0], probabilities
    ds = do @ v.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    return _joined(ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ do)


@wrong("attention_backward", says="dscores that are p · dp: the row's sum is not subtracted")
def backward_forgets_the_row_sum(dout, qkv, probabilities, NH):
    q, k, v = _split(qkv, 3, NH)
    do, p = _split(dout, 1, NH)[0], probabilities
    ds = p * (do @ v.swapaxes(-1, -2)) / q.shape[-1] ** 0.5
    return _joined(ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ do)


@wrong("attention_backward", says="dk equals the reference with dscores not transposed")
def backward_forgets_one_transpose(dout, qkv, probabilities, NH):
    q, k, v = _split(qkv, 3, NH)
    do, p = _split(dout, 1, NH)[0], probabilities
    dp = do @ v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * q.shape[-1] ** -0.5
    return _joined(ds @ k, ds @ q, p.swapaxes(-1, -2) @ do)


@wrong("attention_backward", says="dv equals the reference with the probabilities not transposed")
def backward_mixes_forward(dout, qkv, probabilities, NH):
    dq, dk, _ = _gradients(dout, qkv, probabilities, NH)
    return _joined(dq, dk, probabilities @ _split(dout, 1, NH)[0])


@wrong("attention_backward", says="dq equals the reference with q instead of k")
def backward_takes_q_for_k(dout, qkv, probabilities, NH):
    q, k, v = _split(qkv, 3, NH)
    do, p = _split(dout, 1, NH)[0], probabilities
    dp = do @ v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * q.shape[-1] ** -0.5
    return _joined(ds @ q, ds.swapaxes(-1, -2) @ k, p.swapaxes(-1, -2) @ do)


@wrong("attention_backward", says="dq equals dk: the two are in the wrong order")
def backward_swaps_dq_and_dk(dout, qkv, probabilities, NH):
    dq, dk, dv = _gradients(dout, qkv, probabilities, NH)
    return _joined(dk, dq, dv)


@wrong("attention_backward", says="dv equals dq: the order is [dq, dk, dv]")
def backward_in_order_of_work(dout, qkv, probabilities, NH):
    dq, dk, dv = _gradients(dout, qkv, probabilities, NH)
    return _joined(dv, dk, dq)


@wrong("attention_backward", says="dv equals the reference with heads put back by reshape alone")
def backward_merges_by_reshape(dout, qkv, probabilities, NH):
    B, T, C = dout.shape
    return np.concatenate([d.reshape(B, T, C) for d in _gradients(dout, qkv, probabilities, NH)], axis=-1)


@wrong("attention_backward", says="dv equals the reference with dout cut into heads by reshape(B, NH, T, hs) alone")
def backward_cuts_dout_by_reshape(dout, qkv, probabilities, NH):
    B, T, C = dout.shape
    q, k, v = _split(qkv, 3, NH)
    do, p = dout.reshape(B, NH, T, C // NH), probabilities
    dp = do @ v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * q.shape[-1] ** -0.5
    return _joined(ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ do)


@wrong("attention_backward", says="dq equals the reference with 1/√C as its scale: hs = C / NH channels are summed")
def backward_scales_with_c(dout, qkv, probabilities, NH):
    dq, dk, dv = _gradients(dout, qkv, probabilities, NH)
    return _joined(dq / NH**0.5, dk / NH**0.5, dv)


@wrong("attention_backward", says="dv is 1/√NH [NH = 4] times what it should be")
def backward_scales_everything_by_heads(dout, qkv, probabilities, NH):
    return np.concatenate([_merge(d) for d in _gradients(dout, qkv, probabilities, NH)], axis=-1) / NH**0.5


@wrong("attention_backward", says="dp comes from the values, dout @ vᵀ")
def backward_takes_keys_for_values(dout, qkv, probabilities, NH):
    q, k, v = _split(qkv, 3, NH)
    do, p = _split(dout, 1, NH)[0], probabilities
    dp = do @ k.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * q.shape[-1] ** -0.5
    return _joined(ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ do)


@wrong("attention_backward", says="with [dq, dk, dv] of head 0, then of head 1, …: all of dq comes first")
def backward_interleaves_heads(dout, qkv, probabilities, NH):
    B, T, C = dout.shape
    parts = np.stack(_gradients(dout, qkv, probabilities, NH))  # (3, B, NH, T, hs)
    return parts.transpose(1, 3, 2, 0, 4).reshape(B, T, 3 * C)


@wrong("attention_backward", says="dq holds NaN or infinity. Where p is 0, ds = p · (dp - D) is 0 already")
def backward_masks_the_gradient(dout, qkv, probabilities, NH):
    q, k, v = _split(qkv, 3, NH)
    do, p = _split(dout, 1, NH)[0], probabilities
    dp = do @ v.swapaxes(-1, -2)
    ds = np.where(_seen(q.shape[2]), p * (dp - (p * dp).sum(-1, keepdims=True)), -np.inf) * q.shape[-1] ** -0.5
    with np.errstate(all="ignore"):
        return _joined(ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ do)


@wrong("attention_backward", says="should lie side by side along the last")
def backward_concatenates_along_the_first_axis(dout, qkv, probabilities, NH):
    return np.concatenate([_merge(d) for d in _gradients(dout, qkv, probabilities, NH)])


@wrong("attention_backward", says="dv is √hs [hs = 6] times what it should be")
def backward_scales_dv_too(dout, qkv, probabilities, NH):
    dq, dk, dv = _gradients(dout, qkv, probabilities, NH)
    return _joined(dq, dk, dv * dv.shape[-1] ** 0.5)


@wrong("attention_backward", says="dqkv should be a NumPy array, but is a tuple of 3")
def backward_returns_three(dout, qkv, probabilities, NH):
    return tuple(_merge(d) for d in _gradients(dout, qkv, probabilities, NH))


@wrong("attention_backward", says="for float32 inputs dqkv should be float32 too, but is float64")
def backward_in_float64(dout, qkv, probabilities, NH):
    dq, dk, dv = _gradients(dout, qkv, probabilities, NH)
    dqkv = np.zeros(qkv.shape)
    dqkv[...] = _joined(dq, dk, dv)
    return dqkv


@wrong("attention_backward", says="dout, but not qkv, cut into heads as (hs, NH)")
def backward_cuts_dout_the_other_way(dout, qkv, probabilities, NH):
    B, T, C = dout.shape
    hs = C // NH
    q, k, v = (part.reshape(B, T, NH, hs).transpose(0, 2, 1, 3) for part in np.split(qkv, 3, axis=-1))
    do = dout.reshape(B, T, hs, NH).transpose(0, 3, 1, 2)
    p_t = probabilities.transpose(0, 1, 3, 2)
    dv = p_t @ do
    dp = do @ v.transpose(0, 1, 3, 2)
    ds = probabilities * (dp - (probabilities * dp).sum(-1, keepdims=True))
    ds = ds / hs**0.5
    dq = ds @ k
    dk = ds.transpose(0, 1, 3, 2) @ q
    merged = [part.transpose(0, 2, 1, 3).reshape(B, T, C) for part in (dq, dk, dv)]
    return np.concatenate(merged, axis=-1)


@wrong("attention_backward", says="the part of the last query alone")
def backward_keeps_the_last_querys_keys(dout, qkv, probabilities, NH):
    B, T, C = dout.shape
    hs = C // NH
    scale = 1 / hs**0.5
    q, k, v = qkv.reshape(B, T, 3, NH, hs).transpose(2, 0, 3, 1, 4)
    do = dout.reshape(B, T, NH, hs).transpose(0, 2, 1, 3)
    dq, dk, dv = (np.zeros((B, NH, T, hs), qkv.dtype) for _ in range(3))
    for i in range(T):  # query i
        row = probabilities[:, :, i]  # (B, NH, T)
        drow = np.einsum("bhd,bhjd->bhj", do[:, :, i], v)
        ds = scale * row * (drow - (row * drow).sum(axis=-1, keepdims=True))
        dv += row[..., None] * do[:, :, i, None]
        dq[:, :, i] = np.einsum("bhj,bhjd->bhd", ds, k)
        dk = ds[..., None] * q[:, :, i, None]
    return np.stack([dq, dk, dv], axis=2).transpose(0, 3, 2, 1, 4).reshape(B, T, 3 * C)


# --------------------------------------------------------------------------------------- 5 lean_attention_forward


@right("lean_attention_forward")
def lean_with_online_softmax(qkv, NH):
    B, T, width = qkv.shape
    q, k, v = _split(qkv, 3, NH)
    out = np.empty((B, T, width // 3), qkv.dtype)
    heads = _split(out, 1, NH)[0]
    n = 128
    mask = np.triu(np.full((n, n), -np.inf, qkv.dtype), 1)
    for start in range(0, T, n):
        stop = min(start + n, T)
        rows = q[:, :, start:stop] * q.shape[-1] ** -0.5
        m = np.full((*rows.shape[:3], 1), -np.inf, qkv.dtype)
        total, mixed = np.zeros_like(m), np.zeros_like(rows)
        for first in range(0, stop, n):
            last = min(first + n, stop)
            s = rows @ k[:, :, first:last].swapaxes(-1, -2)
            if first == start:
                s += mask[: stop - start, : last - first]
            larger = np.maximum(m, s.max(-1, keepdims=True))
            s -= larger
            np.exp(s, out=s)
            r = np.exp(m - larger)
            total = total * r + s.sum(-1, keepdims=True)
            mixed = mixed * r + s @ v[:, :, first:last]
            m = larger
        heads[:, :, start:stop] = mixed / total
    return out


@right("lean_attention_forward")
def lean_by_head_and_block(qkv, NH):
    B, T, width = qkv.shape
    C = width // 3
    hs = C // NH
    out = np.empty((B, T, C), qkv.dtype)
    n = 128
    future = np.triu(np.ones((n, n), bool), 1)
    for b in range(B):
        for h in range(NH):
            q, k, v = (qkv[b, :, i * C + h * hs : i * C + (h + 1) * hs] for i in range(3))
            for start in range(0, T, n):
                stop = min(start + n, T)
                s = q[start:stop] @ k[:stop].T
                s *= hs**-0.5
                np.putmask(s[:, start:], future[: stop - start, : stop - start], -np.inf)
                s -= s.max(-1, keepdims=True)
                np.exp(s, out=s)
                s /= s.sum(-1, keepdims=True)
                out[b, start:stop, h * hs : (h + 1) * hs] = s @ v[:stop]
    return out


@wrong("lean_attention_forward", says="of the table")
def lean_in_place_only(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    p = q @ k.swapaxes(-1, -2)
    p *= q.shape[-1] ** -0.5
    p += np.triu(np.full(p.shape[-2:], -np.inf, p.dtype), 1)
    p -= p.max(-1, keepdims=True)
    np.exp(p, out=p)
    p /= p.sum(-1, keepdims=True)
    return _merge(p @ v)


@wrong("lean_attention_forward", says="its names hold `s` (2.4 MB), `seen` (0.59 MB), `out` (0.39 MB)")
def lean_one_head_at_a_time(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    out = np.empty(q.shape, q.dtype)
    seen = _seen(q.shape[2])
    for h in range(NH):
        s = np.where(seen, q[:, h] @ k[:, h].swapaxes(-1, -2) / q.shape[-1] ** 0.5, -np.inf)
        out[:, h] = _softmax(s) @ v[:, h]
    return _merge(out)


@wrong("lean_attention_forward", says="at most 5 times will do. A turn of a Python loop")
def lean_eight_keys_at_a_time(qkv, NH):
    B, T, width = qkv.shape
    C = width // 3
    hs = C // NH
    out = np.empty((B, T, C), qkv.dtype)
    for b in range(B):
        for h in range(NH):
            q, k, v = (qkv[b, :, i * C + h * hs : i * C + (h + 1) * hs] for i in range(3))
            for t in range(T):
                m, total, mixed = -math.inf, 0.0, np.zeros(hs, qkv.dtype)
                for j in range(0, t + 1, 8):
                    s = k[j : min(j + 8, t + 1)] @ q[t] / math.sqrt(hs)
                    larger = max(m, s.max())
                    e, r = np.exp(s - larger), math.exp(m - larger)
                    total, mixed = total * r + e.sum(), mixed * r + e @ v[j : min(j + 8, t + 1)]
                    m = larger
                out[b, t, h * hs : (h + 1) * hs] = mixed / total
    return out


@wrong("lean_attention_forward", says="right for small scores, but out holds NaN or infinity")
def lean_without_maximum(qkv, NH):
    B, T, width = qkv.shape
    q, k, v = _split(qkv, 3, NH)
    out = np.empty(q.shape, q.dtype)
    for start in range(0, T, 64):
        rows = slice(start, min(start + 64, T))
        s = q[:, :, rows] @ k[:, :, : rows.stop].swapaxes(-1, -2) / q.shape[-1] ** 0.5
        with np.errstate(all="ignore"):
            e = np.where(_seen(T)[rows, : rows.stop], np.exp(s), 0)
            out[:, :, rows] = e @ v[:, :, : rows.stop] / e.sum(-1, keepdims=True)
    return _merge(out)


def _online(qkv, NH, rescale_sum, rescale_mixture):
    """Online softmax over blocks of keys, which may forget a factor."""
    B, T, width = qkv.shape
    q, k, v = _split(qkv, 3, NH)
    m = np.full((*q.shape[:3], 1), -np.inf, qkv.dtype)
    total, mixed = np.zeros_like(m), np.zeros(q.shape, q.dtype)
    for first in range(0, T, 2):
        s = q @ k[:, :, first : first + 2].swapaxes(-1, -2) * q.shape[-1] ** -0.5
        s = np.where(_seen(T)[:, first : first + 2], s, -np.inf)
        larger = np.maximum(m, s.max(-1, keepdims=True))
        e, r = np.exp(s - larger), np.exp(m - larger)
        total = total * (r if rescale_sum else 1) + e.sum(-1, keepdims=True)
        mixed = mixed * (r if rescale_mixture else 1) + e @ v[:, :, first : first + 2]
        m = larger
    return _merge(mixed / total)


@wrong("lean_attention_forward", says="it is right for falling scores")
def lean_forgets_to_rescale_the_sum(qkv, NH):
    return _online(qkv, NH, False, True)


@wrong("lean_attention_forward", says="right for falling scores")
def lean_forgets_to_rescale(qkv, NH):
    return _online(qkv, NH, False, False)


@wrong("lean_attention_forward", says="equals the reference without the causal mask.\n→ Where to look")
def lean_without_mask(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    out = np.empty(q.shape, q.dtype)
    for start in range(0, q.shape[2], 64):
        rows = slice(start, start + 64)
        out[:, :, rows] = _softmax(q[:, :, rows] @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5) @ v
    return _merge(out)


@wrong(
    "lean_attention_forward",
    says="the mask of the first block of 64 queries in every block: row i is query `start + i`",
)
def lean_masks_every_block_like_the_first(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    out = np.empty(q.shape, q.dtype)
    for start in range(0, q.shape[2], 64):
        rows = slice(start, min(start + 64, q.shape[2]))
        s = q[:, :, rows] @ k[:, :, : rows.stop].swapaxes(-1, -2) * q.shape[-1] ** -0.5
        out[:, :, rows] = _softmax(np.where(np.tril(np.ones(s.shape[-2:], bool)), s, -np.inf)) @ v[:, :, : rows.stop]
    return _merge(out)


@wrong("lean_attention_forward", says="NaN or infinite")
def lean_drops_the_last_block(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    out = np.full(q.shape, np.nan, q.dtype)
    T = q.shape[2]
    for i in range(max(T // 64, 1)):
        rows = slice(64 * i, min(64 * i + 64, T))
        s = q[:, :, rows] @ k[:, :, : rows.stop].swapaxes(-1, -2) * q.shape[-1] ** -0.5
        out[:, :, rows] = _softmax(np.where(_seen(T)[rows, : rows.stop], s, -np.inf)) @ v[:, :, : rows.stop]
    return _merge(out)


def _blocks(qkv, NH, mask=True, divide=True, keep_maximum=True, n=64):
    """Online softmax over blocks of queries and keys, from which one line may be missing."""
    q, k, v = _split(qkv, 3, NH)
    T, hs = q.shape[2:]
    out = np.empty(q.shape, q.dtype)
    for start in range(0, T, n):
        stop = min(start + n, T)
        m = np.full((*q.shape[:2], stop - start, 1), -np.inf, q.dtype)
        total, mixed = np.zeros_like(m), np.zeros((*q.shape[:2], stop - start, hs), q.dtype)
        for first in range(0, stop, n):
            last = min(first + n, stop)
            s = q[:, :, start:stop] @ k[:, :, first:last].swapaxes(-1, -2) * hs**-0.5
            if mask:
                s = np.where(_seen(T)[start:stop, first:last], s, -np.inf)
            larger = np.maximum(m, s.max(-1, keepdims=True))
            e, r = np.exp(s - larger), np.exp(m - larger)
            total, mixed = total * r + e.sum(-1, keepdims=True), mixed * r + e @ v[:, :, first:last]
            if keep_maximum:
                m = larger
        out[:, :, start:stop] = mixed / total if divide else mixed
    return _merge(out)


@wrong("lean_attention_forward", says="with no mask inside blocks of 64")
def lean_forgets_the_mask_inside_the_block(qkv, NH):
    return _blocks(qkv, NH, mask=False)


@wrong("lean_attention_forward", says="before it is divided by its row's sum of exponentials")
def lean_forgets_to_divide(qkv, NH):
    return _blocks(qkv, NH, divide=False)


@wrong("lean_attention_forward", says="what the blocks before it gave is multiplied by 0")
def lean_forgets_to_keep_the_maximum(qkv, NH):
    return _blocks(qkv, NH, keep_maximum=False)


@wrong("lean_attention_forward", says="for float32 inputs out should be float32 too, but is float64")
def lean_in_float64(qkv, NH):
    return _blocks(qkv, NH).astype(np.float64)


@wrong("lean_attention_forward", says="Where it holds most, its names hold")
def lean_with_contiguous_heads(qkv, NH):
    B, T, C = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    hs = C // NH
    # contiguous heads are faster to multiply
    q, k, v = (
        np.ascontiguousarray(part.reshape(B, T, NH, hs).transpose(0, 2, 1, 3)) for part in np.split(qkv, 3, axis=-1)
    )
    out = np.empty((B, T, NH, hs), np.float32)
    for start in range(0, T, 64):
        stop = min(start + 64, T)
        s = q[:, :, start:stop] @ k[:, :, :stop].swapaxes(-1, -2)
        s *= hs**-0.5
        s[..., start:][..., np.triu(np.ones((stop - start, stop - start), bool), k=1)] = -np.inf
        s -= s.max(axis=-1, keepdims=True)
        np.exp(s, out=s)
        s /= s.sum(axis=-1, keepdims=True)
        out[:, start:stop] = (s @ v[:, :, :stop]).swapaxes(1, 2)
    return out.reshape(B, T, C)


# ------------------------------------------------------------------------------------- found by answers of strangers


_results = {}


@wrong("attention_scores", says="your function gives a result again when other numbers are written into `q`")
def scores_kept_by_shape(q, k):
    if q.shape not in _results:
        _results[q.shape] = np.where(_seen(len(q)), q @ k.T / q.shape[1] ** 0.5, -np.inf)
    return _results[q.shape].copy()


def _forward_with(qkv, NH, mask):
    q, k, v = _split(qkv, 3, NH)
    p = _softmax(mask(q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5))
    return _merge(p @ v), p


@right("attention_forward")
def forward_with_a_mask_low_enough(qkv, NH):
    return _forward_with(qkv, NH, lambda s: np.where(_seen(s.shape[-1]), s, s.dtype.type(-1e9)))


@wrong("attention_forward", says="the reference with -10,000 instead of -np.inf for future keys")
def forward_with_a_mask_of_ten_thousand(qkv, NH):
    return _forward_with(qkv, NH, lambda s: np.where(_seen(s.shape[-1]), s, s.dtype.type(-1e4)))


@wrong("attention_forward", says="the reference with -10,000 added for future keys")
def forward_with_an_added_mask_of_ten_thousand(qkv, NH):
    return _forward_with(qkv, NH, lambda s: s - (1e4 * ~_seen(s.shape[-1])).astype(s.dtype))


@wrong("attention_forward", says="out is NaN or infinite for scores in the thousands")
def forward_takes_the_maximum_before_the_mask(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    s = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    e = np.exp(s - s.max(-1, keepdims=True)) * _seen(s.shape[-1])
    p = e / e.sum(-1, keepdims=True)
    return _merge(p @ v), p


@wrong("attention_backward", says="dv equals the reference with dp instead of the probabilities")
def backward_takes_dp_for_p(dout, qkv, probabilities, NH):
    dq, dk, _ = _gradients(dout, qkv, probabilities, NH)
    do, v = _split(dout, 1, NH)[0], _split(qkv, 3, NH)[2]
    return _joined(dq, dk, v @ do.swapaxes(-1, -2) @ do)


@right("lean_attention_forward")
def lean_one_query_at_a_time(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    out = np.empty((*qkv.shape[:2], NH, q.shape[-1]), qkv.dtype)
    keys = np.ascontiguousarray(k.swapaxes(-1, -2))
    for t in range(qkv.shape[1]):
        p = _softmax(q[:, :, t : t + 1] @ keys[..., : t + 1] * q.shape[-1] ** -0.5)
        out[:, t] = (p @ v[:, :, : t + 1])[:, :, 0]
    return out.reshape(*qkv.shape[:2], -1)


@wrong("lean_attention_forward", says="the plain mean of the outputs of blocks of 64 keys")
def lean_forgets_the_weights_of_the_blocks(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    out, n, T = np.empty(q.shape, q.dtype), 64, q.shape[2]
    for start in range(0, T, n):
        rows, parts = slice(start, min(start + n, T)), []
        for first in range(0, rows.stop, n):
            keys = slice(first, min(first + n, T))
            s = q[:, :, rows] @ k[:, :, keys].swapaxes(-1, -2) * q.shape[-1] ** -0.5
            parts.append(_softmax(np.where(_seen(T)[rows, keys], s, -np.inf)) @ v[:, :, keys])
        out[:, :, rows] = sum(parts) / len(parts)
    return _merge(out)


@wrong("lean_attention_forward", says="for T = 3072 the process grew by")
def lean_hides_the_table(qkv, NH):
    import torch

    q, k, v = (torch.from_numpy(part.copy()) for part in _split(qkv, 3, NH))
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    s += torch.full(s.shape[-2:], -math.inf).triu(1)
    return (s.softmax(-1) @ v).transpose(1, 2).reshape(*qkv.shape[:2], -1).numpy()


# ------------------------------------------------------------------- slips that no list of the lesson knows by name


@wrong("attention_forward", says="with each token's own key masked too, except for the first's")
def forward_that_looks_at_the_past_alone(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    T = q.shape[2]
    mask = np.tril(np.ones((T, T), bool), k=-1)
    mask[0, 0] = True  # the first token has nothing else to look at
    p = _softmax(np.where(mask, q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5, -np.inf))
    return _merge(p @ v), p


@wrong("attention_forward", says="all else is right. Our solution has the division by `hs ** 0.5`")
def forward_scaled_after_the_softmax(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    scores = np.where(_seen(q.shape[2]), q @ k.swapaxes(-1, -2), -np.inf)
    p = _softmax(scores) / q.shape[-1] ** 0.5
    return _merge(p @ v), p


@wrong("attention_forward", says="without the end of the slice `:1` in `_merge(p[:, :1] @ v)`")
def forward_mixes_all_heads_by_the_first(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    p = _softmax(np.where(_seen(q.shape[2]), q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5, -np.inf))
    return _merge(p[:, :1] @ v), p


@wrong("attention_softmax_backward", says="D = (p[b, n, i] * dp[b, n, i]).sum()` in the other order")
def softmax_backward_with_the_sum_of_the_row_before(dp, p):
    ds = np.zeros_like(p)
    for b, n in np.ndindex(p.shape[:2]):
        D = 0.0
        for i in range(p.shape[2]):
            ds[b, n, i] = p[b, n, i] * (dp[b, n, i] - D)
            D = (p[b, n, i] * dp[b, n, i]).sum()
    return ds


def _backward_with(dout, qkv, p, NH, gradient):
    (q, k, v), (do,) = _split(qkv, 3, NH), _split(dout, 1, NH)
    ds = gradient(do @ v.swapaxes(-1, -2), do, v) * q.shape[-1] ** -0.5
    parts = (ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ do)
    return np.concatenate([_merge(part) for part in parts], -1)


@wrong("attention_backward", says="the reference with D = sum(dout · v)")
def backward_with_d_from_v(dout, qkv, probabilities, NH):
    p = probabilities
    return _backward_with(dout, qkv, p, NH, lambda dp, do, v: p * (dp - (do * v).sum(-1, keepdims=True)))


@wrong("attention_backward", says="the reference without its diagonal")
def backward_with_a_masked_diagonal(dout, qkv, probabilities, NH):
    p = probabilities
    return _backward_with(dout, qkv, p, NH, lambda dp, do, v: np.tril(p * (dp - (p * dp).sum(-1, keepdims=True)), -1))


@wrong("attention_backward", says="dq equals the reference with dscores that are the reference applied twice")
def backward_through_two_softmaxes(dout, qkv, probabilities, NH):
    p = probabilities
    step = lambda g: p * (g - (p * g).sum(-1, keepdims=True))  # noqa: E731
    return _backward_with(dout, qkv, p, NH, lambda dp, do, v: step(step(dp)))


@wrong("attention_backward", says="dv equals the reference with dscores, not yet scaled, instead of the probabilities")
def backward_of_the_values_through_the_scores(dout, qkv, probabilities, NH):
    B, T, C = dout.shape
    heads = lambda a: a.reshape(B, T, NH, C // NH).transpose(0, 2, 1, 3)  # noqa: E731
    q, k, v = map(heads, np.split(qkv, 3, -1))
    g = heads(dout)
    dp = g @ v.swapaxes(-1, -2)
    ds = probabilities * (dp - (dp * probabilities).sum(-1, keepdims=True))
    scale = (C // NH) ** -0.5
    parts = [ds @ k * scale, ds.swapaxes(-1, -2) @ q * scale, ds.swapaxes(-1, -2) @ g]
    return np.stack(parts, axis=2).transpose(0, 3, 2, 1, 4).reshape(B, T, 3 * C)


@wrong("attention_backward", says="channel c given to head c mod NH")
def backward_deals_channels_out(dout, qkv, probabilities, NH):
    B, T, C = dout.shape
    hs = C // NH
    q, k, v = qkv.reshape(B, T, 3, hs, NH).transpose(2, 0, 4, 1, 3)
    do = dout.reshape(B, T, hs, NH).transpose(0, 3, 1, 2)
    p = probabilities
    pT = np.swapaxes(p, -1, -2)
    dv = pT @ do
    dp = do @ np.swapaxes(v, -1, -2)
    ds = hs**-0.5 * p * (dp - (p * dp).sum(-1, keepdims=True))
    dq, dk = ds @ k, np.swapaxes(ds, -1, -2) @ q
    return np.stack([dq, dk, dv], 2).transpose(0, 3, 2, 4, 1).reshape(B, T, 3 * C)


@wrong("lean_attention_forward", says="rows from 192 on, which are 0")
def lean_without_the_last_block(qkv, NH):
    B, T, C = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    q, k, v = qkv.reshape(B, T, 3, NH, C // NH).transpose(2, 0, 3, 1, 4)
    out = np.zeros((B, T, NH, C // NH), qkv.dtype)
    for n in range(T // 64):
        rows, end = slice(64 * n, 64 * n + 64), 64 * n + 64
        s = q[:, :, rows] @ k[:, :, :end].swapaxes(-1, -2) / np.sqrt(C // NH, dtype=qkv.dtype)
        s[..., np.arange(end) > np.arange(64 * n, end)[:, None]] = -np.inf
        e = np.exp(s - s.max(-1, keepdims=True))
        out[:, rows] = (e / e.sum(-1, keepdims=True) @ v[:, :, :end]).transpose(0, 2, 1, 3)
    return out.reshape(B, T, C)


@wrong("lean_attention_forward", says="the rows from 192 on, which are 0")
def lean_whole_blocks_only(qkv, NH):
    B, T, C3 = qkv.shape
    C = C3 // 3
    hs = C // NH
    q, k, v = qkv.reshape(B, T, 3, NH, hs).transpose(2, 0, 3, 1, 4)
    out = np.zeros((B, T, NH, hs), np.float32)
    step = min(16, T)
    for n in range(T // step):
        a, z = n * step, (n + 1) * step
        s = q[:, :, a:z] @ k[:, :, :z].swapaxes(-1, -2) * np.float32(hs**-0.5)
        s = np.where(np.arange(z) > np.arange(a, z)[:, None], np.float32(-np.inf), s)
        e = np.exp(s - s.max(-1, keepdims=True))
        out[:, a:z] = (e / e.sum(-1, keepdims=True) @ v[:, :, :z]).swapaxes(1, 2)
    return out.reshape(B, T, C)


def _key_by_key(qkv, NH, forgets):
    """Attention, one key after the other; forgets: what is not multiplied when the maximum grows."""
    B, T, C = *qkv.shape[:2], qkv.shape[2] // 3
    q, k, v = (part.reshape(B, T, NH, -1).swapaxes(1, 2) for part in np.split(qkv, 3, axis=2))
    scores = np.einsum("bhic,bhjc->bhij", q, k) * (C // NH) ** -0.5 + np.where(np.tri(T), 0, -np.inf)
    scores = scores.astype(qkv.dtype)
    top = scores[..., 0]
    total, mixed = np.zeros_like(top), np.zeros_like(q)
    for j in range(T):
        higher = np.maximum(top, scores[..., j])
        shrink, weight = np.exp(top - higher), np.exp(scores[..., j] - higher)
        total = total * (1 if "sum" in forgets else shrink) + weight
        mixed = mixed * (1 if "mixture" in forgets else shrink[..., None]) + weight[..., None] * v[:, :, j, None]
        top = higher
    out = (mixed / total[..., None]).swapaxes(1, 2).reshape(B, T, C)
    return out, np.exp(scores - top[..., None]) / total[..., None]


@right("attention_forward")
def forward_key_by_key(qkv, NH):
    return _key_by_key(qkv, NH, ())


@wrong("attention_forward", says="the reference with a running mixture of the values not adjusted")
def forward_key_by_key_with_an_old_mixture(qkv, NH):
    return _key_by_key(qkv, NH, ("mixture",))


@wrong("attention_forward", says="the reference with a running sum of exponentials not adjusted")
def forward_key_by_key_with_an_old_sum(qkv, NH):
    return _key_by_key(qkv, NH, ("sum",))


@wrong("attention_forward", says="the reference with 1/√(3·hs) as its scale")
def forward_with_the_width_of_all_three(qkv, NH):
    B, T, width = qkv.shape
    q, k, v = np.moveaxis(qkv.reshape(B, T, 3, NH, width // 3 // NH), (2, 3), (0, 2))
    scores = q @ np.swapaxes(k, 2, 3) * (width // NH) ** -0.5
    scores[..., ~np.tri(T, dtype=bool)] = -np.inf
    p = np.exp(scores - np.max(scores, axis=3, keepdims=True))
    p = p / np.sum(p, axis=3, keepdims=True)
    return np.moveaxis(p @ v, 1, 2).reshape(B, T, width // 3), p


@wrong("lean_attention_forward", says="out holds NaN or infinity for large scores")
def lean_with_one_maximum_for_all_heads(qkv, NH):
    B, T, width = qkv.shape
    q, k, v = (part.reshape(B, T, NH, -1).swapaxes(1, 2) for part in np.split(qkv, 3, axis=2))
    out = np.empty_like(q)
    for a in range(0, T, 32):
        z = min(a + 32, T)
        s = q[:, :, a:z] @ k[:, :, :z].swapaxes(2, 3) / q.dtype.type(q.shape[3] ** 0.5)
        s[..., np.arange(z) > np.arange(a, z)[:, None]] = -np.inf
        e = np.exp(s - s.max(axis=(1, 3), keepdims=True))
        out[:, :, a:z] = e @ v[:, :, :z] / e.sum(axis=3, keepdims=True)
    return out.swapaxes(1, 2).reshape(B, T, width // 3)


@wrong("attention_scores", says="where the score is 0: a score of 0 is a score like any other")
def scores_of_0_are_taken_for_the_future(q, k):
    s = np.tril(q @ k.T / q.shape[1] ** 0.5)
    s[s == 0] = -np.inf
    return s


@wrong("attention_forward", says="what is new here: a query of zeros")
def forward_takes_0_for_the_future(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    s = np.tril(q @ k.swapaxes(-1, -2) * qkv.dtype.type(q.shape[-1] ** -0.5))
    p = _softmax(np.where(s == 0, qkv.dtype.type(-np.inf), s))
    return _merge(p @ v), p


@wrong("attention_forward", says="`1e+30 * (1 - see)` in place of `10000.0 * (1 - see)`")
def forward_with_a_finite_mask_subtracted(qkv, NH):
    B, T, C3 = qkv.shape
    C = C3 // 3
    hs = C // NH
    q, k, v = qkv.reshape(B, T, 3, NH, hs).transpose(2, 0, 3, 1, 4)
    see = np.tril(np.ones((T, T), qkv.dtype))
    scores = q @ k.swapaxes(-1, -2) / hs**0.5
    scores = scores * see - 1e4 * (1 - see)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return (p @ v).transpose(0, 2, 1, 3).reshape(B, T, C), p


@wrong("attention_backward", says="with sums over the heads, too: every head has a sum of its own")
def backward_with_one_sum_for_all_heads(dout, qkv, probabilities, NH):
    B, T, C = dout.shape
    hs = C // NH
    q, k, v = (part.reshape(B, T, NH, hs) for part in np.split(qkv, 3, axis=2))
    do, p = dout.reshape(B, T, NH, hs), probabilities
    dp = np.einsum("bihd,bjhd->bhij", do, v)
    D = np.einsum("bhij,bhij->bi", p, dp)[:, None, :, None]
    ds = p * (dp - D) * qkv.dtype.type(hs**-0.5)
    dq, dk = np.einsum("bhij,bjhd->bihd", ds, k), np.einsum("bhij,bihd->bjhd", ds, q)
    dv = np.einsum("bhij,bihd->bjhd", p, do)
    return np.stack([dq, dk, dv], axis=2).reshape(B, T, 3 * C)


@wrong("attention_backward", says="dscores that are the reference without its diagonal: a token looks at itself, too")
def backward_without_the_diagonal_of_a_mask(dout, qkv, probabilities, NH):
    B, T, C = dout.shape
    (q, k, v), (do,) = _split(qkv, 3, NH), _split(dout, 1, NH)
    past, p = np.tril(np.ones((T, T), dtype=bool), k=-1), probabilities
    dp = do @ v.swapaxes(-1, -2)
    ds = np.where(past, p * (dp - (p * dp).sum(-1, keepdims=True)), 0) / (C // NH) ** 0.5
    parts = ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ do
    return np.concatenate([_merge(part) for part in parts], axis=-1)


@wrong(
    "lean_attention_forward",
    says="in blocks of 64 keys gives if the mixture so far is multiplied by e to the power of (new",
)
def lean_rescales_with_the_wrong_sign(qkv, NH, by=64, sign=-1):
    q, k, v = _split(qkv, 3, NH)
    out = np.empty_like(q)
    for i in range(0, q.shape[2], by):
        rows = q[:, :, i : i + by] * np.float32(q.shape[-1] ** -0.5)
        top = np.full((*rows.shape[:3], 1), -np.inf, np.float32)
        total, mixed = np.zeros_like(top), np.zeros_like(rows)
        for j in range(0, i + rows.shape[2], by):
            s = rows @ k[:, :, j : j + by].swapaxes(-1, -2)
            if j == i:
                s[..., np.triu(np.ones(s.shape[-2:], bool), 1)] = -np.inf
            new = np.maximum(top, s.max(axis=-1, keepdims=True))
            old = np.exp(sign * (top - new)) if j else np.float32(0)
            e = np.exp(s - new)
            total, mixed = total * old + e.sum(-1, keepdims=True), mixed * old + e @ v[:, :, j : j + by]
            top = new
        out[:, :, i : i + by] = mixed / total
    return _merge(out)


@wrong("lean_attention_forward", says="Query 160 makes no use of keys 0 to 31")
def lean_with_a_window(qkv, NH):
    (q, k, v), pieces = _split(qkv, 3, NH), []
    for start in range(0, q.shape[2], 32):
        stop, first = min(start + 32, q.shape[2]), max(0, start - 128)
        s = q[:, :, start:stop] @ k[:, :, first:stop].swapaxes(-1, -2) / np.float32(q.shape[-1]) ** np.float32(0.5)
        s[:, :, np.arange(start, stop)[:, None] < np.arange(first, stop)] = -np.inf
        pieces.append(_softmax(s) @ v[:, :, first:stop])
    return _merge(np.concatenate(pieces, axis=2))


@wrong("lean_attention_forward", says="in a smaller call: `q * np.float32(hs ** (-0.5)) @ k.T` (130, 130) float32")
def lean_head_by_head(qkv, NH):
    B, T, C = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    hs = C // NH
    out = np.empty((B, T, C), np.float32)
    for b in range(B):
        for h in range(NH):
            q, k, v = (qkv[b, :, p * C + h * hs : p * C + (h + 1) * hs] for p in range(3))
            s = (q * np.float32(hs**-0.5)) @ k.T
            for i in range(T):
                s[i, i + 1 :] = -np.inf
            s -= s.max(axis=1, keepdims=True)
            np.exp(s, out=s)
            s /= s.sum(axis=1, keepdims=True)
            np.matmul(s, v, out=out[b, :, h * hs : (h + 1) * hs])
    return out


@wrong("attention_scores", says="scores holds NaN. `np.sqrt(-hs)` is NaN")
def scores_with_the_root_of_a_negative(q, k):
    T, hs = q.shape
    scores = q @ k.T / np.sqrt(-hs)
    return np.where(np.tri(T, dtype=bool), scores, -np.inf)


@wrong("attention_backward", says="without the division by `p` in")
def backward_divides_by_p(dout, qkv, probabilities, NH):
    B, T, C = dout.shape
    hs = C // NH
    q, k, v = qkv.reshape(B, T, 3, NH, hs).transpose(2, 0, 3, 1, 4)
    do = dout.reshape(B, T, NH, hs).transpose(0, 2, 1, 3)
    p = probabilities
    dp = do @ v.swapaxes(-1, -2)
    ds = p * dp / p - p * (p * dp).sum(-1, keepdims=True)
    ds = ds * hs**-0.5
    dq, dk, dv = ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ do
    d = np.stack([dq, dk, dv]).transpose(1, 3, 0, 2, 4).reshape(B, T, 3 * C)
    return d.astype(qkv.dtype)


@wrong("lean_attention_forward", says="divided by the sum over all heads: each row has a sum of its own")
def lean_with_a_sum_over_all_heads(qkv, NH):
    B, T, C = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    hs = C // NH
    q, k, v = qkv.reshape(B, T, 3, NH, hs).transpose(2, 0, 3, 1, 4)
    out = np.empty((B, T, NH, hs), qkv.dtype)
    for i in range(T):
        s = (k[:, :, : i + 1] @ q[:, :, i, :, None])[..., 0] * hs**-0.5  # (B, NH, i + 1)
        s -= s.max(axis=-1, keepdims=True)
        np.exp(s, out=s)
        s /= s.sum()
        out[:, i] = (s[:, :, None] @ v[:, :, : i + 1])[:, :, 0]
    return out.reshape(B, T, C)


@wrong("lean_attention_forward", says="queries 0 … 49 are right. Query 50, the first wrong one, looks at no later key")
def lean_with_another_scale_later(qkv, NH):
    B, T, C = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    hs = C // NH
    q, k, v = qkv.reshape(B, T, 3, NH, hs).transpose(2, 0, 3, 1, 4)
    out = np.empty((B, T, NH, hs), qkv.dtype)
    for i in range(T):
        s = (k[:, :, : i + 1] @ q[:, :, i, :, None])[..., 0] * (hs if i < 50 else hs + 2) ** -0.5
        s -= s.max(axis=-1, keepdims=True)
        np.exp(s, out=s)
        s /= s.sum(axis=-1, keepdims=True)
        out[:, i] = (s[:, :, None] @ v[:, :, : i + 1])[:, :, 0]
    return out.reshape(B, T, C)


@wrong("attention_scores", says="without the division by `root` in `q / root`")
def scores_with_both_divided_by_the_root(q, k):
    T, hs = q.shape
    root = np.sqrt(hs).astype(q.dtype)
    q, k = (q / root, k / root)
    return np.where(np.tril(np.ones((T, T), bool)), q @ k.T, -np.inf).astype(q.dtype)


@wrong("attention_scores", says="q · k divided by 2 · hs")
def scores_by_hs_and_by_two(q, k):
    T, hs = q.shape
    scores = q @ k.T / hs**1 / 2
    scores[np.triu_indices(T, k=1)] = -np.inf
    return scores


@wrong("attention_scores", says="q · k divided by the length of q")
def scores_by_the_length_of_the_query(q, k):
    T = len(q)
    size = np.sqrt(np.sum(q * q, axis=1, keepdims=True))
    dots = np.einsum("ic,jc->ij", q, k) / size
    i, j = np.indices((T, T))
    return np.where(j > i, -np.inf, dots)


@wrong("attention_scores", says="in every column but the first")
def scores_masked_in_the_rows_below(q, k):
    T, hs = q.shape
    scores = q.dot(k.T) * hs**-0.5
    for i in range(T):
        scores[i:, i + 1 :] = -np.inf
    return scores


@wrong("lean_attention_forward", says="the last block of 32 keys alone: no key before it counts")
def lean_of_the_keys_of_its_own_block(qkv, NH):
    q, k, v = _split(qkv, 3, NH)
    T, out = q.shape[2], np.empty_like(q)
    for start in range(0, T, 32):
        rows = slice(start, min(start + 32, T))
        s = q[:, :, rows] @ k[:, :, rows].swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5)
        out[:, :, rows] = _softmax(np.where(_seen(s.shape[-1]), s, np.float32(-np.inf))) @ v[:, :, rows]
    return _merge(out)


@wrong("attention_backward", says="with `0` alone in place of `max(0, i - 15)`")
def backward_of_the_last_16_keys(dout, qkv, probabilities, NH):
    B, T, C = dout.shape
    hs = C // NH
    dqkv = np.zeros_like(qkv)
    for b in range(B):
        for h in range(NH):
            Q, K, V = (slice(n * C + h * hs, n * C + (h + 1) * hs) for n in range(3))
            do, p = dout[b, :, h * hs : (h + 1) * hs], probabilities[b, h]
            for i in range(T):
                first = max(0, i - 15)
                seen, shares = slice(first, i + 1), p[i, first : i + 1]
                dqkv[b, seen, V] += shares[:, None] * do[i]
                dp = qkv[b, seen, V] @ do[i]
                ds = shares * (dp - shares @ dp) / math.sqrt(hs)
                dqkv[b, i, Q] += ds @ qkv[b, seen, K]
                dqkv[b, seen, K] += ds[:, None] * qkv[b, i, Q]
    return dqkv


@wrong("attention_softmax_backward", says="with the mean of dp over the keys seen instead of the sum of p · dp")
def softmax_of_centred_gradients(dp, p):
    ds = np.zeros_like(p)
    for i in range(p.shape[-1]):
        grad = dp[:, :, i, : i + 1]
        ds[:, :, i, : i + 1] = p[:, :, i, : i + 1] * (grad - grad.mean(axis=-1, keepdims=True))
    return ds


@wrong("attention_softmax_backward", says="that is the backward pass of the logarithm of the softmax")
def softmax_as_if_of_its_logarithm(dp, p):
    return dp - p * dp.sum(axis=-1, keepdims=True)


@wrong("lean_attention_forward", says="Where it holds most, its names hold `weights` (")
def lean_with_a_list_of_all_blocks(qkv, NH):
    B, T, C = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    hs = C // NH
    q, k, v = qkv.reshape(B, T, 3, NH, hs).transpose(2, 0, 3, 1, 4)
    mask = np.triu(np.full((64, 64), -np.inf, np.float32), k=1)
    weights = []
    for start in range(0, T, 64):
        stop = min(start + 64, T)
        s = (q[:, :, start:stop] * hs**-0.5) @ k[:, :, :stop].swapaxes(-1, -2)
        s[..., start:] += mask[: stop - start, : stop - start]
        s -= s.max(axis=-1, keepdims=True)
        np.exp(s, out=s)
        s /= s.sum(axis=-1, keepdims=True)
        weights.append(s)
    out = np.concatenate([p @ v[:, :, : p.shape[-1]] for p in weights], axis=2)
    return out.transpose(0, 2, 1, 3).reshape(B, T, C)


@wrong("attention_softmax_backward", says="`slice(0, t + 1)` in place of `slice(0, t)`")
def softmax_of_the_past_without_itself(dp, p):
    T = p.shape[-1]
    ds = np.zeros_like(p)
    for t in range(T):
        past = slice(0, t)  # the keys that query t sees
        probs, grads = p[:, :, t, past], dp[:, :, t, past]
        D = (probs * grads).sum(axis=-1, keepdims=True)
        ds[:, :, t, past] = probs * (grads - D)
    return ds


@wrong("attention_softmax_backward", says="part of ds was never written")
def softmax_backward_of_the_past_alone(dp, p):
    """Only the lower triangle: the future has probability 0."""
    ds = np.empty_like(p)
    for t in range(p.shape[2]):
        row, grad = p[:, :, t, : t + 1], dp[:, :, t, : t + 1]
        D = (row * grad).sum(-1)[:, :, None]
        ds[:, :, t, : t + 1] = row * (grad - D)
    return ds


@wrong("attention_backward", says="with 1/hs as its scale, in all")
def backward_divides_by_hs(dout, qkv, probabilities, NH):
    B, T, C = dout.shape
    hs = C // NH
    q, k, v = qkv.reshape(B, T, 3, NH, hs).transpose(2, 0, 3, 1, 4)
    do = dout.reshape(B, T, NH, hs).transpose(0, 2, 1, 3)
    p = probabilities
    dv = p.swapaxes(-1, -2) @ do
    dp = do @ v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    dq = ds @ k / hs
    dk = ds.swapaxes(-1, -2) @ q / hs
    parts = [part.transpose(0, 2, 1, 3).reshape(B, T, C) for part in (dq, dk, dv)]
    return np.concatenate(parts, axis=-1)


@wrong("lean_attention_forward", says="no key before it counts")
def lean_overwrites_the_blocks_before(qkv, NH):
    B, T, C = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    hs = C // NH
    q, k, v = qkv.reshape(B, T, 3, NH, hs).transpose(2, 0, 3, 1, 4)
    out = np.zeros((B, NH, T, hs), np.float32)
    n = 64
    for i in range(0, T, n):
        rows = np.arange(i, min(i + n, T))
        for j in range(0, i + n, n):
            cols = np.arange(j, min(j + n, T))
            s = q[:, :, rows] @ k[:, :, cols].swapaxes(-1, -2) * np.float32(hs**-0.5)
            s = np.where(cols > rows[:, None], np.float32(-np.inf), s)
            e = np.exp(s - s.max(-1, keepdims=True))
            out[:, :, rows] = e @ v[:, :, cols] / e.sum(-1, keepdims=True)
    return out.transpose(0, 2, 1, 3).reshape(B, T, C)


@wrong("lean_attention_forward", says="must be the largest of those that it sees")
def lean_with_the_largest_score_of_all_keys(qkv, NH):
    B, T, C3 = qkv.shape
    C = C3 // 3
    hs = C // NH
    q, k, v = qkv.reshape(B, T, 3, NH, hs).transpose(2, 0, 3, 1, 4)
    out = np.empty((B, T, NH, hs), np.float32)
    n = 32
    lower = np.tri(n, dtype=np.float32)
    for a in range(0, T, n):
        z = min(a + n, T)
        p = np.einsum("bhid,bhjd->bhij", q[:, :, a:z], k[:, :, :z], optimize=True)
        p *= hs**-0.5
        p -= p.max(axis=-1, keepdims=True)
        np.exp(p, out=p)
        p[..., a:z] *= lower[: z - a, : z - a]  # what lies in the future counts nothing
        p /= p.sum(axis=-1, keepdims=True)
        out[:, a:z] = (p @ v[:, :, :z]).transpose(0, 2, 1, 3)
    return out.reshape(B, T, C)
