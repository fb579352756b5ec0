"""Lesson 20: the memory of a step at each level of recompute, next to what a GPU has; as a picture and as a panel.

It counts what `llmc` allocates; the driver and NVIDIA's libraries take some hundred megabytes on top.
"""

from math import prod

import matplotlib.pyplot as plt

from llmc.config import preset
from llmc.course.figures import describe, stacked_bars
from llmc.course.figures.bars import AT_THE_END
from llmc.course.figures.showing import to_png
from llmc.course.lessons.mixed_training import recompute
from llmc.model import training_buffers

T = 1024
AGAIN = {0: (), 1: ("gelu",), 2: ("gelu", "ln1", "ln2"), 3: ("ln1", "ln2")}  # names of recompute.gpt2's layers
SAID = {0: "0: all kept", 1: "1: GELU again", 2: "2: GELU, layernorms again", 3: "3: layernorms again"}
MODELS, CARDS = ("d12", "d24", "d36", "d48"), (8, 16, 24, 40, 80, 141)  # CARDS: GB


def memory(model, level, B) -> dict:
    """{part: GB} of a step in bf16 with master weights."""
    config = preset(model)
    plan = training_buffers(config, "cuda", B, T, "bf16", recompute=level)
    sizes = {title.split(" (")[0]: buffer.nbytes / 1e9 for title, buffer in plan.items()}
    weights = sizes["parameters"] + sizes["gradients"]
    optimizer = sizes["AdamW m"] + sizes["AdamW v"] + sizes["master weights"]
    (wide,) = (tensor for buffer in plan.values() for tensor in buffer.table if tensor.name == "logits")
    logits = 2 * prod(wide.shape) / 1e9
    blocks = sizes["activations"] + sizes["gradients of activations"] - logits
    return {"weights, gradients": weights, "AdamW, master": optimizer, "logits": logits, "other activations": blocks}


def largest_batch(model, level, gb) -> int:
    """The most sequences of T tokens that fit into so many GB; 0 if not even one does."""
    low, high = 0, 4096  # fits, does not fit
    while high - low > 1:
        B = (low + high) // 2
        low, high = (B, high) if sum(memory(model, level, B).values()) <= gb else (low, B)
    return low


def extra_time(model, level) -> float:
    """The share of a step that a level adds by the count of section 5.3; a forward pass is a third of a step."""
    config = preset(model)
    net = recompute.gpt2(config.L, config.C, config.NH, 1, T)
    return (recompute.recomputed(net, AGAIN[level]).us / recompute.recomputed(net, ()).us - 1) / 3


def draw_memory(model, B, gb):
    """Four bars, one for each level, and the line at gb. Returns the figure."""
    rows = {said: memory(model, level, B) for level, said in SAID.items()}
    fits = {level: largest_batch(model, level, gb) for level in SAID}
    fig, ax = plt.subplots(figsize=(9.8, 3.4), layout="constrained")
    stacked_bars(ax, rows)
    ax.axvline(gb, color="black", lw=2.2, zorder=3)
    most = max(gb, *(sum(parts.values()) for parts in rows.values()))
    ends = [
        f"{sum(parts.values()):.1f} GB, +{extra_time(model, level):.1%} time; B ≤ {fits[level]}"
        for level, parts in zip(SAID, rows.values())
    ]
    for k, text in enumerate(ends):
        ax.annotate(text, (most, k), (5, 0), **AT_THE_END)
    ax.set(xlim=(0, 1.45 * most), xlabel=f"GB of a step with B={B} (black line: {gb} GB; time: counted for an H100)")
    best = max(fits, key=fits.get)
    ax.set_title(f"{model}: {gb} GB hold B={fits[0]} with everything kept, B={fits[best]} with recompute {best}")
    words = "; ".join(f"recompute {said}: {end}" for said, end in zip(SAID.values(), ends))
    describe(fig, f"A bar for each level, with a line at {gb} GB. {words}.")
    return fig


class MemoryPanel:
    """The same picture, drawn again for each model, batch and memory; `box` is the ipywidgets box."""

    def __init__(self, model="d12", B=64, gb=24):
        import ipywidgets as widgets

        self.model = widgets.Dropdown(options=MODELS, value=model, description="model")
        self.B = widgets.IntSlider(B, 1, 128, description="B", continuous_update=False)
        self.gb = widgets.Dropdown(options=[(f"{card} GB", card) for card in CARDS], value=gb, description="memory")
        self.picture = widgets.Image(format="png")
        for control in (self.model, self.B, self.gb):
            control.observe(lambda change: self.draw(), "value")
        self.box = widgets.VBox([widgets.HBox([self.model, self.B, self.gb]), self.picture])
        self.draw()

    def draw(self):
        """Show what the controls say."""
        fig = draw_memory(self.model.value, self.B.value, self.gb.value)
        self.picture.value, self.picture.width = to_png(fig)
        plt.close(fig)
