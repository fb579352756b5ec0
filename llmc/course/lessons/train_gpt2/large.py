"""Lesson 22: a run of GPT-2 124M on an H200, and one of d6 in every precision, stored with the lessons."""

import json
from pathlib import Path

import numpy as np

from llmc.course.figures import BLUE, GREY, ORANGE, curves, level, moment, panels

STORED = Path("reference/h200_gpt2_124m.json")  # in the lessons' folder
SMOOTH = 3  # points whose mean is drawn


def large_run(path=STORED) -> dict:
    """about: settings and text · train: means of `every` steps · val: [step, loss] · d6: the losses of each precision.

    Losses are nats per token; d6 is what `python -m llmc.parity.curves` measures, means of its `every` steps.
    """
    return json.loads(Path(path).read_text(encoding="utf-8"))


def draw_large(stored):
    """Two panels: the curve of the large run, and how far the precisions are from float32 in the small one."""
    about, d6 = stored["about"], stored["d6"]
    figure, (left, right) = panels(2, height=4.0)
    middle = stored["every"] * (np.arange(len(stored["train"])) + 0.5)  # (points,)
    left.plot(middle, stored["train"], color=BLUE, label=f"training (means of {stored['every']} steps)")
    left.plot(*np.array(stored["val"]).T, "o-", color=ORANGE, ms=4, label="validation")
    for name in ("unigram", "bigram"):
        level(left, stored["baselines"][name], name)
    moment(left, about["stopped_at"], "stopped,\nresumed", height=0.7)
    last = stored["val"][-1][1]
    left.set(xlabel="training step", ylabel="loss (nats per token)", title=f"124M: {last:.2f} nats, {about['device']}")
    left.legend()
    exact = np.array(d6["losses"]["fp32"])  # (points,)
    apart = {name: 100 * (smooth(losses) / smooth(exact) - 1) for name, losses in d6["losses"].items()}
    middle = d6["every"] * (np.arange(len(apart["fp32"])) + SMOOTH / 2)  # (points,)
    curves(right, apart, middle, width=1.8)
    most = max(abs(percent[-1]) for percent in apart.values())
    right.axhspan(-0.5, 0.5, color=GREY, alpha=0.12, zorder=0)
    right.set(xlabel="training step", ylabel="away from fp32's loss (%)", ylim=(-0.7, 0.9))
    right.set_title(f"d6 in six ways: within {most:.1f}% at the end")
    right.legend(ncols=2, fontsize=9, loc="upper right")
    return figure


def smooth(losses):
    """Means of SMOOTH neighbours, (points - SMOOTH + 1,)."""
    return np.convolve(losses, np.ones(SMOOTH) / SMOOTH, "valid")
