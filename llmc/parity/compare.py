"""`llmc verify`: does this backend compute what PyTorch computed? The job of llm.c's test_gpt2.c and test_gpt2.cu.

Reads a model and the debug state that belongs to it, compares logits, loss and every gradient, then takes ten AdamW
steps on the state's batch and prints their losses. The last line is `overall okay: 1` or `overall okay: 0`.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from llmc.errors import UserError, why

STEPS = 10
RECIPES = {  # the optimizers of llm.c's two tests
    "A": dict(lr=1e-4, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01, decay="all"),
    "B": dict(lr=1e-4, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.0),
}
CLIP = {"A": None, "B": 1.0}


@dataclass(frozen=True)
class Tolerance:
    """tensors: largest |difference| over largest |reference| · loss, losses: absolute, nats per token."""

    tensors: float
    loss: float
    losses: float


FLOAT32 = Tolerance(tensors=1e-5, loss=1e-5, losses=1e-4)
# Weights rounded to 8 significant bits differ by up to 0.2% from those that PyTorch used for the state.
BFLOAT16_WEIGHTS = Tolerance(tensors=2e-2, loss=1e-2, losses=1e-2)
# TF32 rounds what is multiplied to 11 significant bits: 0.05% each, and the errors of many products meet.
TF32 = Tolerance(tensors=2e-2, loss=1e-2, losses=1e-2)


def compare_with_state(model, state, tolerance: Tolerance) -> bool:
    """Print a line for the logits, the loss and every gradient; leaves the state's gradients in the model."""
    print(f"tensors must agree to {tolerance.tensors:g} of their largest element, the loss to {tolerance.loss:g}")
    print(f"{'':8} {'tensor':<10} {'shape':<18} {'max abs error':>14} {'max rel error':>14}")
    V = model.config.V
    okay = _line("logits", model.backend.to_numpy(model.forward(state.x))[..., :V], state.logits, tolerance.tensors)
    model.zero_grad()
    loss = model.forward(state.x, state.y, dloss=1.0)
    model.backward()
    close = abs(loss - state.loss) <= tolerance.loss
    print(f"{_mark(close):8} {'loss':<10} {loss:.6f}, expected {state.loss:.6f}")
    okay &= close
    for name, reference in state.grads.items():
        okay &= _line("d" + name, model.backend.to_numpy(model.grads[name]), reference, tolerance.tensors)
    return okay


def relative_error(got, reference) -> tuple[float, float]:
    """(largest |got - reference|, the same over the largest |reference|) of two arrays of one shape."""
    worst = float(np.abs(got - reference).max())
    largest = float(np.abs(reference).max())
    return worst, worst / largest if largest > 0 else worst


def _mark(okay) -> str:
    return "ok" if okay else "NOT OK"


def _line(name, got, reference, tolerance) -> bool:
    absolute, relative = relative_error(got, reference)
    okay = relative <= tolerance  # False for NaN
    print(f"{_mark(okay):8} {name:<10} {str(reference.shape):<18} {absolute:14.3e} {relative:14.3e}")
    return okay


def ten_losses(model, state, recipe: str) -> list[float]:
    """Losses of ten AdamW steps on the state's batch, each measured before its update, as llm.c's test prints them."""
    losses = []
    for _ in range(STEPS):
        model.zero_grad()
        losses.append(model.forward(state.x, state.y, dloss=1.0))
        model.backward()
        if CLIP[recipe] is not None:
            model.clip_gradients(CLIP[recipe])
        model.update(**RECIPES[recipe])
    return losses


def report_losses(losses, expected, recipe: str, tolerance: float) -> bool:
    """Print ten losses beside the expected ones; without any, they must at least be finite and fall."""
    names = "".join(f" {name:>14}" for name in expected)
    print(f"\n{'':8} {'recipe ' + recipe:<10} {'loss':>10}{names}")
    okay = True
    for i, loss in enumerate(losses):
        close = all(abs(loss - reference[i]) <= tolerance for reference in expected.values()) and np.isfinite(loss)
        columns = "".join(f" {reference[i]:14.6f}" for reference in expected.values())
        print(f"{_mark(close):8} {'step ' + str(i):<10} {loss:10.6f}{columns}")
        okay &= bool(close)
    if expected:
        print(f"losses must agree to {tolerance:g}")
    else:
        okay &= losses[-1] < losses[0]
        print("losses must be finite and fall; give --losses FILE.json to compare them with expected ones")
    return okay


def read_losses(path, recipe: str) -> dict[str, list[float]]:
    """{name: ten losses} of a recipe, from a JSON list or an object with entries named A…, B….

    An entry is a list, or an object whose "losses" is one; several entries of one recipe are all compared.
    Raises UserError when the file cannot be read or holds no ten losses for the recipe.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {why(error)}; check the path.") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not a JSON file: {error}.") from error
    if isinstance(content, list):
        content = {recipe: content}
    found = {}
    for name, entry in content.items() if isinstance(content, dict) else ():
        losses = entry.get("losses") if isinstance(entry, dict) else entry
        if name.startswith(recipe) and isinstance(losses, list):
            found[name] = losses
    sound = (len(v) >= STEPS and all(isinstance(x, int | float) and abs(x) < 1e9 for x in v) for v in found.values())
    if not found or not all(sound):
        raise UserError(f"{path} holds no {STEPS} losses for recipe {recipe}; give a list, or lists named {recipe}….")
    return found
