"""Lesson 21's drawings: one step on two ranks, and which chunks are how complete after each turn around the ring."""

from llmc.course.figures import BLUE, GREEN, ORANGE, SKY, arrow, blank_axes, box, describe, number_grid


def draw_step():
    """Two ranks, each with half of the batch, between which only the gradients are added up."""
    figure, ax = blank_axes((-1.6, 21.5), (-1.2, 4.2), "Two ranks share a batch; only the gradients have to meet")
    meet = box(ax, 13.6, 1.5, "all-reduce", "sum (n,)", color=ORANGE, width=3.0, height=1.4, filled=True)
    for y, name in ((3.0, "rank 0"), (0.0, "rank 1")):
        stages = [("half a batch", "(B, T)"), ("forward", "loss"), ("backward", "grads (n,)")]
        places = [
            box(ax, 1.2 + 3.9 * i, y, stage, shape, color=BLUE, width=3.1, height=1.3)
            for i, (stage, shape) in enumerate(stages)
        ]
        for one, other in zip(places, places[1:]):
            arrow(ax, one, other)
        update = box(ax, 18.6, y, "update", "params (n,)", color=GREEN, width=3.1, height=1.3)
        arrow(ax, places[-1], meet)
        arrow(ax, meet, update)
        ax.text(-1.2, y + 0.85, name, size=9.5)
    describe(
        figure,
        "Rank 0 and rank 1 each take half a batch through forward and backward; an all-reduce adds up their gradients,"
        " and both make the same update.",
    )


def draw_turns(counts, title):
    """counts: {name of a moment: (ranks, chunks) of how many ranks' numbers are in each chunk}, from left to right."""
    moments = list(counts.items())
    world = len(moments[0][1])
    wide = 1.0
    step = wide * world + 1.3
    figure, ax = blank_axes((-1.7, step * len(moments) - 0.6), (-world - 0.4, 1.3), title)
    for k, (name, count) in enumerate(moments):
        colors = [[GREEN if value == world else SKY if value > 1 else "#FFFFFF" for value in row] for row in count]
        rows = [f"rank {rank}" for rank in range(world)] if k == 0 else ()
        number_grid(ax, count, (step * k, 0), name, colors=colors, rows=rows, wide=wide, text=lambda v: f"{v:.0f}")
    shown = "; ".join(f"{name}: " + ", ".join(" ".join(f"{v:.0f}" for v in row) for row in c) for name, c in moments)
    describe(figure, f"Tables of {world} ranks and {world} chunks: how many ranks' numbers each chunk holds. {shown}.")
