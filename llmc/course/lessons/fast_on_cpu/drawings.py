"""Lesson 11: figures too long for a cell: a step as a timeline, functions under a roof, a waterfall, a race."""

import matplotlib.pyplot as plt

from llmc.course.figures import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PALE,
    PURPLE,
    RED,
    arrow,
    blank_axes,
    describe,
    ink,
    number_grid,
)
from llmc.course.figures.roofline import roof

LOSS, UPDATE = "fused_classifier", "adamw_update"  # the functions at which the backward pass and the update begin
KINDS = {"matmul": (BLUE, "o"), "attention": (PURPLE, "s"), "layernorm": (GREEN, "^"), "gelu": (ORANGE, "D")}
REST = (GREY, "v")  # the other functions: AdamW, the embedding, the loss


def timeline(calls, seconds, least=0.02):
    """Draw the calls of one step from left to right, a row for each function that takes at least that share of it.

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
        offset, side = ((7, 2), "left") if k % 2 else ((-7, 2), "right")
        ax.annotate(f"{k}", (at, fast), offset, textcoords="offset points", ha=side, size=9.5, color=ink(color))
    lowest = min(jobs[name][0] / of[name] / 1e9 for name in jobs for of in parts.values())
    ax.set(ylim=(0.4 * lowest, 3 * peak))
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1), title="hollow: numpy, filled: cpu")
    closer = sum(parts["cpu"][name] < parts["numpy"][name] for name in jobs)
    ax.set_title(f"{closer} of {len(jobs)} functions are closer to the roof with the cpu backend")


def waterfall(before, after, floor):
    """Draw what each family of functions saves, from one backend's step down to the other's.

    before, after: {family: ms}. floor: ms.
    """
    fig, ax = plt.subplots(figsize=(10, 4.2), layout="constrained")
    level = top = highest = sum(before.values())
    names = ["numpy", *before, "cpu"]
    ax.bar(0, level, color=BLUE, width=0.62)
    ax.text(0, level, f"{level:.1f}", ha="center", va="bottom")
    for k, name in enumerate(before, start=1):
        saved = before[name] - after[name]  # ms; negative: lost
        ax.bar(k, saved, bottom=level - saved, color=GREEN if saved >= 0 else RED, width=0.62)
        ax.text(k, max(level, level - saved), f"{-saved:+.1f}".replace("-", "−"), ha="center", va="bottom")
        level -= saved
        highest = max(highest, level)
    ax.bar(len(names) - 1, level, color=ORANGE, width=0.62)
    ax.text(len(names) - 1, level, f"{level:.1f}", ha="center", va="bottom")
    ax.axhline(floor, color="black", lw=2.2)
    ax.annotate(f"floor: {floor:.1f} ms", (2, floor), (0, -3), textcoords="offset points", va="top", ha="center")
    ax.set_xticks(range(len(names)), names)
    ax.grid(axis="x", visible=False)
    ax.set(ylim=(0, 1.1 * highest), ylabel="one step of tiny, one thread (ms)")
    steps = "; ".join(f"{' '.join(n.split())} {before[n]:.1f} to {after[n]:.1f}" for n in before)
    describe(fig, f"Waterfall from {top:.1f} ms to {level:.1f} ms, floor {floor:.1f} ms; in ms: {steps}.")
    return ax


def who_writes_where(tokens, channels=4):
    """Draw a scatter-add of two threads that share out the rows of dout (left) or its channels (right).

    tokens: (N,), from 1 to N. On the left the first thread has the rows 0 to 2.
    """
    N = len(tokens)
    fig, ax = blank_axes((-4.5, 29), (-N - 0.4, 2.4), "On the left two threads meet in one row; on the right never")
    for left, name, thread in ((0, "rows", lambda n, c: int(n >= 3)), (17, "channels", lambda n, c: 2 * c // channels)):
        owners = [[thread(n, c) for c in range(channels)] for n in range(N)]  # (N, C)
        writers = [
            [{owners[n][c] for n in range(N) if tokens[n] == v} for c in range(channels)] for v in range(1, N + 1)
        ]
        rows = [[(BLUE, ORANGE)[owner] for owner in row] for row in owners]
        table = [[RED if len(who) > 1 else (BLUE, ORANGE)[min(who)] if who else PALE for who in row] for row in writers]
        labels = [f"token {token}" for token in tokens] if name == "rows" else ()
        look = dict(text="", wide=1)
        source = number_grid(
            ax, [[0.0] * channels] * N, (left, 0), f"dout: {name} shared", colors=rows, rows=labels, **look
        )
        target = number_grid(ax, [[0.0] * channels] * N, (left + 7.5, 0), "dwte[1 … 5]", colors=table, **look)
        for n, token in enumerate(tokens):
            meets = any(len(who) > 1 for who in writers[token - 1])
            begin, end = (source.right, -n - 0.5), (target.left, 0.5 - token)
            arrow(ax, begin, end, color=RED if meets else GREY)
    describe(
        fig,
        "Left: rows 1 and 3 of dout belong to different threads, and both are added to the row of token 1. "
        "Right: each thread has its own channels of every row, and no number is written by two threads.",
    )
