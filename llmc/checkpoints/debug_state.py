"""llm.c's debug state: a batch with the logits, loss and gradients that PyTorch computed for it, to compare with ours.

Written by llm.c's train_gpt2.py, read by its test_gpt2.c.
"""

from dataclasses import dataclass

import numpy as np

from llmc.config import GPT2Config
from llmc.errors import UserError
from llmc.files.header import SIZE, check_size, read_header
from llmc.files.reading import opened

MAGIC = 20240327
VERSION = 2


@dataclass
class DebugState:
    """x, y (B, T) int32; logits (B, T, V) float32; loss in nats per token; grads {name: float32, wte padded}."""

    x: np.ndarray
    y: np.ndarray
    logits: np.ndarray
    loss: float
    grads: dict


def read_debug_state(path, config: GPT2Config) -> DebugState:
    """Read the debug state of a model with this config.

    Raises UserError if the file is missing, of another kind, or not of the size that the config requires.
    """
    header = read_header(path, MAGIC, (VERSION,), "an llm.c debug state")
    B, T = int(header[2]), int(header[3])
    if B < 1 or T < 1:
        raise UserError(f"the header of {path} is damaged: it claims a batch of {B} × {T} tokens; get a fresh copy.")
    config.check_sequence_length(T)
    n = config.num_parameters_padded
    check_size(path, SIZE + 4 * (2 * B * T + B * T * config.V + 1 + n))
    with opened(path) as file:
        file.seek(SIZE)
        x = np.fromfile(file, "<i4", B * T).reshape(B, T)
        y = np.fromfile(file, "<i4", B * T).reshape(B, T)
        logits = np.fromfile(file, "<f4", B * T * config.V).reshape(B, T, config.V)
        loss = float(np.fromfile(file, "<f4", 1)[0])
        grads = {p.name: np.fromfile(file, "<f4", p.size).reshape(p.shape) for p in config.parameter_table()}
    return DebugState(x, y, logits, loss, grads)
