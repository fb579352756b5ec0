"""Lesson 21's pictures of measurements: one step of two GPUs, one layer of it, and steps that sum more and more."""

import matplotlib.pyplot as plt

from llmc.course.figures import BLUE, GREEN, GREY, ORANGE, RED, SKY, describe
from llmc.course.figures.style import INK, ink

PHASES = {"forward": SKY, "head": GREEN, "backward": BLUE, "update": GREY}
KINDS = {"dW": RED, "product": BLUE, "attention": GREEN, "other": GREY}
SIZE = 9.5


def draw_steps(steps, title):
    """steps: {way: {GPU: lanes}} of results.timeline; for each GPU what it computes, and below it NCCL."""
    rows = [(f"{way}\n{gpu}", lanes) for way, gpus in steps.items() for gpu, lanes in gpus.items()]
    fig, ax = plt.subplots(figsize=(10, 0.85 * len(rows) + 1.1), layout="constrained")
    for y, (_, lanes) in enumerate(rows):
        for phase, start, end in lanes["compute"]:
            _span(ax, start / 1e3, end / 1e3, y - 0.2, 0.4, PHASES[phase])
            if end - start > 4000:
                ax.text((start + end) / 2e3, y - 0.2, phase, **_inside(PHASES[phase]))
        for start, end in lanes["nccl"]:
            _span(ax, start / 1e3, end / 1e3, y + 0.16, 0.28, ORANGE)
    ax.set(xlabel="ms since the step began (stored: two H200s)", xlim=(0, 60), title=title)
    _lanes(ax, [name for name, _ in rows])
    _legend(ax, {"update": GREY, "NCCL: an all-reduce or its halves": ORANGE})
    describe(
        fig,
        "Lanes of a step of 59 ms: forward, head, backward, update. Hidden, GPU 0 has twelve short all-reduces during"
        " the backward pass, and GPU 1 begins each of them 0.6 to 2 ms earlier; after the backward pass there is one.",
    )


def draw_layer(layers, title):
    """layers: {way, GPU: [[kind, start, end]]} of results.timeline."""
    fig, ax = plt.subplots(figsize=(10, 0.95 * len(layers) + 1.1), layout="constrained")
    for y, spans in enumerate(layers.values()):
        for kind, start, end in spans:
            if kind == "NCCL":
                _span(ax, start, end, y + 0.18, 0.26, ORANGE)
                continue
            _span(ax, start, end, y - 0.2, 0.46, KINDS[kind])
            if kind == "dW":
                ax.text((start + end) / 2, y - 0.2, f"{end - start} µs", **_inside(RED))
    ax.set(xlabel="µs since the layer's backward pass began (stored: two H200s)", xlim=(0, 2700), title=title)
    _lanes(ax, list(layers))
    names = {"dW of fcproj": RED, "other products": BLUE, "attention": GREEN, "the rest": GREY, "NCCL": ORANGE}
    _legend(ax, names)
    long = ", ".join(
        f"{way}: {end - start} µs" for way, spans in layers.items() for k, start, end in spans if k == "dW"
    )
    describe(
        fig, f"The kernels of one layer's backward pass in three lanes. The weight gradient of fcproj takes {long}."
    )


def draw_sums(sums, model, title):
    """sums: {name: (bytes, ms of each turn)} of results.sums. model(bytes): ms that the links need for them."""
    fig, ax = plt.subplots(figsize=(9, 3.4), layout="constrained")
    alone = sorted(next(iter(sums.values()))[1])[1]
    for y, (nbytes, turns) in enumerate(sums.values()):
        ax.plot(
            turns, [y] * len(turns), "-o", color=BLUE, ms=6, lw=2, label="measured: three turns" if y == 0 else None
        )
        expected = alone + model(nbytes)
        ax.plot([expected] * 2, [y - 0.35, y + 0.35], color="black", lw=3, label="links alone" if y == 0 else None)
        ax.annotate(f"+{sorted(turns)[1] - alone:.2f} ms" if nbytes else "", (max(turns), y), (8, 0), **_BESIDE)
    ax.set(xlabel="ms of a step (stored: two H200s; the axis does not begin at 0)", xlim=(57.2, 60.2), title=title)
    ax.set_yticks(range(len(sums)), list(sums))
    ax.set_ylim(len(sums) - 0.5, -0.6)
    ax.legend(loc="upper right")
    shown = "; ".join(
        f"{name}: {sorted(turns)[1]:.2f} ms, expected {alone + model(n):.2f}" for name, (n, turns) in sums.items()
    )
    describe(fig, f"Steps that sum more and more, three turns each, next to what the links alone would add. {shown}.")


_BESIDE = dict(textcoords="offset points", va="center", size=SIZE)


def _span(ax, start, end, y, height, color):
    ax.barh(y, end - start, height, start, color=color, edgecolor="white", lw=0.4)


def _inside(ground):
    return dict(ha="center", va="center", size=SIZE, color=ink(INK, ground))


def _lanes(ax, names):
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.45, -0.55)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", visible=False)


def _legend(ax, colors):
    """Below the axes, where no lane can be."""
    handles = [plt.Rectangle((0, 0), 1, 1, color=color) for color in colors.values()]
    ax.figure.legend(handles, list(colors), ncols=len(colors), loc="outside lower center")
