"""The progress board: what is done, how much time is left, where to go on. HTML in a notebook, text elsewhere."""

from html import escape
from itertools import groupby

from llmc.course.exercises.catalog import cells_of, notebooks_for
from llmc.course.exercises.layout import link, path_from_here

DONE, OPEN = "✓", "○"  # every font has them, unlike emoji
LEVEL = {1: "easy", 2: "medium", 3: "hard"}
LONGEST = 59  # minutes; more is shown in hours
_shown = []  # (board, display handle) of the boards this kernel shows: a check that passes draws them again


class Board:
    """What `progress()` returns; a notebook draws it, `print` writes it."""

    def __init__(self, exercises, done, worked=None):
        self.exercises = exercises  # list of catalog.Exercise, in the order of the course
        self.done = set(done)  # names
        self.worked = worked or {}  # {name: when it was last worked on, as text that sorts}

    @property
    def next(self):
        """The exercise last worked on while it is open, else the first open one after it; None when all are done."""
        times = [(self.worked[e.name], place) for place, e in enumerate(self.exercises) if e.name in self.worked]
        last = max(times)[1] if times else 0
        after = self.exercises[last:] + self.exercises[:last]
        return next((exercise for exercise in after if exercise.name not in self.done), None)

    def lessons(self):
        """(lesson, its exercises) pairs in the order of the course."""
        return [(lesson, list(group)) for lesson, group in groupby(self.exercises, key=lambda e: e.lesson)]

    def minutes_left(self, exercises) -> int:
        """Sum over those not done."""
        return sum(exercise.minutes for exercise in exercises if exercise.name not in self.done)

    def counts(self) -> str:
        """ "3 of 30 exercises done, about 6 h 40 min left."."""
        if not self.exercises:
            return "No exercises found: run this in the folder of the course."
        count, left = sum(e.name in self.done for e in self.exercises), self.minutes_left(self.exercises)
        return f"{count} of {len(self.exercises)} exercises done" + (f", about {spelled(left)} left." if left else ".")

    def summary(self) -> str:
        """One line: how many are done, which comes next."""
        if self.next is None:
            return self.counts()
        return f"{self.counts()} Next: {self.next.name} in {path_from_here('exercises', self.next.lesson)}"

    def __str__(self):
        rows = []
        for lesson, exercises in self.lessons():
            rows.append(f"{lesson}  ({self._time(exercises)})")
            for e in exercises:
                rows.append(f"  {self._mark(e)} {e.name:<36} {e.minutes:>3} min  {LEVEL[e.difficulty]}")
        return "\n".join([*rows, self.summary()])

    __repr__ = __str__

    def _repr_html_(self):
        rows = "".join(self._row(lesson, exercises) for lesson, exercises in self.lessons())
        return f"<p>{escape(self.counts())}{self._resume() if self.next else ''}</p><table>{rows}</table>"

    def _ipython_display_(self):
        from IPython.display import display

        _shown.append((self, display(self._bundle(), raw=True, display_id=True)))
        del _shown[:-8]  # older ones are cells that ran again

    def _bundle(self):
        return {"text/html": self._repr_html_(), "text/plain": str(self)}

    def _time(self, exercises) -> str:
        left = self.minutes_left(exercises)
        return f"{spelled(left)} left" if left else "done"

    def _row(self, lesson, exercises):
        """One lesson; symbols, not colours, carry the meaning, so that both themes of JupyterLab can show it."""
        look = "white-space:nowrap;margin-right:1em"
        marks = " ".join(
            f'<span style="{look}" title="{exercise.minutes} min, {LEVEL[exercise.difficulty]}">'
            f"{self._mark(exercise)} {escape(exercise.name)}{' ← next' * (exercise is self.next)}</span>"
            for exercise in exercises
        )
        title = f'<a href="{escape(link(path_from_here("exercises", lesson)))}"><b>{escape(lesson)}</b></a>'
        cells = [title, self._time(exercises), marks]
        styles = ("white-space:nowrap",) * 2 + ("white-space:normal",)
        row = "".join(f'<td style="text-align:left;{style}">{cell}</td>' for style, cell in zip(styles, cells))
        return f"<tr>{row}</tr>"

    def _mark(self, exercise):
        return DONE if exercise.name in self.done else OPEN

    def _resume(self):
        """The link to the exercise that is next: its notebook, scrolled to its task."""
        target = link(path_from_here("exercises", self.next.lesson), task_of(self.next))
        return f' <a href="{escape(target)}"><b>Resume here: {escape(self.next.name)}</b></a> ({self.next.minutes} min)'


def redraw(done, worked):
    """Redraw every board that this kernel has shown; done, worked: as in Board."""
    for shown, handle in _shown:
        shown.done, shown.worked = set(done), worked
        if handle is not None:
            handle.update(shown._bundle(), raw=True)


def spelled(minutes: int) -> str:
    """ "45 min", "6 h 40 min", "7 h"."""
    if minutes <= LONGEST:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


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
