"""The parity scoreboard: a model's logits, loss, sixteen gradients and ten losses next to the referee's.

`scoreboard(backend)` compares a small model with what PyTorch computed for it in float64 (fixtures/);
`scoreboard_llmc(backend)` compares with files that llm.c's own programs wrote, if LLMC_REFERENCE_DIR names a folder
with them. The comparison is the same as in `llmc verify`. Notebooks show a table, everything else text.
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
from llmc.parity.compare import HEAD, compare, read_losses

GREEN, RED = "#009E73", "#D55E00"  # the course's green and vermillion; the marks ✓ and ✗ say the same


@dataclass(frozen=True)
class Scoreboard:
    """The rows of a comparison. A notebook draws it, `print` writes it; it is `okay` if every row is."""

    title: str
    rows: list

    @property
    def okay(self) -> bool:
        """Are all rows green?"""
        return all(row.okay for row in self.rows)

    @property
    def summary(self) -> str:
        """A one-line summary, which ends in llm.c's own words."""
        green = sum(row.okay for row in self.rows)
        return f"{green} of {len(self.rows)} rows are green. overall okay: {int(self.okay)}"

    def __str__(self):
        rows = [f"{'✓' if row.okay else '✗'} {row}" for row in self.rows]
        return "\n".join([self.title, f"  {HEAD}", *rows, self.summary])

    __repr__ = __str__

    def _repr_html_(self):
        head = "".join(f"<th>{name}</th>" for name in ("", "", "yours", "expected", "error", "allowed"))
        rows = "".join(self._html_row(row) for row in self.rows)
        top = f"<p><b>{escape(self.title)}</b></p>"
        return f"{top}<table><tr>{head}</tr>{rows}</table><p>{escape(self.summary)}</p>"

    def _html_row(self, row):
        """A transparent colour over the notebook's own background, so that it works in both of JupyterLab's themes."""
        color, mark = (GREEN, "✓") if row.okay else (RED, "✗")
        cells = (mark, row.name, row.got, row.expected, f"{row.error:.1e}", f"{row.allowed:.0e}")
        return f'<tr style="background:{color}33">' + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


@dataclass(frozen=True)
class Problem:
    """A small GPT-2, its weights {name: float64 array}, a batch, and what the referee computed for them."""

    config: GPT2Config
    weights: dict
    state: DebugState
    losses: list

    @property
    def x(self):
        """(B, T) tokens."""
        return self.state.x

    @property
    def y(self):
        """(B, T) targets."""
        return self.state.y

    def model(self, backend="numpy", precision="fp32") -> GPT2:
        """The model with these weights."""
        model = GPT2(self.config, backend, precision)
        for name, values in self.weights.items():
            model.params[name][...] = values
        return model


def fixture(name="odd", recipe="A") -> Problem:
    """A small GPT-2 with awkward sizes, and what PyTorch computed for it in float64. recipe: for the ten losses."""
    cases = {case.name: case for case in CASES}
    if name not in cases:
        raise UserError(f"there is no fixture {name!r}; choose one of {', '.join(cases)}.")
    case = cases[name]
    with np.load(case.fixture) as stored:
        grads = {p.name: stored["d" + p.name] for p in case.config.parameter_table()}
        state = DebugState(*case.batch(), stored["logits"], float(stored["loss"]), grads)
        return Problem(case.config, case.weights(), state, stored["losses_" + recipe].tolist())


def scoreboard(backend="numpy", name="odd", recipe="A") -> Scoreboard:
    """Compare this backend in float32 with PyTorch. name: "odd", "one_of_each", "full_length" or "no_padding"."""
    problem = fixture(name, recipe)
    c, (B, T) = problem.config, problem.x.shape
    title = f"Yours in float32 against PyTorch in float64: V={c.V} L={c.L} NH={c.NH} C={c.C}, B={B} T={T}"
    losses = {"PyTorch": problem.losses}
    return Scoreboard(title, list(compare(problem.model(backend), problem.state, losses, recipe)))


def scoreboard_llmc(backend="numpy", recipe="A") -> Scoreboard | None:
    """Compare this backend with llm.c's own files in LLMC_REFERENCE_DIR/llmc_small; None if there are none."""
    root = os.environ.get("LLMC_REFERENCE_DIR")
    folder = Path(root, "llmc_small") if root else None
    if folder is None or not folder.is_dir():
        return None
    model = read_model(folder / "model.bin", backend)
    state = read_debug_state(folder / "debug_state.bin", model.config)
    rows = compare(model, state, read_losses(folder / "losses.json", recipe), recipe)
    return Scoreboard("Yours against the files that llm.c wrote", list(rows))
