"""What the numbers of a wrong output show by themselves: where they come from, or in which places of a float4 they are.

Both functions return known mistakes for `compare`, {sentence after "out equals ": array}: one if they see something
that holds for every wrong number, else none.
"""

import numpy as np

LIKE = 1e-4  # relative to the largest: two numbers are the same
SLOTS = "xyzw"


def came_from(name, out, source, wanted, axes) -> dict:
    """Which coordinates are wrong, if every number of `out` is one of `source`, whose numbers differ from each other.

    wanted: like out, the flat indices of source that belong there. axes: {"b": B, "t": T, …}, source's axes in order.
    """
    order = np.argsort(source, axis=None)
    found = np.searchsorted(source.reshape(-1), out, sorter=order)
    index = order[np.minimum(found, source.size - 1)]  # like out
    if not np.array_equal(source.reshape(-1)[index], out) or np.array_equal(index, wanted):
        return {}
    got, should = (np.stack(np.unravel_index(i, tuple(axes.values()))) for i in (index, wanted))
    differs = (got != should).reshape(len(axes), -1).any(axis=1)
    wrong, right = ([axis for axis, bad in zip(axes, differs) if bad == which] for which in (True, False))
    first = tuple(int(i) for i in np.argwhere((got != should).any(axis=0))[0])
    places = (f"({', '.join(str(int(i)) for i in c[(slice(None), *first)])})" for c in (got, should))
    fine = f" ({_listed(right)} {'is' if len(right) == 1 else 'are'} right)" if right else ""
    holds = "out{} holds the number with ({}) = {}, and should hold the one with {}"
    what = holds.format(list(first), ", ".join(axes), *places)
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
