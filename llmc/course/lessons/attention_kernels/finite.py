"""Lesson 16: outputs that hold NaN or infinities, and with which scores they do not."""

import numpy as np

from llmc.course.lessons.attention_kernels.places import EMPTY_PART, NO_NUMBER, NOT_FINITE
from llmc.course.lessons.attention_kernels.references import LOW
from llmc.course.old.kernel_checks.not_finite import FAR, Case, arguments, launched, profiles, refuse, told

SEEN = f"the keys that a query sees have a score of 0, and later ones {FAR:.0f}"
LEFT_OUT = "Later keys count neither in the largest score nor in a sum."


def softmax(name, got):
    """WrongAnswer unless p (heads, T, T) of masked_softmax is finite."""
    refuse(name, got, NOT_FINITE, lambda: told(name, 0, _of_scores(got)))


def attention(name, got, queries):
    """WrongAnswer unless out (heads, T, hs) of a flash forward is finite. queries: of a block."""
    refuse(name, got, NOT_FINITE, lambda: _without_a_key(name, got, queries), lambda: told(name, 0, _of_keys(got)))


def merged(name, got, known):
    """WrongAnswer unless out (rows, hs) of merge_parts is finite, or as one of the known mistakes has it."""
    with np.errstate(all="ignore"):
        if any(_alike(make(), got) for make, _ in known.values()):
            return
    given = arguments()
    empty = given is None or bool((np.asarray(given[2]) <= LOW).any())
    refuse(
        name,
        got,
        EMPTY_PART if empty else NO_NUMBER,
        lambda: _of_lanes(got),
        lambda: _of_parts(name),
        known="has numbers that are not finite",
    )


def _alike(array, got) -> bool:
    """Are both finite in the same places, in some, and close there?"""
    finite = np.isfinite(got)
    return (
        finite.any()
        and np.array_equal(np.isfinite(array), finite)
        and np.allclose(array[finite], got[finite], rtol=1e-3, atol=1e-5)
    )


def _of_scores(p):
    """Cases for scores (heads, T, T)."""
    T = p.shape[-1]
    later = np.triu(np.ones((T, T), bool), 1)  # (T, T)
    high = np.where(later, np.float32(FAR), np.float32(0)), LEFT_OUT
    for words, (scores, asked) in _second(profiles(T, idle=T < 32), high):
        yield Case(words, {2: np.array(np.broadcast_to(scores, p.shape), order="C")}, asked, np.ones(p.shape, bool))


def _of_keys(out):
    """Cases for q and k (heads, T, hs): one channel gives the scores, the same to every query."""
    T = out.shape[1]
    last = min(4, T - 1)  # of the keys whose later ones have the highest scores
    first = np.broadcast_to(np.arange(T)[:, None] <= last, out.shape)
    high = np.where(np.arange(T) > last, np.float32(FAR), np.float32(0)), LEFT_OUT
    for words, (scores, asked) in _second(profiles(T), high):
        yield Case(words, with_scores(out.shape, scores), asked, first if words == SEEN else np.ones(out.shape, bool))


def _second(cases, high):
    """The cases with that of later keys behind the first one: it fails with some of the others, which it explains."""
    (zero, at_zero), *rest = cases.items()
    return [(zero, at_zero), (SEEN, high), *rest]


def with_scores(shape, scores) -> dict:
    """{2: q, 3: k} (heads, T, hs) with these scores (T,) of the keys, whatever the query."""
    q, k = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    q[..., 0], k[..., 0] = np.sqrt(np.float32(shape[-1])), scores
    return {2: q, 3: k}


def _without_a_key(name, out, queries) -> str:
    """A sentence if just those queries are not finite whose block has a tile in which they see no key; else ""."""
    T = out.shape[1]
    t = np.arange(T)
    last = np.minimum(t // queries * queries + queries - 1, T - 1) // 32 * 32  # (T,) the first key of the last tile
    without = last > t  # (T,)
    after = launched(with_scores(out.shape, np.zeros(T, np.float32)))
    if after is None or not without.any() or not (np.isfinite(after[0]).all(axis=(0, 2)) == ~without).all():
        return ""
    return (
        f"Even if all scores are 0, {name} is not finite for just those queries whose block goes on to a tile in which "
        f"they see no key, the first of them query {int(np.argmax(without))}."
    )


def _of_lanes(got) -> str:
    """A sentence if just those channels are finite whose lanes have a part to look at, and all have keys; else "".

    got: (rows, hs).
    """
    top = np.asarray(arguments()[2])  # (rows, parts)
    looks = np.arange(got.shape[1]) % 32 < top.shape[1]  # (hs,)
    if (top <= LOW).any() or not np.array_equal(np.isfinite(got).all(axis=0), looks):
        return ""
    return f"Just the channels of lanes 0 to {top.shape[1] - 1} are finite, and there are {top.shape[1]} parts."


def _of_parts(name) -> str:
    """A sentence about what a part without keys must not have, if there is one and it alone is to blame; else ""."""
    given = arguments()
    top, total, sums = (np.array(given[k]) for k in (2, 3, 4))  # (rows, parts) twice, (rows, parts, hs)
    empty = top <= LOW  # (rows, parts)
    if not empty.any():
        return ""
    ordinary = np.where(empty, np.float32(0), top), np.where(empty, np.float32(1), total)

    def finite(top, total):
        after = launched({2: top, 3: total, 4: sums})
        return after is not None and bool(np.isfinite(after[0]).all())

    if not finite(*ordinary):
        return ""
    if finite(top, ordinary[1]):
        return f"{name} is finite as soon as the part without keys has a total of 1, not of 0."
    if finite(ordinary[0], total):
        return f"{name} is finite as soon as the part without keys has a top of 0, not of -3.4e38."
    return ""
