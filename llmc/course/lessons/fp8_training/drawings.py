"""Lesson 25's figure of where the numbers of a step lie."""

import numpy as np

from llmc.course.figures import describe, panels

ROLES = {"x": "activations x", "w": "weights w", "dout": "gradients dout"}
LOW, HIGH = -32, 15  # powers of two on the axis


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
