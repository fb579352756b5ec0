"""Lesson 20: a block's types, eight numbers in a uint4, and the lives of a net's tensors under a schedule."""

from llmc.course.figures import BLUE, GREY, INK, ORANGE, arrow, blank_axes, box, cell_row, describe, tint


def draw_types():
    """A block of GPT-2: what is float32 and what has 16 bits. Returns the figure."""
    title = "16 bits flow through the products; what is added up over and over stays float32"
    fig, ax = blank_axes((-1.6, 20.4), (-3.5, 3.6), title)
    stream = dict(color=ORANGE, filled=True)
    places = {}
    for name, shape, x, y, look in (
        ("residual", "(B, T, C)", 0, 0, stream),
        ("ln1", "mean, rstd fp32", 3.0, 1.9, {}),
        ("qkv", "(B, T, 3C)", 6.0, 1.9, {}),
        ("attention", "stats fp32", 9.0, 1.9, {}),
        ("residual2", "(B, T, C)", 9.0, 0, stream),
        ("ln2", "mean, rstd fp32", 12.0, -1.9, {}),
        ("fch, GELU", "(B, T, 4C)", 15.0, -1.9, {}),
        ("residual3", "(B, T, C)", 18.6, 0, stream),
    ):
        places[name] = box(ax, x, y, name, shape, width=2.7, **look)
    chain = ("residual", "ln1", "qkv", "attention", "residual2", "ln2", "fch, GELU", "residual3")
    for one, other in zip(chain, chain[1:]):
        arrow(ax, places[one], places[other], color=BLUE)
    arrow(ax, places["residual"], places["residual2"], thick=True, color=ORANGE)
    arrow(ax, places["residual2"], places["residual3"], thick=True, color=ORANGE)
    box(ax, 12.6, 2.9, "float32", color=ORANGE, filled=True, width=2.3, height=0.7)
    box(ax, 15.3, 2.9, "16 bits", color=BLUE, width=2.3, height=0.7)
    ax.text(-1.2, -2.9, "also float32: losses, AdamW's m and v, master weights, every sum", size=10, color=INK)
    describe(
        fig,
        "A block of GPT-2: the residual stream, a thick line of three filled boxes, is float32; ln1, qkv, attention, "
        "ln2, fch and GELU leave it and come back to it in 16 bits, with float32 statistics.",
    )
    return fig


def draw_words():
    """Eight bf16 numbers in the four words of a uint4. Returns the figure."""
    fig, ax = blank_axes((-4.2, 17.2), (-2.6, 1.6), "One 128-bit load brings eight numbers in four words")
    cell_row(ax, [f"x[{k}]" for k in range(8)], (0, 1), 2, label="memory")
    words = [f"v.{name}: x[{2 * k + 1}] « 16 | x[{2 * k}]" for k, name in enumerate("xyzw")]
    cell_row(ax, words, (0, -0.6), 4, label="uint4 v", size=9)
    for k in range(8):
        arrow(ax, (2 * k + 1, 0.2), (4 * (k // 2) + (1 if k % 2 else 3), -0.6), color=GREY)
    ax.text(8, -2.2, "the first of two numbers is the lower half of a word", ha="center", color=INK, size=10)
    describe(fig, "Eight cells x[0] to x[7]; under them four words: each holds an even one in its lower half.")
    return fig


def draw_lives(ax, net, schedule):
    """Draw when each tensor of a net is in memory: a row for each, the schedule's items from left to right."""
    rows, since = {layer.name: k for k, layer in enumerate(net)}, {}
    middle = next(k for k, (action, _) in enumerate(schedule) if action == "backward")
    made = set()

    def draw(name, until):
        again = name in made
        look = dict(facecolor=tint(ORANGE if again else BLUE, 0.75), edgecolor="white", lw=0.5)
        ax.broken_barh([(since[name], until - since.pop(name))], (rows[name] - 0.42, 0.84), **look)
        made.add(name)

    for k, (action, name) in enumerate(schedule):
        if action == "make":
            since[name] = k
        elif action == "drop":
            draw(name, k)
    for name in list(since):
        draw(name, len(schedule))
    ax.axvline(middle, color=INK, lw=1.2, ls=":")
    ax.set(ylim=(len(net) - 0.4, -0.6), xlim=(0, len(schedule)), xlabel="item of the schedule")
    ax.set_yticks(range(len(net)), list(rows), fontsize=9)
    ax.grid(axis="y", visible=False)
