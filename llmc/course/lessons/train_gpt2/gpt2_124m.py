"""Lesson 22, GPT-2 124M: a run on an H200, stored, and OpenAI's weights fine-tuned, if they are here."""

import json
import os
from pathlib import Path

import numpy as np

from llmc import cuda
from llmc.checkpoints import read_config
from llmc.config import preset
from llmc.course.figures import BLUE, GREY, ORANGE, curves, level, moment, panels
from llmc.data.corpus import data_home
from llmc.errors import UserError
from llmc.training.recipes import recipe
from llmc.training.settings import TrainSettings

STORED = Path("reference/h200_gpt2_124m.json")  # in the lessons' folder
SMOOTH = 3  # points whose mean is drawn
NAMES = ("gpt2.bin", "gpt2_124M.bin")  # of `llmc init`, as the lesson calls it; of llm.c's scripts
REFERENCE_RUN = (  # llm.c's README, commit 027a43e; an Apple M3 Max, B=4 T=64
    "llm.c's README: validation loss 5.252 -> 4.108 in 40 steps on a laptop's CPU, 1.3 s a step"
)


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


def find_gpt2(folders=None) -> Path | None:
    """The file of GPT-2 124M's weights in llm.c's format, None if there is none.

    folders: where to look; by default where llm.c's files are (LLMC_REFERENCE_DIR), data/ and the working directory.
    """
    folders = [os.environ.get("LLMC_REFERENCE_DIR", data_home()), data_home(), "."] if folders is None else folders
    for path in (Path(folder) / name for folder in folders for name in NAMES):
        try:
            if path.is_file() and read_config(path) == preset("gpt2"):
                return path
        except UserError:  # half a download
            continue
    return None


def finetune_settings(weights) -> TrainSettings:
    """llm.c's demonstration from a model file: 40 steps of B=4 T=64 on a CPU, 74 of B=4 T=1024 on a GPU."""
    on_gpu = cuda.device() == "gpu"
    settings = recipe("gpu-demo" if on_gpu else "cpu-demo") | {"model": str(weights)}
    return TrainSettings(**settings, backend="cuda" if on_gpu else "cpu", precision="bf16" if on_gpu else "fp32")
