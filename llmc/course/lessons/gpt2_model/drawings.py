"""Lesson 07's diagrams: one stream with branches, the stream of a tiny model, and curves over the depth."""

import numpy as np

from llmc.course.figures import BLUE, GREEN, GREY, ORANGE, SKY, area, arrow, blank_axes, box, describe, ink, number_grid

BRANCHES = {5.0: "ln1 qkv\n(3C) attention attproj", 12.6: "ln2 fc\n(4C) GELU fcproj"}  # left end: layers, upwards
HEAD = (("lnf", SKY, 2.6), ("· wteᵀ", ORANGE, 2.6), ("softmax, −log", GREEN, 3.5))  # from the bottom up
RISE = 1.45  # from one layer of a branch to the next


def draw_model():
    """A whole GPT-2: the residual stream, the two branches of a block, the head; returns the figure."""
    title = "A GPT-2 is one stream; branches read it through a layernorm and add to it"
    figure, ax = blank_axes((0.5, 24), (-1.5, 8.6), title)
    arrow(ax, (3.6, 0), (20.0, 0), color=BLUE, thick=True)
    ax.text(9.0, -0.75, "residual stream   (B, T, C)", ha="center", color=ink(BLUE))
    area(ax, (4.3, 18.2), (-1.15, 7.7), "one block, L times", dashed=True)
    box(ax, 2.1, 0, "wte[tokens]\n+ wpe[:T]", color=ORANGE, width=3.0, height=1.2)
    ax.text(2.1, -1.0, "tokens (B, T)", ha="center")
    for left, names in BRANCHES.items():
        _branch(ax, left, names.split(" "))
    head = [box(ax, 21.2, 2.1 * k, name, color=c, width=w, height=1.1) for k, (name, c, w) in enumerate(HEAD)]
    for start, end in zip(head, [*head[1:], (21.2, 5.8)]):
        arrow(ax, start, end)
    ax.text(21.2, 5.9, "loss", ha="center", weight="bold")
    ax.text(20.9, 3.15, "logits (B, T, V)", va="center", ha="right", size=9.5)
    ax.plot([2.1, 2.1, 23.3, 23.3, 22.6], [0.7, 8.1, 8.1, 2.1, 2.1], color=ORANGE, lw=1.5, ls="--")
    ax.text(2.4, 8.2, "one table, two places", color=ink(ORANGE), va="bottom")
    describe(
        figure,
        "The residual stream runs from wte[tokens] + wpe[:T] on the left to lnf on the right. In each of L blocks, a "
        "branch ln1, qkv, attention, attproj reads the stream and adds to it; then so does ln2, fc, GELU, fcproj. "
        "Behind lnf come the product with the transposed wte, the same table as at the start, softmax, and the loss.",
    )
    return figure


def _branch(ax, left, names):
    """Boxes from the stream upwards, and the way back down to a plus on the stream."""
    middle, plus = left + 1.5, left + 4.6
    for k, name in enumerate(names):
        up = 1.9 + RISE * k
        box(ax, middle, up, name, color=GREEN if k else SKY, width=2.5, height=1.1)
        arrow(ax, (middle, up - 0.9 if k else 0.1), (middle, up - 0.57))
    ax.plot([middle + 1.25, plus, plus], [up, up, 1.2], color=GREY, lw=1.5)
    arrow(ax, (plus, 1.3), (plus, 0.45))
    sign = dict(boxstyle="circle,pad=0.1", facecolor=BLUE, edgecolor="white")
    ax.text(plus, 0, "+", ha="center", va="center", size=15, color="white", weight="bold", bbox=sign, zorder=5)


def draw_stream(stations, added, tokens):
    """The residual stream from station to station, and what each branch adds between them; returns the figure.

    stations: {name: (T, 4)}. added: (name, (T, 4)) of each branch. tokens: (T,).
    """
    figure, ax = blank_axes((-1.6, 32.4), (-0.3, 9.3), "Every station is the one before it plus what one branch adds")
    for t, token in enumerate(tokens):
        ax.text(-0.3, 7.7 - t, f"“{token}”", ha="right", va="center", color=GREY)
    look = dict(limit=6, text=lambda value: f"{value:.1f}".replace("-", "−"), wide=1.2)
    for k, (name, values) in enumerate(stations.items()):
        left = 6.8 * k
        number_grid(ax, values, (left, 8.2), name, color=BLUE, **look)
        if k:
            label, branch = added[k - 1]
            number_grid(ax, branch, (left - 3.4, 3.2), label, color=GREEN, **look)
            arrow(ax, (left - 1.9, 6.7), (left - 0.15, 6.7), color=BLUE)
            arrow(ax, (left - 1.0, 4.3), (left - 1.0, 6.4), color=GREEN)
    words = f"A row of {len(stations)} grids, the stream from the embedding to the end, {', '.join(stations)}"
    describe(figure, f"{words}; under each gap a grid with what attention or the MLP adds there.")
    return figure


def draw_depths(ax, runs, color, title):
    """Curves {L: (L + 1,)} over the share of the depth, named at their ends: each, or all at once where they agree."""
    ends = [run[-1] for run in runs.values()]
    apart = max(ends) > 1.3 * min(ends)
    for (L, run), strength in zip(runs.items(), np.linspace(0.4, 1, len(runs))):
        ax.plot(np.arange(L + 1) / L, run, color=color, alpha=strength, label=f"L = {L}")
        if apart or L == max(runs):
            ax.text(1.02, run[-1], f"L = {L}" if apart else f"L = {min(runs)} … {L}", va="center", size=9.5)
    ax.set(xlabel="depth: share of the blocks passed", title=title, xlim=(-0.02, 1.25), xticks=(0, 0.25, 0.5, 0.75, 1))
