"""Lesson 04: GELU and its gradient, computed in float64 as x · σ(2u): the tanh form, written another way."""

from math import erf, pi, sqrt

import numpy as np

SCALE, CUBIC = sqrt(2.0 / pi), 0.044715


def _gate(x):
    """σ(2u) of a float64 x, any shape; it never overflows."""
    small = np.exp(-2 * SCALE * np.abs(x + CUBIC * x**3))
    return np.where(x >= 0, 1, small) / (1 + small)


def forward(x):
    """GELU(x), the tanh form; any shape."""
    x64 = np.asarray(x, np.float64)
    return (x64 * _gate(x64)).astype(x.dtype)


def slope(x):
    """GELU'(x) in float64, any shape."""
    x = np.asarray(x, np.float64)
    gate, du = _gate(x), SCALE * (1 + 3 * CUBIC * x * x)
    return gate + x * gate * (1 - gate) * 2 * du


def backward(dout, x):
    """Gradient of sum(GELU(x) · dout); any shape."""
    return (np.asarray(dout, np.float64) * slope(x)).astype(x.dtype)


# -------------- {sentence: (array, where to look)} for the old checks of lessons 07, 11, 17 and 20, and nothing else:
# -------------- once these have moved, all that follows goes, and `erf` above

# where to look; a test compares these titles with the headings of notebooks/04_gelu_residual.ipynb
FORWARD = 'lesson 04, section "2 · Forward"'
TWO_FORMULAS = 'lesson 04, section "1.2 · Two formulas"'
ALONE = 'lesson 04, section "3.1 · Each number alone"'
INNER = 'lesson 04, section "3.2 · The inside"'
TANH = 'lesson 04, section "3.3 · The slope of tanh"'
GATE = 'lesson 04, section "3.4 · The gate"'
PRODUCT = 'lesson 04, section "3.5 · The product rule"'
IN_PLACE = 'lesson 04, section "3.7 · In place"'


def _parts(x, cubic=CUBIC):
    """u, du/dx, tanh(u) of x in float64, each of x's shape."""
    x = np.asarray(x, np.float64)
    u = SCALE * (x + cubic * x * x * x)
    return u, SCALE * (1 + 3 * cubic * x * x), np.tanh(u)


def _sigmoid(z):
    """1 / (1 + e⁻ᶻ) that never overflows; any shape."""
    small = np.exp(-np.abs(z))
    return np.where(z >= 0, 1, small) / (1 + small)


