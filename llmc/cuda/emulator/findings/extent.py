"""Which part of an array is meant: "columns 32 to 128 of every row", in place of a count alone."""

import numpy as np


def extent(mask) -> str:
    """The True entries of a mask in words, if they are a range or a rectangle of rows and columns; else "".

    mask: (…, n) bool. All axes but the last are rows. "" also where it is one entry, which needs no other words.
    """
    if mask.sum() < 2:
        return ""
    if mask.all():
        return "all of it"
    if mask.ndim < 2:
        return _range(mask, "elements") if _is_range(mask) else ""
    table = mask.reshape(-1, mask.shape[-1])  # (rows, n)
    rows, columns = table.any(axis=1), table.any(axis=0)  # (rows,), (n,)
    if not np.array_equal(table, rows[:, None] & columns) or not (_is_range(rows) and _is_range(columns)):
        return ""
    if columns.all():
        return f"all of {_range(rows, 'rows')}"
    return f"{_range(columns, 'columns')} of {'every row' if rows.all() else _range(rows, 'rows')}"


def _is_range(line) -> bool:
    places = np.flatnonzero(line)
    return len(places) == places[-1] - places[0] + 1


def _range(line, word) -> str:
    """ "columns 32 to 128", "row 4"."""
    first, last = np.flatnonzero(line)[[0, -1]]
    return f"{word} {first} to {last}" if last > first else f"{word.removesuffix('s')} {first}"
