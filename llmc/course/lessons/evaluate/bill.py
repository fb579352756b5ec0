"""Lesson 24: models that others have trained, what a training run costs, and a panel for it.

The speed is an estimate: for GPT-2 124M it was measured on an H200; for any other size its FLOPs are divided by the
same share of the GPU's peak. A step on several GPUs ends with an all-reduce that nothing hides (lesson 21).
"""

from collections import namedtuple

from llmc.config import GPT2Config, preset
from llmc.course.lessons.many_gpus.results import tokens_per_second, two_gpus

PEAK = 989.5e12  # FLOP/s of an H200 in bf16 (llmc/peaks.py)
MEMORY = 141e9  # bytes of an H200
ALPHA = 8e-6  # seconds of latency for a message: NCCL's order of magnitude, not measured
INSIDE, BETWEEN, HOST = 290e9, 50e9, 8  # bytes/s of a link in a machine (measured), between two (400 Gbit/s); its GPUs

# A model and how it was trained. tokens: in all · batch: tokens in a step · T: their context
Size = namedtuple("Size", "config tokens batch T")
# flops: of the whole run · hours: by the clock · dollars · memory: bytes a GPU needs, without activations
Bill = namedtuple("Bill", "flops hours dollars memory")


def _gpt3(L, C, NH):
    return Size(GPT2Config(maxT=2048, L=L, C=C, NH=NH), 300e9, 524_288, 2048)


# Tokens of GPT-2: those of llm.c's scripts/run_gpt2_*.sh. GPT-3: Brown et al. 2020, table 2.1, and 300 billion tokens;
# the batch is llm.c's (scripts/run_gpt3_125M.sh). Its 13B has 5140 channels in the table, no multiple of 40 heads.
SIZES = {
    "GPT-2 124M": Size(preset("d12"), 18_865 * 524_288, 524_288, 1024),
    "GPT-2 350M": Size(preset("d24"), 60_000 * 524_288, 524_288, 1024),
    "GPT-2 774M": Size(preset("d36"), 286_102 * 524_288, 524_288, 1024),
    "GPT-2 1558M": Size(preset("d48"), 32_000 * 1_048_576, 1_048_576, 1024),
    "GPT-3 125M": _gpt3(12, 768, 12),
    "GPT-3 350M": _gpt3(24, 1024, 16),
    "GPT-3 760M": _gpt3(24, 1536, 16),
    "GPT-3 1.3B": _gpt3(24, 2048, 16),
    "GPT-3 2.7B": _gpt3(32, 2560, 32),
    "GPT-3 6.7B": _gpt3(32, 4096, 32),
    "GPT-3 13B": _gpt3(40, 5120, 40),
    "GPT-3 175B": _gpt3(96, 12288, 96),
}


def chinchilla(N, D):
    """Loss (nats per token) of N weights after D tokens: Hoffmann et al. 2022, refitted by Besiroglu et al. 2024."""
    return 1.8172 + 482.01 / N**0.3478 + 2085.43 / D**0.3658


def measured():
    """(MFU of one H200 with GPT-2 124M, how many times as long two GPUs take for their batches, links aside)."""
    found = two_gpus(B=64)
    about, ms = found["about"], found["ms"]
    config, _, _, T = SIZES["GPT-2 124M"]
    mfu = tokens_per_second(found)["1 GPU"] * config.flops_per_token(T) / PEAK
    assert (about["preset"], about["T"]) == ("d12", T)
    return mfu, (ms["2 GPUs, summed after"] - found["carry_ms"]["all-reduce of all gradients"]) / ms["1 GPU"]


def bill(size, gpus, price, mfu, slower, tokens=None) -> Bill:
    """The Bill of a Size on that many GPUs. price: dollars for an hour of one · tokens: instead of the size's own."""
    config, usual, batch, T = size
    n, tokens = config.num_parameters_padded, usual if tokens is None else tokens
    flops = config.flops_per_token(T) * tokens
    computing = flops / (gpus * mfu * PEAK) * (slower if gpus > 1 else 1)  # seconds
    link = INSIDE if gpus <= HOST else BETWEEN
    summing = tokens / batch * 2 * (gpus - 1) * (ALPHA + 2 * n / gpus / link)  # bf16: 2 bytes
    hours = (computing + summing) / 3600
    return Bill(flops, hours, hours * gpus * price, n * (4 + 14 / gpus if gpus > 1 else 16))


class Panel:
    """Widgets around one bill, in `box`; each change to them updates the text."""

    def __init__(self, name, gpus, price):
        import ipywidgets as widgets

        self.mfu, self.slower = measured()
        style, share = {"style": {"description_width": "110px"}}, 100 * self.mfu
        counts, per_hour = [1, 2, 4, 8, 16, 32, 64], "$ per GPU-hour"
        self.size = widgets.Dropdown(options=list(SIZES), value=name, description="model", **style)
        self.gpus = widgets.SelectionSlider(options=counts, value=gpus, description="GPUs", **style)
        self.share = widgets.FloatSlider(share, min=5, max=80, description="MFU (%)", readout_format=".1f", **style)
        self.price = widgets.BoundedFloatText(price, min=0, max=1000, step=0.1, description=per_hour, **style)
        self.ratio = widgets.ToggleButtons(options=["the recipe's tokens", "20 per weight"])
        self.text = widgets.HTML()
        for widget in (self.size, self.gpus, self.share, self.price, self.ratio):
            widget.observe(lambda change: self.show(), "value")
        rows = [widgets.HBox([self.size, self.gpus]), widgets.HBox([self.share, self.price]), self.ratio, self.text]
        self.box = widgets.VBox(rows)
        self.show()

    def show(self):
        """Write the bill of what is chosen."""
        size = SIZES[self.size.value]
        tokens = size.tokens if self.ratio.index == 0 else 20 * size.config.num_parameters
        found = bill(size, self.gpus.value, self.price.value, self.share.value / 100, self.slower, tokens)
        lines = [
            f"<b>{duration(found.hours)}, ${found.dollars:,.0f}</b>",
            f"{tokens / 1e9:,.1f} billion tokens, {found.flops:.2g} FLOPs",
            f"{found.memory / 1e9:,.0f} GB on each GPU for weights, gradients and AdamW, with ZeRO-1",
        ]
        lines += [f"<b>That does not fit</b> into the {MEMORY / 1e9:.0f} GB of an H200."] * (found.memory > MEMORY)
        self.text.value = "<br>".join(lines)


def duration(hours) -> str:
    """ "1.5 hours", "3.2 days", "1.4 years"."""
    for unit, size in (("years", 24 * 365.25), ("days", 24), ("hours", 1)):
        if hours >= 2 * size or size == 1:
            return f"{hours / size:,.1f} {unit}" if hours >= 0.1 else f"{60 * hours:.1f} minutes"
