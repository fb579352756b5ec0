"""Lesson 06: what attention should return, computed in float64, and what each well-known mistake returns instead.

References go head by head and row by row, and return the dtype of their input. For each output, mistakes are
{sentence after "out equals ": (array, where to look)}.
"""

from typing import NamedTuple

import numpy as np

from llmc.course.checks.explain import WrongAnswer

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
EXCHANGED = "with q and k exchanged where qkv is taken apart"
VERY_LOW = f"take each row's maximum after masking, over what the query may see, and mask with -np.inf; {MASK}"


class Forward(NamedTuple):
    """out (B, T, C), probabilities (B, NH, T, T)."""

    out: np.ndarray
    probabilities: np.ndarray


# ------------------------------------------------------------------------------------------------ references


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
    return np.concatenate(_parts(dout, qkv, NH), axis=-1).astype(qkv.dtype)


def _parts(dout, qkv, NH, p=None, ds=None):
    """[dq, dk, dv], (B, T, C) each, in float64; p or ds (B, NH, T, T) may be given, and wrong."""
    q, k, v = split(qkv, NH)  # (B, NH, T, hs) each
    (do,) = split(dout, NH, parts=1)  # (B, NH, T, hs)
    p = forward(qkv.astype(np.float64), NH).probabilities if p is None else p
    ds = softmax_backward(np.einsum("bhic,bhjc->bhij", do, v), p) if ds is None else ds
    scale = 1 / np.sqrt(q.shape[-1])
    dq, dk = np.einsum("bhij,bhjc->bhic", ds, k) * scale, np.einsum("bhij,bhic->bhjc", ds, q) * scale
    return [merge(part) for part in (dq, dk, np.einsum("bhij,bhic->bhjc", p, do))]


# ------------------------------------------------------------------------------- what may have been returned


def dtype_kept(name, got, like):
    """Raise WrongAnswer if got, made from the float32 input `like`, is a float64 array."""
    if like.dtype == np.float32 and isinstance(got, np.ndarray) and got.dtype == np.float64:
        raise WrongAnswer(
            f"for float32 inputs {name} should be float32 too, but is float64. `np.sqrt(hs)` is a float64 number that "
            "makes everything float64, and `hs**0.5` is not. np.full, np.zeros, np.ones and np.empty make float64 "
            "arrays unless you pass dtype=."
        )


