"""Lesson 23's views: the choice of a token in five rows of bars, what heads look at, what each depth would say."""

import numpy as np

from llmc.course.figures import BLUE, GREEN, GREY, describe, heat_map, panels
from llmc.course.lessons.attention.references import forward
from llmc.course.lessons.tokens.drawings import visible

SHOWN = 14  # candidates of a distribution


def attention_maps(model, tokens):
    """(L, NH, T, T) attention of every head, query by key, for tokens (T,); float64."""
    model.logits(np.array([tokens], np.int32))
    qkv = np.array(model.backend.to_numpy(model._acts["qkv"]), np.float64)  # (L, 1, T, 3C)
    return np.concatenate([forward(each, model.config.NH).probabilities for each in qkv])


def residual_stream(model, tokens):
    """(L + 1, T, C) the residual stream for tokens (T,): as it enters the first block, and after every block."""
    model.logits(np.array([tokens], np.int32))
    acts = model._acts
    encoded, after = (np.array(model.backend.to_numpy(acts[name])) for name in ("encoded", "residual3"))
    return np.concatenate([encoded, after[:, 0]])


def draw_stages(stages, encoding, title):
    """One distribution in several forms: {name: (V,)}, each as bars over the candidates that lead in the first one."""
    first = next(iter(stages.values()))
    order = np.argsort(-first, kind="stable")[:SHOWN]  # (SHOWN,)
    figure, axes = panels(1, len(stages), title, height=1.25, sharex=True)
    for ax, (name, p) in zip(axes, stages.items()):
        kept = int((p > 0).sum())
        ax.bar(range(SHOWN), p[order], color=[BLUE if q > 0 else GREY for q in p[order]], width=0.75)
        what = f"{name}: {kept:,} candidate{'s' * (kept != 1)}, the best has {p.max():.0%}"
        ax.set(ylabel="p", ylim=(0, 1.25 * max(p.max(), 1e-9)), title=what)
        ax.grid(axis="x", visible=False)
        for k, i in enumerate(order):
            if p[i] == 0:
                ax.annotate("0", (k, 0), (0, 2), textcoords="offset points", ha="center", size=9)
    names = [visible(encoding.decode([int(i)])) for i in order]
    axes[-1].set_xticks(range(SHOWN), names, rotation=35, ha="right")
    said = "; ".join(
        f"{name}: {int((p > 0).sum())} candidates, the best with {p.max():.2f}" for name, p in stages.items()
    )
    describe(figure, f"One row of bars for each step. {said}.")
    return figure


def draw_attention(maps, pieces, title):
    """Maps (L, NH, T, T) as small pictures, a row for each layer; pieces: (T,) texts of the tokens."""
    L, NH, T, _ = maps.shape
    figure, axes = panels(NH, L, title, height=2.6)
    for (l, h), ax in np.ndenumerate(np.atleast_2d(axes)):
        last = h == 0
        heat_map(ax, maps[l, h], limit=1.0, rows=pieces if last else [], columns=[], bar=False)
        ax.set_title(f"block {l + 1}, head {h + 1}")
        ax.set_aspect("equal")
    firsts = np.diagonal(maps, axis1=2, axis2=3).mean(axis=-1)  # (L, NH)
    most = [f"block {l + 1} head {h + 1} {share:.0%}" for (l, h), share in np.ndenumerate(firsts)]
    words = (
        "Squares, a row for each token that looks and a column for each that is looked at; upper triangles are empty"
    )
    describe(figure, f"{words}. Share of attention that tokens pay to themselves: {', '.join(most)}.")
    return figure


def draw_lens(best, shares, pieces, targets, title):
    """What every depth would say next: best (L + 1, T) texts with their shares (L + 1, T), below the tokens' own.

    pieces, targets: (T,) texts that are read, and that come next.
    """
    import matplotlib.pyplot as plt

    depths, T = shares.shape
    figure, ax = plt.subplots(figsize=(10, 0.55 * depths + 1.9), layout="constrained")
    image = ax.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (depth, t), text in np.ndenumerate(best):
        right = text == targets[t]
        look = dict(color="white" if shares[depth, t] > 0.6 else "black", weight="bold" if right else "normal")
        ax.text(t, depth, text, ha="center", va="center", size=9, **look)
    ax.set_xticks(range(T), pieces, rotation=35, ha="right")
    ax.set_yticks(range(depths), ["embedding", *(f"block {l}" for l in range(1, depths))])
    ax.set(title=title, xlabel="token that is read")
    ax.grid(visible=False)
    figure.colorbar(image, ax=ax, label="probability", pad=0.02)
    said = "; ".join(f"{where.get_text()}: {' '.join(row)}" for where, row in zip(ax.get_yticklabels(), best))
    describe(figure, f"A table of tokens. {said}.")
    return figure


def draw_next(ax, p, kept, encoding, shown=12):
    """The leading candidates of a distribution p (V,), and what a cut leaves of it, kept (V,), as pairs of bars."""
    order = np.argsort(-p, kind="stable")[:shown]
    ax.barh(np.arange(shown) - 0.2, p[order], height=0.38, color=GREY, label="what the model says")
    ax.barh(np.arange(shown) + 0.2, kept[order], height=0.38, color=GREEN, label="what is drawn from")
    ax.set_yticks(range(shown), [repr(encoding.decode([int(i)])) for i in order])
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    ax.set(xlabel="probability of the next token", title=f"{int((kept > 0).sum()):,} of {p.size:,} candidates are left")
    ax.legend(loc="lower right")
