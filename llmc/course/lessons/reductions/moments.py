"""Lesson 13: what well-known mistakes give in moments that merge and in the fused layernorm.

Mistakes are {name of the output: {sentence after "rstd equals ": (array, where to look)}}.
"""

import numpy as np

from llmc.course.lessons import layernorm
from llmc.course.lessons.fast_on_cpu.fused import residual_layernorm, residual_layernorm_mistakes
from llmc.course.lessons.reductions.lanes import GAPS, LANES, by_lane, merged, share_of_b, sums_gone_wrong, telling
from llmc.course.lessons.reductions.places import CACHED, FUSED, MERGE, SHUFFLE
from llmc.course.old.kernel_checks.evidence import slots

ORDER = "the order is out, mean, rstd"  # of what a function returns: a kernel returns nothing
EPS_SEEN = 1e-3, 1e-4, 1e-6, 1e-8, 1e-12  # that learners write for 1e-5


def normed(x, w, b, rstd=None) -> dict:
    """Known wrong out, mean and rstd of x (N, C). rstd: (N,) as the kernel wrote it."""
    known = {name: _placed(wrong, MERGE) for name, wrong in layernorm.forward_mistakes(x, w, b).items()}
    known["mean"] |= {words: (array, MERGE) for words, array in _means(x).items()}
    known["rstd"] |= {words: (array, MERGE) for words, array in (_squares(x) | _statistics(x)).items()}
    mean, variance = x.mean(axis=1, dtype=np.float64)[:, None], x.var(axis=1, dtype=np.float64)[:, None]  # (N, 1)
    C, counts = x.shape[1], _counts(x.shape[1])
    r = 1 / np.sqrt(variance * C / counts[np.arange(C) % LANES] + layernorm.EPS)  # (N, C)
    known["out"]["the reference with seen.count, which only lane 0 has of the whole row"] = (
        (x - mean) * r * w + b,
        MERGE,
    )
    right = layernorm.forward(x, w, b)
    known["mean"] = _one_for_the_other(known["mean"], right, rstd)
    return _telling(known, right)


def _one_for_the_other(wrong_means, right, rstd):
    """The wrong means, with words for those that are rstd. rstd: (N,) as the kernel wrote it, or None."""
    (array, where), *_ = (wrong for words, wrong in wrong_means.items() if ORDER in words)
    exchanged = rstd is not None and np.allclose(rstd, right.mean, rtol=1e-4, atol=1e-6)
    words = "rstd, and rstd equals the mean: they are exchanged" if exchanged else "rstd: the mean belongs there"
    return {said: wrong for said, wrong in wrong_means.items() if ORDER not in said} | {words: (array, where)}


def _telling(known, right):
    return {name: telling(wrongs, getattr(right, name)) for name, wrongs in known.items()}


def _means(x) -> dict:
    """Wrong means (N,) of rows x (N, C)."""
    rules = {
        "the result of averaging the two means: the part with more numbers counts for more": lambda a, b: (
            (a[1] + b[1]) / 2
        ),
        "the result of moving the mean by a's share: towards b it moves by b's share": lambda a, b: (
            a[1] + (b[1] - a[1]) * (1 - share_of_b(a, b))
        ),
        "the result of moving the mean away from b": lambda a, b: a[1] - (b[1] - a[1]) * share_of_b(a, b),
        "the result of moving the mean by gap / n, as for a single number: b has n_b of them": lambda a, b: (
            a[1] + (b[1] - a[1]) / np.maximum(a[0] + b[0], 1)
        ),
        "the sum of the row: the means of two parts are not added, but weighted": lambda a, b: a[1] + b[1],
        "the result of moving the mean all the way to b's: by b's share": lambda a, b: b[1],
        "the result of keeping a's mean: it moves towards b's": lambda a, b: a[1],
        "the result of n_a · mean_a + n_b · mean_b, which must be divided by n": lambda a, b: a[0] * a[1] + b[0] * b[1],
    }
    with np.errstate(over="ignore", invalid="ignore"):
        known = {words: merged(x, mean=rule)[0] for words, rule in rules.items()}
        for words, rule in rules.items():
            guarded = merged(x, mean=_guarded(rule, 1))[0]  # (N,)
            if not np.allclose(guarded, known[words], equal_nan=True):
                known[f"{words} (empty parts aside)"] = guarded
        lost, _ = merged(x, count=lambda a, b: a[0])  # (N,)
    one = "the last number that lane 0 has seen"
    grown, _ = merged(x, count=lambda a, b: np.where(a[0] + b[0] > 0, a[0] + 1, 0))  # (N,)
    known |= {"the result of parts that count n_a + 1 together: they have n_a + n_b numbers": grown}
    known |= {one: lost, "the mean divided by C once more": x.mean(axis=1) / x.shape[1]}
    return known


