"""Lesson 03's last exercise: mistakes of products in blocks."""

import numpy as np

from llmc.course.lessons.matmul.layer import FORWARD, forward, forward_mistakes
from llmc.course.old.checks.contrast import outcome

TWICE = "x · wᵀ + 2b: b is added twice"  # of the known mistakes without blocks


MOST = 33  # output channels: blocks of up to 16 columns are found


def fast_mistakes(out, x, w, b, before, function) -> dict:
    """{words after "out equals ": (array, where to look)}: known wrong out (N, C_out) of a product in blocks.

    before: what the buffer held before the call of the learner's function.
    """
    known = forward_mistakes(x, w, b)["out"]
    least = _least_written(function, x) if np.array_equal(out, before) else None
    if least:
        more = f"with {least} to {MOST} output channels out is right, with fewer than {least} it is never written"
        known[f"the buffer as it was before the call: {more}"] = (out, "what your loops do where C_out < " + str(least))
    right, b = forward(x, w, b).astype(np.float64), b.astype(np.float64)
    known["b alone: the products are missing"] = (np.broadcast_to(b, right.shape), FORWARD)
    with np.errstate(all="ignore"):
        times = np.median((out - right) / b)
    if np.isfinite(times) and round(times) >= 1:
        n, added = round(times) + 1, known.pop(TWICE)
        piece = _piece_of_the_sum(function, x, w, b, n)
        text = f"the reference with b added {n} times{piece}" if piece or n > 2 else TWICE
        known[text] = added if n == 2 else (right + round(times) * b, FORWARD)
    return known


def _piece_of_the_sum(function, x, w, b, n) -> str:
    """Words for what b is added with, n times, if it is added once to a sum of one product; "" if it is not."""
    C_in, b = x.shape[1], b.astype(x.dtype)
    x, w = np.ascontiguousarray(x[:, :1]), np.ascontiguousarray(w[:, :1])  # (N, 1), (C_out, 1)
    right = forward(x, w, b)  # (N, C_out)
    out = np.zeros_like(right)
    if isinstance(outcome(function, out, x, w, b), Exception) or not np.allclose(out, right, rtol=1e-4, atol=1e-4):
        return ""
    return f", with every {'product' if n == C_in else 'block'} of the sum"


def _least_written(function, x) -> int | None:
    """From how many output channels on out is right, if below that it is never written; None if it is not like that."""
    rng, least = np.random.default_rng(0), None
    for C_out in range(1, MOST + 1):
        w, b, out = (rng.standard_normal(s, np.float32) for s in ((C_out, x.shape[1]), C_out, (len(x), C_out)))
        before = out.copy()  # (N, C_out)
        if isinstance(outcome(function, out, x, w, b), Exception):
            return None
        right = np.allclose(out, forward(x, w, b), rtol=1e-4, atol=1e-4)
        if right:
            least = least or C_out
        elif least or not np.array_equal(out, before):
            return None
    return least if least and 1 < least <= MOST // 2 + 1 else None
