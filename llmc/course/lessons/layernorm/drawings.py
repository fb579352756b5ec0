"""Lesson 01's diagrams: the layer, the three roads from x to norm, the Jacobian, and what its two means remove."""

import numpy as np

from llmc.course.figures import BLUE, GREEN, GREY, INK, ORANGE, RED, SKY, arrow, blank_axes, describe, ink, number_grid

# turns a row of three channels so that the plane of mean 0 is the floor and the direction 1 points up; three unit axes
TURN = np.array([[1, -1, 0], [1, 1, -2], [1, 1, 1]]) / np.sqrt([[2], [6], [3]])  # (3, C)
ANGLES = np.linspace(0, 2 * np.pi, 200)  # (200,)
CIRCLE = np.sqrt(3) * np.stack([np.cos(ANGLES), np.sin(ANGLES), 0 * ANGLES])  # (3, 200)   rows of variance 1

PLACES = {
    "$x_j$": (1.4, 4),
    "$x_i$ itself": (7.5, 7),
    "mean": (7.5, 4),
    "rstd": (7.5, 1),
    "$\\mathrm{norm}_i$": (13, 4),
    "$L$": (17.8, 4),
}
ROADS = (  # from, to, derivative, where that is written, colour
    ("$x_j$", "$x_i$ itself", "1 if $i=j$, else 0", (2.8, 5.9), GREEN),
    ("$x_j$", "mean", "$1\\,/\\,C$", (4.4, 4.2), BLUE),
    ("$x_j$", "rstd", "section 3.4", (2.9, 1.7), RED),
    ("$x_i$ itself", "$\\mathrm{norm}_i$", "rstd", (11.5, 5.8), GREEN),
    ("mean", "$\\mathrm{norm}_i$", "$-$ rstd", (10.1, 4.2), BLUE),
    ("rstd", "$\\mathrm{norm}_i$", "$x_i -$ mean", (12.1, 1.7), RED),
    ("$\\mathrm{norm}_i$", "$L$", "$\\mathrm{dnorm}_i$", (15.5, 4.2), GREY),
)


def draw_layernorm(x, mean, rstd, norm, out, w, b):
    """The arrays of a layernorm of two sequences of three tokens, B = 2, T = 3, C = 4; returns the figure."""
    title = "Layernorm works on each token's row alone; only w and b are shared"
    figure, ax = blank_axes((-3.6, 26.4), (-1.3, 10.2), title)
    names = ("x   (B, T, C)", "mean\n(B, T)", "rstd\n(B, T)", "norm   (B, T, C)", "out   (B, T, C)")
    for i, (top, labels) in enumerate(((7, names), (3, ("",) * 5))):
        ax.text(-0.3, top - 1.5, f"sequence {i}", ha="right", va="center", color=GREY)
        given = number_grid(ax, x[i], (0, top), labels[0], limit=20)
        means = number_grid(ax, mean[i][:, None], (6.9, top), labels[1], colors=BLUE, color=BLUE)
        rstds = number_grid(ax, rstd[i][:, None], (8.5, top), labels[2], colors=BLUE, color=BLUE)
        norms = number_grid(ax, norm[i], (12.0, top), labels[3], limit=3)
        outs = number_grid(ax, out[i], (20.9, top), labels[4], limit=3)
        arrow(ax, given, means)
        arrow(ax, rstds, norms)
        arrow(ax, norms, outs, "· w + b", color=GREEN)
    number_grid(ax, w[None], (12.0, 9.4), "w   (C,)", colors=GREEN, color=GREEN)
    number_grid(ax, b[None], (20.9, 9.4), "b   (C,)", colors=GREEN, color=GREEN)
    ax.text(8.4, -0.2, "one number per row,\nkept for the backward pass", ha="center", va="top", color=BLUE)
    ax.text(14.7, -0.2, "(x − mean) · rstd", ha="center", va="top", color=GREY)
    ax.text(23.6, -0.2, "norm · w + b", ha="center", va="top", color=GREY)
    describe(
        figure,
        "From left to right, for each of six rows: the four numbers of x; mean and rstd, one number each; norm, which "
        "is (x − mean) · rstd; out, which is norm · w + b. The same w and b, four numbers each, serve all rows.",
    )
    return figure


def draw_jacobian(direct, through_mean, through_rstd, total):
    """Four tables (4, 4), of which the first three add up to the last; returns the figure."""
    title = "Identity, minus what the mean takes away, minus what rstd takes away"
    figure, ax = blank_axes((-0.2, 29.0), (-0.2, 5.2), title, width=9.8)
    labels = (
        "$\\delta_{ij}$",
        "$-\\,1\\,/\\,C$   (mean)",
        "$-\\,\\mathrm{norm}_i\\,\\mathrm{norm}_j\\,/\\,C$   (rstd)",
        "Jacobian / rstd",
    )
    tables = (direct, through_mean, through_rstd, total)
    for k, (table, label, color) in enumerate(zip(tables, labels, (GREEN, BLUE, RED, INK))):
        number_grid(ax, table, (7.8 * k, 4), label, limit=1, color=color)
        ax.text(7.8 * k + 6.6, 2, "++= "[k], ha="center", va="center", size=18)
    describe(figure, "Three 4 × 4 tables and their sum: the identity, −1/4 everywhere, and −norm_i · norm_j / 4.")
    return figure


