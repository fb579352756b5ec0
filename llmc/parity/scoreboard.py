"""The parity scoreboard: logits, loss, sixteen gradients and ten losses of a model beside those of the referee.

`scoreboard(backend)` runs a small model against what PyTorch computed for it (fixtures/, float64 there);
`scoreboard_llmc(backend)` against files written by llm.c's own programs, where LLMC_REFERENCE_DIR names a folder that
holds them. The comparisons and tolerances are those of `llmc verify`. A table in a notebook, text elsewhere.
"""

import os
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

from llmc.checkpoints import read_debug_state, read_model
from llmc.checkpoints.debug_state import DebugState
from llmc.config import GPT2Config
from llmc.errors import UserError
from llmc.model import GPT2
from llmc.parity.cases import CASES
from llmc.parity.compare import FLOAT32, read_losses, relative_error, ten_losses

GREEN, RED = "#009E73", "#D55E00"  # the course's green and vermillion; the marks ✓ and ✗ say the same


@dataclass(frozen=True)
class Row:
    """One comparison. got, expected: what to show; error and allowed are relative for tensors, absolute for losses."""

    name: str
    got: str
    expected: str
    error: float
    allowed: float

    @property
    def okay(self) -> bool:
        """False for NaN too."""
        return self.error <= self.allowed


@dataclass(frozen=True)
class Scoreboard:
    """Rows of a comparison. A notebook draws it, `print` writes it; `okay` when every row is."""

    title: str
    rows: list

    @property
    def okay(self) -> bool:
        """Are all rows green?"""
        return all(row.okay for row in self.rows)

    @property
    def summary(self) -> str:
        """One line; the last word is llm.c's."""
        green = sum(row.okay for row in self.rows)
        return f"{green} of {len(self.rows)} rows are green. overall okay: {int(self.okay)}"

    def __str__(self):
        lines = [self.title, f"  {'':14}{'yours':>18}{'expected':>18}{'error':>10}{'allowed':>10}"]
        for row in self.rows:
            numbers = f"{row.got:>18}{row.expected:>18}{row.error:>10.1e}{row.allowed:>10.0e}"
            lines.append(f"{'✓' if row.okay else '✗'} {row.name:<14}{numbers}")
        return "\n".join([*lines, self.summary])

    __repr__ = __str__

    def _repr_html_(self):
        head = "".join(f"<th>{name}</th>" for name in ("", "", "yours", "expected", "error", "allowed"))
        rows = "".join(self._html_row(row) for row in self.rows)
        top = f"<p><b>{escape(self.title)}</b></p>"
        return f"{top}<table><tr>{head}</tr>{rows}</table><p>{escape(self.summary)}</p>"

    def _html_row(self, row):
        """Transparent colour over the notebook's own background, so that both themes of JupyterLab can show it."""
        color, mark = (GREEN, "✓") if row.okay else (RED, "✗")
        cells = (mark, row.name, row.got, row.expected, f"{row.error:.1e}", f"{row.allowed:.0e}")
        return f'<tr style="background:{color}33">' + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


@dataclass(frozen=True)
class Run:
    """What is compared: logits (B, T, V), loss, {"wte": gradient, …} of one batch; ten losses of AdamW on it."""

    logits: np.ndarray
    loss: float
    grads: dict
    losses: list


@dataclass(frozen=True)
class Problem:
    """A small GPT-2, a batch x, y (B, T) and what the referee got for it. weights: {name: float64 array}."""

    name: str
    config: GPT2Config
    weights: dict
    x: np.ndarray
    y: np.ndarray
    expected: Run

    def model(self, backend="numpy", dtype=np.float32) -> GPT2:
        """The model with these weights."""
        model = GPT2(self.config, backend, dtype)
        for name, values in self.weights.items():
            model.params[name][...] = values
        return model


def fixture(name="odd", recipe="A") -> Problem:
    """A small GPT-2 with awkward sizes, and what PyTorch in float64 computed for it. recipe: "A" or "B", see"""
    cases = {case.name: case for case in CASES}
    if name not in cases:
        raise UserError(f"there is no fixture {name!r}; choose one of {', '.join(cases)}.")
    case = cases[name]
    with np.load(case.fixture) as stored:
        grads = {p.name: stored["d" + p.name] for p in case.config.parameter_table()}
        expected = Run(stored["logits"], float(stored["loss"]), grads, stored["losses_" + recipe].tolist())
    return Problem(name, case.config, case.weights(), *case.batch(), expected)


def run_model(model, x, y, recipe="A") -> Run:
    """Logits, loss and gradients of one batch, then ten AdamW steps on it, which change the model."""
    logits = np.array(model.backend.to_numpy(model.forward(x))[..., : model.config.V])  # (B, T, V)
    model.zero_grad()
    loss = model.forward(x, y, dloss=1.0)
    model.backward()
    grads = {name: np.array(model.backend.to_numpy(grad)) for name, grad in model.grads.items()}
    return Run(logits, loss, grads, ten_losses(model, DebugState(x, y, None, None, None), recipe))


def compare_runs(title, got: Run, expected: Run, tolerance=FLOAT32) -> Scoreboard:
    """The board: a row for each tensor, the loss, and each of the ten losses."""
    rows = [_tensor_row("logits", got.logits, expected.logits, tolerance.tensors)]
    rows.append(_loss_row("loss", got.loss, expected.loss, tolerance.loss))
    rows += [
        _tensor_row("d" + name, got.grads[name], wanted, tolerance.tensors) for name, wanted in expected.grads.items()
    ]
    losses = zip(got.losses, expected.losses)
    rows += [_loss_row(f"loss, step {i}", mine, theirs, tolerance.losses) for i, (mine, theirs) in enumerate(losses)]
    return Scoreboard(title, rows)


def _tensor_row(name, got, expected, allowed):
    """Largest difference over the largest reference; shown is the entry that is largest in the reference."""
    _, relative = relative_error(got, expected)
    at = np.unravel_index(np.abs(expected).argmax(), expected.shape)
    return Row(name, f"{got[at]:.7f}", f"{expected[at]:.7f}", relative, allowed)


def _loss_row(name, got, expected, allowed):
    return Row(name, f"{got:.7f}", f"{expected:.7f}", abs(got - expected), allowed)


def scoreboard(backend="numpy", name="odd", recipe="A") -> Scoreboard:
    """This backend, in float32, against PyTorch. name: "odd", "one_of_each", "full_length" or "no_padding"."""
    problem = fixture(name, recipe)
    got = run_model(problem.model(backend), problem.x, problem.y, recipe)
    c, (B, T) = problem.config, problem.x.shape
    sizes = f"V={c.V} L={c.L} NH={c.NH} C={c.C}, B={B} T={T}"
    return compare_runs(f"Yours in float32 against PyTorch in float64: {sizes}", got, problem.expected)


def scoreboard_llmc(backend="numpy", recipe="A") -> Scoreboard | None:
    """This backend against llm.c's own files in LLMC_REFERENCE_DIR/llmc_small; None when there are none."""
    root = os.environ.get("LLMC_REFERENCE_DIR")
    folder = Path(root, "llmc_small") if root else None
    if folder is None or not folder.is_dir():
        return None
    model = read_model(folder / "model.bin", backend)
    state = read_debug_state(folder / "debug_state.bin", model.config)
    losses = next(iter(read_losses(folder / "losses.json", recipe).values()))
    expected = Run(state.logits, float(state.loss), state.grads, losses)
    got = run_model(model, state.x, state.y, recipe)
    return compare_runs("Yours against the files that llm.c wrote", got, expected)
