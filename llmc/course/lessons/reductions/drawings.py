"""Lesson 13: the tree and the exchange, drawn from what a kernel wrote down after each step."""

import matplotlib.pyplot as plt

from llmc.course.figures import BLUE, GREY, INK, ORANGE, PALE, RED, ink, tint

DOWN = 1.6  # from one step to the next, in units of the axes; a cell is 0.9 by 0.8


def draw_steps(ax, steps, working, label, rows, between=""):
    """Draw what 8 threads hold in steps (4, 8), starting with the row as it came; arrows show which numbers each took.

    working(step): how many threads work in a step. label: "thread" or "lane". rows: what to write on the left of each
    step. between: what separates two steps, "barrier".
    """
    for step, numbers in enumerate(steps):
        bottom, busy = -DOWN * step, working(step)
        ax.text(-0.25, bottom + 0.4, rows[step], ha="right", va="center", fontsize=10)
        for t, number in enumerate(numbers):
            works = step > 0 and t < busy
            ground = BLUE if works else tint(BLUE, 0.15) if t < busy else PALE
            ax.add_patch(plt.Rectangle((t, bottom), 0.9, 0.8, facecolor=ground, lw=0))
            color = ink(INK if t < busy else GREY, ground)
            ax.text(t + 0.45, bottom + 0.4, f"{number:.0f}", ha="center", va="center", color=color)
            if works:
                _taken(ax, t, t, bottom, GREY)
                _taken(ax, t ^ (8 >> step), t, bottom, ORANGE)
        if step and between:
            ax.text(8.2, bottom + 1.2, between, fontsize=9.5, color=ink(RED), va="center")
            ax.plot([0, 8.1], [bottom + 1.2] * 2, color=RED, lw=1, ls=":", zorder=0)
    for t in range(8):
        ax.text(t + 0.45, 1.05, f"{label} {t}", ha="center", fontsize=9, color=GREY)
    ax.set(xlim=(-1.6, 9.4), ylim=(-5.1, 1.5))
    ax.axis("off")


def _taken(ax, source, target, bottom, color):
    """An arrow from a thread's number in the step above to a thread of this one."""
    begin, end = (source + 0.45, bottom + 1.58), (target + 0.45, bottom + 0.84)
    ax.annotate("", end, begin, arrowprops=dict(arrowstyle="-|>", color=color, lw=1.5))
