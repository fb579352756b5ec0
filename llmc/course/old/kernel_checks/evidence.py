"""What the numbers of a wrong output show by themselves: where they come from, or in which places of a float4 they are.

Both functions return known mistakes for `compare`, {sentence after "out equals ": array}: one if they see something
that holds for every wrong number, else none.
"""

import numpy as np

LIKE = 1e-4  # relative to the largest: two numbers are the same
SLOTS = "xyzw"


def came_from(name, out, source, wanted, axes) -> dict:
    """Which coordinates are wrong, if every number of `out` is one of `source`, most of whose numbers differ.

    wanted: like out, the flat indices of source that belong there. axes: {"b": B, "t": T, …}, source's axes in order.
    """
    values, places, counts = np.unique(source, return_index=True, return_counts=True)
    found = np.minimum(np.searchsorted(values, out), values.size - 1)  # like out
    index, once = places[found], counts[found] == 1  # of a number that occurs twice nobody knows which it was
    if not np.array_equal(values[found], out) or np.array_equal(index[once], wanted[once]):
        return {}
    got, should = (np.stack(np.unravel_index(i, tuple(axes.values()))) for i in (index, wanted))
    differs = ((got != should) & once).reshape(len(axes), -1).any(axis=1)
    wrong, right = ([axis for axis, bad in zip(axes, differs) if bad == which] for which in (True, False))
    first = tuple(int(i) for i in np.argwhere((got != should).any(axis=0) & once)[0])
    both = (f"({', '.join(str(int(i)) for i in c[(slice(None), *first)])})" for c in (got, should))
    fine = f" ({_listed(right)} {'is' if len(right) == 1 else 'are'} right)" if right else ""
    holds = "out{} holds the number with ({}) = {}, and should hold the one with {}"
    what = holds.format(list(first), ", ".join(axes), *both)
    return {f"numbers of {name}, but with another {_listed(wrong)} than they should have{fine}; {what}": out}


def slots(out, right) -> dict:
    """Which of .x, .y, .z and .w are wrong, or whether only the tail is; out and right (…, n) in fours along n."""
    n = out.shape[-1]
    whole = np.arange(n) < n // 4 * 4  # (n,)
    wrong = np.abs(out - right) > LIKE * np.abs(right).max()  # (…, n)
    bad = wrong.reshape(-1, n).any(axis=0)  # (n,)
    in_fours = [k for k in range(4) if (bad & whole)[k::4].any()]
    if bad.any() and not in_fours:
        return {"the reference, except behind the last whole four: look at what happens to the tail": out}
    if not 0 < len(in_fours) < 4 or (bad & ~whole).any():
        return {}
    return {f"the reference, except for {_listed(['.' + SLOTS[k] for k in in_fours])} of each float4": out}


def _listed(words) -> str:
    """ "b, s and j"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)
