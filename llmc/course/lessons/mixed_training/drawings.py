"""Lesson 20: a block's types, eight numbers in a uint4, tensors under a schedule, and the memory of a step.

The memory is what `llmc` allocates; the driver and NVIDIA's libraries take a few hundred megabytes on top.
"""

from bisect import bisect_right
from itertools import pairwise
from math import prod

import matplotlib.pyplot as plt

from llmc.config import preset
from llmc.course.figures import BLUE, GREY, INK, ORANGE, arrow, blank_axes, box, cell_row, describe, stacked_bars, tint
from llmc.course.figures.bars import AT_THE_END
from llmc.course.lessons.mixed_training import recompute
from llmc.model import training_buffers

T = 1024
AGAIN = {0: (), 1: ("gelu",), 2: ("gelu", "ln1", "ln2"), 3: ("ln1", "ln2")}  # names of recompute.gpt2's layers
SAID = {0: "0: all kept", 1: "1: GELU again", 2: "2: GELU, layernorms again", 3: "3: layernorms again"}


def draw_types():
    """A block of GPT-2: what is float32 and what has 16 bits. Returns the figure."""
    title = "16 bits flow through the products; what is added up over and over stays float32"
    fig, ax = blank_axes((-1.6, 20.4), (-3.5, 3.6), title)
    steps = {
        "residual": ("(B, T, C)", 0, 0),
        "ln1": ("mean, rstd fp32", 3.0, 1.9),
        "qkv": ("(B, T, 3C)", 6.0, 1.9),
        "attention": ("stats fp32", 9.0, 1.9),
        "residual2": ("(B, T, C)", 9.0, 0),
        "ln2": ("mean, rstd fp32", 12.0, -1.9),
        "fch, GELU": ("(B, T, 4C)", 15.0, -1.9),
        "residual3": ("(B, T, C)", 18.6, 0),
    }
    stream, places = [name for name in steps if name.startswith("residual")], {}
    for name, (shape, x, y) in steps.items():
        look = dict(color=ORANGE, filled=True) if name in stream else {}
        places[name] = box(ax, x, y, name, shape, width=2.7, **look)
    for chain, look in ((steps, dict(color=BLUE)), (stream, dict(color=ORANGE, thick=True))):
        for one, other in pairwise(chain):
            arrow(ax, places[one], places[other], **look)
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
    """Draw when each tensor of a net is in memory: a row for each, with the schedule's items from left to right."""
    for row, layer in enumerate(net):
        starts = [k for k, item in enumerate(schedule) if item == ("make", layer.name)]
        ends = [k for k, item in enumerate(schedule) if item == ("drop", layer.name)]
        for start, end, color in zip(starts, [*ends, len(schedule)], (BLUE, *len(starts) * [ORANGE])):
            look = dict(facecolor=tint(color, 0.75), edgecolor="white", lw=0.5)
            ax.broken_barh([(start, end - start)], (row - 0.42, 0.84), **look)
    middle = next(k for k, (action, _) in enumerate(schedule) if action == "backward")
    ax.axvline(middle, color=INK, lw=1.2, ls=":")
    ax.set(ylim=(len(net) - 0.4, -0.6), xlim=(0, len(schedule)), xlabel="item of the schedule")
    ax.set_yticks(range(len(net)), [layer.name for layer in net], fontsize=9)
    ax.grid(axis="y", visible=False)


def memory(model, level, B) -> dict:
    """{part: GB} of a step in bf16 with master weights."""
    plan = training_buffers(preset(model), "cuda", B, T, "bf16", recompute=level)
    sizes = {title.split(" (")[0]: buffer.nbytes / 1e9 for title, buffer in plan.items()}
    (wide,) = (tensor for buffer in plan.values() for tensor in buffer.table if tensor.name == "logits")
    logits = 2 * prod(wide.shape) / 1e9
    return {
        "weights, gradients": sizes["parameters"] + sizes["gradients"],
        "AdamW, master": sizes["AdamW m"] + sizes["AdamW v"] + sizes["master weights"],
        "logits": logits,
        "other activations": sizes["activations"] + sizes["gradients of activations"] - logits,
    }


def largest_batch(model, level, gb) -> int:
    """The most sequences of T tokens that fit into that many GB; 0 if not even one does."""
    return bisect_right(range(1, 4096), gb, key=lambda B: sum(memory(model, level, B).values()))


def extra_time(model, level) -> float:
    """The share of a step that a level adds by the count of section 5.3; a forward pass is a third of a step."""
    config = preset(model)
    net = recompute.gpt2(config.L, config.C, config.NH, 1, T)
    return (recompute.recomputed(net, AGAIN[level]).us / recompute.recomputed(net, ()).us - 1) / 3


def draw_memory(model, B, gb):
    """Four bars, one for each level, and the line at gb. Returns the figure."""
    rows = {said: memory(model, level, B) for level, said in SAID.items()}
    fits = {level: largest_batch(model, level, gb) for level in SAID}
    totals = [sum(parts.values()) for parts in rows.values()]
    fig, ax = plt.subplots(figsize=(9.8, 3.4), layout="constrained")
    stacked_bars(ax, rows)
    ax.axvline(gb, color="black", lw=2.2, zorder=3)
    most, said = max(gb, *totals), []
    for level, total in enumerate(totals):
        text = f"{total:.1f} GB, +{extra_time(model, level):.1%} time; B ≤ {fits[level]}"
        ax.annotate(text, (most, level), (5, 0), **AT_THE_END)
        said.append(f"recompute {SAID[level]}: {text}")
    ax.set(xlim=(0, 1.45 * most), xlabel=f"GB of a step with B={B} (black line: {gb} GB; time: counted for an H100)")
    best = max(fits, key=fits.get)
    ax.set_title(f"{model}: {gb} GB hold B={fits[0]} with everything kept, B={fits[best]} with recompute {best}")
    describe(fig, f"A bar for each level, with a line at {gb} GB. {'; '.join(said)}.")
    return fig


def memory_panel(model="d12", B=64, gb=24):
    """Display the picture, and above it ipywidgets that draw it again for each model, batch and memory."""
    from IPython.display import display

    def drawn():
        figure = draw_memory(*(control.value for control in controls))
        plt.close(figure)
        return figure

    try:
        import ipywidgets as widgets
    except ImportError:
        draw_memory(model, B, gb)  # shown where the cell ends
        return print("The knobs need ipywidgets (pip install ipywidgets).")
    cards = [(f"{card} GB", card) for card in (8, 16, 24, 40, 80, 141)]
    controls = [
        widgets.Dropdown(options=["d12", "d24", "d36", "d48"], value=model, description="model"),
        widgets.IntSlider(B, 1, 128, description="B", continuous_update=False),
        widgets.Dropdown(options=cards, value=gb, description="memory"),
    ]
    display(widgets.HBox(controls))
    shown = display(drawn(), display_id=True)
    for control in controls:
        control.observe(lambda change: shown.update(drawn()), "value")
