"""Lesson 17: two lanes of a queue, tensors in an arena, a profile next to its floors."""

import numpy as np

from llmc.course.figures import BLUE, GREEN, GREY, INK, ORANGE, RED, SKY, tint

PHASES = {"forward": SKY, "backward": ORANGE, "update": GREEN}


def phase(name) -> str:
    """Which part of a step a call belongs to."""
    if name in PHASES:
        return name
    if "adamw" in name or name == "clip":
        return "update"
    return "backward" if "backward" in name or name == "zero" else "forward"


def draw_lanes(ax, calls, xlim, labels=False):
    """Draw what the host launches (above) and what the GPU does (below) between two times in ms.

    calls: (name, host begin, host end, GPU begin, GPU end), in ms. labels: their names in the boxes.
    """
    groups = {SKY: calls} if labels else _by_color(calls)
    for color, some in groups.items():
        look = dict(facecolor=color, edgecolor="white", lw=1.0 if labels else 0)
        ax.broken_barh([(host, until - host) for _, host, until, _, _ in some], (1.1, 0.8), **look)
        ax.broken_barh([(begin, end - begin) for _, _, _, begin, end in some], (0, 0.8), **look)
    for name, host, until, begin, end in calls if labels else ():
        ax.text((host + until) / 2, 1.5, name, ha="center", va="center", color=INK)
        ax.text((begin + end) / 2, 0.4, name, ha="center", va="center", color=INK)
    ax.set(xlim=xlim, ylim=(-0.15, 2.05), yticks=[0.4, 1.5], yticklabels=["GPU", "host"], xlabel="ms")
    ax.grid(axis="y", visible=False)


def _by_color(calls) -> dict:
    groups = {color: [] for color in PHASES.values()}
    for call in calls:
        groups[PHASES[phase(call[0])]].append(call)
    return {color: some for color, some in groups.items() if some}


def draw_phases(ax):
    """A legend of the three parts of a step."""
    for name, color in PHASES.items():
        ax.plot([], [], color=color, lw=7, label=name)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.35), ncols=3)


def draw_arena(ax, tensors, offsets, most):
    """Draw tensors (size, first, last) as boxes, from step to step and from byte to byte; most: bytes of the axis."""
    colors = (BLUE, ORANGE, GREEN, SKY, RED, GREY)
    for k, ((size, first, last), offset) in enumerate(zip(tensors, offsets)):
        ground = tint(colors[k % len(colors)], 0.45)
        box = dict(facecolor=ground, edgecolor="white", lw=2)
        ax.broken_barh([(first - 0.5, last - first + 1)], (offset, size), **box)
        ax.text((first + last) / 2, offset + size / 2, f"{k}: {size}", ha="center", va="center", fontsize=10)
    steps = sorted({s for _, a, b in tensors for s in range(a, b + 1)})
    top = max(offset + size for offset, (size, _, _) in zip(offsets, tensors))
    ax.set(xticks=steps, xlabel="step", ylabel="byte", xlim=(min(steps) - 0.6, max(steps) + 0.6), ylim=(0, 1.15 * most))
    ax.axhline(top, color=INK, lw=1.5, ls="--")
    ax.text(max(steps) + 0.5, top, f"{top} bytes", ha="right", va="bottom", fontsize=10)
    ax.grid(axis="x", visible=False)


def draw_profile(ax, found, most=12):
    """Draw {function: (ms, floor ms or None)}: bars, and a black mark where the floor is."""
    names = list(found)[:most]
    ms = np.array([found[name][0] for name in names])
    ax.barh(names, ms, color=tint(BLUE, 0.6), height=0.62)
    for k, name in enumerate(names):
        floor = found[name][1]
        words = f"{ms[k]:.2f} ms"
        if floor:
            ax.plot([floor, floor], [k - 0.42, k + 0.42], color="black", lw=3)
            words += f", floor {floor:.2f}"
        ax.annotate(words, (max(ms[k], floor or 0), k), (6, 0), textcoords="offset points", va="center", fontsize=9.5)
    ax.set(ylim=(len(names) - 0.5, -0.5), xlim=(0, 1.45 * ms.max()), xlabel="ms a step")
    ax.plot([], [], color="black", lw=3, label="floor")
    ax.legend(loc="lower right")
    ax.grid(axis="y", visible=False)
    ax.tick_params(axis="y", length=0)
