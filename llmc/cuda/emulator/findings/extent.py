"""Which part of an array is meant: "columns 32 to 128 of every row", "[1, 2:5, :]", in place of a count alone."""

import math

import numpy as np


def extent(mask) -> str:
    """The True entries of a bool array in words, if they are a range, or a range along every axis; else "".

    "" also where it is one entry, which needs no other words.
    """
    if mask.sum() < 2:
        return ""
    if mask.all():
        return "all of it"
    if mask.ndim < 2:
        return _range(mask, "elements") if _is_range(mask) else ""
    axes = range(mask.ndim)
    lines = [mask.any(axis=tuple(other for other in axes if other != axis)) for axis in axes]  # (n of this axis,) each
    if mask.sum() != math.prod(line.sum() for line in lines) or not all(map(_is_range, lines)):
        return ""
    return _of_a_table(*lines) if mask.ndim == 2 else f"[{', '.join(map(_slice, lines))}]"


def _of_a_table(rows, columns) -> str:
    if columns.all():
        return f"all of {_range(rows, 'rows')}"
    return f"{_range(columns, 'columns')} of {'every row' if rows.all() else _range(rows, 'rows')}"


def _slice(line) -> str:
    """ "2:5", "4", ":"."""
    first, last = np.flatnonzero(line)[[0, -1]]
    return ":" if line.all() else f"{first}:{last + 1}" if last > first else f"{first}"


def _is_range(line) -> bool:
    places = np.flatnonzero(line)
    return len(places) == places[-1] - places[0] + 1


def _range(line, word) -> str:
    """ "columns 32 to 128", "row 4"."""
    first, last = np.flatnonzero(line)[[0, -1]]
    return f"{word} {first} to {last}" if last > first else f"{word.removesuffix('s')} {first}"
