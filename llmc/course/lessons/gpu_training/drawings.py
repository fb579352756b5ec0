"""Lesson 17: two lanes of a queue, tensors in an arena, a profile next to its floors."""

from llmc.course.figures import BLUE, GREEN, INK, ORANGE, SKY, tint

PHASES = {"forward": SKY, "backward": ORANGE, "update": GREEN}


def phase(name) -> str:
    """Which part of a step a call belongs to."""
    if "adamw" in name or name in ("clip", "update"):
        return "update"
    return "backward" if "backward" in name or name == "zero" else "forward"


def draw_lanes(ax, calls, xlim, labels=False):
    """Draw what the host launches (above) and what the GPU does (below) between two times in ms.

    calls: (name, host begin, host end, GPU begin, GPU end), in ms. labels: their names in the boxes.
    """
    for bottom, first in ((1.1, 1), (0, 3)):
        for color in dict.fromkeys(PHASES[phase(name)] for name, *_ in calls):
            spans = [call[first : first + 2] for call in calls if PHASES[phase(call[0])] == color]
            boxes = [(begin, end - begin) for begin, end in spans]
            ax.broken_barh(boxes, (bottom, 0.8), facecolor=color, edgecolor="white", lw=1.0 if labels else 0)
        for call in calls if labels else ():
            middle = (call[first] + call[first + 1]) / 2
            ax.text(middle, bottom + 0.4, call[0], ha="center", va="center", color=INK)
    ax.set(xlim=xlim, ylim=(-0.15, 2.05), yticks=[0.4, 1.5], yticklabels=["GPU", "host"], xlabel="ms")
    ax.grid(axis="y", visible=False)


def draw_phases(ax):
    """A legend of the three parts of a step."""
    for name, color in PHASES.items():
        ax.plot([], [], color=color, lw=7, label=name)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.35), ncols=3)


def draw_arena(ax, tensors, offsets, most):
    """Draw tensors (size, first, last) as boxes, from step to step and from byte to byte; most: bytes of the axis."""
    for k, ((size, first, last), offset, color) in enumerate(zip(tensors, offsets, (BLUE, ORANGE, GREEN, SKY))):
        box = dict(facecolor=tint(color, 0.45), edgecolor="white", lw=2)
        ax.broken_barh([(first - 0.5, last - first + 1)], (offset, size), **box)
        ax.text((first + last) / 2, offset + size / 2, f"{k}: {size}", ha="center", va="center", fontsize=10)
    steps = range(min(first for _, first, _ in tensors), max(last for *_, last in tensors) + 1)
    top = max(offset + size for offset, (size, _, _) in zip(offsets, tensors))
    ax.set(xticks=steps, xlabel="step", ylabel="byte", xlim=(steps[0] - 0.6, steps[-1] + 0.6), ylim=(0, 1.15 * most))
    ax.axhline(top, color=INK, lw=1.5, ls="--")
    ax.text(steps[-1] + 0.5, top, f"{top} bytes", ha="right", va="bottom", fontsize=10)
    ax.grid(axis="x", visible=False)


def draw_profile(ax, found, most=12):
    """Draw {function: (ms, floor ms or None)}: bars, with a black mark where the floor is."""
    found = dict([*found.items()][:most])
    ax.barh([*found], [ms for ms, _ in found.values()], color=tint(BLUE, 0.6), height=0.62)
    for k, (ms, floor) in enumerate(found.values()):
        words = f"{ms:.2f} ms" + (f", floor {floor:.2f}" if floor else "")
        ax.annotate(words, (max(ms, floor or 0), k), (6, 0), textcoords="offset points", va="center", fontsize=9.5)
        if floor:
            ax.plot([floor, floor], [k - 0.42, k + 0.42], color="black", lw=3)
    ax.set(ylim=(len(found) - 0.5, -0.5), xlim=(0, 1.45 * max(ms for ms, _ in found.values())), xlabel="ms a step")
    ax.plot([], [], color="black", lw=3, label="floor")
    ax.legend(loc="lower right")
    ax.grid(axis="y", visible=False)
    ax.tick_params(axis="y", length=0)
