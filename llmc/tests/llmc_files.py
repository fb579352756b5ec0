"""A model, its debug state and its losses by PyTorch, written as llm.c would write them."""

import json
from pathlib import Path

import numpy as np

from llmc.checkpoints import write_model
from llmc.checkpoints.debug_state import MAGIC, VERSION
from llmc.files.header import make_header
from llmc.model import GPT2


def write_files(case, folder) -> list[Path]:
    """Write a case of llmc/parity/cases.py to the folder: [model.bin, state.bin, losses.json]."""
    model, expected = GPT2(case.config), np.load(case.fixture)
    for name, values in case.weights().items():
        model.params[name][...] = values  # (shape of the parameter)
    files = [folder / name for name in ("model.bin", "state.bin", "losses.json")]
    write_model(files[0], model)
    parts = [make_header(MAGIC, VERSION, case.B, case.T), *case.batch(), expected["logits"]]
    parts += [np.float32(expected["loss"]), *(expected["d" + name] for name in model.params)]
    files[1].write_bytes(b"".join(part.tobytes() for part in parts))
    files[2].write_text(json.dumps({recipe: expected[f"losses_{recipe}"].tolist() for recipe in "AB"}))
    return files
