"""Lesson 11: figures too long for a cell: a step as a timeline, functions under a roof, a waterfall, a race."""

import matplotlib.pyplot as plt
import numpy as np

from llmc.course import figures
from llmc.course.figures import BLUE, GREEN, GREY, ORANGE, PALE, PURPLE, RED, describe, ink
from llmc.course.figures.roofline import roof

LOSS, UPDATE = "fused_classifier", "adamw_update"  # the functions at which the backward pass and the update begin
KINDS = {"matmul": (BLUE, "o"), "attention": (PURPLE, "s"), "layernorm": (GREEN, "^"), "gelu": (ORANGE, "D")}
REST = (GREY, "v")  # the other functions: AdamW, the embedding, the loss


def timeline(calls, seconds, least=0.02):
    """Draw the calls of one step from left to right, with a row for each function that takes at least that share of it.

    calls: [Call] in order. seconds: {function: seconds a step}, slowest first, for the shares on the right.
    """
    whole = sum(seconds.values())
    rows = [name for name, s in seconds.items() if s >= least * whole]
    end = 1e3 * (calls[-1].start + calls[-1].seconds)  # ms
    turn = next(call.start for call in calls if call.name == LOSS)
    fig, ax = plt.subplots(figsize=(10, 4.2), layout="constrained")
    for call in (call for call in calls if call.name in rows):
        color = GREEN if call.name == UPDATE else BLUE if call.start <= turn else ORANGE
        ax.barh(rows.index(call.name), 1e3 * call.seconds, left=1e3 * call.start, height=0.7, color=color)
    for k, name in enumerate(rows):
        ax.annotate(f"{seconds[name] / whole:.0%}", (end, k), (6, 0), textcoords="offset points", va="center")
    for color, label in ((BLUE, "forward"), (ORANGE, "backward"), (GREEN, "update")):
        ax.plot([], [], "s", color=color, ms=9, label=label)
    ax.set_yticks(range(len(rows)), rows)
    ax.set(xlim=(0, 1.08 * end), ylim=(len(rows) - 0.4, -0.6), xlabel="time since the step began (ms)")
    ax.grid(axis="y", visible=False)
    fig.legend(loc="outside lower center", ncols=3)
    ax.set_title(f"One step of the numpy backend: {rows[0]} alone takes {seconds[rows[0]] / whole:.0%}")
    shares = ", ".join(f"{name} {seconds[name] / whole:.0%}" for name in rows)
    describe(fig, f"Timeline of the calls in one training step; shares of its time: {shares}.")


def under_the_roof(jobs, parts, peak, bandwidths):
    """Draw every function twice under the roof, hollow for the numpy backend and filled for the cpu backend.

    jobs: {function: (operations, numbers moved)}. parts: {backend: {function: seconds}}. peak: GFLOP/s.
    bandwidths: {"memory": GB/s, …}.
    """
    fig, ax = plt.subplots(figsize=(10, 5.2), layout="constrained")
    roof(ax, peak, bandwidths, (0.08, 300))
    for k, (name, (operations, numbers)) in enumerate(jobs.items(), start=1):
        color, marker = next((look for kind, look in KINDS.items() if kind in name), REST)
        at, look = operations / numbers / 4, dict(color=color, marker=marker, ls="")
        slow, fast = (operations / parts[backend][name] / 1e9 for backend in ("numpy", "cpu"))  # GFLOP/s
        ax.plot([at, at], [slow, fast], color=color, lw=1.2)
        ax.plot(at, slow, mfc="white", ms=8, **look)
        ax.plot(at, fast, ms=9, label=f"{k}  {name}", **look)
        look = dict(ha="left" if k % 2 else "right", textcoords="offset points", size=9.5, color=ink(color))
        ax.annotate(f"{k}", (at, fast), (7 if k % 2 else -7, 2), **look)
    lowest = min(jobs[name][0] / of[name] / 1e9 for name in jobs for of in parts.values())
    ax.set(ylim=(0.4 * lowest, 3 * peak))
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1), title="hollow: numpy, filled: cpu")
    closer = sum(parts["cpu"][name] < parts["numpy"][name] for name in jobs)
    ax.set_title(f"{closer} of {len(jobs)} functions are closer to the roof with the cpu backend")


