"""Lesson 16: known mistakes of its kernels, {sentence after "out equals ": array}, and what a right one may ask for."""

import numpy as np

from llmc.course.kernel_checks.demands import Wasteful
from llmc.course.lessons.attention_kernels import references
from llmc.course.lessons.attention_kernels.places import LEAK, SPLIT

OF_LLMC = "0.78 and 1,040"  # attention_forward_v5, one head with T = 64, hs = 32; a test counts them again
MASKS = (-1e4, -2e4, -1e9)  # finite masks that are in use


def masks(scores) -> dict:
    """Probabilities (heads, T, T) with a finite mask, where it leaks."""
    right, _ = references.probabilities(scores)
    return _leaking(right, lambda mask: references.probabilities(scores, mask)[0])


def leaks(q, k, v) -> dict:
    """Outputs (heads, T, hs) with a finite mask, where it leaks."""
    right, _ = references.forward(q, k, v)
    return _leaking(right, lambda mask: references.forward(q, k, v, mask)[0])


def _leaking(right, of) -> dict:
    known = {}
    for mask in MASKS:
        words = f"the result with a mask of {mask:,.0f}, which leaks where a query's scores are lower: take -3.4e38"
        if np.abs(of(mask) - right).max() > 0.02:
            known[words] = (of(mask), LEAK)
    return known


def merges(top, total, sums) -> dict:
    """Merged outputs (rows, hs) that are not corrected as they should be."""
    top, total, sums = (np.asarray(a, np.float64) for a in (top, total, sums))
    with np.errstate(all="ignore"):
        mean = (sums / total[..., None]).mean(axis=1)
        last, whole = sums[:, -1] / total[:, -1:], total.sum(axis=1, keepdims=True)
    known = {
        "the sums as they are, divided by the totals as they are: correct each part by exp(top - highest)": (
            sums.sum(axis=1) / whole
        ),
        "the mean of what the parts have found: a part with larger scores weighs more": mean,
        "what the last part has found": last,
    }
    right, _ = references.merged(top, total, sums)
    return {
        words: (array, SPLIT)
        for words, array in known.items()
        if np.isfinite(array).all() and np.abs(array - right).max() > 4e-4 * np.abs(array).max()
    }


# ------------------------------------------------------------------------------------------------- the counts


def by_all_lanes(report, where):
    """Wasteful if most lanes of the warps idle: one lane does what 32 could share."""
    reads = [use for use in report.lines if use.space == "global" and not use.write]
    requests, lanes, sectors = (sum(getattr(use, what) for use in reads) for what in ("requests", "lanes", "sectors"))
    if lanes < 4 * requests:
        why = "One lane at a time asks for a number. Let the lanes share the row: neighbours take neighbours."
        raise _wasteful(report, f"a request of a warp is for {lanes / requests:.1f} numbers on average", why, where)
    if sectors < 1.15 * requests:
        why = "All lanes of a warp ask for the same number, so all do the same work. Let each take its own share."
        raise _wasteful(report, "a request of a warp is for one number, and all of its lanes get it", why, where)


def keys_read_once(report, blocks, tiles, where):
    """Wasteful if the warps of a block read a tile's keys and values from global memory each for themselves.

    tiles: of 32 rows, that all blocks need together.
    """
    needed = (2 * tiles * 32 * 32 + 40 * 32) // 8  # sectors: keys and values, and each query once
    reads = sum(use.sectors for use in report.lines if use.space == "global" and not use.write)
    if reads > 1.2 * needed:
        why = "All threads of a block load a tile together, once, and every warp takes it from shared memory."
        sentence = f"{blocks} blocks read {reads:,} sectors from global memory, where {needed:,} are enough"
        raise _wasteful(report, sentence, why, where)


def requests(report) -> int:
    """Requests of a warp to shared memory."""
    return sum(use.requests for use in report.lines if use.space == "shared")


def _wasteful(report, sentence, advice, where):
    """Right, but; with the counts of every line."""
    return Wasteful("\n".join([f"right, but {sentence}.", advice, report.table(), f"→ Where to look: {where}."]))
