"""How close the gradients of 16-bit training come to float32's, compared with those of PyTorch's autocast.

    python -m llmc.parity.nearness [--data DATA] [--backend cuda] [--preset d12] [--steps 30] [-B 4] [-T 1024]

A model is trained for some steps; then each precision computes the gradients of its weights, rounded to bfloat16, on
one batch. A gradient's distance is the length of its error, relative to its own length. The float32 gradients are ours.
"""

import argparse
import sys

import numpy as np

from llmc.errors import UserError
from llmc.model import GPT2
from llmc.precision import bfloat16
from llmc.training import TrainSettings
from llmc.training.trainer import Trainer

AUTOCAST = "PyTorch's autocast"


def main(words=None) -> int:
    """Train, compare and print."""
    parser = argparse.ArgumentParser(prog="python -m llmc.parity.nearness")
    parser.add_argument("--data", default="tinyshakespeare")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--preset", default="d12")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("-B", type=int, default=4)
    parser.add_argument("-T", type=int, default=1024)
    given = parser.parse_args(words)
    settings = dict(data=given.data, backend=given.backend, preset=given.preset, steps=given.steps)
    print(text(distances(**settings, batch_size=given.B, sequence_length=given.T)))
    return 0


def distances(**settings) -> dict:
    """{who: {tensor: distance}} for bf16 with each attention that the backend has, and for PyTorch's autocast.

    settings: those of a TrainSettings. Raises UserError without PyTorch, or if the backend has no bf16.
    """
    from llmc.bench.torch_step import torch_gradients

    trainer = Trainer(TrainSettings(**settings))
    for _ in range(trainer.settings.steps):
        trainer.train_step()
    model = trainer.model
    weights = model.backend.to_numpy(model.params_flat).astype(bfloat16()).astype(np.float32)  # (n,)
    model.params_flat[...] = model.backend.from_numpy(weights)
    x, y = map(np.array, trainer.train_loader.next_batch())  # both (B, T)
    exact = _gradients(model, x, y)
    found = {AUTOCAST: _apart(torch_gradients(model, x, y, "bf16"), exact)}
    low = GPT2(model.config, settings["backend"], "bf16")
    low.params_flat[...] = low.backend.from_numpy(weights.astype(bfloat16()))
    for attention in ("own", "cudnn"):
        try:
            low.backend.choose(attention=attention)
        except UserError as error:
            print(f"attention {attention}: {error}", file=sys.stderr)
            continue
        found[f"bf16, {attention} attention"] = _apart(_gradients(low, x, y), exact)
    return found


def _gradients(model, x, y) -> dict:
    """{name: float32 array on the host}, without padding."""
    model.zero_grad()
    model.forward(x, y, dloss=1.0)
    model.backward()
    found = {p.name: model.backend.to_numpy(model.grads[p.name]).astype(np.float32) for p in model.table}
    return found | {"wte": found["wte"][: model.config.V]}


def _apart(got, exact) -> dict:
    return {name: float(np.linalg.norm(got[name] - g) / np.linalg.norm(g)) for name, g in exact.items()}


def text(found) -> str:
    """A table, and for each of ours, how many tensors are closer than autocast's, and by what factor on average."""
    lines = [f"{'distance from float32':<24}" + "".join(f"{who:>24}" for who in found)]
    for name in found[AUTOCAST]:
        lines.append(f"{name:<24}" + "".join(f"{of[name]:24.5f}" for of in found.values()))
    for who, of in found.items():
        if who != AUTOCAST:
            ratios = [apart / found[AUTOCAST][name] for name, apart in of.items()]
            nearer, mean = sum(ratio < 1 for ratio in ratios), np.exp(np.mean(np.log(ratios)))
            lines.append(f"{who}: {nearer} of {len(ratios)} nearer than {AUTOCAST}, {mean:.2f} times as far on average")
    return "\n".join(lines)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        sys.exit(f"nearness: {error}")
