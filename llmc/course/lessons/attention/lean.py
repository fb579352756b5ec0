"""Lesson 06, exercise 5: what goes wrong when attention works in blocks."""

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from llmc.course.lessons.attention.heads import (
    ALL_QUERIES,
    MASK,
    forward,
    forward_mistakes,
    merge,
    seen,
    softmax,
    split,
)
from llmc.course.old.checks.contrast import outcome
from llmc.course.old.checks.evidence import is_explaining, last_call, learners_function
from llmc.course.old.checks.held import no_more_than  # noqa: F401, for the check
from llmc.course.old.checks.holding import said_of_names  # noqa: F401, for the check
from llmc.course.own_names import learners_names

EIGHT, HUGE = 8, 1e8
UNREAD = "no key before it counts"
# where to look; a test compares these titles with the headings of notebooks/06_attention.ipynb
ONLINE = 'lesson 06, section "5.3 · A first look at online softmax"'
RESCALE = f"{ONLINE}: it is right for falling scores"


def ramp(qkv, rising):
    """qkv (B, T, 3C) with its Q and K replaced: the scores of every query rise (or fall) steadily from key to key."""
    T, C = qkv.shape[1], qkv.shape[2] // 3
    qkv[..., :C] = 1
    qkv[..., C : 2 * C] = np.linspace(-5, 5, T)[:, None] * (1 if rising else -1)
    return qkv


BLOCKS = (1, 8, 16, 32, 64, 128)  # keys, that online softmax may be tried with
HOW = {  # (what becomes of the sum so far, of the mixture so far) when a larger maximum comes
    "e to the power of (new - old): the sign is turned around, it is (old - new)": (-1, -1),
    "nothing: both need e to the power of (old - new)": (0, 0),
    "nothing, and the sum by e to the power of (old - new): both need that factor": (1, 0),
    "the right factor, and the sum by nothing: both need e to the power of (old - new)": (0, 1),
}


def rescaling_mistakes(qkv, NH) -> dict:
    """Known wrong out (B, T, C) of online softmax in blocks of keys, where the sums so far are not rescaled rightly."""
    q, k, v = split(qkv, NH)  # (B, NH, T, hs) each
    T = q.shape[2]
    s = np.where(seen(T), q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5, -np.inf)  # (B, NH, T, T)
    known = {}
    for n in BLOCKS:
        for words, powers in HOW.items():
            what = f"what online softmax in blocks of {n} keys gives if the mixture so far is multiplied by {words}"
            known[what] = (lambda n=n, powers=powers: merge(_online(s, v, n, *powers)), ONLINE)
    return known


def _online(s, v, n, of_sum, of_mixture):
    """(B, NH, T, hs) from s (B, NH, T, T), n keys at a time; the powers of e^(old - new) that the sums are given."""
    top = np.full((*s.shape[:3], 1), -np.inf)
    total, mixture = np.zeros_like(top), np.zeros_like(v)
    with np.errstate(all="ignore"):
        for j in range(0, s.shape[3], n):
            new = np.maximum(top, s[..., j : j + n].max(axis=-1, keepdims=True))  # (B, NH, T, 1)
            growth = np.where(np.isfinite(top), top - new, 0)
            e = np.exp(s[..., j : j + n] - new)  # (B, NH, T, n)
            total = total * np.exp(of_sum * growth) + e.sum(axis=-1, keepdims=True)
            mixture = mixture * np.exp(of_mixture * growth) + e @ v[:, :, j : j + n]
            top = new
        return mixture / total


def _wrong_queries(out, expected):
    """(T,) bool: which rows of out (B, T, C) are not as expected; None if that cannot be decided."""
    if np.shape(out) != expected.shape or not np.isfinite(out).all():
        return None
    return np.abs(out - expected).max(axis=(0, 2)) > 1e-3 * np.abs(expected).max()


