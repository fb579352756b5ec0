"""Which exercises exist, and in which files: read from the metadata of the solution notebooks' cells.

{"llmc": {"exercise": "layernorm_forward", "role": "answer", "minutes": 10, "difficulty": 1, "section": "2"}}
{"llmc": {"exercise": "layernorm_forward", "role": "check"}}

The first is on the answer's cell, and "section" is how a heading of its lesson begins; the second is on the check's.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from llmc.course.exercises import layout
from llmc.errors import UserError
from llmc.files.checked_json import read_json

MARK = {"exercise": (str, None), "role": (str, None), "minutes": (float, None), "difficulty": (int, None)}
CELL = {"id": (str, None), "cell_type": str, "metadata": {"llmc": (MARK, None)}, "source": (str, [str])}
SECTION = re.compile(r'lesson (\d\d), section "([^"]+)"')  # how messages name a section
HEADING = re.compile(r"^#+ +(.*)", re.MULTILINE)
MARKS = re.compile(r"[`$]|\\text\{(\w+)\}")


@dataclass(frozen=True)
class Exercise:
    """One exercise of one lesson; minutes is how long it takes a learner, difficulty 1 to 3."""

    name: str
    lesson: str
    minutes: int
    difficulty: int


class Cell(NamedTuple):
    """A notebook's cell; mark is its "llmc" metadata, {} for most."""

    id: str | None
    mark: dict
    kind: str
    source: str


def cells_of(notebook: Path) -> list[Cell]:
    """Every cell of that file; none of a damaged one."""
    try:
        now = notebook.stat()
    except OSError:
        return []
    return list(_cells_of(notebook, now.st_mtime_ns, now.st_size))


@lru_cache(maxsize=64)  # the builder asks for the same solution and lesson for each exercise
def _cells_of(notebook, *unchanged) -> list[Cell]:
    try:
        cells = read_json(notebook, {"cells": [CELL]})["cells"]
    except UserError:  # a merge conflict, say: the other lessons must go on
        return []
    return [
        Cell(cell.get("id"), cell["metadata"].get("llmc") or {}, cell["cell_type"], "".join(cell["source"]))
        for cell in cells
    ]


def exercises_of(notebook: Path, lesson: str) -> list[Exercise]:
    """The exercises in that file, in its order."""
    marks = [cell.mark for cell in cells_of(notebook)]
    return [
        Exercise(mark["exercise"], lesson, mark["minutes"], mark["difficulty"])
        for mark in marks
        if mark.get("role") == "answer" and None not in map(mark.get, MARK) and mark["difficulty"] in (1, 2, 3)
    ]


def all_exercises() -> list[Exercise]:
    """Every exercise of the course, by lesson: the checkout's, or those of the learner's copy where there is none."""
    root = layout.checkout()
    kind = "solutions" if root else "exercises"
    return [
        exercise
        for lesson in layout.lessons(kind)
        for exercise in exercises_of(root / kind / f"{lesson}.ipynb" if root else layout.notebook(kind, lesson), lesson)
    ]


def notebooks_for(lesson: str) -> list[Path]:
    """The files that hold a lesson's exercises: those the learner works in, then the solutions."""
    return [path for kind in ("exercises", "solutions") if (path := layout.notebook(kind, lesson))]


class Section(NamedTuple):
    """A section of a lesson: its heading, and the id of the cell that it begins in."""

    heading: str
    cell: str


def section(notebook: Path, beginning: str) -> Section | None:
    """The first section of a lesson whose heading, as plain text, begins like this; None when there is none."""
    cells = [cell for cell in cells_of(notebook) if cell.kind == "markdown"]
    found = ((heading.strip(), cell.id) for cell in cells for heading in HEADING.findall(cell.source))
    return next((Section(*each) for each in found if plain(each[0]).startswith(plain(beginning))), None)


def plain(heading: str) -> str:
    """A heading without the marks of Markdown's code and formulas."""
    return MARKS.sub(r"\1", heading)


def section_link(number: str, beginning: str) -> str | None:
    """A link, from the current folder, that opens lesson `number` ("01") at that section; None where there is none."""
    notebook = _lesson(number)
    found = section(notebook, beginning) if notebook else None
    return layout.link(layout.from_here(notebook), found.cell) if found else None


def with_headings(text: str) -> str:
    """The text with whole headings where it names sections by how they begin."""

    def whole(named):
        notebook = _lesson(named[1])
        found = section(notebook, named[2]) if notebook else None
        return f'lesson {named[1]}, section "{plain(found.heading)}"' if found else named[0]

    return SECTION.sub(whole, text)


def _lesson(number) -> Path | None:
    lesson = next((lesson for lesson in layout.lessons("notebooks") if lesson.startswith(f"{number}_")), None)
    return layout.notebook("notebooks", lesson) if lesson else None