def two_results(got, expected: Forward):
    """Return got if it may be the pair (out, probabilities); else raise WrongAnswer with a plain sentence."""
    if isinstance(got, np.ndarray):
        which = {x.shape: name for name, x in expected._asdict().items()}.get(got.shape, "an array")
        raise WrongAnswer(f"only {which} was returned, but the exercise needs two arrays: `return out, probabilities`.")
    if not isinstance(got, (tuple, list)) or len(got) != 2:
        return got
    if [np.shape(x) for x in got] == [expected.probabilities.shape, expected.out.shape]:
        raise WrongAnswer("the two results are in the wrong order: `return out, probabilities`.")
    B, T, C = expected.out.shape
    if np.shape(got[0]) == (B, T, C):
        return got
    hs = C // expected.probabilities.shape[1]
    if np.shape(got[0]) in ((B * C // hs, T, hs), (B * T * C // hs, hs)):
        raise WrongAnswer(
            f"out has shape {np.shape(got[0])}, expected {expected.out.shape}: the heads lie one after the other along "
            f"the first axis. Does np.concatenate lack its axis=-1?\n→ Where to look: {HEADS}."
        )
    return got


def three_parts(got, expected):
    """Raise WrongAnswer if dq, dk and dv were joined along the wrong axis; got should be dqkv (B, T, 3C)."""
    B, T, width = expected.shape
    along = {(3 * B, T, width // 3): "first axis", (B, 3 * T, width // 3): "token axis"}
    if np.shape(got) in along:
        raise WrongAnswer(
            f"dqkv has shape {np.shape(got)}, expected {expected.shape}: dq, dk and dv lie one after the other along "
            f"the {along[np.shape(got)]}. np.concatenate needs axis=-1 to put them side by side."
        )


def no_infinite_gradient(name, got, hidden=None):
    """Raise WrongAnswer if got holds infinity or NaN as it does when ds was masked with -inf.

    hidden: where exactly the -inf would be; None if a matmul has spread them.
    """
    if not isinstance(got, np.ndarray) or np.isfinite(got).all():
        return
    if hidden is None or (got.shape == hidden.shape and np.array_equal(got == -np.inf, hidden) and hidden.any()):
        holds = "NaN or infinity" if hidden is None else "-inf for future keys"
        raise WrongAnswer(
            f"{name} holds {holds}. Were the gradients of the scores masked with -inf? Where p is 0, ds = p · (dp - D) "
            f'is 0 already, so the backward pass needs no mask.\n→ Where to look: {SOFTMAX}, "And the mask?".'
        )


# ------------------------------------------------------------------------------------- exercise 1: the scores


def without_future(got, expected):
    """Return got with 0 in place of the -inf of future keys, or raise WrongAnswer that says how the mask is wrong.

    Anything but an array of the right shape is returned unchanged: `compare` explains it.
    """
    if not isinstance(got, np.ndarray) or got.shape != expected.shape:
        return got
    right = seen(len(got))  # (T, T)
    if np.isnan(got).any():
        raise WrongAnswer(
            "scores holds NaN: 0 · ∞ is NaN, so you cannot multiply a mask of 0 and 1 by -np.inf. Let np.where choose "
            f"between the score and -np.inf.\n→ Where to look: {HEAD}."
        )
    sentence = _mask_mistake(got == -np.inf, got, right)
    if sentence:
        raise WrongAnswer(f"{sentence}.\n→ Where to look: {MASK}.")
    return np.where(right, got, 0).astype(got.dtype)


def _mask_mistake(hidden, got, right):
    """What is wrong with hidden (T, T), where got is -inf; None if it is exactly the future."""
    if np.array_equal(hidden, ~right):
        return None
    future = got[~right]
    if len(got) > 1 and (got >= 0).all() and np.allclose(got.sum(axis=-1), 1, atol=1e-3):
        return "scores holds shares, because every row adds up to 1: return the scores themselves, before the softmax"
    if np.array_equal(hidden, ~right.T):
        return "scores has the past masked instead of the future: row t may look at columns 0 … t"
    if np.array_equal(hidden, np.triu(np.ones_like(right))):
        return "scores has its diagonal masked too: a token may look at itself (and the first has nothing else)"
    if np.array_equal(hidden, ~others_only(len(got))):
        return "scores has its diagonal masked too, from row 1 on: a token may look at itself"
    if np.array_equal(hidden, np.triu(np.ones_like(right), 2)):
        return "scores lets each token see the next one: the mask begins one column too late"
    if hidden.any():
        i, j = np.argwhere(hidden == right)[0]
        return f"scores is {got[i, j]:.6g} at [{i}, {j}]: -inf belongs where column j > row i, and nowhere else"
    if (future == 0).all():
        return "scores is 0 for future keys: e to the power of 0 is 1, so they would still get a share; use -inf"
    if (future == future[0]).all() and future[0] < 0:
        return f"scores is {future[0]:g} for future keys: use -np.inf, whose share is always exactly 0"
    return "scores is not masked: put -inf where the key comes after the query (column > row)"


def scores_mistakes(q, k) -> dict:
    """Known wrong scores, with 0 in the future (as `without_future` leaves them)."""
    T, hs = q.shape
    products = q @ k.T  # (T, T)
    wrong = {
        "q · k not divided by √hs": products,
        "q · k divided by hs: divide by its root": products / hs,
        "q · k multiplied by √hs: divide by it": products * hs**0.5,
        "q · k divided by √T: the sum runs over hs channels": products / T**0.5,
    }
    both = {
        "the scores transposed: rows are queries, columns are keys": (products.T / hs**0.5, ALL_QUERIES),
        "the products of queries with queries: k is missing": (q @ q.T / hs**0.5, QUERY),
        "the products of keys with keys: q is missing": (k @ k.T / hs**0.5, QUERY),
    }
    all_ = {text: (array, SCALE) for text, array in wrong.items()} | both
    return {text: (np.where(seen(T), array, 0), where) for text, (array, where) in all_.items()}


# ------------------------------------------------------------------------------------ exercise 2: the forward


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
        "the reference with 1/hs as its scale: the root is missing": (softmax(hide(s / hs)), SCALE),
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
    by_p |= {
        "the heads' outputs reshaped without moving the head axis back: (B, NH, T, hs) must become (B, T, NH, hs)": (
            mixed.reshape(B, T, C),
            HEADS,
        ),
        "the reference with each row of the output in the order (hs, NH)": (
            mixed.transpose(0, 2, 3, 1).reshape(B, T, C),
            HEADS,
        ),
        "the reference with the probabilities transposed in front of v": (merge(right.swapaxes(-1, -2) @ v), HEAD),
        "the mixture of the keys: mix the values": (merge(right @ k), HEAD),
        "the mixture of the queries: mix the values": (merge(right @ q), HEAD),
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


def forward_of(parts) -> Forward:
    """out and probabilities from (q, k, v), (B, NH, T, hs) each."""
    return forward(np.concatenate([merge(part) for part in parts], axis=-1), parts[0].shape[1])


def _layouts(qkv, NH) -> dict:
    """{sentence: (q, k, v) (B, NH, T, hs) each}: ways to cut qkv that fit and are wrong."""
    B, T, width = qkv.shape
    hs = width // 3 // NH
    q, k, v = split(qkv, NH)
    thirds = [qkv[..., i * NH * hs : (i + 1) * NH * hs] for i in range(3)]  # (B, T, C) each
    return {
        "the reference with heads cut by reshape(B, NH, T, hs) alone: that mixes tokens": [
            third.reshape(B, NH, T, hs) for third in thirds
        ],
        "the reference with qkv read as [q, k, v] of head 0, then of head 1, …: all of Q comes first": list(
            qkv.reshape(B, T, NH, 3, hs).transpose(3, 0, 2, 1, 4)
        ),
        "the reference with channel c given to head c mod NH: a head's channels lie side by side": [
            third.reshape(B, T, hs, NH).transpose(0, 3, 1, 2) for third in thirds
        ],
        "the reference with queries and keys swapped: qkv is [Q, K, V]": [k, q, v],
        "the reference with qkv read as [V, K, Q]": [v, k, q],
        "the reference with qkv read as [Q, V, K]": [q, v, k],
        "the reference with q, k and v taken from every third channel: they are three blocks": [
            qkv[..., i::3].reshape(B, T, NH, hs).transpose(0, 2, 1, 3) for i in range(3)
        ],
    }


# ------------------------------------------------------------------------- exercises 3 and 4: the backward


def softmax_backward_mistakes(dp, p) -> dict:
    """Known wrong dscores; dp, p (B, NH, T, T)."""
    dp, p = dp.astype(np.float64), p.astype(np.float64)
    both = (dp * p).sum(axis=-1, keepdims=True)  # (B, NH, T, 1)
    right = p * (dp - both)  # (B, NH, T, T)
    wrong = {
        "p · dp: the row's sum is not subtracted": p * dp,
        "dp minus the row's sum, not multiplied by p": dp - both,
        "p · (1 - p) · dp: only the diagonal of the Jacobian, as if the shares did not compete": p * (1 - p) * dp,
        "p · dp minus the row's sum: subtract it before you multiply by p": p * dp - both,
        "p · (dp + the row's sum): subtract the sum": p * (dp + both),
        "the reference with the mean of p · dp instead of its sum": p * (dp - (dp * p).mean(-1, keepdims=True)),
        "the reference with the sum of dp alone instead of the sum of p · dp": p * (dp - dp.sum(-1, keepdims=True)),
        "the reference with the mean of dp instead of the sum of p · dp": p * (dp - dp.mean(-1, keepdims=True)),
        "the reference with sums over the queries, axis -2": p * (dp - (dp * p).sum(axis=-2, keepdims=True)),
        "the reference with one sum over the whole array: every row has a sum of its own": p * (dp - (dp * p).sum()),
        "the reference with row sums laid along the columns: keepdims=True is missing": p
        * (dp - both.swapaxes(-1, -2)),
        "the softmax of dp": softmax(dp),
        "dp itself: the step through the softmax is missing": dp,
        "dp · (p - D): dp and p are swapped": dp * (p - both),
        "the reference applied twice": p * (right - (p * right).sum(axis=-1, keepdims=True)),
        "the reference without its diagonal: a token looks at itself, too": right * (1 - np.eye(p.shape[-1])),
    }
    return {text: (array, SOFTMAX) for text, array in wrong.items()}


def backward_mistakes(dout, qkv, NH) -> dict:
    """Known wrong dq, dk and dv, (B, T, C) each."""
    dout, qkv = dout.astype(np.float64), qkv.astype(np.float64)
    (q, k, v), (do,) = split(qkv, NH), split(dout, NH, parts=1)  # (B, NH, T, hs) each
    p = forward(qkv, NH).probabilities  # (B, NH, T, T)
    dp = do @ v.swapaxes(-1, -2)  # (B, NH, T, T)
    dq, dk, dv = _parts(dout, qkv, NH)  # (B, T, C) each
    root = q.shape[-1] ** 0.5
    ds = softmax_backward(dp, p) / root  # (B, NH, T, T), scaled
    wrong = {"dq": {}, "dk": {}, "dv": {}}
    tables = {text: table for text, (table, _) in softmax_backward_mistakes(dp, p).items()}
    for text, table in tables.items():
        for name, part in zip(("dq", "dk"), _parts(dout, qkv, NH, p, table)):
            wrong[name][f"the reference with dscores that are {text}"] = (part, SOFTMAX)
    of_v = p * (dp - (do * v).sum(axis=-1, keepdims=True))  # (B, NH, T, T)
    for name, part in zip(("dq", "dk"), _parts(dout, qkv, NH, p, of_v)):
        wrong[name]["the reference with D = sum(dout · v): it is sum(dout · out), or sum(p · dp)"] = (part, SOFTMAX)
    of_keys = _parts(dout, qkv, NH, p, softmax_backward(do @ k.swapaxes(-1, -2), p))  # dq, dk, dv: (B, T, C) each
    of_channels = "the reference with 1/√C as its scale: hs = C / NH channels are summed, not C"
    for name, part, other in zip(("dq", "dk"), (dq, dk), of_keys):
        wrong[name]["the reference with dp = dout @ kᵀ: dp comes from the values, dout @ vᵀ"] = (other, MIXTURE)
        wrong[name][of_channels] = (part / NH**0.5, SCALE)
    scale = "the reference without the scale 1/√hs"
    wrong["dq"] |= {
        scale: (dq * root, SCORES),
        "the reference with the scale applied twice": (dq / root, SCORES),
        "the reference with q instead of k": (merge(ds @ q), SCORES),
        "the reference with dscores transposed, or with q and k exchanged where qkv is taken apart": (
            merge(ds.swapaxes(-1, -2) @ k),
            SCORES,
        ),
        "dk: the two are in the wrong order": (dk, ALL_HEADS),
        "dv: the order is [dq, dk, dv]": (dv, ALL_HEADS),
    }
    wrong["dk"] |= {
        scale: (dk * root, SCORES),
        "the reference with the scale applied twice": (dk / root, SCORES),
        "the reference with dscores not transposed: key j collects from all queries i, down its column": (
            merge(ds @ q),
            SCORES,
        ),
        "the reference with k instead of q": (merge(ds.swapaxes(-1, -2) @ k), SCORES),
        "dq: the two are in the wrong order": (dq, ALL_HEADS),
    }
    wrong["dv"] |= {
        "the reference with the probabilities not transposed: value j collects from all queries i, down its column": (
            merge(p @ do),
            MIXTURE,
        ),
        "the reference with dscores instead of the probabilities": (merge(ds.swapaxes(-1, -2) @ do), MIXTURE),
        "the reference with dp instead of the probabilities": (merge(dp.swapaxes(-1, -2) @ do), MIXTURE),
        "the reference with v instead of dout": (merge(p.swapaxes(-1, -2) @ v), MIXTURE),
        "dq: the order is [dq, dk, dv]": (dq, ALL_HEADS),
    }
    _add_layouts(wrong, dout, qkv, NH)
    return wrong


def _add_layouts(wrong, dout, qkv, NH):
    """Add right numbers in the wrong order."""
    B, T, C = dout.shape
    hs = C // NH
    for name, part in zip(wrong, _parts(dout, qkv, NH)):
        mixed = part.reshape(B, T, NH, hs).swapaxes(1, 2).reshape(B, T, C)
        wrong[name]["the reference with heads put back by reshape alone: (B, NH, T, hs) must become (B, T, NH, hs)"] = (
            mixed,
            ALL_HEADS,
        )
    parts = np.stack(_parts(dout, qkv, NH))  # (3, B, T, C)
    per_head = parts.reshape(3, B, T, NH, hs).transpose(1, 2, 3, 0, 4).reshape(B, T, 3 * C)  # (B, T, 3C)
    per_channel = parts.transpose(1, 2, 3, 0).reshape(B, T, 3 * C)  # (B, T, 3C)
    first = "all of dq comes first, then all of dk, then all of dv"
    for i, name in enumerate(wrong):
        third = slice(i * C, (i + 1) * C)
        wrong[name][f"the reference with [dq, dk, dv] of head 0, then of head 1, …: {first}"] = (
            per_head[..., third],
            ALL_HEADS,
        )
        wrong[name][f"the reference with dq, dk and dv in every third channel: {first}"] = (
            per_channel[..., third],
            ALL_HEADS,
        )
    for words, axes in ORDERS.items():
        for name, part in zip(wrong, _in_order(dout, qkv, NH, axes)):
            wrong[name][f"the reference with qkv and dqkv in another order: {words}"] = (part, ALL_HEADS)
    torn = merge(dout.reshape(B, NH, T, hs))  # (B, T, C)
    for name, part in zip(wrong, _parts(torn, qkv, NH)):
        wrong[name]["the reference with dout cut into heads by reshape(B, NH, T, hs) alone: that mixes tokens"] = (
            part,
            ALL_HEADS,
        )


ORDERS = {  # how a row's (3, NH, hs) numbers may be taken apart and put together wrongly
    "a row holds all of Q, then all of K, then all of V, not the three parts of one head after another": "head",
    "a row is [Q, K, V], not [Q, V, K]": (0, 2, 1),
}


def _in_order(dout, qkv, NH, order):
    """(dq, dk, dv), each (B, T, C), of an answer that takes qkv apart, and puts dqkv together, in that order."""
    B, T, C = dout.shape
    if order == "head":
        read = qkv.reshape(B, T, NH, 3, -1).swapaxes(2, 3)  # (B, T, 3, NH, hs)
    else:
        read = qkv.reshape(B, T, 3, NH, -1)[:, :, list(order)]  # (B, T, 3, NH, hs)
    p = forward(qkv.astype(np.float64), NH).probabilities  # (B, NH, T, T): they are given
    parts = np.stack(_parts(dout, read.reshape(B, T, 3 * C), NH, p), axis=2).reshape(B, T, 3, NH, -1)
    written = parts.swapaxes(2, 3) if order == "head" else parts[:, :, list(order)]  # swaps undo themselves
    return np.split(written.reshape(B, T, 3 * C), 3, axis=-1)
