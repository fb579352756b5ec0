"""Lesson 15: what a block of results needs, and where lanes meet at the banks, drawn."""

import numpy as np

from llmc.course.figures import BLUE, GREY, INK, ORANGE, PALE, ink, roofline, tint

NEAR = 0.28  # of two points, as the logarithm of their quotients: their labels would touch


def draw_product(ax, tile, slices):
    """a (M, K) times b (K, N): the tile of the result that a block computes, the bands it needs, a slice of each."""
    size, gap = 8.0, 1.2  # of each matrix, and between them
    b0 = size + gap  # b lies above the result, a on its left
    _matrix(ax, 0, 0, size, "a   (M, K)", (size / 2, -0.7))
    _matrix(ax, b0, b0, size, "b   (K, N)", (b0 + size / 2, b0 + size + 0.55))
    _matrix(ax, b0, 0, size, "result   (M, N)", (b0 + size / 2, -0.7))
    top, left, side, depth = 3.0, 4.0, size / tile, size / slices
    _part(ax, 0, size - top - side, size, side, tint(BLUE, 0.3))
    _part(ax, b0 + left, b0, side, size, tint(ORANGE, 0.3))
    _part(ax, 3 * depth, size - top - side, depth, side, BLUE)
    _part(ax, b0 + left, b0 + size - 4 * depth, side, depth, ORANGE)
    _part(ax, b0 + left, size - top - side, side, side, INK)
    ax.text(b0 + left + side / 2, size - top - side - 0.4, "one block", ha="center", va="center", fontsize=9.5)
    ax.text(3.5 * depth, size - top + 0.25, "a slice", ha="center", fontsize=9.5, color=ink(BLUE))
    ax.text(b0 + left + side + 0.2, b0 + size - 3.5 * depth, "a slice", va="center", fontsize=9.5, color=ink(ORANGE))
    ax.set(xlim=(-0.5, 2 * size + gap + 0.5), ylim=(-1.3, 2 * size + gap + 1.2), aspect="equal")
    ax.axis("off")


def _matrix(ax, x, y, size, name, at):
    _part(ax, x, y, size, size, PALE)
    ax.text(*at, name, ha="center", va="center", fontsize=11)


def _part(ax, x, y, width, height, color):
    from matplotlib.patches import Rectangle

    ax.add_patch(Rectangle((x, y), width, height, facecolor=color, edgecolor=GREY, lw=0.6))


def at_the_banks(begins) -> np.ndarray:
    """(8, 32): which of 8 lanes wants which bank, if lane l reads four floats from begins[l] on."""
    picture = np.zeros((len(begins), 32))
    for lane, begin in enumerate(begins):
        picture[lane, (begin + np.arange(4)) % 32] = 1
    return picture


def draw_banks(ax, begins):
    """Lanes (down) and banks (across); a bank that two lanes want is marked. Returns how many passes it takes."""
    picture = at_the_banks(begins)
    queue = picture.sum(axis=0)  # (32,)
    crowded = np.where((queue > 1) & (picture > 0), 2, picture)
    shown = np.select([crowded == 2, crowded == 1], [1.0, 0.5], 0.0)
    from matplotlib.colors import ListedColormap

    ax.imshow(shown, cmap=ListedColormap([PALE, BLUE, ORANGE]), vmin=0, vmax=1, aspect="auto")
    for lane, bank in np.argwhere(picture > 0):
        ax.text(bank, lane, "×" if queue[bank] > 1 else "•", ha="center", va="center", color="white", fontsize=9)
    ax.set(xlabel="bank", ylabel="lane", xticks=[0, 8, 16, 24, 31], yticks=range(len(begins)))
    ax.grid(visible=False)
    return int(queue.max())


def draw_roof(ax, points, peak, copy):
    """{name: (operations for a byte, TFLOP/s)} as connected points under the roof of a GPU; labels do not touch.

    peak: TFLOP/s. copy: GB/s.
    """
    roofline.roof(ax, peak, {"copy": copy}, (0.05, 100), unit="TFLOP/s", peak_label="float32 product")
    ax.texts[-1].xy = 2.5, 2.5e-3 * copy  # the label of the slope, away from the first points
    ax.plot(*zip(*points.values()), "o-", color=BLUE, lw=1, ms=8)
    places = [(1e-9, 1e-9), *points.values(), (1e9, 1e9)]
    close = [np.abs(np.log(np.divide(b, a))).max() < NEAR for a, b in zip(places, places[1:])]
    for k, (name, place) in enumerate(points.items()):
        if not close[k]:
            offset = (9, -4) if close[k + 1] else (-8, 4)  # of the text, from the point; above the line there is room
        else:
            offset = (-9, -7) if offset[0] > 0 else (9, -4)
        ha = "left" if offset[0] > 0 else "right"
        ax.annotate(name, place, offset, textcoords="offset points", ha=ha, size=10)