def _guarded(rule, k):
    """The rule, but where a part is empty, what the other one holds; k: 1 for its mean, 2 for its squares."""
    return lambda a, b: np.where(a[0] == 0, b[k], np.where(b[0] == 0, a[k], rule(a, b)))


def _squares(x) -> dict:
    """Wrong rstd (N,) where merging makes a wrong sum of squares."""

    def gap2(a, b):
        return (b[1] - a[1]) ** 2

    def n(a, b):
        return np.maximum(a[0] + b[0], 1)

    rules = {
        "gap² · n_a · n_b, which must be divided by n": lambda a, b: a[2] + b[2] + gap2(a, b) * a[0] * b[0],
        "gap² alone: it must be multiplied by n_a · n_b / n": lambda a, b: a[2] + b[2] + gap2(a, b),
        "gap² / n: it must be multiplied by n_a · n_b / n": lambda a, b: a[2] + b[2] + gap2(a, b) / n(a, b),
        "gap² · n: it must be multiplied by n_a · n_b / n": lambda a, b: a[2] + b[2] + gap2(a, b) * n(a, b),
        "n_b · (mean_b - mean)² alone: a's numbers lie around another mean, too, n_a · (mean_a - mean)²": lambda a, b: (
            a[2] + b[2] + gap2(a, b) * (a[0] / n(a, b)) ** 2 * b[0]
        ),
        "n_a · (mean_a - mean)² alone: b's numbers lie around another mean, too, n_b · (mean_b - mean)²": lambda a, b: (
            a[2] + b[2] + gap2(a, b) * (b[0] / n(a, b)) ** 2 * a[0]
        ),
        "gap² / 2: it must be multiplied by n_a · n_b / n": lambda a, b: a[2] + b[2] + gap2(a, b) / 2,
        "gap² · n_b / n: n_a is missing": lambda a, b: a[2] + b[2] + gap2(a, b) * b[0] / n(a, b),
        "gap² · n_a / n: n_b is missing": lambda a, b: a[2] + b[2] + gap2(a, b) * a[0] / n(a, b),
        "gap² · n_b in place of gap² · n_a · n_b / n": lambda a, b: a[2] + b[2] + gap2(a, b) * b[0],
        "gap² · n_a: n_b / n is missing": lambda a, b: a[2] + b[2] + gap2(a, b) * a[0],
        "gap · n_a · n_b / n: the gap must be squared": lambda a, b: (
            a[2] + b[2] + (b[1] - a[1]) * a[0] * b[0] / n(a, b)
        ),
        "gap² · n_a · n_b / n subtracted: it is added": lambda a, b: a[2] + b[2] - gap2(a, b) * a[0] * b[0] / n(a, b),
        "gap² · n_a · n_b / n²: n divides once": lambda a, b: a[2] + b[2] + gap2(a, b) * a[0] * b[0] / n(a, b) ** 2,
        "a step as for a single number: b's squares and n_b are missing": lambda a, b: (
            a[2] + gap2(a, b) * a[0] / n(a, b)
        ),
        "the average of both parts', which are sums": lambda a, b: (
            (a[2] * a[0] + b[2] * b[0]) / n(a, b) + gap2(a, b) * a[0] * b[0] / n(a, b)
        ),
        "(mean_a - mean)² + (mean_b - mean)²: each must be multiplied by its count, n_a and n_b": lambda a, b: (
            a[2] + b[2] + gap2(a, b) * (a[0] ** 2 + b[0] ** 2) / n(a, b) ** 2
        ),
        "n_a · (mean_a - mean)² + (mean_b - mean)²: the second must be multiplied by n_b": lambda a, b: (
            a[2] + b[2] + gap2(a, b) * (a[0] * b[0] ** 2 + a[0] ** 2) / n(a, b) ** 2
        ),
        "(mean_a - mean)² + n_b · (mean_b - mean)²: the first must be multiplied by n_a": lambda a, b: (
            a[2] + b[2] + gap2(a, b) * (b[0] ** 2 + b[0] * a[0] ** 2) / n(a, b) ** 2
        ),
        "n_b · (mean_a - mean)² + n_a · (mean_b - mean)²: each belongs to its own count": lambda a, b: (
            a[2] + b[2] + gap2(a, b) * (b[0] ** 3 + a[0] ** 3) / n(a, b) ** 2
        ),
        "n_a · (mean_a - mean)² - n_b · (mean_b - mean)²": lambda a, b: (
            a[2] + b[2] + gap2(a, b) * a[0] * b[0] * (b[0] - a[0]) / n(a, b) ** 2
        ),
        "gap² · n_a · n_b / n of a gap from the new mean: it is mean_b - mean_a": lambda a, b: (
            a[2] + b[2] + gap2(a, b) * (a[0] / n(a, b)) ** 2 * a[0] * b[0] / n(a, b)
        ),
        "gap² · n_a · n_b / n alone: a's and b's are missing": lambda a, b: gap2(a, b) * a[0] * b[0] / n(a, b),
        "|gap| · n_a · n_b / n: the gap must be squared": lambda a, b: (
            a[2] + b[2] + np.sqrt(gap2(a, b)) * a[0] * b[0] / n(a, b)
        ),
        "a's part alone: b's are missing": lambda a, b: a[2] + gap2(a, b) * a[0] * b[0] / n(a, b),
        "b's part alone: a's are missing": lambda a, b: b[2] + gap2(a, b) * a[0] * b[0] / n(a, b),
    }
    with np.errstate(over="ignore", invalid="ignore"):
        known = {f"the result of squares with {words}": _rstd(merged(x, squares=r)[1], x) for words, r in rules.items()}
        for words, rule in rules.items():
            guarded = f"the result of squares with {words} (empty parts aside)"
            rstd = _rstd(merged(x, squares=_guarded(rule, 2))[1], x)  # (N,)
            if not np.allclose(rstd, known[f"the result of squares with {words}"], equal_nan=True):
                known[guarded] = rstd
    none = "1 / √eps: the squares are 0"
    known[none] = _rstd(np.zeros(len(x)), x)
    return known


