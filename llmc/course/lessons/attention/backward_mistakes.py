"""Lesson 06: what each well-known mistake in the backward returns.

For each output, mistakes are {sentence after "out equals ": (array, where to look)}.
"""

import numpy as np

from llmc.course.lessons.attention.forward_mistakes import ALL_HEADS, MIXTURE, SCALE, SCORES, SOFTMAX, merge, split
from llmc.course.lessons.attention.references import forward, softmax, softmax_backward


def parts_of(dout, qkv, NH, p=None, ds=None):
    """[dq, dk, dv], (B, T, C) each, in float64; p or ds (B, NH, T, T) may be given, and wrong."""
    q, k, v = split(qkv, NH)  # (B, NH, T, hs) each
    (do,) = split(dout, NH, parts=1)  # (B, NH, T, hs)
    p = forward(qkv.astype(np.float64), NH).probabilities if p is None else p
    ds = softmax_backward(np.einsum("bhic,bhjc->bhij", do, v), p) if ds is None else ds
    scale = 1 / np.sqrt(q.shape[-1])
    dq, dk = np.einsum("bhij,bhjc->bhic", ds, k) * scale, np.einsum("bhij,bhic->bhjc", ds, q) * scale
    return [merge(part) for part in (dq, dk, np.einsum("bhij,bhic->bhjc", p, do))]


