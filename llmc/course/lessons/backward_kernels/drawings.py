"""Lesson 14: the two directions of layernorm's sums, and positions that are sorted by token, drawn."""

from llmc.course.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, arrow, blank_axes, box, cell_row

COLORS = (BLUE, ORANGE, GREEN, PURPLE, SKY)


def draw_two_directions(title):
    """Rows of x and dout; to the right the means of each row, then dx; below the sums of the columns. The figure."""
    fig, ax = blank_axes((-1.8, 14.6), (-3.7, 3.7), title)
    rows = [cell_row(ax, [""] * 6, (0, 2.6 - 1.2 * n), 0.9, colors=BLUE, label=f"row {n}") for n in range(3)]
    ax.text(2.7, 2.9, "x and dout   (N, C)", ha="center", va="bottom")
    for n, row in enumerate(rows):
        y = 2.2 - 1.2 * n
        means = box(ax, 8.6, y, "two means", width=2.6, height=0.85, color=ORANGE)
        arrow(ax, row, means, color=ORANGE)
        dx = box(ax, 12.9, y, "dx += …", width=2.4, height=0.85, color=GREEN)
        arrow(ax, means, dx, color=GREEN)
    for k, name in enumerate(("dw", "db")):
        cell_row(ax, [""] * 6, (0, -1.9 - 0.95 * k), 0.9, colors=ORANGE, label=name)
    for c in range(6):
        x = 0.45 + 0.9 * c
        arrow(ax, (x, -0.6), (x, -1.85), color=GREY)
    ax.text(6.0, -1.3, "down the columns", va="center", color=GREY)
    return fig


def draw_buckets(tokens, order, title):
    """Positions as they come, with their tokens; below, in sorted order; a colour for each token. The figure."""
    fig, ax = blank_axes((-4.6, 14.2), (-3.6, 2.4), title)
    color = {token: COLORS[k % len(COLORS)] for k, token in enumerate(sorted(set(tokens.tolist())))}
    wide = 1.35
    cell_row(ax, tokens, (0, 1.2), wide, colors=[color[t] for t in tokens.tolist()], label="tokens, as they come")
    sorted_tokens = tokens[order]
    cell_row(ax, sorted_tokens, (0, -1.4), wide, colors=[color[t] for t in sorted_tokens.tolist()], label="sorted")
    cell_row(ax, order, (0, -2.4), wide, colors=GREY, label="order: their positions")
    for k, n in enumerate(order):
        begin, end = (wide * (n + 0.5), 0.35), (wide * (k + 0.5), -1.35)
        arrow(ax, begin, end, color=color[int(tokens[n])])
    for n in range(len(tokens)):
        ax.text(wide * (n + 0.5), 1.3, str(n), ha="center", va="bottom", size=9, color=GREY)
    return fig
