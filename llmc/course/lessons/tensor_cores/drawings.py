"""Lesson 19: who holds what, where groups of a square are kept, barriers' phases, and the order of tiles, drawn."""

import numpy as np

from llmc.course.figures import BLUE, COLORS, GREY, ORANGE, PALE, SKY, blank_axes, cell_row, ink, number_grid, tint

HUES = [*map(COLORS.get, ("sky", "orange", "green", "yellow", "purple", "vermillion", "blue")), GREY]  # of registers


def a_layout(lane, register, half):
    """(row, k) in mma's a (16, 16) of a lane's register, which holds two numbers: numbers, or arrays that broadcast."""
    return lane // 4 + register % 2 * 8, lane % 4 * 2 + half + register // 2 * 8


def draw_fragments(parts, marked, title):
    """Matrices whose cells say which lane holds them, in the colour of its register; one lane's cells are framed.

    parts: {name: (lanes, registers)}, two arrays (16, columns) each. Returns the figure.
    """
    widths = [lanes.shape[1] for lanes, _ in parts.values()]
    fig, ax = blank_axes((-0.4, sum(widths) + 2 * (len(widths) - 1) + 0.4), (-1.6, 17.2), title)
    left = 0
    for (name, (lanes, registers)), width in zip(parts.items(), widths):
        colors, frame = [[HUES[n] for n in row] for row in registers], np.argwhere(lanes == marked)
        number_grid(ax, lanes, (left, 16), name, colors=colors, frame=frame, wide=1)
        left += width + 2
    cell_row(ax, [f"register {n}" for n in range(4)], (0, -0.5), 4, colors=HUES)
    return fig


def draw_groups(ax, kept, title):
    """Eight lines of a square (8, 8): which group is kept at each place, in its colour."""
    colors = [[HUES[group] for group in line] for line in kept]
    number_grid(ax, kept, (0, 8), colors=colors, frame=np.argwhere(kept == 2), wide=1)
    ax.set(xlim=(-0.1, 8.1), ylim=(-0.1, 8.1), xlabel="place, 16 bytes each", ylabel="line", aspect="equal")
    ax.set(title=title, xticks=np.arange(8) + 0.5, xticklabels=range(8), yticks=np.arange(8) + 0.5)
    ax.set_yticklabels(range(7, -1, -1))
    ax.grid(visible=False)


def draw_order(ax, when, blocks):
    """Tiles (down, across) with their numbers; those of the first turn are coloured. Returns bands that it reads."""
    first, (down, across) = when < blocks, when.shape
    number_grid(ax, when, (0, down), colors=np.where(first, BLUE, PALE).tolist(), text="{:g}".format, wide=1)
    ax.set(xlim=(-0.1, across + 0.1), ylim=(-0.1, down + 0.1), aspect="equal")
    ax.set(xlabel="column of tiles: a band of b", ylabel="row of tiles: a band of a", xticks=[], yticks=[])
    ax.grid(visible=False)
    return int(first.any(axis=1).sum() + first.any(axis=0).sum())


ASKED, ARRIVED, USED = 1, 2, 3  # what a log says: the producer asked for a round; it was there; it was used up


def draw_phases(ax, log, stages):
    """A log of (what, round), in the order in which it happened: what each stage holds, and the phases of its barriers.

    Time goes to the right, one step for each entry. Each stage has a row; above it, the phase that the barrier `there`
    is in, and its parity.
    """
    for stage in range(stages):
        y, rounds = -2.2 * stage, sorted({r for _, r in log if r % stages == stage})
        asked, arrived, used = ([log.index((what, r)) for r in rounds] for what in (ASKED, ARRIVED, USED))
        copied, held = (np.stack([a, np.subtract(b, a)], axis=1) for a, b in ((asked, arrived), (arrived, used)))
        for spans, color, hatch, words in (
            (copied, SKY, "", "the copy is under way"),
            (held, ORANGE, "//", "it is used"),
        ):
            look = dict(facecolor=tint(color), edgecolor=GREY, hatch=hatch, label=None if stage else words)
            ax.broken_barh(spans, (y, 1), **look)
        for r, a, b in zip(rounds, asked, arrived):
            ax.text((a + b) / 2, y + 0.5, f"round {r}" if b - a > 1 else r, ha="center", va="center", size=9)
        for number, (a, b) in enumerate(zip([0, *arrived], [*arrived, len(log)])):
            ax.plot([a, b], [y + 1.28, y + 1.28], color=ink((BLUE, ORANGE)[number % 2]), lw=3)
            words = f"phase {number}" + f", parity {number % 2}" * (b - a > 3)
            ax.text((a + b) / 2, y + 1.36, words, ha="center", va="bottom", size=9)
    ax.set_yticks([-2.2 * stage + 0.5 for stage in range(stages)], [f"stage {stage}" for stage in range(stages)])
    ax.legend(loc="upper right", bbox_to_anchor=(1, -0.1), ncols=2)
    ax.set(xlim=(0, len(log)), ylim=(-2.2 * (stages - 1) - 0.3, 2.1), xticks=range(0, len(log) + 1, 3))
    ax.set_xlabel("events of the log, one after the other")
    ax.grid(visible=False)
