"""Arrays drawn as what they are: a grid of cells with numbers in them, or a row of cells with texts."""

import numpy as np

from llmc.course.figures.alt import note
from llmc.course.figures.axes import Place
from llmc.course.figures.style import GREY, INK, RED, SKY, diverging, ink, tint

EDGE = "#C4C4C4"
HIDDEN = "#DDDDDD"  # the ground of -inf: masked
LETTERS = 9.5  # points


def number_grid(
    ax, values, at, label="", *, limit=None, colors=None, text=None, frame=(), rows=(), columns=(), wide=1.35, color=INK
):
    """Draw an array (rows, columns), or one row (columns,), with its upper left corner at `at`; returns its Place.

    label, color: the text above, and its colour. limit: cells are coloured by their numbers, blue negative,
    white 0, orange positive, strongest from ±limit on (by default the largest number). colors: instead of that, one
    colour for all cells, a list of one for each row, or of lists of one for each cell; they are drawn pale. text: for
    each cell: a function of its number, or "" for nothing; by default `number_text`. frame: cells (i, j) to
    outline. rows, columns: names, to the left and above. wide: width of a cell; its height is 1.
    """
    values = np.atleast_2d(values)
    left, top = at
    grounds = _grounds(values, limit, colors)
    for (i, j), value in np.ndenumerate(values):
        written = "" if text == "" else (text or number_text)(value)
        _cell(ax, left + wide * j, top - i - 1, wide, 1, grounds[i][j], written)
    for i, j in frame:
        _rectangle(ax, left + wide * j, top - i - 1, wide, 1, fill=False, edgecolor=RED, lw=2.4, zorder=4)
    for i, name in enumerate(rows):
        ax.text(left - 0.25, top - i - 0.5, name, ha="right", va="center_baseline", size=9, color=GREY)
    for j, name in enumerate(columns):
        ax.text(left + wide * (j + 0.5), top + 0.1, name, ha="center", va="bottom", size=9, color=GREY)
    place = Place(left, top - len(values), wide * values.shape[1], len(values), label, *values.shape)
    if label:
        ax.text(place.middle[0], top + (1 if columns else 0.2), label, ha="center", va="bottom", color=ink(color))
    note(ax, f"{label or 'numbers'}, {len(values)} row{'s' * (len(values) > 1)} of {values.shape[1]}")
    return place


def cell_row(ax, texts, at, widths=1, *, colors=SKY, label="", height=0.8, size=LETTERS):
    """Draw texts in a row of cells, its upper left corner at `at`: tokens, bytes, threads; returns its Place.

    widths, colors: one for all, or one for each cell; colours are drawn pale. label: to the left of the row.
    """
    texts = list(map(str, texts))
    left, top = at
    right = left
    for text, width, color in zip(texts, _each(widths, texts), _each(colors, texts)):
        _cell(ax, right, top - height, width, height, tint(color), text, size=size, family="DejaVu Sans Mono")
        right += width
    if label:
        ax.text(left - 0.3, top - height / 2, label, ha="right", va="center_baseline")
    shown = " ".join(texts[:12]) + (" …" if len(texts) > 12 else "")
    note(ax, f"{label}: {shown}" if label else shown)
    return Place(left, top - height, right - left, height, label)


def number_text(value) -> str:
    """A number, as short as a cell needs it.

    >>> [number_text(v) for v in (3.0, -0.333, 1234.5, 1e-4, float("-inf"))]
    ['3', '−0.33', '1234', '≈ 0', '−∞']
    """
    if not np.isfinite(value):
        return "" if np.isnan(value) else "∞" if value > 0 else "−∞"
    if 0 < abs(value) < 0.005:
        return "≈ 0"  # a plain 0 would be wrong
    digits = 0 if abs(value) >= 100 or value == round(value) else 1 if abs(value) >= 10 else 2
    return f"{value:.{digits}f}".replace("-", "−")


def _grounds(values, limit, colors):
    """A list of lists of colours, one for each cell."""
    if colors is not None:
        return [[tint(color) for color in _each(row, values[0])] for row in _each(colors, values)]
    finite = np.abs(values[np.isfinite(values)])
    limit = limit or (finite.max() if finite.size else 0) or 1
    levels = np.clip(np.nan_to_num(values / limit, posinf=1, neginf=0), -1, 1)  # (rows, columns)
    shades = diverging()(0.5 + 0.4 * levels)  # (rows, columns, 4)   the ends of the map are too dark to read on
    return [[HIDDEN if value == -np.inf else shade for value, shade in zip(*pair)] for pair in zip(values, shades)]


def _each(given, items):
    """One value for each item."""
    return [given] * len(items) if isinstance(given, str | int | float) else list(given)


def _cell(ax, left, bottom, width, height, ground, text, size=LETTERS, family=None):
    _rectangle(ax, left, bottom, width, height, facecolor=ground, edgecolor=EDGE, lw=0.8, zorder=3)
    if text:
        look = dict(ha="center", va="center_baseline", size=size, family=family, color=ink(INK, ground), zorder=5)
        ax.text(left + width / 2, bottom + height / 2, text.replace("$", r"\$"), **look)


def _rectangle(ax, left, bottom, width, height, **look):
    from matplotlib.patches import Rectangle

    ax.add_patch(Rectangle((left, bottom), width, height, **look))
