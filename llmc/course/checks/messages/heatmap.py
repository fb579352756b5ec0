"""Where is an array wrong? A small picture below the numbers, in a notebook.

There is none when it would show nothing new: when something is wrong everywhere, or only one entry is.
"""

from dataclasses import dataclass
from html import escape

import numpy as np

SMALL = 4  # entries; the list of numbers shows that many anyway
ROWS, COLUMNS = 24, 48  # of a picture; larger arrays are drawn in blocks, and a block is wrong if any entry in it is
FRAME = "border:1px solid rgba(128,128,128,0.35);padding:0;width:{0}px;height:{0}px;min-width:{0}px"
VERMILLION = "213,94,0"  # of the course's palette; transparent, so that both themes of JupyterLab can show it


@dataclass
class Picture:
    """error (rows, columns): 0 where right, else |got - expected| divided by the largest such error."""

    title: str
    error: np.ndarray

    def html(self) -> str:
        """A table of small squares, darker where the error is larger."""
        error, many = _blocks(self.error, ROWS, COLUMNS)
        size = 14 if max(error.shape) <= 24 else 9
        tr = '<tr style="background:none">'  # JupyterLab makes every second row grey
        rows = "".join(tr + "".join(_square(value, size) for value in row) + "</tr>" for row in error)
        about = f"{escape(self.title)} (the darker, the larger the error{many})"
        return f'<div>{about}<table style="border-collapse:collapse;margin:4px 0">{rows}</table></div>'


def _square(value, size):
    """One cell of the table, with a mark in it for those who cannot see the colour."""
    strength = f"background:rgba({VERMILLION},{0.35 + 0.65 * value:.2f});" if value > 0 else ""
    look = f"{strength}text-align:center;line-height:{size}px;font-size:{size - 2}px;{FRAME.format(size)}"
    return f'<td style="{look}">{"×" if value > 0 else ""}</td>'


def picture(name, got, expected, wrong) -> Picture | None:
    """The picture of an array with the entries `wrong` (bool), or None when it would show nothing new."""
    count = int(wrong.sum())
    if count == wrong.size or count <= 1 or wrong.size <= SMALL:
        return None
    with np.errstate(invalid="ignore"):  # inf - inf
        error = np.where(wrong, np.minimum(np.abs(got - expected), np.finfo(np.float64).max), 0.0)
    error /= error.max()
    error[wrong] = np.maximum(error[wrong], 1e-3)  # still wrong
    error, dropped = _without_repetition(error)
    shape = error.shape
    rows = int(np.prod(shape[:-1], dtype=int))
    error = error.reshape(rows, shape[-1])
    if _blocks(error, ROWS, COLUMNS)[0].all():
        return None
    return Picture(f"Where {name} is wrong: {_axes(wrong.ndim, dropped, shape)}", error)


def _without_repetition(error):
    """(error, leading axes dropped): of an axis whose slices are all wrong in the same places, one slice is enough."""
    dropped = 0
    while error.ndim > 2 and ((error > 0) == (error[:1] > 0)).all():
        error, dropped = error.max(axis=0), dropped + 1
    return error, dropped


def _axes(ndim, dropped, shape) -> str:
    """ "rows are axes 0 and 1 (4 · 5), columns axis 2 (7)"."""
    some = lambda *axes: " and ".join(map(str, range(*axes)))  # noqa: E731
    same = f"the same for all of axis {some(dropped)}; " if dropped else ""
    rows = f"rows are axis {some(dropped, ndim - 1)} ({' · '.join(map(str, shape[:-1]))}), " if shape[:-1] else ""
    return f"{same}{rows}columns axis {ndim - 1} ({shape[-1]})"


def _blocks(error, rows, columns):
    """(the largest error of each block, what a block is): at most (rows, columns) blocks."""
    sizes = []
    for axis, most in enumerate((rows, columns)):
        sizes.append(-(-error.shape[axis] // most))  # entries in a block
        error = np.maximum.reduceat(error, np.arange(0, error.shape[axis], sizes[-1]), axis=axis)
    return error, f"; a mark stands for {sizes[0]} × {sizes[1]} entries" * (max(sizes) > 1)
