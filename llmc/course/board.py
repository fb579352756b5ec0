"""The progress board: lessons × exercises, what is done, minutes left. HTML in a notebook, text elsewhere."""

from html import escape
from itertools import groupby

LEVEL = {1: "easy", 2: "medium", 3: "hard"}


class Board:
    """What `progress()` returns; a notebook draws it, `print` writes it."""

    def __init__(self, exercises, done):
        self.exercises = exercises  # list of catalog.Exercise, in the order of the course
        self.done = done  # set of names

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

    def summary(self) -> str:
        """One line: how many are done, what comes next."""
        if not self.exercises:
            return "No exercises found: run this from the course's folder."
        count = sum(exercise.name in self.done for exercise in self.exercises)
        line = (
            f"{count} of {len(self.exercises)} exercises done, about {self.minutes_left(self.exercises)} minutes left."
        )
        return line + (f" Next: {self.next.name} in exercises/{self.next.lesson}.ipynb" if self.next else " All done.")

    def __str__(self):
        rows = []
        for lesson, exercises in self.lessons():
            rows.append(f"{lesson}  ({self.minutes_left(exercises)} minutes left)")
            for exercise in exercises:
                mark = "✓" if exercise.name in self.done else "·"
                rows.append(f"  {mark} {exercise.name:<36} {exercise.minutes:>3} min  {LEVEL[exercise.difficulty]}")
        return "\n".join([*rows, self.summary()])

    __repr__ = __str__

    def _repr_html_(self):
        rows = "".join(self._row(lesson, exercises) for lesson, exercises in self.lessons())
        return f"<table>{rows}</table><p>{escape(self.summary())}</p>"

    def _row(self, lesson, exercises):
        """One lesson; symbols, not colours, carry the meaning, so that both themes of JupyterLab can show it."""
        cells = "".join(
            f'<td style="text-align:center" title="{exercise.minutes} min, {LEVEL[exercise.difficulty]}">'
            f"{'✅' if exercise.name in self.done else '⬜'}<br><small>{escape(exercise.name)}</small></td>"
            for exercise in exercises
        )
        left = self.minutes_left(exercises)
        return f'<tr><th style="text-align:left">{escape(lesson)}</th>{cells}<td>{left} min left</td></tr>'
