"""Lesson 22: OpenAI's GPT-2 124M fine-tuned on Shakespeare, as llm.c demonstrates it, if its weights are here."""

import os
from pathlib import Path

from llmc import cuda
from llmc.checkpoints import read_config
from llmc.config import preset
from llmc.data.corpus import data_home
from llmc.errors import UserError
from llmc.training.recipes import recipe
from llmc.training.settings import TrainSettings

NAMES = ("gpt2.bin", "gpt2_124M.bin")  # of `llmc init`, as the lesson calls it; of llm.c's scripts
REFERENCE_RUN = (  # llm.c's README, commit 027a43e; an Apple M3 Max, B=4 T=64
    "llm.c's README: validation loss 5.252 -> 4.108 in 40 steps on a laptop's CPU, 1.3 s a step"
)


def find_gpt2(folders=None) -> Path | None:
    """The file of GPT-2 124M's weights in llm.c's format, None if there is none.

    folders: where to look; by default where llm.c's files are (LLMC_REFERENCE_DIR), data/ and the working directory.
    """
    reference = os.environ.get("LLMC_REFERENCE_DIR")
    folders = [*([reference] if reference else []), data_home(), "."] if folders is None else folders
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