def look(out, expected):
    """Where to look if blocks make out (B, T, C) wrong in the middle; None if it is wrong from the start."""
    wrong = _wrong_queries(out, expected)  # (T,)
    if wrong is None or not wrong.any() or wrong[:2].any():
        return None
    if np.abs(out - expected).max() < 0.02 * np.abs(expected).max():
        return "nothing is far off: the largest error is below 2% of the largest number"
    first, end = int(wrong.argmax()), len(wrong) - int(wrong[::-1].argmax())
    if not out[:, wrong].any():
        if end < len(wrong) or not wrong[first:].all():
            return f"the rows {first} … {end - 1}: those of them that are wrong are 0"
        return f"the rows from {first} on, which are 0"
    right = f"queries 0 … {first - 1} are right"
    used = _uses(first) if is_explaining() else None
    if used is None:
        return f"{right}, {first} is not"
    if used.later:
        return f"{right}. Query {first} looks at later keys"
    if used.unused:
        left_out = f"{used.unused[0]} to {used.unused[-1]}"
        return f"{right}. Query {first} makes no use of keys {left_out}, which it may see"
    return f"{right}. Query {first}, the first wrong one, looks at no later key"


class _Use(NamedTuple):
    """later: does a query look at later keys? unused: the keys that it leaves out, if they are known."""

    later: bool
    unused: range | None


