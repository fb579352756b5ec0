"""Draws the same token as `sampling.choose`, but faster: usually without float64, summing everything or sorting
everything.

By definition, the draw walks along the cumulative probabilities until they pass the coin. The quick numbers give the
same token unless the coin is so close to the boundary between two tokens that rounding errors matter; in that case,
this module does not decide. The errors are bounded, not guessed, so a draw never differs.
"""

import numpy as np

BLOCK = 128  # numbers that are summed first
CANDIDATES = 1024, 8192  # of the most probable tokens, among which the ones for top-p are looked for first
EXACT = 1e-10  # a share of the sum: more than float64 loses in 50,000 additions


def draw(z, temperature, top_k, top_p, coin) -> int | None:
    """The token that a coin, a number in [0, 1), chooses according to logits z (V,), float32 or float64, all finite.

    None if only the definition can decide. The options are those of `sampling.probabilities`.
    """
    if temperature < 1e-30:
        return None
    if (top_k or z.size) < z.size:
        order = _largest(z, top_k)  # (k,)
        p = _exact(z, order, temperature)  # (k,)
        held = np.cumsum(p)  # (k,)
        n = order.size if top_p is None else np.searchsorted(held, top_p * held[-1]) + 1
        return _among(order[:n], p[:n], coin)
    for numbers, error in ((np.float32, _error(z.size)), (np.float64, EXACT)):
        p = _powers(z, temperature, numbers)  # (blocks, BLOCK)
        sums = np.cumsum(p.sum(axis=1), dtype=np.float64)  # (blocks,)
        if (top_p or 1) < 1:
            token = _of_top_p(z, temperature, top_p * sums[-1], error * sums[-1], coin)
        else:
            token = _of_all(p, sums, error * sums[-1], coin)
        if token is not None:
            return token
    return None


def _powers(z, temperature, numbers):
    """exp((z - max) / temperature) in float32 or float64, with zeros behind it: (blocks, BLOCK)."""
    p = np.empty(-(-z.size // BLOCK) * BLOCK, numbers)
    below, p[z.size :] = p[: z.size], 0
    np.subtract(z, z.max(), out=below, dtype=np.result_type(z, numbers), casting="same_kind")
    np.divide(below, numbers(temperature), out=below)
    np.exp(below, out=below)
    return p.reshape(-1, BLOCK)


def _error(V) -> float:
    """By how much a sum of `_powers` in float32 may be off at most, as a share of all.

    The difference from the maximum, the temperature and their quotient are rounded, so an exponent x is off by up to
    3 x 2^-24; averaged over all tokens, x is at most ln V. NumPy's exp is off by less than 4 units of the last digit;
    and BLOCK numbers go through 20 additions, eight sums side by side.
    """
    return (3 * np.log(V) + 8 + 20) * 2.0**-24 + EXACT


def _of_all(p, sums, error, coin):
    """The token that the coin chooses among all; sums (blocks,): of p's rows and those before."""
    at = coin * sums[-1]
    block = int(np.searchsorted(sums, at, side="right"))
    before = sums[block - 1] if block else 0.0
    place = _passed(np.cumsum(p[block], dtype=np.float64) + before, before, at, error)
    return None if place is None else block * BLOCK + place


def _largest(z, k):
    """(k,): where the k largest of z are, the largest first; of equal ones, the first counts as larger."""
    least = np.partition(z, z.size - k)[z.size - k]
    larger = np.flatnonzero(z > least)
    found = np.concatenate([larger, np.flatnonzero(z == least)[: k - larger.size]])  # (k,)
    return found[np.argsort(-z[found], kind="stable")]


def _exact(z, order, temperature):
    """exp((z - max) / temperature) for those in order, as the definition computes it."""
    with np.errstate(over="ignore"):
        return np.exp((z[order].astype(np.float64) - np.float64(z.max())) / temperature)


def _of_top_p(z, temperature, share, error, coin):
    """The token among the fewest that hold a share of all; the share, too, may be too near a boundary to say."""
    for m in CANDIDATES:
        if m >= z.size:
            return None
        order = _largest(z, m)  # (m,)
        p = _exact(z, order, temperature)  # (m,)
        held = np.cumsum(p)  # (m,)
        if held[-1] > share + error:
            last = _passed(held, 0.0, share, error)
            return None if last is None else _among(order[: last + 1], p[: last + 1], coin)
    return None


def _among(order, p, coin):
    """The token of order, whose shares are p, that the coin chooses: tokens are passed in order of id."""
    ascending = np.argsort(order)
    held = np.cumsum(p[ascending])  # (n,)
    place = _passed(held, 0.0, coin * held[-1], EXACT * held[-1])
    return None if place is None else int(order[ascending[place]])


def _passed(held, before, at, error):
    """The first place where the ascending sums held (n,), from `before` on, pass `at`; None where it is too near."""
    place = int(np.searchsorted(held, at, side="right"))
    if place == held.size or held[place] - at < error:
        return None
    return None if at - (held[place - 1] if place else before) < error else place
