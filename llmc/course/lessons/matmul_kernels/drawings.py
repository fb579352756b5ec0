"""Lesson 15: what a block of results needs, and where lanes meet at the banks, drawn."""

import numpy as np

from llmc.course.figures import BLUE, GREEN, ORANGE, PALE, number_grid, roofline


def draw_product(ax):
    """a (M, K) times b (K, N): the tile of the result that a block computes, the bands it needs, a slice of each."""
    tile, whole, slices = (3, 4), range(8), (2,)  # rows or columns of 8 x 8 cells, as which each matrix is drawn
    for at, name, color, rows, columns, framed in (
        ((0, 8), "a   (M, K)", BLUE, tile, whole, (tile, slices)),
        ((9.2, 17.2), "b   (K, N)", ORANGE, whole, tile, (slices, tile)),
        ((9.2, 8), "result   (M, N)", GREEN, tile, tile, ((), ())),
    ):
        colors = [[color if i in rows and j in columns else PALE for j in whole] for i in whole]
        frame = [(i, j) for i in framed[0] for j in framed[1]]
        number_grid(ax, np.zeros((8, 8)), at, name, colors=colors, frame=frame, text="", wide=1)
    for x, y, words in ((13.2, 2.6, "one block"), (2.5, 5.4, "a slice"), (15.3, 14.7, "a slice")):
        ax.text(x, y, words, ha="center", va="center", zorder=6)
    ax.set(xlim=(-0.5, 17.7), ylim=(-0.5, 18.4), aspect="equal")
    ax.axis("off")


def draw_banks(ax, begins):
    """Lanes (down) and banks (across); a bank that two lanes want is marked. Returns how many passes it takes.

    Lane l reads four floats from begins[l] on.
    """
    banks = np.add.outer(begins, np.arange(4)) % 32  # (lanes, 4)
    queue, lanes = np.bincount(banks.ravel(), minlength=32), len(begins)  # (32,)
    wanted = np.zeros((lanes, 32), int)  # how many lanes want a bank, at each lane that does
    wanted[np.arange(lanes)[:, None], banks] = queue[banks]
    colors = np.select([wanted > 1, wanted == 1], [ORANGE, BLUE], PALE).tolist()
    number_grid(ax, wanted, (0, lanes), colors=colors, text=lambda n: ("", "•", "×")[min(n, 2)], wide=1)
    ax.set(xlim=(0, 32), ylim=(0, lanes), xlabel="bank", ylabel="lane")
    ax.set(xticks=[0.5, 8.5, 16.5, 24.5, 31.5], xticklabels=[0, 8, 16, 24, 31])
    ax.set(yticks=np.arange(lanes) + 0.5, yticklabels=range(lanes - 1, -1, -1))
    ax.grid(visible=False)
    return int(queue.max())


def draw_roof(ax, points, peak, copy):
    """{name: (operations for a byte, TFLOP/s)} as connected points, under a roof of peak TFLOP/s and a copy's GB/s."""
    roofline.roof(ax, peak, {"copy": copy}, (0.05, 100), unit="TFLOP/s", peak_label="float32 product")
    ax.texts[-1].xy = 2.5, 2.5e-3 * copy  # the label of the slope, away from the first points
    ax.plot(*zip(*points.values()), "o-", color=BLUE, lw=1, ms=8)
    for k, name in enumerate(sorted(points, key=lambda name: points[name][1])):  # labels on both sides do not touch
        offset, ha = ((9, -8), "left") if k % 2 == 0 else ((-9, -4), "right")
        ax.annotate(name, points[name], offset, textcoords="offset points", ha=ha, size=10)
