"""Lesson 06: its three diagrams. The data flow of one head, how qkv is cut into heads, the way back."""

import numpy as np

from llmc.course.figures import BLUE, GREEN, GREY, ORANGE, RED, arrow, blank_axes, box, cell_row, describe, number_grid

EIGHTHS = {0: "0", 1: "⅛", 2: "¼", 4: "½", 8: "1"}


def draw_attention(q, k, v, scores, p, out):
    """Draw one head with its numbers: q, k, v, out (T, hs); scores, masked, and p (T, T). Returns the figure."""
    fig, ax = blank_axes((-2.4, 26), (-0.2, 13), "Attention: compare all pairs, hide the future, share out, mix")
    tokens, queries, keys = ([f"{name} {i}" for i in range(len(q))] for name in ("token", "query", "key"))
    top, low, ln2 = 11.2, 4.2, np.log(2)
    number_grid(ax, q / ln2, (0, top), "q / ln 2   (T, hs)", limit=3, color=BLUE, rows=queries)
    number_grid(ax, k.T, (7, top), "kᵀ   (hs, T)", limit=3, color=BLUE, columns=keys)
    number_grid(ax, scores / ln2, (18.4, top), "scores / ln 2   (T, T)", limit=4, rows=queries, columns=keys)
    number_grid(
        ax, p, (0, low), "p, the shares   (T, T)", limit=1.2, rows=queries, text=lambda x: EIGHTHS[round(8 * x)]
    )
    number_grid(ax, v, (7, low), "v   (T, hs)", limit=12, color=GREEN)
    number_grid(ax, out, (18.4, low), "out   (T, hs)", limit=12, color=GREEN, rows=tokens, text="{:g}".format)
    for y in (top - 2, low - 2):
        ax.text(6.2, y, "@", ha="center", va="center", size=15, color=GREY)
    arrow(ax, (12.6, top - 2), (16.2, top - 2), "· 1 / √hs,\nfuture: −∞")
    arrow(ax, (12.6, low - 2), (16.2, low - 2), "mix values")
    arrow(ax, (18.2, top - 4.2), (5.6, low + 0.4), "softmax of each row", shift=(-0.4, 0.55))
    describe(
        fig,
        "q times k transposed, over the root of hs, gives the table of scores, with minus infinity in the future. "
        "The softmax of each row gives the shares p: 1; ½ ½; ¼ ¼ ½; ½ ¼ ⅛ ⅛. p times v gives out.",
    )
    return fig


def draw_heads(NH=3, hs=2):
    """Draw which channels of a row of qkv (3C,) each head takes. Returns the figure."""
    fig, ax = blank_axes((-3.2, 18.4), (-1, 5.6), "Each head collects its channels from three places of the row")
    C, head_colors = NH * hs, (BLUE, ORANGE, GREEN)
    names = [f"{part}{channel}" for part in "qkv" for channel in range(C)]
    cell_row(ax, names, (0, 3.8), colors=[head_colors[i % C // hs] for i in range(3 * C)], label="qkv[b, t]")
    for part, name in enumerate("QKV"):
        ax.plot([C * part + 0.1, C * part + C - 0.1], [4.2, 4.2], color=GREY, lw=1.5)
        ax.text(C * part + C / 2, 4.6, f"{name}   (C = {C} channels)", ha="center", va="center")
    for head, color in enumerate(head_colors):
        columns = [C * part + hs * head + channel for part in range(3) for channel in range(hs)]
        left = 3 * hs * head + 0.3
        cell_row(ax, [names[column] for column in columns], (left, 0.8), 0.9, colors=color)
        for i, column in enumerate(columns):
            ax.plot([left + 0.45 + 0.9 * i, column + 0.5], [0.85, 2.95], color=color, lw=1.2, alpha=0.8)
        ax.text(left + 2.7, -0.5, f"head {head}: q, k, v of hs = {hs}", ha="center", va="center")
    describe(
        fig,
        "A row of qkv holds q0 to q5, k0 to k5, v0 to v5. Head 0 takes channels 0 and 1 of q, of k and of v, head 1 "
        "takes channels 2 and 3, head 2 takes channels 4 and 5.",
    )
    return fig


def draw_backward():
    """Draw the order of the backward pass: from out to p and v, from p to the scores, from there to q and k."""
    title = "Backward: mixture (3.1, green), softmax (3.2, red), scores (3.3, blue)"
    fig, ax = blank_axes((-1.6, 20.2), (-0.3, 7.4), title)
    q, k = box(ax, 0, 5.8, "q", "(T, hs)", color=BLUE), box(ax, 0, 3.2, "k", "(T, hs)", color=BLUE)
    v, out = box(ax, 0, 0.5, "v", "(T, hs)", color=GREEN), box(ax, 18.4, 2.9, "out", "(T, hs)", color=GREEN)
    scores, p = box(ax, 7, 4.5, "scores", "(T, T)", color=RED), box(ax, 12.6, 4.5, "p", "(T, T)", color=RED)
    arrow(ax, out, p, "dp = dout @ vᵀ", color=GREEN, shift=(0.9, 0.3))
    arrow(ax, out, v, "dv = pᵀ @ dout", color=GREEN, shift=(0.4, 0.15))
    arrow(ax, p, scores, "ds = p · (dp − D)", color=RED)
    arrow(ax, scores, q, "dq = ds @ k · scale", color=BLUE, shift=(0.7, 0.25))
    arrow(ax, scores, k, "dk = dsᵀ @ q · scale", color=BLUE, shift=(0.8, -1.05))
    ax.text(18.4, 1.8, "start here, with dout", ha="center", va="center", color=GREY)
    return fig
