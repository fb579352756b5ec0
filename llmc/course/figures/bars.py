"""Measurements against a limit: bars from the top down, the number at the end of each, the limit in black."""

import numpy as np

from llmc.course.figures.alt import note
from llmc.course.figures.style import BLUE, COLORS, INK, ink

PARTS = tuple(COLORS.values())
AT_THE_END = dict(textcoords="offset points", va="center", size=9.5, zorder=5)
PLATE = dict(facecolor="white", edgecolor="none", pad=1, alpha=0.9)  # under a text that a line may cross


def bars(ax, values, *, unit="", text=None, colors=BLUE, limit=None, limit_label="the limit", log=False):
    """Draw {name: number} as horizontal bars.

    text: at the end of each bar: a format like "{:.1f} ms", or a list of texts; by default the number and
    its unit. limit: one number, drawn as a black line, or a number for each bar, drawn as a mark on it. A bar without
    its limit says little: a copy moves the same bytes, a product of large matrices does the same operations.
    """
    names, numbers = list(values), list(values.values())
    if text is None or isinstance(text, str):
        text = [(text or f"{{:,.3g}} {unit}").format(number).strip() for number in numbers]
    ax.barh(names, numbers, color=colors, height=0.62)
    limits = [] if limit is None else np.atleast_1d(limit).tolist()
    ends = [max(pair) for pair in zip(numbers, limits)] if len(limits) == len(numbers) > 1 else numbers
    for k, words in enumerate(text):
        ax.annotate(words, (ends[k], k), (5, 0), bbox=PLATE, **AT_THE_END)
    _scale(ax, [*numbers, *limits], len(names), log)
    if len(limits) == 1:
        _line(ax, limits[0], limit_label)
    elif limits:
        _marks(ax, limits, limit_label)
    ax.grid(axis="y", visible=False)
    ax.tick_params(axis="y", length=0)


def _scale(ax, numbers, count, log):
    """From the top down, with room for the texts at the ends and the label above."""
    most = max(numbers)
    ax.set_ylim(count - 0.5, -1.0)
    if log:
        least = min(numbers)
        ax.set(xscale="log", xlim=(0.4 * least, 2 * most * (most / least) ** 0.3))
    else:
        ax.set_xlim(0, 1.3 * most)


def _line(ax, limit, label):
    """One limit for all bars, named above them on the side that has more room."""
    ax.axvline(limit, color="black", lw=2.2, zorder=3)
    (right, _), (left, _) = ax.transLimits.transform([(limit, 0), (limit, 0)])
    offset, side = ((5, 0), "left") if right < 0.5 else ((-5, 0), "right")
    ax.annotate(label, (limit, -0.68), offset, ha=side, **AT_THE_END)
    note(ax, f"black line at {limit:,.3g}: {label}")


def _marks(ax, limits, label):
    """A limit for each bar."""
    for k, limit in enumerate(limits):
        (mark,) = ax.plot([limit, limit], [k - 0.42, k + 0.42], color="black", lw=3)
    ax.legend([mark], [label], loc="upper right", bbox_to_anchor=(1, 1.02))
    note(ax, f"black marks: {label}, {', '.join(f'{limit:,.3g}' for limit in limits)}")


def stacked_bars(ax, rows, *, text="{:,.3g}", colors=PARTS, least=0.07):
    """Draw {row: {part: number}}: one horizontal bar a row, its parts one after the other, named in the legend.

    text: the format of the number in a part; parts below the share `least` of the longest bar are too narrow for one.
    """
    longest = max(sum(parts.values()) for parts in rows.values())
    order = list(dict.fromkeys(part for parts in rows.values() for part in parts))
    lefts = [0.0] * len(rows)
    for part, color in zip(order, colors):
        numbers = [parts.get(part, 0.0) for parts in rows.values()]
        ax.barh(list(rows), numbers, left=lefts, color=color, height=0.62, edgecolor="white", label=part)
        for k, (number, left) in enumerate(zip(numbers, lefts)):
            if number > least * longest:
                look = dict(ha="center", va="center", size=9.5, color=ink(INK, color))
                ax.text(left + number / 2, k, text.format(number), **look)
        lefts = [left + number for left, number in zip(lefts, numbers)]
    ax.set(xlim=(0, 1.02 * longest), ylim=(len(rows) - 0.5, -0.5))
    ax.grid(visible=False)
    ax.tick_params(axis="y", length=0)
    ax.figure.legend(ncols=len(order), loc="outside lower center")
