"""Lesson 23: what top-p with ties should keep, and what known mistakes keep instead.

Probabilities are multiples of 1/1024, so that sums are exact in any order. Mistakes are {sentence after "the result
equals ": (array (V,), where to look)}.
"""

import numpy as np

from llmc.course.lessons.sample_gpt2.places import TOP_P
from llmc.course.old.checks.contrast import outcome

PARTS = 1024


def case(rng, V, share=None):
    """(p (V,), share): some candidates are equally probable, one has none; at the edge there is often a tie.

    share: None for one that lies between two sums, "exact" for one that is a sum, or a number.
    """
    few = np.sort(rng.choice(np.arange(1, 40), V // 3 + 1, replace=False))
    weights = rng.choice(few, V).astype(np.int64)  # (V,) with repetitions
    weights[rng.integers(V)] = 0
    weights = weights * (PARTS // max(1, weights.sum()) if weights.sum() < PARTS else 1)
    weights[np.argmax(weights)] += PARTS - weights.sum()
    p = weights / PARTS
    held = np.cumsum(np.sort(weights)[::-1])
    k = int(rng.integers(1, max(2, V // 2)))
    if share is None:
        share = (held[k] - 0.5) / PARTS
    elif share == "exact":
        ends = [
            int(h) for h, w, after in zip(held, np.sort(weights)[::-1], [*np.sort(weights)[::-1][1:], 0]) if w > after
        ]
        share = ends[min(len(ends) - 2, int(rng.integers(0, 3)))] / PARTS  # where no tie is cut
    return p, float(share)


def kept(p, share):
    """(V,) bool: the smallest number of most probable candidates that hold the share, and those tied with the last."""
    ranked = np.sort(p)[::-1]  # (V,)
    n = int(np.argmax(np.cumsum(ranked) >= share))
    return p >= ranked[n]


def top_p(p, share):
    """(V,) the probabilities of those that are kept, scaled to sum to 1."""
    return _scaled(p, kept(p, share))


def _scaled(p, which):
    q = np.where(which, p, 0.0)
    return q / q.sum() if q.sum() else q


def known(found, p, share, function) -> dict:
    """The known mistakes that give `found`, and what the learner's function gives in more cases, too."""
    rng = np.random.default_rng(23)
    more = [case(rng, V, share) for V in (6, 11, 16) for share in (None, "exact", None, "exact")]
    results = [outcome(function, q.copy(), s) for q, s in more] if not _same(found, top_p(p, share)) else []
    tables = [mistakes(q, s) for (q, s), _ in zip(more, results)]
    return {
        said: (array, where)
        for said, (array, where) in (mistakes(p, share) if results else {}).items()
        if all(_same(each, table[said][0]) or not table[said][0].any() for each, table in zip(results, tables))
    }


def _same(found, array) -> bool:
    return np.shape(found) == array.shape and np.allclose(found, array, rtol=1e-9, atol=1e-12)


def mistakes(p, share) -> dict:
    """Known wrong results."""
    order = np.argsort(-p, kind="stable")  # (V,)
    ranked, right = p[order], kept(p, share)
    held = np.cumsum(ranked)
    n = int(np.argmax(held >= share))  # place of the candidate that crosses
    edge = ranked[n]
    first, last = np.zeros(p.size, bool), np.zeros(p.size, bool)
    first[order[: n + 1]] = True
    last[np.argsort(p, kind="stable")[::-1][: n + 1]] = True
    without, more = np.zeros(p.size, bool), np.zeros(p.size, bool)
    without[order[:n]], more[order[: n + 2]] = True, True
    beyond = held > share
    later = p >= ranked[int(np.argmax(beyond))] if beyond.any() else np.ones(p.size, bool)
    rising = np.argsort(p, kind="stable")
    least = np.zeros(p.size, bool)
    least[rising[: int(np.argmax(np.cumsum(p[rising]) >= share)) + 1]] = True
    e = np.where(right, np.exp(p - p.max()), 0.0)
    without_last = np.zeros(p.size, bool)
    without_last[np.argsort(p, kind="stable")[::-1][:n]] = True
    by_id = np.cumsum(p)
    at = int(np.argmax(by_id >= share))  # where the sum in the order of the ids reaches the share
    up = np.sort(p)  # (V,)
    values = np.unique(p)[::-1]  # of those that are equal one alone
    value = values[int(np.argmax(np.cumsum(values) >= share))]
    wrong = {
        "the reference without the candidate that crosses the share, and without those tied with it that have smaller "
        "ids: all of them stay": _scaled(p, without_last),
        "the candidates in the order of their ids, as far as the share goes: sort them by probability first": (
            _scaled(p, by_id <= share)
        ),
        "the candidates in the order of their ids, up to the one that crosses the share: sort them first": (
            _scaled(p, by_id - p < share)
        ),
        "the candidates at least as probable as the one at which the sum in the order of ids reaches the share: sort "
        "them first": _scaled(p, p >= p[at]),
        "the candidates at least as probable as the one whose ID is the place in the ranking: look that place up in "
        "the ranking": _scaled(p, p >= p[n]),
        "the candidates at least as probable as the one at that place among the LEAST probable ones: the place is one "
        "in the ranking": _scaled(p, p >= up[n]),
        "the reference for 1 - share: the most probable ones stay, until they hold the share": _scaled(
            p, kept(p, 1 - share)
        ),
        "the reference scaled by the sum up to the candidate that crosses the share: those tied with it count, too": (
            np.where(right, p, 0.0) / held[n]
        ),
        "the reference with equal probabilities added only once: each candidate counts": _scaled(p, p >= value),
        "the reference with 1 for the largest probability: divide by the sum": np.where(right, p, 0.0) / p.max(),
        "the reference with what is cut off given to all that stay in equal parts: divide by the sum": np.where(
            right, p + p[~right].sum() / right.sum(), 0.0
        ),
        "the same probability for all that stay: divide p by its sum over them": right / right.sum(),
        "the reference without ties: of candidates as probable as the last one kept, only those with the smallest ids "
        "stay": _scaled(p, first),
        "the reference without ties: of candidates as probable as the last one kept, only those with the largest ids "
        "stay": _scaled(p, last),
        "the reference without any candidate as probable as the last one kept: those stay": _scaled(p, p > edge),
        "the reference without the candidate that crosses the share, and without those tied with it that have larger "
        "ids: all of them stay": _scaled(p, without),
        "the reference with one candidate more than are needed": _scaled(p, more),
        "the reference with the share exceeded instead of reached: where candidates hold exactly the share, one too "
        "many is kept, and those tied with it": _scaled(p, later),
        "the reference before it is scaled to sum to 1": np.where(right, p, 0.0),
        "p itself: nothing is cut off": p,
        "the reference in order of probability: put every candidate back into its own place": np.sort(
            _scaled(p, right)
        )[::-1],
        "what the LEAST probable candidates would give: begin with the most probable": _scaled(p, least),
        "as many candidates as should stay, but those with the smallest ids": _scaled(
            p, np.arange(p.size) < right.sum()
        ),
        "as many candidates as are needed without ties, but those with the smallest ids": _scaled(
            p, np.arange(p.size) <= n
        ),
        "as many candidates as should stay, but those with the largest ids": _scaled(
            p, np.arange(p.size) >= p.size - right.sum()
        ),
        "the candidates whose own probability is at least the share: the share is of their sum": _scaled(p, p >= share),
        "the candidates with at least `share` times the best one's probability, which is called min-p: the share is of "
        "their sum": _scaled(p, p >= share * p.max()),
        "the candidates whose own probability is at least 1 - share: the share is of their sum": _scaled(
            p, p >= 1 - share
        ),
        "a softmax of the probabilities that are kept: divide them by their sum": e / e.sum(),
        **{said: _scaled(p, which) for said, which in _without_a_sum(p, share).items()},
        "the reference scaled by the share instead of the sum that is kept": np.where(right, p, 0.0) / share,
        "the candidates that are cut off": _scaled(p, ~right),
    }
    return {said: (array, TOP_P) for said, array in wrong.items()}


def _without_a_sum(p, share) -> dict:
    """{words: which (V,) are kept} by rules about single probabilities, or about the number of them."""
    best, even = p.max(), 1 / p.size
    edges = {
        "(1 - share) times the best one's probability, a kind of min-p": (1 - share) * best,
        "`share` times the mean probability": share * even,
        "1 - share times the mean probability": (1 - share) * even,
        "the (1 - share) quantile, which is found by counting": np.quantile(p, min(1.0, max(0.0, 1 - share))),
    }
    why = "the share is of their sum"
    found = {f"the candidates with at least {what}: {why}": p >= edge for what, edge in edges.items()}
    ranked = np.sort(p)[::-1]
    for rounded, n in (("down", np.floor), ("up", np.ceil), ("to the nearest", np.rint)):
        n = int(n(share * p.size))
        which = p >= ranked[n - 1] if n else np.zeros(p.shape, bool)
        told = f"`share` times their number, rounded {rounded}"
        found[f"as many candidates as {told}: the share is of the sum of probabilities"] = which
    return found


def why(found, p, share):
    """A sentence on what found (V,) keeps, and what it should keep; None where these are the same candidates."""
    found, right = np.asarray(found), kept(p, share)
    if found.shape != p.shape or not np.isfinite(found).all() or np.array_equal(found != 0, right):
        return None
    mine, shares = found != 0, np.where(right, p, 0.0) / p[right].sum()  # (V,) each
    if np.allclose(np.sort(found), np.sort(shares), rtol=1e-5):
        return "your result holds the right numbers in other places"
    have = f"your result keeps {mine.sum()} of {p.size} candidates, with {p[mine].sum():.4g} of the probability"
    want = f"{right.sum()} should stay, all with at least {p[right].min():.4g}: together they have {p[right].sum():.4g}"
    return f"{have}; for a share of {share:.4g}, {want}{_because(p, mine, right, share)}"


def _because(p, mine, right, share) -> str:
    """What the kept candidates show; what they should be is `right`. All are (V,)."""
    edge, lost = p[right].min(), right & ~mine
    if mine.any() and not mine.all() and p[mine].min() < p[~mine].max():
        return (
            f".\nIt keeps one of {p[mine].min():.4g}, and not one of {p[~mine].max():.4g}: the most probable ones stay"
        )
    if p[mine].sum() < share:
        return ".\nTogether they do not reach the share"
    if lost.any() and (p[lost] == edge).all():
        return f".\nWhat is lost is as probable as the last one kept, {edge:.4g}: those that are tied with it stay, too"
    if not lost.any():
        return ".\nThe share is reached with fewer of them"
    return ""
