"""Lesson 22's two drawings: the tiny GPT-2 with its weights, and a passage of text as tokens."""

from llmc.course.figures import BLUE, GREY, SKY, YELLOW, arrow, blank_axes, cell_row, describe, tint
from llmc.course.lessons.tokens.drawings import visible

AREA = 3.15e4  # weights in one square unit of the drawing


def draw_model(config):
    """The path of a batch through GPT-2: the residual stream, and boxes as large as the weights that act on it."""
    L, C, V, T = config.L, config.C, config.V, config.maxT
    size = {p.name: p.size for p in config.parameter_table()}
    share = 8 * L * C * C / config.num_parameters
    title = f"{share:.0%} of the {config.num_parameters:,} weights are in the MLPs of the {L} blocks"
    figure, ax = blank_axes((-2, 46), (-0.9, 8.4), title)
    stream = dict(arrowstyle="-|>", lw=7, color=tint(GREY), mutation_scale=26)
    ax.annotate("", (36.2, 6.6), (7.9, 6.6), arrowprops=stream)
    _write(ax, 10.6, 7.3, "residual stream  (B, T, C)", ha="left")
    _write(ax, 35.4, 7.3, "layernorm", ha="right")
    _write(ax, 0, 6.6, "tokens\n(B, T)", va="center")
    _weights(ax, 5.4, 6.6, size["wte"])
    _write(ax, 5.4, 7.6, f"wte  ({V}, {C})", va="bottom")
    _weights(ax, 5.4, 4.0, size["wpe"], f"wpe\n({T}, {C})")
    _draw_block(ax, size, L, C)
    _weights(ax, 38.4, 6.6, size["wte"], color=tint(BLUE, 0.5))
    _write(ax, 38.4, 7.6, "wte again", va="bottom")
    _write(ax, 43.4, 6.6, f"logits\n(B, T, {V})", va="center")
    arrow(ax, (1.8, 6.6), (3.2, 6.6))
    arrow(ax, (5.4, 4.8), (5.4, 5.8))
    way = "Tokens pass through wte, to which wpe is added, then along the residual stream"
    describe(figure, f"{way} with {L} blocks of attention and MLP, a layernorm, and wte again, to the logits.")


def _draw_block(ax, size, L, C):
    """One block below the stream: what it reads, computes and adds back."""
    parts = {"qkvw": (14, 3 * C, C), "attprojw": (18.2, C, C), "fcw": (24.2, 4 * C, C), "fcprojw": (30.2, C, 4 * C)}
    for name, (x, rows, columns) in parts.items():
        _weights(ax, x, 2.6, size[name] / L, f"{name}\n({rows}, {columns})")
    for down, up in ((11.4, 20.6), (21.7, 33)):
        arrow(ax, (down, 6.2), (down, 2.6))
        arrow(ax, (up, 2.6), (up, 6.2))
        _write(ax, down + 0.2, 4.75, "layernorm", ha="left")
        _write(ax, up - 0.2, 4.75, "add", ha="right")
    _write(ax, 16.2, 3.5, "attention", color=BLUE)
    _write(ax, 27, 3.5, "MLP, with GELU in the middle", color=BLUE)
    ax.plot([10.6, 34, 34, 10.6, 10.6], [0.1, 0.1, 5.75, 5.75, 0.1], color=GREY, ls="--", lw=1.2)
    _write(ax, 34, -0.15, f"one block, L = {L} of them", ha="right", va="top")


def _weights(ax, x, y, count, label="", color=BLUE):
    """A box around (x, y) whose area is the number of weights, its name below."""
    width = count / AREA
    ax.broken_barh([(x - width / 2, width)], (y - 0.75, 1.5), color=color)
    _write(ax, x, y - 0.9, label, va="top", color="black")


def _write(ax, x, y, text, ha="center", va="bottom", color=GREY):
    ax.text(x, y, text, ha=ha, va=va, color=color, size=9.5)


def draw_tokens(ids, encoding, title, columns=84):
    """A text as its tokens, one cell each, a new row after each line break. title: of the figure."""
    pieces = [encoding.decode([i]) for i in ids]
    rows = len("".join(pieces).splitlines())
    figure, ax = blank_axes((0, columns), (-1.9 * rows, 0.2), title)
    x, y = 0, 0.0
    for k, piece in enumerate(pieces):
        for line in piece.splitlines(keepends=True):
            shown = visible(line)[: columns - x]
            if shown:
                cell_row(ax, [shown], (x, y), len(shown), colors=(SKY, YELLOW)[k % 2], height=1.6)
            x, y = (0, y - 1.9) if line.endswith("\n") else (x + len(shown), y)
    describe(figure, f"A text of {rows} lines in {len(pieces)} cells, one for each token.")
