"""Central differences in float64: a referee for every backward pass that needs only the forward pass."""

import numpy as np


def numeric_gradient(f, x, h=1e-5):
    """Gradient of the scalar f() with respect to x, whose elements are nudged in place; same shape as x.

    x = [3.], f = lambda: x[0] ** 2  ->  [6.]
    """
    gradient = np.empty_like(x)
    for index in np.ndindex(x.shape):
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
