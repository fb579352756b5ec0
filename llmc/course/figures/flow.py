"""A data flow: boxes with a name and a shape in them, and arrows from one to the next."""

from llmc.course.figures.alt import note, note_step
from llmc.course.figures.axes import Place
from llmc.course.figures.style import BLUE, GREY, INK, PALE, ink


def box(ax, x, y, name, shape="", *, color=BLUE, width=2.4, height=1.0, filled=False, dashed=False):
    """Draw a box around (x, y) with a name in it, and below that a shape or a remark; returns its Place.

    filled: in its colour, with white letters; else white, with a frame in its colour. dashed: the frame.
    """
    ground = color if filled else "white"
    place = Place(x - width / 2, y - height / 2, width, height, " ".join(name.split()))
    _round(ax, place, facecolor=ground, edgecolor=color, lw=1.8, linestyle="--" if dashed else "-", zorder=3)
    above, below = name.count("\n") + 1, shape.count("\n") + 1 if shape else 0  # lines
    line = 0.84 * height / (above + below)
    look = dict(ha="center", va="center", zorder=4)
    ax.text(x, y + line * below / 2, name, weight="bold", color=ink(INK, ground), **look)
    if shape:
        ax.text(x, y - line * above / 2, shape, size=9, color=ink(GREY, ground), **look)
    return place


def area(ax, xlim, ylim, text="", *, color=GREY, dashed=False):
    """Draw a pale ground under a part of a diagram, or a dashed frame around it, with text in its upper left corner."""
    place = Place(xlim[0], ylim[0], xlim[1] - xlim[0], ylim[1] - ylim[0], " ".join(text.split()))
    look = dict(facecolor="none", edgecolor=color, linestyle="--", lw=1.3) if dashed else dict(facecolor=PALE, lw=0)
    _round(ax, place, zorder=0, **look)
    if text:
        look = dict(textcoords="offset points", va="top", weight="bold", color=ink(color))
        ax.annotate(text, (xlim[0], ylim[1]), (7, -7), **look)
    return place


def arrow(ax, start, end, text="", *, color=GREY, thick=False, dashed=False, bend=0.0, shift=(0, 0)):
    """Draw an arrow from one Place or point (x, y) to another, with a text above its middle.

    bend: 0 is straight, 0.3 a gentle curve. shift: moves the text, in units of the axes.
    """
    begin = start.edge(_middle(end)) if isinstance(start, Place) else start
    stop = end.edge(_middle(start)) if isinstance(end, Place) else end
    look = dict(color=color, lw=4 if thick else 1.6, mutation_scale=20 if thick else 13, shrinkA=2, shrinkB=2)
    look |= dict(linestyle="--" if dashed else "-", connectionstyle=f"arc3,rad={bend}")
    ax.annotate("", stop, begin, arrowprops=dict(arrowstyle="-|>", **look), zorder=2)
    if text:
        middle = [(a + b) / 2 + by for a, b, by in zip(begin, stop, shift)]
        look = dict(ha="center", va="bottom", color=ink(color), zorder=4, textcoords="offset points")
        ax.annotate(text, middle, (0, 3), **look)
    if getattr(start, "name", "") and getattr(end, "name", ""):
        note_step(ax, start.name, end.name, text)
    elif text:
        note(ax, text)


def flow(ax, stages, at=(0, 0), *, step=3.2, **look):
    """Draw boxes from left to right and an arrow from each to the next; returns their Places.

    stages: (name, shape) or (name, shape, color) of each. at: the middle of the first. step: from one middle to the
    next. look: as for `box`.
    """
    places = []
    for k, (name, shape, *color) in enumerate(stages):
        own = dict(look, color=color[0]) if color else look
        places.append(box(ax, at[0] + step * k, at[1], name, shape, **own))
    for first, second in zip(places, places[1:]):
        arrow(ax, first, second)
    return places


def way_back(ax, start, end, text="", *, color=GREY, depth=0.8):
    """Draw an arrow that leaves one Place downwards, passes under all those between, and enters another from below.

    depth: how far below the start; negative: passes above them all instead.
    """
    (x0, x1), level = (start.middle[0], end.middle[0]), (start.bottom if depth > 0 else start.top) - depth
    leaves, enters = start.edge((x0, level)), end.edge((x1, level))
    ax.plot([x0, x0, x1], [leaves[1], level, level], color=color, lw=1.6, zorder=2)
    look = dict(arrowstyle="-|>", color=color, lw=1.6, mutation_scale=13, shrinkA=0, shrinkB=2)
    ax.annotate("", enters, (x1, level), arrowprops=look, zorder=2)
    ax.annotate(text, ((x0 + x1) / 2, level), (0, 3), textcoords="offset points", ha="center", color=ink(color))
    note_step(ax, start.name, end.name, text)


def _middle(place):
    return place.middle if isinstance(place, Place) else place


def _round(ax, place, **look):
    """A rectangle with round corners."""
    from matplotlib.patches import FancyBboxPatch

    style = f"round,pad=0,rounding_size={0.12 * min(place.height, 1)}"
    ax.add_patch(FancyBboxPatch((place.left, place.bottom), place.width, place.height, boxstyle=style, **look))