def forward_mistakes(x) -> dict:
    """Known wrong GELUs that differ visibly from the right one."""
    x = np.asarray(x, np.float64)
    _, _, t = _parts(x)

    def with_inner(u):
        return 0.5 * x * (1 + np.tanh(u))

    return {
        "ReLU, max(x, 0)": (np.maximum(x, 0), FORWARD),
        "the gate alone, 0.5 · (1 + tanh(u)), not multiplied by x": (0.5 * (1 + t), FORWARD),
        "0.5 · x · tanh(u): the 1 is missing": (0.5 * x * t, FORWARD),
        "0.5 · (x + tanh(u)): x multiplies the whole bracket": (0.5 * (x + t), FORWARD),
        "0.5 · (1 + x · tanh(u)): x multiplies the whole bracket": (0.5 * (1 + x * t), FORWARD),
        "the reference without the cubic term 0.044715 · x³": (with_inner(SCALE * x), TWO_FORMULAS),
        "the reference with x² instead of x³": (with_inner(SCALE * (x + CUBIC * x * x)), TWO_FORMULAS),
        "the reference without √(2/π)": (with_inner(x + CUBIC * x**3), TWO_FORMULAS),
        "the reference with 2/π instead of √(2/π)": (with_inner(2 / pi * (x + CUBIC * x**3)), TWO_FORMULAS),
        "the reference with √(π/2) instead of √(2/π)": (with_inner((x + CUBIC * x**3) / SCALE), TWO_FORMULAS),
        "the reference with √2/π instead of √(2/π)": (with_inner(sqrt(2) / pi * (x + CUBIC * x**3)), TWO_FORMULAS),
        "0.5 · x + tanh(u): 0.5 · x multiplies tanh(u), too": (0.5 * x + t, FORWARD),
        "0.5 · x · (1 + tanh(√(2/π)) · (x + 0.044715 · x³)): the bracket of tanh closes too early": (
            0.5 * x * (1 + np.tanh(SCALE) * (x + CUBIC * x**3)),
            FORWARD,
        ),
        "0.5 · x · (1 + √(2/π) · tanh(x + 0.044715 · x³)): √(2/π) belongs inside tanh": (
            0.5 * x * (1 + SCALE * np.tanh(x + CUBIC * x**3)),
            FORWARD,
        ),
        "0.5 · x · (1 + u): tanh is missing": (0.5 * x * (1 + _parts(x)[0]), FORWARD),
        "the reference with √(2/π) on x alone, not on the cubic term": (with_inner(SCALE * x + CUBIC * x**3), FORWARD),
        "the reference with √(2/π) inside the cube, too: it multiplies x + 0.044715 · x³, not x": (
            with_inner(SCALE * x + CUBIC * (SCALE * x) ** 3),
            TWO_FORMULAS,
        ),
        "x · σ(u): (1 + tanh(u)) / 2 is σ(2u)": (x * _sigmoid(_parts(x)[0]), FORWARD),
        "0.5 · x · (1 - tanh(u)), which is x · σ(-2u): the sign of u is turned around": (0.5 * x * (1 - t), FORWARD),
        "x · (1 + tanh(u)): the 0.5 is missing": (x * (1 + t), FORWARD),
        "x · σ(x), the function called SiLU or swish": (x * _sigmoid(x), TWO_FORMULAS),
        "x · σ(1.702 x), a coarser approximation": (x * _sigmoid(1.702 * x), TWO_FORMULAS),
    }


def tail_mistakes(x) -> dict:
    """Wrong GELUs so close to the right one that they show only for x between about -3 and -2."""
    x = np.asarray(x, np.float64)
    taylor = 2 / (3 * pi) - 1 / 6
    return {
        "the exact form with erf: GPT-2 was trained with the tanh form": (exact(x), TWO_FORMULAS),
        "the reference with 0.0455 instead of 0.044715": (0.5 * x * (1 + _parts(x, taylor)[2]), TWO_FORMULAS),
    }


def exact(x):
    """x · Φ(x) = 0.5 · x · (1 + erf(x / √2)) in float64, any shape."""
    x = np.asarray(x, np.float64)
    return 0.5 * x * (1 + np.vectorize(erf, otypes=[float])(x / sqrt(2)))


