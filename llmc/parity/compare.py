"""Does a model compute what PyTorch and llm.c computed? Like llm.c's test_gpt2.c and test_gpt2.cu.

One comparison, row by row: logits, loss and every gradient of a batch, then the losses of ten AdamW steps on it. `llmc
verify` prints the rows; the scoreboard (`scoreboard.py`) draws them.
"""

from dataclasses import dataclass

import numpy as np

from llmc.errors import UserError
from llmc.files.checked_json import read_json

STEPS = 10
RECIPES = {  # the optimizers of llm.c's two tests
    "A": dict(lr=1e-4, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01, decay="all"),
    "B": dict(lr=1e-4, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.0),
}
CLIP = {"A": None, "B": 1.0}
HEAD = f"{'':14}{'yours':>18}{'expected':>18}{'error':>10}{'allowed':>10}"


@dataclass(frozen=True)
class Tolerance:
    """tensors: largest |difference| divided by largest |reference| · loss, losses: absolute, in nats per token."""

    tensors: float
    loss: float
    losses: float


FLOAT32 = Tolerance(tensors=1e-5, loss=1e-5, losses=1e-4)
# Weights rounded to 8 significant bits differ by up to 0.2% from those that PyTorch used for the state.
BFLOAT16_WEIGHTS = Tolerance(tensors=2e-2, loss=1e-2, losses=1e-2)
# TF32 rounds what is multiplied to 11 significant bits: 0.05% each, and the errors of many products add up.
TF32 = Tolerance(tensors=2e-2, loss=1e-2, losses=1e-2)
# In 16 bits each activation and each gradient is rounded, to 8 or 11 significant bits; losses as llm.c allows.
BFLOAT16 = Tolerance(tensors=2e-2, loss=1e-2, losses=5e-2)
FLOAT16 = Tolerance(tensors=5e-3, loss=1e-2, losses=1e-2)
# Factors of 8 bits have 4 significant bits, gradients 3.
FP8 = Tolerance(tensors=3e-1, loss=5e-2, losses=1e-1)
TOLERANCES = {"fp32": FLOAT32, "tf32": TF32, "bf16": BFLOAT16, "fp16": FLOAT16, "fp8": FP8}


@dataclass(frozen=True)
class Row:
    """One comparison. got, expected: the numbers to show; error and allowed are relative for tensors, absolute
    otherwise."""

    name: str
    got: str
    expected: str
    error: float
    allowed: float

    @property
    def okay(self) -> bool:
        """False for NaN too."""
        return bool(self.error <= self.allowed)

    def __str__(self):
        """The columns of HEAD."""
        return f"{self.name:<14}{self.got:>18}{self.expected:>18}{self.error:>10.1e}{self.allowed:>10.0e}"


def compare(model, state, losses, recipe="A", tolerance=FLOAT32):
    """Yield a Row for the logits, the loss, every gradient and each of ten losses, while training the model.

    state: a DebugState with the batch and what the referee computed for it · losses: {name: ten losses}, all of which
    must agree; if there are none, the ten losses must be finite and fall.
    """
    be, V, scale = model.backend, model.config.V, model.loss_scale
    yield _tensor_row("logits", be.to_numpy(model.logits(state.x))[..., :V], state.logits, tolerance.tensors)
    model.zero_grad()
    loss = model.forward(state.x, state.y, dloss=1.0)
    model.backward()
    yield _loss_row("loss", loss, [state.loss], tolerance.loss)
    for name, expected in state.grads.items():
        yield _tensor_row(
            "d" + name, np.asarray(be.to_numpy(model.grads[name]), np.float64) / scale, expected, tolerance.tensors
        )
    mine = ten_losses(model, state.x, state.y, recipe)
    for i, loss in enumerate(mine):
        yield _loss_row(f"loss, step {i}", loss, [theirs[i] for theirs in losses.values()], tolerance.losses)
    if not losses:
        falls = 0.0 if mine[-1] < mine[0] else np.nan
        yield Row("ten losses", f"{mine[-1] - mine[0]:.7f}", "below 0", falls, 0.0)


def _tensor_row(name, got, expected, allowed):
    """The largest difference divided by the largest reference; the entry shown is the largest in the reference."""
    got, largest = np.asarray(got, np.float64), float(np.abs(expected).max())
    at = np.unravel_index(np.abs(expected).argmax(), expected.shape)
    error = float(np.abs(got - expected).max()) / (largest or 1.0)
    return Row(name, f"{got[at]:.7f}", f"{expected[at]:.7f}", error, allowed)


def _loss_row(name, got, references, allowed):
    """Shows the reference that is farthest away. Without any, the loss must be finite: 0 · NaN and 0 · ∞ are NaN."""
    if not references:
        return Row(name, f"{got:.7f}", "a finite number", 0.0 * got, 0.0)
    farthest = max(references, key=lambda reference: abs(got - reference))
    return Row(name, f"{got:.7f}", f"{farthest:.7f}", abs(got - farthest), allowed)


def ten_losses(model, x, y, recipe: str) -> list[float]:
    """Losses of ten AdamW steps on a batch x, y (B, T), each before its update, as llm.c's test prints them."""
    losses = []
    for _ in range(STEPS):
        model.zero_grad()
        losses.append(model.forward(x, y, dloss=1.0))
        model.backward()
        model.update(**RECIPES[recipe], max_norm=CLIP[recipe])
    return losses


def read_losses(path, recipe: str) -> dict[str, list[float]]:
    """{name: ten losses} for a recipe, from a JSON list or an object with entries named A…, B….

    An entry is a list, or an object whose "losses" is one. There may be several for a recipe. Raises UserError if the
    file cannot be read or does not hold ten losses for the recipe.
    """
    content = read_json(path, (dict, list), "check the path")
    if isinstance(content, list):
        content = {recipe: content}
    found = {}
    for name, entry in content.items():
        losses = entry.get("losses") if isinstance(entry, dict) else entry
        if name.startswith(recipe) and isinstance(losses, list):
            found[name] = losses
    sound = (len(v) >= STEPS and all(isinstance(x, int | float) and abs(x) < 1e9 for x in v) for v in found.values())
    if not found or not all(sound):
        raise UserError(
            f"{path} does not hold {STEPS} losses for recipe {recipe}; give a list, or lists named {recipe}…."
        )
    return found
