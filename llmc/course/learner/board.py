"""The progress board: what is done, minutes left, where to go on. HTML in a notebook, or text."""

import os
from html import escape
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from llmc.course.exercises.catalog import cells_of, notebooks_for

DONE, OPEN = "✓", "○"  # every font has them, unlike emoji
LEVEL = {1: "easy", 2: "medium", 3: "hard"}
_shown = []  # (board, display handle) of the boards this kernel shows: a check that passes draws them again


class Board:
    """What `progress()` returns; a notebook draws it, `print` writes it."""

    def __init__(self, exercises, done, path_to=None):
        self.exercises = exercises  # list of catalog.Exercise, in the order of the course
        self.done = done  # set of names
        self.path_to = path_to or (lambda lesson: f"exercises/{lesson}.ipynb")  # lesson -> path of its exercises

    @property
    def next(self):
        """The first exercise not done, or None."""
        return next((exercise for exercise in self.exercises if exercise.name not in self.done), None)

    def lessons(self):
        """(lesson, its exercises) pairs."""
        return [(lesson, list(group)) for lesson, group in groupby(self.exercises, key=lambda e: e.lesson)]

    def minutes_left(self, exercises) -> int:
        """Sum over those not done."""
        return sum(exercise.minutes for exercise in exercises if exercise.name not in self.done)

    def counts(self) -> str:
        """ "3 of 30 exercises done, about 400 minutes left."."""
        if not self.exercises:
            return "No exercises found: run this from the course's folder."
        count, left = sum(e.name in self.done for e in self.exercises), self.minutes_left(self.exercises)
        return f"{count} of {len(self.exercises)} exercises done, about {left} minutes left."

    def summary(self) -> str:
        """One line: how many are done, what comes next."""
        after = " All done." if self.exercises else ""
        if self.next:
            after = f" Next: {self.next.name} in {self.path_to(self.next.lesson)}"
        return self.counts() + after

    def __str__(self):
        rows = []
        for lesson, exercises in self.lessons():
            rows.append(f"{lesson}  ({self.minutes_left(exercises)} minutes left)")
            for e in exercises:
                rows.append(f"  {self._mark(e)} {e.name:<36} {e.minutes:>3} min  {LEVEL[e.difficulty]}")
        return "\n".join([*rows, self.summary()])

    __repr__ = __str__

    def _repr_html_(self):
        rows = "".join(self._row(lesson, exercises) for lesson, exercises in self.lessons())
        after = f" {self._resume()}" if self.next else " All done." * bool(self.exercises)
        return f"<table>{rows}</table><p>{escape(self.counts())}{after}</p>"

    def _ipython_display_(self):
        from IPython.display import display

        _shown.append((self, display(self._bundle(), raw=True, display_id=True)))
        del _shown[:-8]  # older ones are cells that ran again

    def _bundle(self):
        return {"text/html": self._repr_html_(), "text/plain": str(self)}

    def _row(self, lesson, exercises):
        """One lesson; symbols, not colours, carry the meaning, so that both themes of JupyterLab can show it."""
        marks = " &nbsp; ".join(
            f'<span style="white-space:nowrap" title="{exercise.minutes} min, {LEVEL[exercise.difficulty]}">'
            f"{self._mark(exercise)} {escape(exercise.name)}</span>"
            for exercise in exercises
        )
        left = self.minutes_left(exercises)
        title = self._link(lesson, f"<b>{escape(lesson)}</b>")
        cells = [title, f"{left} min left" if left else "done", marks]
        styles = ("white-space:nowrap",) * 2 + ("white-space:normal",)
        row = "".join(f'<td style="text-align:left;{style}">{cell}</td>' for style, cell in zip(styles, cells))
        return f"<tr>{row}</tr>"

    def _mark(self, exercise):
        return DONE if exercise.name in self.done else OPEN

    def _resume(self):
        """The link to the first open exercise: its notebook, scrolled to its task."""
        words = f"<b>Resume here: {escape(self.next.name)}</b>"
        return self._link(self.next.lesson, words, task_of(self.next)) + f" ({self.next.minutes} min)"

    def _link(self, lesson, words, cell=None):
        fragment = f"#cell-id={quote(cell)}" if cell else ""  # JupyterLab scrolls there
        return f'<a href="{escape(quote(self.path_to(lesson)) + fragment)}">{words}</a>'


def redraw(done):
    """Draw every board again that this kernel has shown; done: names of exercises."""
    for shown, handle in _shown:
        shown.done = set(done)
        if handle is not None:
            handle.update(shown._bundle(), raw=True)


def path_from_here(lesson: str) -> str:
    """The path of a lesson's exercises as seen from the current folder, with "/" on every system."""
    path = next(iter(notebooks_for(lesson)), Path("exercises", f"{lesson}.ipynb"))
    try:
        return Path(os.path.relpath(path)).as_posix()
    except ValueError:  # on another drive of a Windows machine
        return path.as_posix()


def task_of(exercise) -> str | None:
    """Id of the cell with an exercise's task: the last one with a heading before the answer."""
    task = None
    for path in notebooks_for(exercise.lesson)[:1]:
        for cell in cells_of(path):
            if cell.mark.get("exercise") == exercise.name:
                return task
            if cell.kind == "markdown" and cell.source.startswith("#"):
                task = cell.id
    return None