def waterfall(before, after, floor):
    """Draw what each family of functions saves, from one backend's step down to the other's.

    before, after: {family: ms}. floor: ms.
    """
    saved = [before[name] - after[name] for name in before]  # ms; negative: lost
    levels = sum(before.values()) - np.cumsum([0, *saved])  # ms, from the first backend's step to the other's
    labels = [f"{levels[0]:.1f}", *(f"{-ms:+.1f}".replace("-", "−") for ms in saved), f"{levels[-1]:.1f}"]
    fig, ax = plt.subplots(figsize=(10, 4.2), layout="constrained")
    colors = [BLUE, *(GREEN if ms >= 0 else RED for ms in saved), ORANGE]
    heights = [levels[0], *saved, levels[-1]]
    ax.bar(["numpy", *before, "cpu"], heights, bottom=[0, *levels[1:], 0], color=colors, width=0.62)
    for k, top in enumerate([levels[0], *np.maximum(levels[:-1], levels[1:]), levels[-1]]):
        ax.text(k, top, labels[k], ha="center", va="bottom")
    ax.axhline(floor, color="black", lw=2.2)
    ax.annotate(f"floor: {floor:.1f} ms", (2, floor), (0, -3), textcoords="offset points", va="top", ha="center")
    ax.grid(axis="x", visible=False)
    ax.set(ylim=(0, 1.1 * levels.max()), ylabel="one step of tiny, one thread (ms)")
    steps = "; ".join(f"{' '.join(n.split())} {before[n]:.1f} to {after[n]:.1f}" for n in before)
    describe(fig, f"Waterfall from {levels[0]:.1f} ms to {levels[-1]:.1f} ms, floor {floor:.1f} ms; in ms: {steps}.")
    return ax


def who_writes_where(tokens, channels=4):
    """Draw a scatter-add of two threads that share out the rows of dout (left) or its channels (right).

    tokens: (N,), from 1 to N. On the left the first thread has the rows 0 to 2.
    """
    N, looks = len(tokens), np.array([PALE, BLUE, ORANGE, RED])  # of numbers that neither, one, the other, both write
    fig, ax = figures.blank_axes(
        (-4.5, 29), (-N - 0.4, 2.4), "On the left two threads meet in one row; on the right never"
    )
    second = {"rows": np.arange(N)[:, None] >= 3, "channels": np.arange(channels) >= channels / 2}
    for left, (name, shared) in zip((0, 17), second.items()):
        threads = np.broadcast_to(1 + shared, (N, channels))  # (N, C): 1 or 2
        writers = np.array([np.bitwise_or.reduce(threads[tokens == v]) for v in range(1, N + 1)])  # (N, C): 3 for both
        labels, grid = [f"token {token}" for token in tokens] * (name == "rows"), np.zeros((N, channels))  # (N, C)
        look = dict(text="", wide=1, rows=labels)
        source = figures.number_grid(
            ax, grid, (left, 0), f"dout: {name} shared", colors=looks[threads].tolist(), **look
        )
        look = dict(text="", wide=1, colors=looks[writers].tolist())
        target = figures.number_grid(ax, grid, (left + 7.5, 0), "dwte[1 … 5]", **look)
        for n, token in enumerate(tokens):
            color = RED if (writers[token - 1] == 3).any() else GREY
            figures.arrow(ax, (source.right, -n - 0.5), (target.left, 0.5 - token), color=color)
    describe(
        fig,
        "Left: rows 1 and 3 of dout belong to different threads, and both are added to the row of token 1. "
        "Right: each thread has its own channels of every row, and no number is written by two threads.",
    )
