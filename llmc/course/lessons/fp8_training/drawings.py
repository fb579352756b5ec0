"""Lesson 25's figures: a layer's types, where the numbers of a step lie, which copies three products need, curves."""

import numpy as np

from llmc.course.figures import BLUE, ORANGE, arrow, blank_axes, box, describe, ink, number_grid, panels

ROLES = {"x": "activations x", "w": "weights w", "dout": "gradients dout"}
LOW, HIGH = -32, 15  # powers of two on the axis


def draw_layer():
    """What has how many bits around a linear layer. Returns the figure."""
    fig, ax = blank_axes((-1.8, 16.6), (-3.0, 2.3), "Only factors have 8 bits: what comes in and goes out has 16 or 32")
    rows = {"x": ("ln1, (N, C)", 1, "× 1", "e4m3"), "w": ("bf16, (OC, C)", -1.5, "× 32", "e4m3")}
    product = box(ax, 9.4, -0.25, "x wᵀ", "sums in float32", color=ORANGE, width=3.0)
    for name, (shape, y, scale, kind) in rows.items():
        first = box(ax, 0, y, name, shape, width=2.9)
        low = box(ax, 4.9, y, kind, f"{name} {scale}", color=ORANGE, filled=True)
        arrow(ax, first, low, "round")
        arrow(ax, low, product)
    out = box(ax, 14.4, -0.25, "out", "bf16, (N, OC)", width=2.9)
    arrow(ax, product, out, "÷ 32, + b")
    box(ax, 9.4, 1.8, "8 bits", color=ORANGE, filled=True, width=2.2, height=0.7)
    box(ax, 12.4, 1.8, "16 bits", color=BLUE, width=2.2, height=0.7)
    described = (
        "x and w become e4m3, w after a multiplication by 32; their product adds up in float32, is divided by 32"
    )
    describe(fig, f"A linear layer: {described}, and leaves in bf16.")
    return fig


def draw_ranges(seen, formats, scales, title):
    """Histograms over powers of two of all factors of a step, a row for each product, and what the formats hold.

    seen: {(name, block): {role: (N, K)}} · formats: {role: Format} · scales: {role: what numbers are multiplied by}
    """
    names, edges = list(seen), np.arange(LOW, HIGH + 1)
    fig, axes = panels(3, title=title, height=3.9, sharey=True)
    for ax, (role, heading) in zip(axes, ROLES.items()):
        share = np.zeros((len(names), len(edges)))  # (products, powers)
        for row, name in enumerate(names):
            x = np.abs(seen[name][role])  # (N, K)
            power = np.floor(np.log2(x[x > 0])).clip(LOW, HIGH).astype(int)  # (n,)
            share[row] = np.bincount(power - LOW, minlength=len(edges)) / power.size
        ax.imshow(np.where(share > 0, np.sqrt(share), np.nan), cmap="Blues", vmin=-0.05, aspect="auto",
                  extent=(LOW, HIGH + 1, len(names) - 0.5, -0.5))  # fmt: skip
        fmt, move = formats[role], np.log2(scales[role])
        for edge in (np.log2(fmt.smallest) - move, np.log2(fmt.largest) - move):
            ax.axvline(edge, color="black", lw=2)
        ax.set(xlabel="power of two", title=f"{heading}\n{fmt.name}, × {scales[role]:g}")
        ax.set_yticks(range(len(names)), [name if name == "logits" else f"{name} {block}" for name, block in names])
        ax.grid(visible=False)
    describe(
        fig, "Three panels, a row for each product: dark where most numbers lie; black lines where the format ends."
    )
    return fig


def draw_products():
    """What the three products of a linear layer read, and along which axis they add up. Returns the figure."""
    title = "k must run along the rows of both factors: dx needs a turned w, dW two turned copies"
    fig, ax = blank_axes((-1.5, 27.5), (-6.0, 5.9), title)
    products = {  # heading: factors, each (label, rows, columns, turned)
        "out (N, OC): k = C": (("x (N, C)", 4, 3, False), ("w (OC, C)", 2, 3, False)),
        "dx (N, C): k = OC": (("dout (N, OC)", 4, 2, False), ("wᵀ (C, OC)", 3, 2, True)),
        "dW (OC, C): k = N": (("doutᵀ (OC, N)", 2, 4, True), ("xᵀ (C, N)", 3, 4, True)),
    }
    for column, (heading, factors) in enumerate(products.items()):
        left = 9.6 * column
        ax.text(left - 0.9, 5.3, heading, weight="bold")
        for (label, rows, columns, turned), top in zip(factors, (3.6, -2.2)):
            color = ORANGE if turned else BLUE
            text = label + ("   a turned copy" if turned else "")
            colors = [[color] * columns] * rows
            number_grid(ax, np.zeros((rows, columns)), (left, top), text, colors=colors, text="", color=ink(color))
            arrow(ax, (left, top - rows - 0.35), (left + 1.35 * columns, top - rows - 0.35), color=color)
    describe(
        fig,
        "Three pairs of matrices; an arrow below each shows k running along its rows. out reads x and w as they lie; "
        "dx reads w transposed; dW reads dout and x transposed.",
    )
    return fig


def smooth(losses, n=25):
    """The mean of n steps, ending at each: (steps - n + 1,)."""
    return np.convolve(losses, np.ones(n) / n, "valid")