def _statistics(x) -> dict:
    """Wrong rstd (N,) where the squares are right."""
    C, variance = x.shape[1], x.var(axis=1, dtype=np.float64)  # (N,)
    known = {f"the reference with {eps:g} in place of 1e-5": 1 / np.sqrt(variance + eps) for eps in EPS_SEEN}
    return known | {
        "the reference with the eps divided by C, too": 1 / np.sqrt(variance + layernorm.EPS / C),
        "the reference with eps outside of the root": 1 / np.sqrt(variance) + layernorm.EPS,
        "the reference with eps subtracted": 1 / np.sqrt(np.maximum(variance - layernorm.EPS, 1e-30)),
        "the reference with the squares divided by 32, not by C": 1 / np.sqrt(variance * C / LANES + layernorm.EPS),
        "the reference with the squares divided by C / 4, not by C": 1 / np.sqrt(4 * variance + layernorm.EPS),
        "1 / (variance + eps)²": 1 / (variance + layernorm.EPS) ** 2,
    }


def _counts(C):
    """(32,): what seen.count is in each lane after the shuffles, in which a lane without a partner keeps its own."""
    count = by_lane(np.ones((1, C)), 0).sum(axis=1)[0]  # (32,)
    for gap in GAPS:
        count = count + np.append(count[gap:], np.zeros(gap))
    return count


def _placed(mistakes, where) -> dict:
    """Known mistakes of an earlier lesson, with a place to look in this one; eps has its place there."""
    return {
        words: (array, layernorm.EPSILON if "the reference with" in words and "eps" in words else where)
        for words, (array, _) in mistakes.items()
    }


def _rstd(squares, x):
    """(N,) from sums of (x - mean)² (N,)."""
    with np.errstate(invalid="ignore"):
        return 1 / np.sqrt(squares / x.shape[1] + layernorm.EPS)


