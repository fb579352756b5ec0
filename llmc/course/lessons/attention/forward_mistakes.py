"""Lesson 06: what each well-known mistake in the scores and in the forward returns.

For each output, mistakes are {sentence after "out equals ": (array, where to look)}.
"""

import numpy as np

from llmc.course.lessons.attention.references import Forward, forward, seen, softmax

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
UNSCALED = "the reference with a running {} not adjusted when the maximum grows"


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


def others_only(T):
    """(T, T) bool, a mistake: no query looks at its own key, except for the first, which has no other one."""
    return np.tril(np.ones((T, T), bool), -1) | (np.arange(T) + np.arange(T)[:, None] == 0)


def forward_of(parts) -> Forward:
    """out and probabilities from (q, k, v), (B, NH, T, hs) each."""
    return forward(np.concatenate([merge(part) for part in parts], axis=-1), parts[0].shape[1])


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
