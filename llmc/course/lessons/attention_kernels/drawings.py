"""Lesson 16: the layer as a flow of arrays, and the tiles of flash attention."""

import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

from llmc.course.figures import BLUE, GREY, ORANGE, RED, arrow, blank_axes, box, tint


def draw_layer(B, T, NH, hs):
    """q, k, v to scores, probabilities and out, with shapes and how many numbers there are; returns the figure."""
    rows, pairs = f"({B}, {NH}, {T:,}, {hs})", f"({B}, {NH}, {T:,}, {T:,})"
    of_rows, of_pairs = f"{B * NH * T * hs / 1e6:.1f} million", f"{B * NH * T * T / 1e6:.1f} million"
    fig, ax = blank_axes((-1.6, 16.2), (-2.5, 2.4))
    small, large = {"width": 2.9, "height": 1.25}, {"color": RED, "width": 3.4, "height": 1.7}
    parts = [box(ax, 0, y, name, f"{rows}\n{of_rows}", **small) for name, y in zip("QKV", (1.6, 0, -1.6))]
    scores = box(ax, 5.2, 0.8, "S, the scores", f"{pairs}\n{of_pairs}", **large)
    shares = box(ax, 10.4, 0.8, "P", f"{pairs}\n{of_pairs}", **large)
    out = box(ax, 14.6, -0.9, "O", f"{rows}\n{of_rows}", **small)
    for start, end in ((parts[0], scores), (parts[1], scores), (shares, out), (parts[2], out)):
        arrow(ax, start, end)
    arrow(ax, scores, shares, "softmax")
    return fig


def draw_tiles(queries, tile, T):
    """The table of pairs of one head, cut into blocks of queries and tiles of keys; returns the figure."""
    fig, ax = plt.subplots(figsize=(9, 4.6), layout="constrained")
    loads = 0
    for first in range(0, T, queries):
        for k0 in range(0, min(first + queries, T), tile):
            loads += 1
            color = tint(BLUE if k0 == 0 else ORANGE, 0.45)
            ax.add_patch(Rectangle((k0, first), tile, queries, facecolor=color, edgecolor="white", lw=1.5))
        ax.text(T + 1, first + queries / 2, f"block {first // queries}", va="center", fontsize=9)
    ax.fill([0, T, T], [0, 0, T], color=GREY, alpha=0.35, lw=0)  # pairs that the query does not see
    for k0 in range(0, T, tile):
        words = f"tile {k0 // tile}: keys {k0} to {k0 + tile - 1}"
        ax.text(k0 + tile / 2, -1.5, words, ha="center", va="bottom", fontsize=10)
    ax.set(xlim=(0, T), ylim=(T, 0), xlabel="key", ylabel="query", xticks=range(0, T + 1, 8), yticks=range(0, T + 1, 8))
    ax.grid(visible=False)
    alone = T * (T + 1) // 2
    ax.set_title(f"Blocks load {loads * tile} rows of keys, where single queries would load {alone:,}", pad=24)
    return fig
