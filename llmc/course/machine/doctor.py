"""`llmc doctor`: what this machine has, what is missing, what that costs, and the one command that fixes it.

In a notebook `doctor()` is a table. Each row is examined by its own thread, so that a driver or a network drive that
never answers costs one row and not the report.
"""

import os
import time
from functools import partial
from html import escape
from threading import Thread

from llmc.course.machine.advice import Row

DEADLINE = 5.0  # seconds for all rows together; a tenth of one is enough where nothing is wrong
MARKS = {"ok": "✓", "missing": "–", "later": "–", "warning": "!"}


class Report:
    """What `doctor()` returns: a list of rows; a notebook draws it, `print` writes it."""

    def __init__(self, rows):
        self.rows = rows  # list of advice.Row

    def __iter__(self):
        return iter(self.rows)

    def __getitem__(self, what) -> Row:
        """The row of that name: doctor()["BLAS"]."""
        return {row.what: row for row in self.rows}[what]

    @property
    def summary(self) -> str:
        """One line: which rows have a command to run now."""
        names = [row.what for row in self.rows if row.command and row.status != "later"]
        return f"Worth a look: {', '.join(names)}." if names else "Nothing to fix."

    def __str__(self):
        width = max(len(row.what) for row in self.rows)
        lines = []
        for row in self.rows:
            lines.append(f"{MARKS[row.status]} {row.what:<{width}}  {row.found}")
            lines += [f"  {'':<{width}}  costs: {row.costs}"] * bool(row.costs)
            lines += [f"  {'':<{width}}  fix:   {row.command}"] * bool(row.command)
        return "\n".join([*lines, self.summary])

    __repr__ = __str__

    def _repr_html_(self):
        """Marks, not colours, carry the meaning, so that both themes of JupyterLab can show it."""
        head = "".join(_cell("th", name) for name in ("", "what", "found", "what that costs", "how to fix it"))
        rows = "".join(f"<tr>{_html(row)}</tr>" for row in self.rows)
        return f"<table><tr>{head}</tr>{rows}</table><p>{escape(self.summary)}</p>"


def _html(row) -> str:
    command = f"<code>{escape(row.command)}</code>" if row.command else ""
    cells = [escape(text) for text in (MARKS[row.status], row.what, row.found, row.costs)]
    return "".join(_cell("td", text) for text in [*cells, command])


def _cell(tag, html) -> str:
    return f'<{tag} style="text-align:left;vertical-align:top">{html}</{tag}>'


# ------------------------------------------------------------------------------------------ finding out


def doctor() -> Report:
    """Examine this machine: a row for each thing the course can use. Never raises; takes DEADLINE seconds at most."""
    return Report(examine(examinations()))


def examinations() -> list:
    """[(name of the row, function that takes the name and returns the Row)], in the order of the table."""
    from llmc.course.machine import caches, diagnoses, equipment, several

    return [
        ("system", diagnoses.system),
        ("Python", equipment.python),
        ("packages", equipment.packages),
        ("cores", diagnoses.cores),
        ("memory", diagnoses.memory),
        ("BLAS", diagnoses.blas),
        ("BLAS in training", equipment.training_blas),
        ("bfloat16 in training", equipment.training_bfloat16),
        ("C++ compiler", diagnoses.compiler),
        ("GPU", diagnoses.gpu),
        ("CuPy", equipment.cupy),
        ("CUDA kernels", equipment.kernels),
        ("MPI", several.mpi),
        ("NCCL", several.nccl),
        ("compiled kernels", caches.compiled),
        ("disk", equipment.disk),
        *((f"corpus {name}", partial(equipment.corpus, name=name)) for name in equipment.corpora()),
        ("GPT-2's tokens", equipment.tokens),
    ]


def examine(looks, deadline=DEADLINE) -> list[Row]:
    """One Row for each (what, look): look(what), or a warning when that raises or takes too long."""
    rows = {what: _no_row(what, "no answer in time") for what, _ in looks}
    threads = [Thread(target=_look, args=(rows, *pair), daemon=True) for pair in looks]
    for thread in threads:
        thread.start()
    end = time.monotonic() + deadline
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return [_homeless(rows[what]) for what, _ in looks]


def _look(rows, what, look):
    try:
        rows[what] = look(what)
    except Exception as error:  # of any kind: this report is read when something is wrong
        rows[what] = _no_row(what, f"unknown ({type(error).__name__})")


def _no_row(what, found) -> Row:
    return Row(what, found, "warning", "only this row: nothing in the course depends on it")


def _homeless(row) -> Row:
    """With ~ for the user's home folder: reports are pasted into issues, notebooks are published."""
    home = os.path.expanduser("~")
    if len(home) < 2:  # "/" in some containers, "~" where there is none
        return row
    found, costs, command = (text.replace(home, "~") for text in (row.found, row.costs, row.command))
    return Row(row.what, found, row.status, costs, command)
