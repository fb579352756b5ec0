"""Lesson 10's drawings: the loop as a ring, what five ways to save may leave, what a resume finds at every moment."""

from llmc.course.figures import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RED,
    arrow,
    blank_axes,
    box,
    cell_row,
    describe,
    flow,
    way_back,
)

RING = [
    ("next_batch", "x, y  (B, T)"),
    ("zero_grad", "grads = 0  (n,)"),
    ("forward", "loss, one number"),
    ("backward", "grads  (n,)"),
    ("clip", "norm, one number"),
    ("update", "params, m, v  (n,)"),
]
AROUND = [  # what is attached to a box from outside: its middle, the number of that box, what it is, where it is built
    (2.4, 0, "resume", "the place in the text\nis kept: section 6"),
    (7.1, 3, "accumulation", "several micro-batches\nadded up: section 5"),
    (11.8, 2, "watching", "live curve, validation,\nlog: sections 2 to 4"),
    (16.6, 4, "outliers", "loss or norm unusual?\nsection 8"),
    (21.4, 5, "rate, checkpoint", "too large? section 9\nkept? sections 6 and 7"),
]
EVENTS = ("kill -9 during the save", "power cut during the save", "power cut after the save")
KINDS = {  # what a resume may find: its colour, what it means
    "a mixture": (RED, "new model, old state: loads, and is wrong"),
    "nothing": (ORANGE, "nothing that loads"),
    "200": (GREEN, "step 200"),
    "100": (BLUE, "step 100"),
}


def draw_ring():
    """The six boxes of a training step, and around them what the lesson adds, by section."""
    figure, ax = blank_axes((0, 24), (-2.3, 4.2), "Six boxes train; everything else watches them or keeps them safe")
    places = flow(ax, RING, at=(2.0, 0), step=4.0, width=3.4, height=1.3, filled=True)
    way_back(ax, places[-1], places[0], "the next step")
    for x, at, name, where in AROUND:
        arrow(ax, box(ax, x, 2.9, name, where, color=ORANGE, width=4.4, height=2.0), places[at], dashed=True)
    steps, extras = " → ".join(name for name, _ in RING), ", ".join(name for _, _, name, _ in AROUND)
    describe(figure, f"A ring of six boxes: {steps}, and back to the first. Above it, tied to single boxes: {extras}.")


def draw_ways(bad):
    """bad: {way to save: for each of EVENTS what other than a whole file may be found, "" for nothing}."""
    title = "Leave one step out, and there is a moment at which the file is lost"
    figure, ax = blank_axes((-10.2, 18.2), (-len(bad) - 0.1, 1.1), title)
    right = ["old or new, whole", "old or new, whole", "the new one, whole"]
    for k, event in enumerate(EVENTS):
        ax.text(6 * k + 3, 0.15, event, ha="center")
    for row, (way, found) in enumerate(bad.items()):
        texts = [wrong or good for wrong, good in zip(found, right)]
        cell_row(ax, texts, (0, -row), 6, colors=[RED if wrong else GREEN for wrong in found], label=way)
    rows = [f"{way}: {', '.join(wrong or 'whole' for wrong in found)}" for way, found in bad.items()]
    describe(figure, f"A table. Columns: {'; '.join(EVENTS)}. Rows: {'; '.join(rows)}.")


def draw_moments(outcomes):
    """outcomes: {protocol: for each moment the set of KINDS that a resume may find}."""
    longest = max(map(len, outcomes.values()))
    title = "DONE last, and only then the old one goes: every resume finds a whole checkpoint"
    figure, ax = blank_axes((-11.3, longest + 0.4), (-len(outcomes) - 0.7, 3.1), title)
    for row, (name, moments) in enumerate(outcomes.items()):
        ax.text(-0.3, -row + 0.4, name, ha="right", va="center")
        for moment, found in enumerate(moments):
            here = [kind for kind in KINDS if kind in found]
            for k, kind in enumerate(here):
                _patch(ax, (moment, -row + 0.82 * k / len(here)), 0.9, 0.82 / len(here), KINDS[kind][0])
    for k, (color, meaning) in enumerate(KINDS.values()):
        left, bottom = (-11.2, 2.2 - 0.9 * k) if k < 2 else (4.0, 2.2 - 0.9 * (k - 2))
        _patch(ax, (left, bottom), 0.7, 0.6, color)
        ax.text(left + 0.95, bottom + 0.3, meaning, va="center")
    end = 0.35 - len(outcomes)
    arrow(ax, (0, end), (longest, end))
    ax.text(0, end - 0.2, "the moment at which the power goes", va="top", color=GREY)
    rows = [f"{name}: {', '.join(sorted(set().union(*moments)))}" for name, moments in outcomes.items()]
    describe(figure, f"For each protocol, what a resume may find at every moment of the save. {'. '.join(rows)}.")


def _patch(ax, at, width, height, color):
    from matplotlib.patches import Rectangle

    ax.add_patch(Rectangle(at, width, height, color=color, lw=0))