def fused(x1, x2, w, b, outputs) -> dict:
    """Known wrong residual, out, mean and rstd; and what outputs, as the kernel wrote them in this order, show."""
    known = {name: _placed(wrong, FUSED) for name, wrong in residual_layernorm_mistakes(x1, x2, w, b).items()}
    one_of_four = np.arange(x1.shape[1]) % 4 == 0  # (C,)
    total, few = x1 + x2, x1 + one_of_four * x2  # (N, C) each
    squares = (one_of_four * (total - total.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)  # (N,)
    for k, slot in enumerate("xyzw"):
        mine = np.arange(x1.shape[1]) % 4 == k  # (C,)
        centred = (total - total.mean(axis=1, keepdims=True)) ** 2  # (N, C)
        for words, weight in (("left out", 0), ("subtracted", -1)):
            w_k = np.where(mine, weight, 1)  # (C,)
            known["mean"][f"1 / C times a sum with .{slot} {words}"] = (w_k * total).mean(axis=1), CACHED
            known["rstd"][f"the result of squares with .{slot} {words}"] = (
                _rstd((w_k * centred).sum(axis=1), x1),
                CACHED,
            )
        uncentred = np.where(mine, total**2, centred).sum(axis=1)  # (N,)
        known["rstd"][f"the result of squares with the mean not subtracted from .{slot}"] = _rstd(uncentred, x1), CACHED
    for name, part in (("x1", x1), ("x2", x2)):
        apart = ((part - total.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)  # (N,)
        words = f"the result with the squares of {name} around the mean of the sum"
        known["rstd"][words] = _rstd(apart, x1), CACHED
    deviations = total - total.mean(axis=1, keepdims=True)  # (N, C)
    quads = np.add.reduceat(deviations, np.arange(0, x1.shape[1], 4), axis=1)  # (N, C / 4)
    words = "the result with the square of the sum of four deviations"
    known["rstd"][words] = _rstd((quads**2).sum(axis=1), x1), CACHED
    fourth = "a quarter of the numbers, .x of each float4"
    known["residual"][f"x1 with x2 added to {fourth}"] = few, CACHED
    known["mean"][f"1 / C times the sum of {fourth}"] = (one_of_four * total).sum(axis=1) / x1.shape[1], CACHED
    known["rstd"][f"the result with the squares of {fourth}"] = _rstd(squares, x1), CACHED
    known["rstd"] |= {words: (array, FUSED) for words, array in _statistics(total).items()}
    mean = total.mean(axis=1, dtype=np.float64)
    for padded in {1024, -(-x1.shape[1] // 128) * 128} - {x1.shape[1]}:  # lanes · floats of a float4
        words = f"the result with the zeros that fill a row up to {padded} numbers: their (0 - mean)² count, too"
        zeros = (padded - x1.shape[1]) * mean**2  # (N,)
        known["rstd"][words] = _rstd(((total - mean[:, None]) ** 2).sum(axis=1) + zeros, x1), CACHED
    for name, wrongs in _by_lanes(np.asarray(total, np.float64), w, b).items():
        known[name] |= {words: (array, SHUFFLE) for words, array in wrongs.items()}
    right = residual_layernorm(x1, x2, w, b)
    known["mean"] = _one_for_the_other(known["mean"], right, outputs[3] if outputs[3:] else None)
    known = _telling(known, right)
    known["out"] |= {words: (array, FUSED) for words, array in _by_row(total, w, b).items()}
    for name, got in zip(("residual", "out"), outputs):
        known[name] |= {words: (array, CACHED) for words, array in slots(got, getattr(right, name)).items()}
    return known


def _by_row(x, w, b) -> dict:
    """out (N, C) with w or b of the row's number in place of the channel's; nothing for more rows than channels."""
    N, C = x.shape
    if N > C:
        return {}
    mean, variance = x.mean(axis=1, dtype=np.float64)[:, None], x.var(axis=1, dtype=np.float64)[:, None]  # (N, 1)
    norm = (x - mean) / np.sqrt(variance + layernorm.EPS)  # (N, C)
    return {
        "the reference with b[row] in place of b[c]: each channel has a shift of its own": norm * w + b[:N, None],
        "the reference with w[row] in place of w[c]: each channel has a scale of its own": norm * w[:N, None] + b,
        "the reference with w[row] and b[row] in place of w[c] and b[c]: they belong to channels": (
            norm * w[:N, None] + b[:N, None]
        ),
    }


def _by_lanes(x, w, b) -> dict:
    """Results of lanes, each with every 32nd quad of x (N, C), that are not added up as they should be."""
    N, C = x.shape
    lane = np.arange(C) // 4 % LANES  # (C,)
    one_hot = (lane[:, None] == np.arange(LANES)).astype(np.float64)  # (C, 32)
    mean = x.mean(axis=1, keepdims=True)  # (N, 1)
    known = {"mean": {}, "rstd": {}, "out": {}}
    for words, totals in sums_gone_wrong(x @ one_hot).items():
        m = totals / C  # (N, 32)
        squares = ((x - m[:, lane]) ** 2).sum(axis=1)  # (N,)   each number around its lane's mean
        known["mean"][f"1 / C times {words}"] = m[:, 0]
        known["rstd"][f"the result of the mean from {words}"] = _rstd(squares, x)
    for words, squares in sums_gone_wrong((x - mean) ** 2 @ one_hot).items():
        r = _rstd(squares, x)  # (N, 32)
        known["rstd"][f"the reference with the squares of {words}"] = r[:, 0]
        known["out"][f"the reference with the squares of {words}"] = (x - mean) * r[:, lane] * w + b
    return known