def slope_mistakes(x) -> dict:
    """Known wrong GELU', to be multiplied by dout."""
    x = np.asarray(x, np.float64)
    u, du, t = _parts(x)
    gate = 0.5 * (1 + t)
    bend = 0.5 * (1 - t * t)  # times du/dx, this is the slope of the gate
    s, phi = _sigmoid(1.702 * x), 0.5 * (1 + np.vectorize(erf, otypes=[float])(x / sqrt(2)))
    return {
        "dout · 0.5 · (1 + tanh(u)): the second term of the product rule is missing": (gate, PRODUCT),
        "dout · x · gate': the first term of the product rule, the gate, is missing": (x * bend * du, PRODUCT),
        "dout · gate': the product rule is missing, only the gate was differentiated": (bend * du, PRODUCT),
        "dout · (gate + gate'): gate' is not multiplied by x": (gate + bend * du, PRODUCT),
        "the reference with du/dx missing: the chain rule needs this factor": (gate + x * bend, GATE),
        "the reference with a minus in front of the second term": (gate - x * bend * du, PRODUCT),
        "the reference with 1 - tanh(u) instead of 1 - tanh²(u)": (gate + 0.5 * x * (1 - t) * du, TANH),
        "the reference with 1 - u² instead of 1 - tanh²(u)": (gate + 0.5 * x * (1 - u * u) * du, TANH),
        "the reference with 1 + tanh²(u) instead of 1 - tanh²(u)": (gate + 0.5 * x * (1 + t * t) * du, TANH),
        "the reference with the 0.5 missing in the second term": (gate + 2 * x * bend * du, GATE),
        "the reference with the 0.5 missing in the first term, the gate": (2 * gate + x * bend * du, GATE),
        "the reference with the 3 missing in du/dx: d(x³)/dx = 3x²": (
            gate + x * bend * SCALE * (1 + CUBIC * x * x),
            INNER,
        ),
        "the reference with du/dx = √(2/π) alone: the cubic term has a slope too": (gate + x * bend * SCALE, INNER),
        "the reference without √(2/π) in du/dx": (gate + x * bend * du / SCALE, INNER),
        "the reference with GELU(x) in place of x / 2 in the second term": (gate + 2 * x * gate * bend * du, PRODUCT),
        "the reference with tanh²(u) instead of 1 - tanh²(u)": (gate + 0.5 * x * t * t * du, TANH),
        "the reference with the slope of tanh missing: 1 - tanh²(u)": (gate + 0.5 * x * du, TANH),
        "the reference with tanh(u) / 2 in place of the gate: the 1 is missing": (gate - 0.5 + x * bend * du, GATE),
        "the reference with half of the second term, x · 0.5 · (1 - tanh²(u)) · du/dx = x · 2 · σ · (1 - σ) · du/dx": (
            gate + 0.5 * x * bend * du,
            GATE,
        ),
        "the reference with x in place of x² in du/dx: d(x³)/dx = 3x²": (
            gate + x * bend * SCALE * (1 + 3 * CUBIC * x),
            INNER,
        ),
        "the slope of x · σ(1.702 x), a coarser approximation": (s + 1.702 * x * s * (1 - s), TWO_FORMULAS),
        "the slope of the exact form with erf: GPT-2 was trained with the tanh form": (
            phi + x * np.exp(-x * x / 2) / sqrt(2 * pi),
            TWO_FORMULAS,
        ),
        "the slope of ReLU": ((x > 0).astype(np.float64), PRODUCT),
        "dout · GELU(x): that is the function, not its slope": (x * gate, ALONE),
    }


def backward_mistakes(dout, x) -> dict:
    """Known wrong dx."""
    dout, x64 = np.asarray(dout, np.float64), np.asarray(x, np.float64)
    _, du, t = _parts(x)
    gate, second = 0.5 * (1 + t), 0.5 * x64 * (1 - t * t) * du
    wrong = {text: (dout * array, where) for text, (array, where) in slope_mistakes(x).items()}
    return wrong | {
        "GELU'(x) alone: dout is missing": (slope(x), ALONE),
        "x · GELU'(dout): dout and x are swapped": (x * slope(dout), ALONE),
        "dout · gate + x · gate': dout multiplies both terms": (dout * gate + second, PRODUCT),
        "gate + dout · x · gate': dout multiplies both terms": (gate + dout * second, PRODUCT),
        "dout + GELU'(x): the chain rule multiplies": (dout + slope(x), ALONE),
    }


def held_mistakes(held, x) -> dict:
    """Known wrong dx of the in-place form when dx is an array of its own that already held something."""
    return {
        "the old content of dx times GELU'(x), in place of dout": (np.asarray(held, np.float64) * slope(x), IN_PLACE)
    }


def in_place_mistakes(dout, x) -> dict:
    """Known wrong dx when dx and dout are one array: it was written before dout had been read."""
    dout, x = np.asarray(dout, np.float64), np.asarray(x, np.float64)
    _, du, t = _parts(x)
    gate, second = 0.5 * (1 + t), 0.5 * x * (1 - t * t) * du
    lost = "dx was written before dout had been read"
    return {
        f"GELU'(x)²: {lost}": (slope(x) ** 2, IN_PLACE),
        f"dout · gate · (1 + x · gate'): {lost}": (dout * gate * (1 + second), IN_PLACE),
        f"dout · gate · x · gate': {lost}": (dout * gate * second, IN_PLACE),
        f"dout² · GELU'(x)²: {lost}": ((dout * slope(x)) ** 2, IN_PLACE),
        f"dout² · GELU'(x): {lost}": (dout**2 * slope(x), IN_PLACE),
    }
