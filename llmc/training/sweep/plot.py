"""The plot of a sweep: where each learning rate ends and, below that, how each one got there."""

from math import ceil

import numpy as np

from llmc.training.plot import BLUE, GREY, ORANGE, smooth
from llmc.training.sweep.result import best, finding

COLUMNS = 5
FAR = 30  # times the largest learning rate that went well: what was tried beyond shares a cross at the edge


def plot_sweep(results, figure=None):
    """A matplotlib Figure of SweepRuns: final validation loss over learning rate, and the loss curves as small
    multiples.

    figure: draw into this one instead of a new one. Needs no display and leaves pyplot's state alone.
    """
    from matplotlib.figure import Figure

    rows = ceil(len(results) / COLUMNS)
    figure = figure or Figure(figsize=(10, 4 + 2.2 * rows), dpi=144, layout="constrained")
    figure.clear()
    top, bottom = figure.subfigures(2, 1, height_ratios=(4, 2.2 * rows), hspace=0.03)
    _draw_losses(top.subplots(), results)
    columns = ceil(len(results) / rows)
    panels = bottom.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for result, axes in zip(results, panels.flat):
        _draw_curve(axes, result, result is best(results))
    for axes in panels.flat[len(results) :]:
        axes.set_visible(False)
    panels[0, 0].set_ylim(*_limits(results))
    panels[0, 0].locator_params(axis="x", nbins=4)
    panels[0, 0].set_xlim(0, max(1, *(r.steps for r in results)))
    bottom.supxlabel("training step (blue: training loss, orange: validation loss)", fontsize=10)
    bottom.supylabel("loss (nats per token)", fontsize=10)
    return figure


def _draw_losses(axes, results):
    """Draw final losses as a line over the learning rates; runs without one, or off the top, get a cross there."""
    bottom, top = _limits(results)
    inside = [r for r in results if r.val_loss is not None and r.val_loss < top]
    rates = [r.learning_rate for r in inside or results]
    edge = FAR * max(rates)
    axes.set_xscale("log")
    if inside:
        axes.plot(rates, [r.val_loss for r in inside], color=BLUE, linewidth=1.6, marker="o", markersize=5)
        first = best(results)
        axes.plot(first.learning_rate, first.val_loss, color=ORANGE, marker="o", markersize=9)
        _write(axes, f"{first.val_loss:.2f}", first.learning_rate, first.val_loss, ORANGE)
    beyond = [f"{r.learning_rate:g}: {_end(r)}" for r in results if r.learning_rate > edge]
    crosses = [(r.learning_rate, _end(r)) for r in results if r not in inside and r.learning_rate <= edge]
    for rate, text in crosses + ([(edge, "\n".join(beyond))] if beyond else []):
        axes.plot(rate, top, "x", color=GREY, markersize=8, markeredgewidth=2, clip_on=False)
        _write(axes, text, rate, top, GREY)
    ticks = [r.learning_rate for r in results if r.learning_rate <= edge]
    axes.set_xticks(ticks, [f"{rate:g}" for rate in ticks])
    axes.minorticks_off()
    axes.set_xlim(ticks[0] / 1.5, min(results[-1].learning_rate, edge) * 1.5)
    axes.set_ylim(bottom - 0.08 * (top - bottom), top)
    axes.set_xlabel("learning rate (logarithmic)")
    axes.set_ylabel("final validation loss (nats per token)")
    axes.set_title(finding(results), loc="left", fontsize=12, fontweight="bold", pad=14)
    axes.spines[["top", "right"]].set_visible(False)


def _end(result):
    return result.status if result.val_loss is None else f"ends at {result.val_loss:.2f}"


def _write(axes, text, rate, loss, color):
    """Write text below a point."""
    near = dict(textcoords="offset points", ha="center", va="top", color=color, fontsize=9)
    axes.annotate(text, (rate, loss), (0, -7), **near)


def _draw_curve(axes, result, is_best):
    """Draw one run's training and validation loss in the panel of its learning rate."""
    train, val = (np.array([row[:2] for row in result.history[name]]).reshape(-1, 2) for name in ("train", "val"))
    if len(train):
        axes.plot(train[:, 0], smooth(train[:, 1], max(1, len(train) // 40)), color=BLUE, linewidth=1.2)
    if len(val):
        axes.plot(val[:, 0], val[:, 1], color=ORANGE, linewidth=1.2, marker="o", markersize=3)
    ending = f"{result.val_loss:.2f}" if result.val_loss is not None else result.status
    axes.set_title(
        f"{result.learning_rate:g}: {ending}",
        fontsize=10,
        color=ORANGE if is_best else "black",
        fontweight="bold" if is_best else "normal",
    )
    axes.spines[["top", "right"]].set_visible(False)


def _limits(results):
    """Bottom and top of all panels: the lowest loss, and where the runs begin; curves that blow up leave at the top."""
    losses = [row[1] for r in results for name in ("train", "val") for row in r.history[name] if np.isfinite(row[1])]
    begins = [r.history[name][0][1] for r in results for name in ("train", "val") if r.history[name]]
    if not losses:
        return 0.0, 1.0
    margin = max(0.1, 0.07 * (max(begins) - min(losses)))
    return min(losses) - margin, max(begins) + margin
