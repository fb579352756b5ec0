"""How well each precision trains: one model, from the same weights on the same batches, also in PyTorch's autocast.

    python -m llmc.parity.curves OUT [--data DATA] [--backend cuda] [--preset d6] [--steps 300]

Writes the losses of every step to OUT as JSON, with a plot of their curves next to it, and prints the mean of the last
thirty next to float32's. There is no clipping or weight decay, because PyTorch's step here has neither.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from llmc.errors import UserError
from llmc.training import TrainSettings
from llmc.training.schedule import learning_rate
from llmc.training.trainer import Trainer

WAYS = {
    "fp32": dict(precision="fp32"),
    "tf32": dict(precision="tf32"),
    "bf16": dict(precision="bf16"),
    "bf16, no master weights": dict(precision="bf16", master_weights=False),
    "fp16, with loss scaling": dict(precision="fp16"),
}
LAST = 30  # steps, whose mean loss is compared: a single one is as high as its batch is difficult


def main(words=None) -> int:
    """Train, write and print."""
    parser = argparse.ArgumentParser(prog="python -m llmc.parity.curves")
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", default="tinyshakespeare")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--preset", default="d6")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("-B", type=int, default=8)
    parser.add_argument("-T", type=int, default=256)
    parser.add_argument("--learning-rate", type=float, default=6e-4)
    given = parser.parse_args(words)
    settings = dict(data=given.data, backend=given.backend, preset=given.preset, steps=given.steps)
    settings |= dict(batch_size=given.B, sequence_length=given.T, learning_rate=given.learning_rate)
    curves = losses(**settings)
    given.out.write_text(json.dumps(dict(settings=settings, losses=curves)), encoding="utf-8")
    draw(curves, given.out.with_suffix(".png"))
    for name, (_, last, apart) in summary(curves).items():
        print(f"{name:<26} last {LAST} steps {last:.4f}   {apart:+.2%} of fp32's")
    return 0


def losses(**settings) -> dict:
    """{way: loss of each step}, in nats per token, except for ways that the backend lacks. settings: those of a
    TrainSettings.

    Raises UserError if not even float32 can be trained.
    """
    settings |= dict(clip=0.0, weight_decay=0.0)
    found = {}
    for name, way in WAYS.items():
        try:
            trainer = Trainer(TrainSettings(**settings, **way))
        except UserError as error:
            if not found:
                raise
            print(f"{name}: {error}", file=sys.stderr)
            continue
        found[name] = [float(trainer.train_step()[0]) for _ in range(trainer.settings.steps)]
        print(f"{name}: {found[name][-1]:.4f}", flush=True)
    try:
        found["PyTorch's autocast"] = autocast(**settings)
    except UserError as error:
        print(error, file=sys.stderr)
    return found


def autocast(**settings) -> list:
    """The same steps in PyTorch's bfloat16 autocast, with its fused AdamW."""
    from llmc.bench.torch_step import torch_step

    trainer = Trainer(TrainSettings(**settings))  # for its weights and batches
    s = trainer.settings
    step = torch_step(trainer.model, fused=True, autocast="bf16", betas=(s.beta1, s.beta2))
    rates = (learning_rate(i, s.learning_rate, s.warmup, s.steps) for i in range(s.steps))
    return [float(step(*map(np.array, trainer.train_loader.next_batch()), lr=rate)) for rate in rates]


def summary(curves) -> dict:
    """{way: (first loss, mean of the last ones, how far that is from float32's, relatively)}."""
    last = {name: float(np.mean(curve[-LAST:])) for name, curve in curves.items()}
    return {name: (curve[0], last[name], last[name] / last["fp32"] - 1) for name, curve in curves.items()}


def draw(curves, path):
    """Draw two panels: the losses, and how far each curve is from float32's, both as means over LAST steps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    smooth = {name: np.convolve(curve, np.ones(LAST) / LAST, "valid") for name, curve in curves.items()}
    steps = np.arange(LAST, LAST + len(smooth["fp32"]))
    for name, curve in smooth.items():
        left.plot(steps, curve, label=name, lw=1)
        right.plot(steps, 100 * (curve / smooth["fp32"] - 1), lw=1)
    left.set(xlabel="step", ylabel=f"loss, nats per token\n(mean of {LAST} steps)", yscale="log")
    left.legend(fontsize=8)
    right.axhspan(-0.5, 0.5, color="0.92", zorder=0)
    right.set(xlabel="step", ylabel="away from fp32's, %")
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        sys.exit(f"curves: {error}")
