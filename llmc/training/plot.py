"""The plot of a run: training and validation loss over steps, with the baselines as lines to get below."""

from math import log

import numpy as np

# Okabe & Ito's palette, distinguishable with every kind of colour blindness
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#6E6E6E"
DASHES = {"uniform": (0, (1, 2)), "unigram": (0, (4, 2)), "bigram": (0, (8, 2))}
LABELS = {"uniform": "uniform, ln V", "unigram": "unigram", "bigram": "bigram"}


def plot_run(log_rows, baselines, bytes_per_token=None, total_steps=None, figure=None):
    """A matplotlib Figure of a run's log.

    log_rows: {"val": [(step, loss)], "train": [(step, loss, …)]} as read_log gives it, losses in nats per token.
    baselines: {"uniform" | "unigram" | "bigram": nats per token}.
    bytes_per_token: mean length of a validation token; if given, the right axis and the title show bits per byte.
    total_steps: where the x axis ends while a run is in progress.
    figure: draw into this one instead of a new one.

    Needs no display and leaves pyplot's state alone.
    """
    from matplotlib.figure import Figure

    figure = figure or Figure(figsize=(9, 5), dpi=144, layout="constrained")
    figure.clear()
    draw_run(figure.subplots(), log_rows, baselines, bytes_per_token, total_steps)
    return figure


def draw_run(axes, log_rows, baselines, bytes_per_token=None, total_steps=None):
    """The same on existing matplotlib axes; arguments as for `plot_run`."""
    train, val = _columns(log_rows["train"]), _columns(log_rows["val"])  # (n, 2), (m, 2)
    end = total_steps or max([1, *train[:, 0], *val[:, 0]])
    _draw_baselines(axes, baselines, end)
    _draw_losses(axes, train, val)
    axes.set_xlim(0, end)
    axes.set_ylim(*_limits(train, val, baselines))
    axes.set_xlabel("training step")
    axes.set_ylabel("loss (nats per token)")
    axes.set_title(finding(val, baselines, bytes_per_token), loc="left", fontsize=12, fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    if bytes_per_token:
        _add_bits_axis(axes, bytes_per_token)
    if len(train) or len(val):
        axes.legend(frameon=False, loc="lower left")


def finding(val, baselines, bytes_per_token=None) -> str:
    """The plot's title: what the last validation (rows of (step, loss)) says about the model."""
    if len(val) == 0:
        return "No validation loss yet"
    loss = float(val[-1][1])
    if not np.isfinite(loss):
        return "The loss is no longer a number: this run diverged"
    value = f"{loss / log(2) / bytes_per_token:.2f} bits per byte" if bytes_per_token else f"{loss:.2f} nats per token"
    return f"Validation loss at {value}{_beaten(loss, baselines)}"


def _beaten(loss, baselines):
    """ ", 0.85 nats per token below the bigram baseline": the strongest baseline that the loss is below."""
    below = [(value - loss, name) for name, value in baselines.items() if loss < value]
    if below:
        gap, name = min(below)
        return f", {gap:.2f} nats per token below the {name} baseline"
    return ", above every baseline so far" if baselines else ""


def smooth(losses, window):
    """Mean over the `window` losses around each one, with fewer at both ends; (n,) -> (n,)."""
    sums = np.cumsum(np.insert(np.asarray(losses, dtype=np.float64), 0, 0.0))  # (n + 1,)
    centres = np.arange(len(losses))  # (n,)
    starts = np.maximum(centres - window // 2, 0)  # (n,)
    ends = np.minimum(centres + window // 2 + 1, len(losses))  # (n,)
    return (sums[ends] - sums[starts]) / (ends - starts)


def _columns(rows):
    """(n, 2) array of step and loss."""
    return np.array([row[:2] for row in rows], dtype=np.float64).reshape(-1, 2)


def _draw_losses(axes, train, val):
    if len(train):
        axes.plot(train[:, 0], train[:, 1], color=BLUE, alpha=0.25, linewidth=0.8)
        window = max(1, len(train) // 40)
        label = "training" if window == 1 else f"training (mean of {window} steps)"
        axes.plot(train[:, 0], smooth(train[:, 1], window), color=BLUE, linewidth=1.6, label=label)
    if len(val):
        axes.plot(val[:, 0], val[:, 1], color=ORANGE, linewidth=1.6, marker="o", markersize=4, label="validation")
        step, loss = val[-1]
        if np.isfinite(loss):
            text = axes.annotate(f"{loss:.2f}", (step, loss), (-4, -16), textcoords="offset points", ha="right")
            text.set(color=ORANGE, bbox=dict(facecolor="white", edgecolor="none", alpha=0.8, pad=1))


def _draw_baselines(axes, baselines, end):
    for name, value in baselines.items():
        axes.axhline(value, color=GREY, linewidth=1.0, linestyle=DASHES.get(name, "--"), zorder=1)
        text = f"{LABELS.get(name, name)} = {value:.2f}"
        axes.annotate(text, (end, value), (-6, 3), textcoords="offset points", color=GREY, fontsize=9, ha="right")


def _limits(train, val, baselines):
    """Bottom and top of the y axis: all validation losses and baselines, and all training losses except spikes."""
    values = [*val[:, 1], *baselines.values()]
    if len(train):
        values += [float(np.nanmin(train[:, 1])), float(np.nanpercentile(train[:, 1], 99))]
    values = [v for v in values if np.isfinite(v)] or [0.0, 1.0]
    margin = 0.07 * (max(values) - min(values)) or 0.5
    return min(values) - margin, max(values) + margin


def _add_bits_axis(axes, bytes_per_token):
    """Add an axis on the right that shows the same heights as bits per byte."""
    factor = 1.0 / log(2) / bytes_per_token
    right = axes.secondary_yaxis("right", functions=(lambda nats: nats * factor, lambda bits: bits / factor))
    right.set_ylabel("bits per byte")
