"""Gradient check: is dx really the derivative? It needs only the forward function, and moves one element at a time.

It uses central differences in float64 (their error is of order h²; that of one-sided differences is of order h). The
step is proportional to each element, because no single step suits both x = 1000 and x = 0.001.
"""

import numpy as np

from llmc.course.checks.check import running
from llmc.course.checks.comparison import compare
from llmc.course.checks.messages.diagnosis import WrongAnswer, describe_result

TOLERANCE = 1e-5  # relative to the largest entry; a right gradient lands near 1e-9
MANY, FEW = 400, 20  # elements: of larger arrays, a random subset is checked; few where a check runs once more


def gradient_check(f, x, dx, dout=None, name="dx", h=None, *, look="", known=None, tolerance=TOLERANCE, report=True):
    """Compare dx with central differences of sum(f(x) · dout); return the largest error, or raise WrongAnswer.

    f: function of one array that returns one array (or a number); it is always called with a float64 copy of x.
    x, dx: arrays of one shape. dout: array of f's output shape, the gradient that arrives from above; default: ones.
    h: step; default: the cube root of the machine epsilon, times the size of the element.
    look, known: as in `compare`. report: print one line.

    The error is max|dx - numeric| / max|numeric|, over all elements, or over 400 random ones when there are more.
    """
    x = np.array(x, np.float64)
    if np.shape(dx) != x.shape:
        raise WrongAnswer(f"{name} has shape {np.shape(dx)}; a gradient has the shape of its variable, {x.shape}.")
    most = FEW if running() and not running().explains else MANY
    positions = np.sort(np.random.default_rng().choice(x.size, min(x.size, most), replace=False))  # flat
    numeric = _central_differences(f, x, dout, positions, h)  # (n,)
    analytic = np.asarray(dx, np.float64).reshape(-1)[positions]  # (n,)
    error = float(np.abs(analytic - numeric).max() / max(np.abs(numeric).max(), np.finfo(np.float64).tiny))
    if not error <= tolerance:  # also when NaN
        _raise(name, analytic, numeric, x, positions, look, known, tolerance)
    if report:
        told = f"largest relative error {error:.1e}, {len(positions)} elements"
        print(f"✓ {name} agrees with central differences: {told}")
    return error


def _central_differences(f, x, dout, positions, h):
    """(n,) derivatives of sum(f(x) · dout) at these flat positions."""
    flat = x.reshape(-1)  # a view: writing here moves x
    typical = np.sqrt(np.mean(np.square(x))) or 1.0
    numeric = np.empty(len(positions))
    for i, at in enumerate(positions):
        value = flat[at]
        step = np.cbrt(np.finfo(np.float64).eps) * max(abs(value), typical) if h is None else h
        up, down = value + step, value - step  # rounded, so the distance really moved is up - down, not 2·step
        flat[at] = up
        above = _output(f, x)
        flat[at] = down
        below = _output(f, x)
        flat[at] = value
        # subtract first, then sum: whatever x[at] does not affect cancels exactly
        numeric[i] = np.sum((above - below) * _weights(dout, above)) / (up - down)
    return numeric


def _output(f, x):
    """f(x) as a float64 array of its own."""
    result = f(x.copy())
    if result is None or isinstance(result, tuple):
        told = f"gradient_check needs a function that returns one array, but it returned {describe_result(result)}"
        raise WrongAnswer(f"{told}. Wrap it: lambda x: layernorm_forward(x, w, b)[0].")
    return np.array(result, np.float64)


def _weights(dout, output):
    """dout, checked against f's output."""
    if dout is not None and np.shape(dout) != output.shape:
        both = f"dout has shape {np.shape(dout)}, but the function returns shape {output.shape}"
        raise WrongAnswer(f"{both}; they must be the same.")
    return 1.0 if dout is None else np.asarray(dout, np.float64)


def _raise(name, analytic, numeric, x, positions, look, known, tolerance):
    """Explain as `compare` does, with the central differences as the expected array."""
    scale = tolerance * np.abs(numeric).max()
    if len(positions) == x.size:
        compare(name, analytic.reshape(x.shape), numeric.reshape(x.shape), 0.0, scale, look=look, known=known)
    compare(f"{name} (flat, {len(positions)} random elements)", analytic, numeric, 0.0, scale, look=look)
