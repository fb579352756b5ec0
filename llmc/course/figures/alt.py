"""The alt text of a figure: what a screen reader says in its place.

It is made from the figure itself: its kind, titles and axes, where its labelled lines begin and end, the values of its
bars. Only its author knows what a diagram means: `describe(figure, "…")` replaces all of this but the titles.
"""

import re
from weakref import WeakKeyDictionary

LONGEST = 900  # characters
MOST = 8  # lines, bars or parts that are listed
_described = WeakKeyDictionary()  # {figure: its author's words}
_parts = WeakKeyDictionary()  # {axes: ["x (B, T, C), 3 rows of 4", …]}


def describe(figure, text):
    """Give a figure its alt text: what it shows, in a sentence or two. Its title comes first by itself."""
    _described[figure] = " ".join(text.split())


def note(ax, part):
    """Note a part that a helper drew and that no label of the axes mentions: "x (B, T, C), 3 rows of 4"."""
    _parts.setdefault(ax, []).append(_plain(part))


def note_step(ax, start, end, through=""):
    """Note an arrow; arrows that go on from where the last one ended form one chain: "context → GPT-2 → logits"."""
    parts = _parts.setdefault(ax, [])
    start, *way = [_plain(name) for name in (start, through, end) if name]
    if not (parts and parts[-1].endswith(f"→ {start}")):
        parts.append(start)
    parts[-1] = " → ".join([parts[-1], *way])


def words(figure) -> str:
    """The alt text of a figure."""
    panels = [ax for ax in figure.axes if ax.get_visible() and ax.get_label() != "<colorbar>"]
    titles = [_plain(text.get_text()) for text in figure.texts]
    if figure in _described:
        said = [*titles, *map(_title, panels), _described[figure]]
    elif len(panels) == 1:
        said = [*titles, _first_up(_panel(panels[0]))]
    else:
        numbered = [f"Panel {k}, {_panel(ax)}" for k, ax in enumerate(panels, start=1)]
        said = [*titles, f"{len(panels)} panels", *numbered]
    said += [f"Colours: {_plain(bar.get_ylabel())}" for bar in figure.axes if bar not in panels and bar.get_ylabel()]
    text = " ".join(_sentence(part) for part in said if part)
    return text if len(text) <= LONGEST else text[: LONGEST - 1].rsplit(" ", 1)[0] + "…"


def _panel(ax) -> str:
    """One axes: 'line plot: "Title". x: step. y: loss. Lines: training, from 7.1 to 3.2.'"""
    kind, listed = _kind(ax)
    title = f'{kind}: "{_title(ax)}"' if _title(ax) else kind
    axes = [_axis(ax, "x"), _axis(ax, "y")] if ax.axison else []
    return ". ".join(filter(None, [title, *axes, *listed]))


def _kind(ax):
    """("bar chart", ["Bars: NumPy 12; BLAS 3", "Shows: the limit, 2.5 ms"])."""
    parts = _listing("Shows", _parts.get(ax, []))
    if not ax.axison:
        return "diagram", [parts or _listing("Texts", _texts(ax))]
    if ax.images:
        return "heat map", [parts]
    if ax.containers:
        return "bar chart", [_listing("Bars", _bars(ax)), _listing("Lines", _lines(ax)), parts]
    if not ax.lines and not ax.collections:
        return "drawing", [parts]
    drawn = any(line.get_linestyle() != "None" for line in ax.lines)
    dots = [_plain(dots.get_label()) for dots in ax.collections if not dots.get_label().startswith("_")]
    return "line plot" if drawn else "scatter plot", [_listing("Lines", _lines(ax)), _listing("Marks", dots), parts]


def _lines(ax):
    """Labelled lines and where they begin and end: ["training, from 7.1 to 3.2"]."""
    found = []
    for line in ax.lines:
        y = [value for value in line.get_ydata() if value == value]  # without NaN
        if y and not line.get_label().startswith("_"):
            moves = line.get_transform() == ax.transData and y[0] != y[-1]  # axvline goes from 0 to 1 of the axes
            ends = f", from {_number(y[0])} to {_number(y[-1])}" if moves else ""
            found.append(_plain(line.get_label()) + ends)
    return found


def _bars(ax):
    """["NumPy 12", "BLAS 3"]: names from the ticks where there are any; nothing for a histogram of many."""
    found = []
    for group in ax.containers:
        across = getattr(group, "orientation", "vertical") == "horizontal"
        names = {round(at, 3): text.get_text() for at, text in _ticks(ax.yaxis if across else ax.xaxis)}
        label = "" if group.get_label().startswith("_") else group.get_label()
        for bar in getattr(group, "patches", ()):
            middle = bar.get_y() + bar.get_height() / 2 if across else bar.get_x() + bar.get_width() / 2
            value = bar.get_width() if across else bar.get_height()
            if value:
                found.append(_plain(f"{names.get(round(middle, 3), '')} {label} {_number(value)}"))
    return found if len(found) <= 3 * MOST else []


def _ticks(axis):
    return zip(axis.get_majorticklocs(), axis.get_majorticklabels())


def _axis(ax, which) -> str:
    """ "x: training step (logarithmic)"; nothing for an axis without a label."""
    label = _plain(getattr(ax, f"get_{which}label")())
    log = " (logarithmic)" if getattr(ax, f"get_{which}scale")() == "log" and "log" not in label else ""
    return f"{which}: {label}{log}" if label else ""


def _texts(ax):
    """The words on a diagram, without single letters and numbers."""
    return [_plain(text.get_text()) for text in ax.texts if re.search(r"[^\W\d_]{2}", text.get_text())]


def _listing(heading, items) -> str:
    items = [item for item in items if item]
    more = f", and {len(items) - MOST} more" if len(items) > MOST else ""
    return f"{heading}: {'; '.join(items[:MOST])}{more}" if items else ""


def _title(ax) -> str:
    return _plain(ax.get_title(loc="left") or ax.get_title() or ax.get_title(loc="right"))


def _plain(text) -> str:
    """One line, without the marks of mathtext."""
    text = re.sub(r"\\(?:mathrm|mathbf|mathit|text)\b|[${}]|\\(?=[ ,;!])", "", str(text))
    return " ".join(text.split())


def _first_up(text) -> str:
    return text[:1].upper() + text[1:]


def _sentence(text) -> str:
    return text if text.endswith((".", "!", "?", "…")) else text + "."


def _number(value) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
