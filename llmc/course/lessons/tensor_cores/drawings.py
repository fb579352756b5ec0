"""Lesson 19: who holds what, where groups of a square are kept, barriers' phases, and the order of tiles, drawn."""

import numpy as np

from llmc.course.figures import BLUE, GREEN, GREY, INK, ORANGE, PALE, PURPLE, RED, SKY, YELLOW, blank_axes, ink, tint

OF_REGISTER = [SKY, ORANGE, GREEN, YELLOW]
OF_GROUP = [SKY, ORANGE, GREEN, YELLOW, PURPLE, RED, BLUE, GREY]
SIDE = 0.62  # of a cell, whose height is 1


def a_layout(lane, register, half):
    """(row, k) in mma's a (16, 16) of a lane's register, which holds two numbers: numbers, or arrays that broadcast."""
    return lane // 4 + register % 2 * 8, lane % 4 * 2 + half + register // 2 * 8


def draw_fragments(parts, marked, title):
    """Matrices whose cells say which lane holds them, in the colour of its register; one lane's cells are framed.

    parts: {name: (lanes, registers)}, two arrays (rows, columns) each. Returns the figure.
    """
    widths = [lanes.shape[1] for lanes, _ in parts.values()]
    fig, ax = blank_axes((-0.4, sum(widths) + 2 * (len(widths) - 1) + 0.4), (-1.6, 17.2), title, width=10)
    left = 0
    for (name, (lanes, registers)), width in zip(parts.items(), widths):
        for (i, j), lane in np.ndenumerate(lanes):
            _cell(ax, left + j, 15 - i, str(lane), OF_REGISTER[registers[i, j]], lane == marked)
        ax.text(left + width / 2, 16.3, name, ha="center", size=10)
        left += width + 2
    for register, color in enumerate(OF_REGISTER):
        _cell(ax, 4 * register, -1.4, "", color, False)
        ax.text(4 * register + 1.2, -0.9, f"register {register}", va="center", size=9)
    return fig


def _cell(ax, x, y, text, color, framed):
    from matplotlib.patches import Rectangle

    look = dict(edgecolor=INK if framed else "white", lw=2 if framed else 0.6, zorder=4 if framed else 3)
    ax.add_patch(Rectangle((x, y), 1, 1, facecolor=tint(color, 0.45), **look))
    if text:
        weight = "bold" if framed else "normal"
        ax.text(x + 0.5, y + 0.48, text, ha="center", va="center", size=9, weight=weight, zorder=5)


def draw_groups(ax, kept, title):
    """Eight lines of a square (8, 8): which group is kept at each place, in its colour."""
    for (line, place), group in np.ndenumerate(kept):
        _cell(ax, place, 7 - line, str(group), OF_GROUP[group], group == 2)
    ax.set(
        xlim=(-0.1, 8.1), ylim=(-0.1, 8.1), xlabel="place, 16 bytes each", ylabel="line", aspect="equal", title=title
    )
    ax.set_xticks(np.arange(8) + 0.5, range(8))
    ax.set_yticks(np.arange(8) + 0.5, range(7, -1, -1))
    ax.grid(visible=False)


def draw_order(ax, when, blocks, title):
    """Tiles (down, across) with their numbers; those of the first turn are coloured. Returns bands that it reads."""
    first = when < blocks
    for (i, j), number in np.ndenumerate(when):
        _cell(ax, j, len(when) - 1 - i, str(number), BLUE if first[i, j] else PALE, False)
    read = int(first.any(axis=1).sum() + first.any(axis=0).sum())
    down, across = when.shape
    ax.set(xlim=(-0.1, across + 0.1), ylim=(-0.1, down + 0.1), aspect="equal", title=title)
    ax.set(xlabel="column of tiles: a band of b", ylabel="row of tiles: a band of a", xticks=[], yticks=[])
    ax.grid(visible=False)
    return read


# ------------------------------------------------------------------------------------------------- phases

ASKED, ARRIVED, USED = 1, 2, 3  # what a log says: the producer asked for a round; it was there; it was used up


def draw_phases(ax, log, stages):
    """A log of (what, round), in the order in which it happened: what each stage holds, and the phases of its barriers.

    Time goes to the right, one step for each entry. Each stage has a row; above it, the parity of the phase that the
    barrier `there` is in.
    """
    from matplotlib.patches import Rectangle

    end = len(log)
    for stage in range(stages):
        y = -2.2 * stage
        rounds = sorted({r for _, r in log if r % stages == stage})
        changes = [0]
        for r in rounds:
            asked, arrived, used = (log.index((what, r)) for what in (ASKED, ARRIVED, USED))
            for a, b, color, hatch in ((asked, arrived, tint(SKY), ""), (arrived, used, tint(ORANGE), "//")):
                ax.add_patch(Rectangle((a, y), b - a, 1, facecolor=color, edgecolor=GREY, lw=0.8, hatch=hatch))
            words = f"round {r}"[6 * (arrived - asked < 2) :]
            ax.text((asked + arrived) / 2, y + 0.5, words, ha="center", va="center", size=9)
            changes.append(arrived)
        for number, (a, b) in enumerate(zip(changes, [*changes[1:], end])):
            ax.plot([a, b], [y + 1.28, y + 1.28], color=ink(BLUE) if number % 2 == 0 else ink(ORANGE), lw=3)
            words = f"phase {number}, parity {number % 2}"[: None if b - a > 3 else 7]
            ax.text((a + b) / 2, y + 1.36, words, ha="center", va="bottom", size=9)
    ax.set_yticks([-2.2 * stage + 0.5 for stage in range(stages)], [f"stage {stage}" for stage in range(stages)])
    looks = ((tint(SKY), "", "the copy is under way"), (tint(ORANGE), "//", "it is used"))
    patches = [Rectangle((0, 0), 1, 1, facecolor=f, hatch=h, edgecolor=GREY, label=words) for f, h, words in looks]
    ax.legend(handles=patches, loc="upper right", bbox_to_anchor=(1, -0.1), ncols=2)
    ax.set(xlim=(0, end), ylim=(-2.2 * (stages - 1) - 0.3, 2.1), xticks=range(0, end + 1, 3))
    ax.set_xlabel("events of the log, one after the other")
    ax.grid(visible=False)
