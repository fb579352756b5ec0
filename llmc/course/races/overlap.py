"""Work that a parallel loop splits into ranges: do the ranges of neighbouring turns overlap?"""

import numpy as np


def shared_index(turns) -> str:
    """ "Along axis 1, turn 0 writes 0 … 2 and turn 1 writes 2 … 4: …", or "" where no such ranges overlap slightly.

    turns: {turn: True where it wrote the array}. The ranges go on from turn to turn, and none lies inside another.
    """
    if len(turns) < 2:
        return ""
    order = sorted(turns)
    for axis in range(turns[order[0]].ndim):
        others = tuple(k for k in range(turns[order[0]].ndim) if k != axis)
        places = [np.flatnonzero(turns[turn].any(axis=others)) for turn in order]
        if not all(p.size and np.array_equal(p, np.arange(p[0], p[-1] + 1)) for p in places):
            continue
        first, last = (np.array([p[end] for p in places]) for end in (0, -1))
        shared = last[:-1] - first[1:] + 1  # indices that two neighbours have in common
        if (np.diff(first) > 0).all() and (np.diff(last) >= 0).all() and (shared > 0).any() and (shared >= 0).all():
            k = int(np.argmax(shared > 0))
            if shared[k] >= last[k] - first[k] + 1:
                return ""
            ranges = [f"turn {order[j]} writes {_range(first[j], last[j])}" for j in (k, k + 1)]
            both = f"index {first[k + 1]}" if shared[k] == 1 else f"indices {_range(first[k + 1], last[k])}"
            return f"Along axis {axis}, {' and '.join(ranges)}: {both} should belong to one of them alone"
    return ""


def _range(first, last) -> str:
    return f"{first}" if first == last else f"{first} … {last}"