def _uses(query) -> _Use | None:
    """What the learner's function reads for this query of the last call; None if that cannot be found out.

    Keys are tried eight at a time, by values that no share is too small for.
    """
    function, last = learners_function(), last_call()
    if last is None:
        return None
    with suppress(Exception), learners_names(), np.errstate(all="ignore"):
        qkv, *others = last.arguments
        right = function(qkv.copy(), *others)[:, query]

        def counts(first, end):
            changed = qkv.copy()
            changed[:, first:end, -(qkv.shape[-1] // 3) :] += HUGE
            return not np.array_equal(function(changed, *others)[:, query], right)

        if query + 1 < qkv.shape[1] and counts(query + 1, qkv.shape[1]):
            return _Use(True, None)
        unused = [j for j in range(0, query - EIGHT + 1, EIGHT) if not counts(j, j + EIGHT)]
        in_a_row = bool(unused) and unused[-1] - unused[0] == EIGHT * (len(unused) - 1)
        return _Use(False, range(unused[0], unused[-1] + EIGHT) if in_a_row else None)
    return None


def _reads_key_0(query) -> bool:
    """Is NaN in the values of key 0 seen in this row of what the last call gives? It is in 0 · NaN, too."""
    function, last = learners_function(), last_call()
    with suppress(Exception), learners_names(), np.errstate(all="ignore"):
        qkv, *others = last.arguments
        lost = qkv.copy()
        lost[:, 0, -(qkv.shape[-1] // 3) :] = np.nan
        return bool(np.isnan(function(lost, *others)[:, query]).any())
    return True


def of_all_keys(function) -> str:
    """Words if out is not finite only where keys that a query does not see have far larger scores; or ""."""
    T, first = 40, 20
    qkv = np.ones((1, T, 12), np.float32)  # one head of 4 channels
    qkv[..., :8] = 0  # q and k; v is 1
    qkv[..., 0] = 2  # the queries: a score is what the key has in its channel 0
    high, late = qkv.copy(), qkv.copy()
    high[..., 4], late[:, first:, 4] = 500, 500  # (1, T), (1, T - first)   of the keys

    def finite(each):
        """Is out (1, T, 4) that, for the queries which see none of the later keys?"""
        out = outcome(function, each, 1)
        return isinstance(out, np.ndarray) and out.shape == (1, T, 4) and bool(np.isfinite(out[:, :first]).all())

    if not is_explaining() or not finite(high) or finite(late):
        return ""
    return (
        f". If all scores are 500 it is finite; if they are 0 for the keys 0 to {first - 1} and 500 for later ones, it "
        f"is not, even for the queries 0 to {first - 1}: what is subtracted from a query's scores must be the largest "
        "of those that it sees"
    )


def mistakes(out, qkv, NH) -> dict:
    """Known wrong out (B, T, C): those of exercise 2, and those of blocks as long as the pattern in out says."""
    right = forward(qkv, NH).out  # (B, T, C)
    known = forward_mistakes(qkv, NH)["out"]
    q, k, v = split(qkv, NH)  # (B, NH, T, hs) each
    T, hs = q.shape[2:]
    scores = q @ k.swapaxes(-1, -2) / hs**0.5  # (B, NH, T, T)
    s = np.where(seen(T), scores, -np.inf)  # (B, NH, T, T)
    with np.errstate(over="ignore", invalid="ignore"):
        for what, e in (("", s - s.max(axis=-1, keepdims=True)), (" (nor was the maximum subtracted)", s)):
            undivided = f"the mixture before it is divided by its row's sum of exponentials{what}"
            known[undivided] = (merge(np.exp(e) @ v), ALL_QUERIES)
        e = np.exp(s - s.max(axis=-1, keepdims=True))  # (B, NH, T, T)
        every = {"all heads": (0, 1, 3)} | ({"all heads of its sequence": (1, 3)} if len(q) > 1 else {})
        for what, axes in every.items():
            shared = f"the mixture divided by the sum over {what}: each row has a sum of its own, along its last axis"
            known[shared] = (merge(e / e.sum(axis=axes, keepdims=True) @ v), ALL_QUERIES)
    wrong = _wrong_queries(out, right)  # (T,)
    if wrong is None or wrong.all() or not wrong.any():
        return known
    if not wrong[0]:
        n = int(wrong.argmax())  # the first block is right
        text = f"the plain mean of the outputs of blocks of {n} keys, not weighted by their sums of exponentials"
        known[text] = (merge(_mean_of_blocks(s, v, n)), ONLINE)
    without = np.abs(merge(softmax(scores) @ v) - out).max()  # no mask at all: blocks must fit much better than that
    best, found = min(1e-3 * np.abs(right).max(), 0.1 * without), {}
    for sentence, keys, where in _block_tables(wrong, T):
        array = merge(softmax(np.where(keys, scores, -np.inf)) @ v)  # (B, T, C)
        distance = np.abs(array - out).max()
        if distance < best:  # the block length that fits best
            best, found = distance, {sentence: (array, where)}
    return known | found


def _mean_of_blocks(s, v, n):
    """(B, NH, T, hs): each query's outputs over blocks of n keys, up to its own block, averaged without weights."""
    out = np.zeros_like(v)
    for t in range(v.shape[2]):
        starts = range(0, t // n * n + 1, n)
        for first in starts:
            keys = slice(first, min(first + n, t + 1))
            out[:, :, t] += np.einsum("bhj,bhjc->bhc", softmax(s[:, :, t, keys]), v[:, :, keys]) / len(starts)
    return out


def _block_tables(wrong, T):
    """Yield (sentence, keys that each query sees (T, T), where to look) for blocks that fit wrong (T,)."""
    t = np.arange(T)
    if not wrong[0]:  # the first block is right
        n = int(wrong.argmax())
        lost = "what the blocks before it gave is multiplied by 0"
        yield (
            f"the reference with the last block of {n} keys alone: {lost if _reads_key_0(n) else UNREAD}",
            seen(T) & (t >= (t // n * n)[:, None]),
            ONLINE,
        )
        yield (
            f"the reference with the mask of the first block of {n} queries in every block: row i is query `start + i`",
            t <= (t % n)[:, None],
            MASK,
        )
        return
    for n in np.flatnonzero(~wrong) + 1:  # the last query of a block is right: it may see the whole block
        yield (
            f"the reference with no mask inside blocks of {n}: query t also sees later keys of its own block",
            t < (t // n * n + n)[:, None],
            MASK,
        )
