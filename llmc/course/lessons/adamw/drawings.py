"""Lesson 09: its drawings. The bowl from above, three steps of Adam with their numbers, two ways to clip."""

import numpy as np

from llmc.course.figures import BLUE, GREEN, GREY, ORANGE, RED, arrow, blank_axes, describe, number_grid, panels


def draw_bowl(ax, bowl, start, minimum, xlim=(-0.6, 2.6), ylim=(-5.2, 7.2)):
    """Draw lines of equal loss on ax, a cross at the start, a star at the minimum. bowl: (…, 2) -> (…)."""
    x, y = np.meshgrid(np.linspace(*xlim, 160), np.linspace(*ylim, 160))  # (160, 160) each
    ax.contour(x, y, bowl(np.stack([x, y], axis=-1)), levels=[1, 10, 30, 60], colors="#BBBBBB", linewidths=0.9)
    ax.plot(*minimum, "*", color="black", ms=13, zorder=5)
    ax.plot(*start, "x", color="black", ms=8, mew=2, zorder=5)
    ax.set(xlim=xlim, ylim=ylim, xlabel="$w_0$ (steep)")
    ax.grid(visible=False)


def draw_downhill(bowl, slope, start, minimum):
    """Draw the bowl, and at five places the direction of steepest descent and that of the minimum."""
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
    draw_bowl(ax, bowl, start, minimum, (-6.8, 5.6), (-5.2, 5.2))
    for place in ([0.0, -4.0], [2.0, -2.0], [0.2, 1.0], [1.6, 2.5], [0.9, -3.0]):
        for way, color in ((-slope(np.array(place)), RED), (minimum - place, GREEN)):
            look = dict(arrowstyle="-|>", color=color, lw=2)
            ax.annotate("", place + 1.1 * way / np.linalg.norm(way), place, arrowprops=look)
    ax.plot([], [], color=RED, label="−dw: steepest descent")
    ax.plot([], [], color=GREEN, label="the way to the minimum")
    ax.set(ylabel="$w_1$ (flat)", aspect="equal")
    ax.legend(loc="upper left")
    ax.set_title("Downhill points across the valley, hardly along it")


def draw_three_steps():
    """Draw the table of section 3.2 as a data flow: from slopes to m and v, to their hats, to the weight."""
    title = "Two slopes agree: two steps of 0.1. The third contradicts: a seventh of a step"
    fig, ax = blank_axes((-1.2, 24.5), (-0.6, 9.4), title)
    columns = {  # name: (place, colour, values from t = 0 or 1)
        "m": (0.8, BLUE, "0 1 3 −½"),
        "g": (4.6, GREY, "2 5 −4"),
        "v": (8.4, ORANGE, "0 1 7 37/4"),
        "m̂": (13.2, BLUE, "2 4 −4/7"),
        "v̂": (15.2, ORANGE, "4 16 16"),
        "m̂ / √v̂": (18.4, GREEN, "1 1 −1/7"),
        "w": (22.2, GREY, "1 0.9 0.8 0.814"),
    }
    for name, (x, color, values) in columns.items():
        ax.text(x + 0.8, 8, name, ha="center", weight="bold")
        for row, value in enumerate(values.split(), start=4 - len(values.split())):
            number_grid(ax, [[0]], (x, 7.6 - 2 * row), colors=color, wide=1.6, text=lambda _, value=value: value)
    for t in (1, 2, 3):
        _row_of_arrows(ax, 7.1 - 2 * t)
        ax.text(-1, 7.1 - 2 * t, f"t = {t}", color=GREY, va="center")
    describe(
        fig,
        "For t = 1, 2, 3: the slopes 2, 5, −4 enter m (1, 3, −½) with the factor ½, and their squares enter v (1, 7, "
        "37/4) with ¼. Divided by 1 − β to the power of t they are m̂ (2, 4, −4/7) and v̂ (4, 16, 16). The quotient is "
        "1, 1, −1/7, and w goes from 1 to 0.9, 0.8 and 0.814.",
    )


def _row_of_arrows(ax, y):
    """The arrows of one step, between the columns at height y and from the row above."""
    for x, share in ((1.6, "· ½"), (9.2, "· ¾")):
        arrow(ax, (x, y + 1.45), (x, y + 0.55))
        ax.text(x + 0.25, y + 1, share, color=GREY, size=9, va="center")
    arrow(ax, (4.5, y), (2.5, y), "· ½")
    arrow(ax, (6.3, y), (8.3, y), "g² · ¼")
    arrow(ax, (10.1, y), (13.1, y), "÷ (1 − βᵗ)")
    arrow(ax, (16.9, y), (18.3, y))
    arrow(ax, (20.1, y), (22.1, y), "· lr")


def draw_clipping():
    """Draw four gradients of two weights, clipped to a norm of 1, and clipped number by number."""
    angle = np.linspace(0, 2 * np.pi, 200)  # (200,)
    vectors = np.array([[3, 4], [-2.6, 0.7], [0.5, -0.4], [1.2, -2.8]])  # (4, 2)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)  # (4, 1)
    circle, square = (np.cos(angle), np.sin(angle)), ([1, 1, -1, -1, 1], [-1, 1, 1, -1, -1])
    fig, axes = panels(2, title="Clipping by the global norm keeps the direction and cuts the length", height=4.6)
    for ax, title, after, edge, color in (
        (axes[0], "by the norm: shorter, same direction", vectors * np.minimum(1, 1 / norms), circle, BLUE),
        (axes[1], "number by number: turned", np.clip(vectors, -1, 1), square, RED),
    ):
        ax.plot(*edge, color=GREY, lw=1.2)
        for ends, look in ((vectors, dict(color="#BBBBBB", lw=2)), (after, dict(color=color, lw=2.6))):
            for end in ends:
                ax.annotate("", end, (0, 0), arrowprops=dict(arrowstyle="-|>", **look))
            ax.plot([], [], label="before" if ends is vectors else "after", **look)
        ax.set(xlim=(-3.3, 3.6), ylim=(-3.2, 4.4), aspect="equal", xlabel="slope of the first weight", title=title)
        ax.legend(loc="upper left")
    axes[0].set_ylabel("slope of the second weight")