def draw_roads():
    """The three roads from x_j to norm_i, with the derivative of each arrow; returns the figure."""
    title = "Moving one x reaches each norm of its row by three roads"
    figure, ax = blank_axes((0, 19), (0.2, 7.9), title, width=9.5)
    frame = dict(boxstyle="round,pad=0.5", facecolor="white", edgecolor=INK)
    look = dict(ha="center", va="center", size=13, bbox=frame)
    frames = {name: ax.text(*place, name, **look).get_bbox_patch() for name, place in PLACES.items()}
    for start, end, derivative, at, color in ROADS:
        style = dict(arrowstyle="-|>", color=color, lw=2.2, shrinkA=2, shrinkB=2)
        style |= dict(patchA=frames[start], patchB=frames[end])
        ax.annotate("", PLACES[end], PLACES[start], arrowprops=style)
        ax.text(*at, derivative, ha="center", va="bottom", size=12, color=ink(color))
    describe(
        figure,
        "From x_j, arrows lead to x_i itself (1 if i = j, else 0), to the mean (1 / C) and to rstd (section 3.4). From "
        "there they lead to norm_i, with the derivatives rstd, minus rstd, and x_i minus the mean; from norm_i to L.",
    )
    return figure


def draw_floor(norm, dnorm, no_offset):
    """Rows of three channels in space, mean 0 the floor: subtracting mean(dnorm) drops dnorm; returns the figure."""
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(7.5, 4.4))
    ax = figure.add_axes((0.0, 0.0, 0.75, 0.95), projection="3d", computed_zorder=False)
    corners = 2.3 * np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]])  # (4, 3)
    ax.plot_trisurf(*corners.T, triangles=[[0, 1, 2], [0, 2, 3]], color=SKY, alpha=0.18, zorder=0)
    ax.plot(*CIRCLE, color=GREY, lw=1.2, zorder=1)
    names = ("direction 1", "norm", "dnorm", "dnorm − mean(dnorm)")
    for row, name, color in zip((np.ones(3), norm, dnorm, no_offset), names, (GREY, BLUE, ORANGE, GREEN)):
        ax.quiver(0, 0, 0, *TURN @ row, color=color, lw=2.6, arrow_length_ratio=0.12, zorder=3, label=name)
    ax.plot(*np.stack([TURN @ dnorm, TURN @ no_offset]).T, ":", color=ORANGE, lw=2.2, zorder=2)
    ax.set(xlim=(-1.7, 1.7), ylim=(-1.7, 1.7), zlim=(-0.9, 1.7), box_aspect=(3.4, 3.4, 2.6))
    ax.view_init(24, -60)
    ax.set_axis_off()
    figure.text(0.02, 0.95, "mean(dnorm): drop onto the plane of mean 0", size=12, weight="bold")
    figure.legend(loc="center right", bbox_to_anchor=(1.02, 0.62))
    describe(
        figure,
        "A floor with a circle on it; norm lies on the floor and ends on the circle. The direction 1 points straight "
        "up. dnorm points up at an angle; a dotted line drops from its tip to the tip of dnorm − mean(dnorm).",
    )
    return figure


def draw_circle(norm, no_offset, no_scale):
    """The floor from above: what is left of dnorm without its component along norm; returns the figure."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(7.5, 4.6))
    ax.plot(*CIRCLE[:2], color=GREY, lw=1.2)
    norm, no_offset, no_scale = ((TURN @ row)[:2] for row in (norm, no_offset, no_scale))  # (2,) each
    arrows = (
        ((0, 0), norm, BLUE, "norm"),
        ((0, 0), no_offset, GREEN, "dnorm − mean(dnorm)"),
        ((0, 0), no_scale, RED, "what is left: dx / rstd"),
        (norm, no_scale, RED, None),
    )
    for start, way, color, name in arrows:
        look = dict(angles="xy", scale_units="xy", scale=1, width=0.009, zorder=3)
        ax.quiver(*start, *way, color=color, label=name, **look)
    ax.plot(*np.stack([no_offset, no_scale]).T, ":", color=GREEN, lw=2.2)
    ax.set(xlim=(-2.1, 5.2), ylim=(-2.1, 2.4), aspect="equal", xlabel="floor, first axis", ylabel="floor, second axis")
    ax.set_title("norm · mean(dnorm · norm): keep what runs along the circle")
    ax.legend(loc="center right")
    describe(
        figure,
        "A circle with norm from its centre to its edge. Dropping the component along norm from dnorm − mean(dnorm) "
        "leaves an arrow at a right angle to norm; drawn from the tip of norm, it is tangent to the circle.",
    )
    return figure
