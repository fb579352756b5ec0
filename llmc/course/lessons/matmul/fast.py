"""Lesson 03's last exercise: mistakes of products in blocks."""

import numpy as np

from llmc.course.lessons.matmul.layer import FORWARD, forward, forward_mistakes

BLOCKS = "the reference with b added {} times: add it once, not with every block of the sum"


def fast_mistakes(out, x, w, b) -> dict:
    """{words after "out equals ": (array, where to look)}: known wrong out (N, C_out) of a product in blocks."""
    known = forward_mistakes(x, w, b)["out"]
    right, b = forward(x, w, b).astype(np.float64), b.astype(np.float64)
    known["b alone: the products are missing"] = (np.broadcast_to(b, right.shape), FORWARD)
    with np.errstate(all="ignore"):
        times = np.median((out - right) / b)
    if np.isfinite(times) and round(times) >= 1:
        known[BLOCKS.format(round(times) + 1)] = (right + round(times) * b, FORWARD)
    return known
