"""Central differences in float64: a referee for every backward pass that needs only the forward pass."""

import random

import numpy as np


def numeric_gradient(f, x, h=1e-5, few=None):
    """Gradient of the scalar f() with respect to x, whose elements are nudged in place; same shape as x.

    few: how many elements, drawn at random; it is NaN elsewhere.

    x = [3.], f = lambda: x[0] ** 2  ->  [6.]
    """
    gradient, indices = np.full_like(x, np.nan), list(np.ndindex(x.shape))
    for index in random.Random(0).sample(indices, few) if few and few < len(indices) else indices:
        kept = x[index]
        step = h * max(1.0, abs(kept))
        x[index] = kept + step
        above = f()
        x[index] = kept - step
        below = f()
        x[index] = kept
        gradient[index] = (above - below) / (2 * step)
    return gradient


def assert_close(got, expected, rtol, name=""):
    """Largest |difference| at most rtol times the largest |expected|; fails for NaN and for wrong shapes too."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape, f"{name}: shape {got.shape}, expected {expected.shape}"
    worst = np.abs(got - expected).max() if got.size else 0.0
    largest = max(np.abs(expected).max(), 1e-30) if got.size else 1.0
    assert worst <= rtol * largest, f"{name}: error {worst / largest:.2e} of the largest element, allowed {rtol:.0e}"
