"""Lesson 21's drawings: ranks in a step and in a ring, then measurements of a step, of a layer, and of sums."""

import matplotlib.pyplot as plt
import numpy as np

from llmc.course.figures import BLUE, GREEN, GREY, ORANGE, RED, SKY, arrow, blank_axes, box, describe, number_grid
from llmc.course.figures.style import INK, ink

PHASES = {"forward": SKY, "head": GREEN, "backward": BLUE, "update": GREY}
KINDS = {"dW": RED, "product": BLUE, "attention": GREEN, "other": GREY, "NCCL": ORANGE}
WORDS = "dW of fcproj", "other products", "attention", "the rest", "NCCL"  # of these kinds
SIZE = 9.5


def draw_step():
    """Two ranks, each with half of the batch, between which only the gradients are added up."""
    figure, ax = blank_axes((-1.6, 21.5), (-1.2, 4.2), "Two ranks share a batch; only the gradients have to meet")
    meet = box(ax, 13.6, 1.5, "all-reduce", "sum (n,)", color=ORANGE, width=3.0, height=1.4, filled=True)
    for y, name in ((3.0, "rank 0"), (0.0, "rank 1")):
        stages = {"half a batch": "(B, T)", "forward": "loss", "backward": "grads (n,)"}.items()
        places = [
            box(ax, 1.2 + 3.9 * k, y, *stage, color=BLUE, width=3.1, height=1.3) for k, stage in enumerate(stages)
        ]
        for one, other in zip(places, places[1:]):
            arrow(ax, one, other)
        update = box(ax, 18.6, y, "update", "params (n,)", color=GREEN, width=3.1, height=1.3)
        arrow(ax, places[-1], meet)
        arrow(ax, meet, update)
        ax.text(-1.2, y + 0.85, name, size=9.5)
    told = "an all-reduce adds up their gradients, and both make the same update."
    describe(figure, f"Rank 0 and rank 1 each take half a batch through forward and backward; {told}")


def draw_turns(counts, title):
    """counts: {name of a moment: (ranks, chunks) of how many ranks' numbers are in each chunk}, from left to right."""
    moments = list(counts.items())
    world = len(moments[0][1])
    figure, ax = blank_axes((-1.7, (world + 1.3) * len(moments) - 0.6), (-world - 0.4, 1.3), title)
    for k, (name, count) in enumerate(moments):
        colors = [[GREEN if value == world else SKY if value > 1 else "#FFFFFF" for value in row] for row in count]
        rows = [f"rank {rank}" for rank in range(world)] if k == 0 else ()
        number_grid(
            ax, count, ((world + 1.3) * k, 0), name, colors=colors, rows=rows, wide=1.0, text=lambda v: f"{v:.0f}"
        )
    shown = "; ".join(f"{name}: " + ", ".join(" ".join(f"{v:.0f}" for v in row) for row in c) for name, c in moments)
    describe(figure, f"Tables of {world} ranks and {world} chunks: how many ranks' numbers each chunk holds. {shown}.")


def draw_steps(steps, title):
    """steps: {way: {GPU: lanes}} of results.TIMELINE; for each GPU what it computes, and below it NCCL."""
    rows = {f"{way}\n{gpu}": lanes for way, gpus in steps.items() for gpu, lanes in gpus.items()}
    legend = {"update": GREY, "NCCL: an all-reduce or its halves": ORANGE}
    fig, ax = _lanes(rows, title, "ms since the step began", 60, legend)
    for y, lanes in enumerate(rows.values()):
        for phase, start, end in lanes["compute"]:
            _span(ax, start / 1e3, end / 1e3, y - 0.2, 0.4, PHASES[phase], phase if end - start > 4000 else "")
        for start, end in lanes["nccl"]:
            _span(ax, start / 1e3, end / 1e3, y + 0.16, 0.28, ORANGE)
    told = "GPU 0 has twelve short all-reduces during the backward pass, and GPU 1 begins each 0.6 to 2 ms earlier"
    describe(fig, f"Lanes of a step of 59 ms. Hidden, {told}; after the backward pass there is one.")


def draw_layer(layers, title):
    """layers: {way, GPU: [[kind, start, end]]} of results.TIMELINE."""
    fig, ax = _lanes(layers, title, "µs since the layer's backward pass began", 2700, dict(zip(WORDS, KINDS.values())))
    for y, spans in enumerate(layers.values()):
        for kind, start, end in spans:
            at, height = (y + 0.18, 0.26) if kind == "NCCL" else (y - 0.2, 0.46)
            _span(ax, start, end, at, height, KINDS[kind], f"{end - start} µs" if kind == "dW" else "")
    long = (f"{way}: {end - start} µs" for way, spans in layers.items() for kind, start, end in spans if kind == "dW")
    told = f"The weight gradient of fcproj takes {', '.join(long)}."
    describe(fig, f"The kernels of one layer's backward pass in three lanes. {told}")


def _lanes(names, title, xlabel, until, colors):
    """A figure and axes with a lane for each name, and a legend {word: color} below the lanes."""
    fig, ax = plt.subplots(figsize=(10, 0.9 * len(names) + 1.1), layout="constrained")
    ax.set(xlabel=f"{xlabel} (stored: two H200s)", xlim=(0, until), ylim=(len(names) - 0.45, -0.55), title=title)
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", visible=False)
    handles = [plt.Rectangle((0, 0), 1, 1, color=color) for color in colors.values()]
    fig.legend(handles, list(colors), ncols=len(colors), loc="outside lower center")
    return fig, ax


def _span(ax, start, end, y, height, color, text=""):
    ax.barh(y, end - start, height, start, color=color, edgecolor="white", lw=0.4)
    ax.text((start + end) / 2, y, text, ha="center", va="center", size=SIZE, color=ink(INK, color))


def draw_sums(sums, model, title):
    """sums: {name: (bytes, ms of each turn)} of results.sums. model(bytes): ms that the links need for them."""
    fig, ax = plt.subplots(figsize=(9, 3.4), layout="constrained")
    nbytes, turns = (list(column) for column in zip(*sums.values()))
    turns, y = np.array(turns), np.arange(len(sums))  # (sums, turns), (sums,)
    middle = np.median(turns, axis=1)  # (sums,)
    expected = middle[0] + [model(n) for n in nbytes]  # (sums,)
    ax.hlines(y, turns.min(axis=1), turns.max(axis=1), color=BLUE, lw=2)
    ax.plot(turns.ravel(), y.repeat(turns.shape[1]), "o", color=BLUE, ms=6, label="measured: three turns")
    ax.vlines(expected, y - 0.35, y + 0.35, color="black", lw=3, label="links alone")
    for k in np.flatnonzero(nbytes):
        text, at = f"+{middle[k] - middle[0]:.2f} ms", (turns[k].max(), k)
        ax.annotate(text, at, (8, 0), textcoords="offset points", va="center", size=SIZE)
    ax.set(xlabel="ms of a step (stored: two H200s; the axis does not begin at 0)", xlim=(57.2, 60.2), title=title)
    ax.set_yticks(y, list(sums))
    ax.set_ylim(len(sums) - 0.5, -0.6)
    ax.legend(loc="upper right")
    shown = "; ".join(f"{name}: {ms:.2f} ms, expected {by:.2f}" for name, ms, by in zip(sums, middle, expected))
    describe(fig, f"Steps that sum more and more, three turns each, next to what the links alone would add. {shown}.")