def softmax_backward_mistakes(dp, p) -> dict:
    """Known wrong dscores; dp, p (B, NH, T, T)."""
    dp, p = dp.astype(np.float64), p.astype(np.float64)
    both = (dp * p).sum(axis=-1, keepdims=True)  # (B, NH, T, 1)
    right = p * (dp - both)  # (B, NH, T, T)
    wrong = {
        "p · dp: the row's sum is not subtracted": p * dp,
        "dp minus the row's sum, not multiplied by p": dp - both,
        "p · (1 - p) · dp: only the diagonal of the Jacobian": p * (1 - p) * dp,
        "p · dp minus the row's sum: the sum is not multiplied by p": p * dp - both,
        "p · (dp + the row's sum): the sum is added": p * (dp + both),
        "the reference with the mean of p · dp instead of its sum": p * (dp - (dp * p).mean(-1, keepdims=True)),
        "the reference with the sum of dp alone instead of the sum of p · dp": p * (dp - dp.sum(-1, keepdims=True)),
        "the reference with the mean of dp instead of the sum of p · dp": p * (dp - dp.mean(-1, keepdims=True)),
        "the reference with the mean of dp over the keys seen instead of the sum of p · dp": p
        * (dp - np.tril(dp).sum(-1, keepdims=True) / np.arange(1, dp.shape[-1] + 1)[:, None]),
        "dp - p · (the row's sum of dp): that is the backward pass of the logarithm of the softmax": (
            dp - p * dp.sum(-1, keepdims=True)
        ),
        "dp - p · (its sum over the keys seen): that is the backward pass of the logarithm of the softmax": (
            np.tril(dp) - p * np.tril(dp).sum(-1, keepdims=True)
        ),
        "the reference with sums over the queries, axis -2": p * (dp - (dp * p).sum(axis=-2, keepdims=True)),
        "the reference with sums over the heads, too: every head has a sum of its own for each query": p
        * (dp - (dp * p).sum(axis=(-3, -1), keepdims=True)),
        "the reference with sums over the sequences, too: each has a sum of its own for each query": p
        * (dp - (dp * p).sum(axis=(0, -1), keepdims=True)),
        "the reference with one sum over the whole array: every row has a sum of its own": p * (dp - (dp * p).sum()),
        "the reference with row sums laid along the columns": p * (dp - both.swapaxes(-1, -2)),
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
    dq, dk, dv = parts_of(dout, qkv, NH)  # (B, T, C) each
    root = q.shape[-1] ** 0.5
    ds = softmax_backward(dp, p) / root  # (B, NH, T, T), scaled
    wrong = {"dq": {}, "dk": {}, "dv": {}}
    tables = {text: table for text, (table, _) in softmax_backward_mistakes(dp, p).items()}
    for text, table in tables.items():
        for name, part in zip(("dq", "dk"), parts_of(dout, qkv, NH, p, table)):
            wrong[name][f"the reference with dscores that are {text}"] = (part, SOFTMAX)
    of_v = p * (dp - (do * v).sum(axis=-1, keepdims=True))  # (B, NH, T, T)
    for name, part in zip(("dq", "dk"), parts_of(dout, qkv, NH, p, of_v)):
        wrong[name]["the reference with D = sum(dout · v): it is sum(dout · out), or sum(p · dp)"] = (part, SOFTMAX)
    of_keys = parts_of(dout, qkv, NH, p, softmax_backward(do @ k.swapaxes(-1, -2), p))  # dq, dk, dv: (B, T, C) each
    of_channels = "the reference with 1/√C as its scale: hs = C / NH channels are summed, not C"
    for name, part, other in zip(("dq", "dk"), (dq, dk), of_keys):
        wrong[name]["the reference with dp = dout @ kᵀ: dp comes from the values, dout @ vᵀ"] = (other, MIXTURE)
        wrong[name][of_channels] = (part / NH**0.5, SCALE)
    scale = "the reference without the scale 1/√hs"
    squared = "the reference with 1/hs as its scale, in all: it should be 1/√hs, once"
    wrong["dq"] |= {
        scale: (dq * root, SCORES),
        squared: (dq / root, SCORES),
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
        squared: (dk / root, SCORES),
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
        "the reference with dscores, not yet scaled, instead of the probabilities": (
            merge(ds.swapaxes(-1, -2) @ do) * root,
            MIXTURE,
        ),
        "the reference with dp instead of the probabilities": (merge(dp.swapaxes(-1, -2) @ do), MIXTURE),
        "the reference with v instead of dout": (merge(p.swapaxes(-1, -2) @ v), MIXTURE),
        "dq: the order is [dq, dk, dv]": (dq, ALL_HEADS),
    }
    for which, at in (("first", 0), ("last", -1)):
        for name, of, terms in (("dk", ds, q), ("dv", p, do)):  # what each query adds to every key
            one = merge(of[:, :, at, :, None] * terms[:, :, at, None])  # (B, T, C)
            wrong[name][f"the part of the {which} query alone: every query adds its part"] = (one, ALL_HEADS)
        one = merge(ds[:, :, :, at, None] * k[:, :, at, None])  # (B, T, C)
        wrong["dq"][f"the part of the {which} key alone: every key adds its part"] = (one, ALL_HEADS)
    _add_layouts(wrong, dout, qkv, NH)
    return wrong


def _add_layouts(wrong, dout, qkv, NH):
    """Add right numbers in the wrong order."""
    B, T, C = dout.shape
    hs = C // NH
    for name, part in zip(wrong, parts_of(dout, qkv, NH)):
        mixed = part.reshape(B, T, NH, hs).swapaxes(1, 2).reshape(B, T, C)
        wrong[name]["the reference with heads put back by reshape alone: (B, NH, T, hs) must become (B, T, NH, hs)"] = (
            mixed,
            ALL_HEADS,
        )
    parts = np.stack(parts_of(dout, qkv, NH))  # (3, B, T, C)
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
    deal = np.arange(C).reshape(hs, NH).T.ravel()  # (C,)   channels 0, NH, 2·NH, … come first
    dealt = np.concatenate([qkv[..., i * C + deal] for i in range(3)], axis=-1)  # (B, T, 3C)
    p = forward(qkv, NH).probabilities  # (B, NH, T, T)
    for name, part in zip(wrong, parts_of(dout[..., deal], dealt, NH, p)):
        wrong[name]["the reference with channel c given to head c mod NH: a head's channels lie side by side"] = (
            part[..., np.argsort(deal)],
            ALL_HEADS,
        )
    one_cut = {  # dv does not read qkv: with q, k and v cut otherwise it is right
        "qkv, but not dout, cut into heads": parts_of(dout, dealt, NH, p)[:2],
        "dout, but not qkv, cut into heads": parts_of(dout[..., deal], qkv, NH, p),
        "heads put back": [part[..., np.argsort(deal)] for part in parts_of(dout, qkv, NH)],
    }
    for words, parts in one_cut.items():
        for name, part in zip(wrong, parts):
            wrong[name][f"the reference with {words} as (hs, NH): it is (NH, hs)"] = (part, ALL_HEADS)
    torn = merge(dout.reshape(B, NH, T, hs))  # (B, T, C)
    for name, part in zip(wrong, parts_of(torn, qkv, NH)):
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
    parts = np.stack(parts_of(dout, read.reshape(B, T, 3 * C), NH, p), axis=2).reshape(B, T, 3, NH, -1)
    written = parts.swapaxes(2, 3) if order == "head" else parts[:, :, list(order)]  # swaps undo themselves
    return np.split(written.reshape(B, T, 3 * C), 3, axis=-1)
