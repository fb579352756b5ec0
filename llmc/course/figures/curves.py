"""Curves: several runs of one thing, the levels that they should reach, and readable ticks."""

import numpy as np

from llmc.course.figures.alt import note
from llmc.course.figures.style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, ink

LOOKS = ((BLUE, "-"), (RED, "--"), (GREEN, "-."), (ORANGE, ":"), (PURPLE, (0, (5, 1, 1, 1, 1, 1))), (SKY, (0, (8, 3))))


def curves(ax, runs, x=None, *, looks=LOOKS, width=2.4):
    """Draw {name: losses (steps,)}, or {name: losses (seeds, steps)}: each seed faint, their median bold.

    Each name has its own colour and dash, so the lines differ even without colour. x: (steps,), by
    default 0, 1, 2, … The caller adds labels, scale and legend.
    """
    for (name, losses), (color, dash) in zip(runs.items(), looks):
        losses = np.atleast_2d(losses)  # (seeds, steps)
        steps = np.arange(losses.shape[1]) if x is None else np.asarray(x)
        if len(losses) > 1:
            ax.plot(steps, losses.T, color=color, lw=0.8, alpha=0.35)
        ax.plot(steps, np.median(losses, axis=0), color=color, ls=dash, lw=width, label=name)


def level(ax, y, text, *, color=GREY, side="right", below=False):
    """Draw a horizontal line to compare with, ln V for example, and say what it is, at its right or left end."""
    ax.axhline(y, color=color, lw=1.3, ls=":", zorder=1)
    at, inward = (1, -4) if side == "right" else (0, 4)
    look = dict(ha=side, va="top" if below else "bottom", size=9.5, color=ink(color), textcoords="offset points")
    note(ax, f"{text} at {y:.3g}")
    ax.annotate(text, (at, y), (inward, -3 if below else 2), xycoords=("axes fraction", "data"), **look)


def moment(ax, x, text, *, color=GREY, side="right", height=0.97):
    """Draw a vertical line where something happens, and say what it is, to the right or left of it.

    height: where the text begins, 0 at the bottom to 1 at the top.
    """
    ax.axvline(x, color=color, lw=1.3, ls=":", zorder=1)
    away, ha = (4, "left") if side == "right" else (-4, "right")
    look = dict(ha=ha, va="top", size=9.5, color=ink(color), textcoords="offset points")
    note(ax, f"{text} at {x:.3g}")
    ax.annotate(text, (x, height), (away, 0), xycoords=("data", "axes fraction"), **look)


def plain_ticks(axis, values):
    """Ticks at these values, written as they are: 1 2 4 8 in place of powers of ten. axis: ax.xaxis or ax.yaxis."""
    axis.set_ticks(list(values), [f"{value:,g}" if abs(value) < 1e6 else f"{value:g}" for value in values])
    axis.set_ticks([], minor=True)
