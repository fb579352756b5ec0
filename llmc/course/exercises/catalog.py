"""Which exercises exist, and in which files: read from the metadata of the solution notebooks' cells.

{"llmc": {"exercise": "layernorm_forward", "role": "answer", "minutes": 10, "difficulty": 1, "section": "2"}}
{"llmc": {"exercise": "layernorm_forward", "role": "check"}}

The first is on the answer's cell, and "section" is how a heading of its lesson begins; the second is on the check's.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from llmc.course.exercises import layout
from llmc.errors import UserError
from llmc.files.checked_json import read_json

MARK = {"exercise": (str, None), "role": (str, None), "minutes": (float, None), "difficulty": (int, None)}
CELL = {"id": (str, None), "cell_type": str, "metadata": {"llmc": (MARK, None)}, "source": (str, [str])}
SECTION = re.compile(r'lesson (\d\d), section "([^"]+)"')  # how messages name a section


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
    """The first section of a lesson whose heading begins with these words; None when there is none."""
    heading = re.compile(rf"^#+ +({re.escape(beginning)}.*)", re.MULTILINE)
    found = ((heading.search(cell.source), cell.id) for cell in cells_of(notebook) if cell.kind == "markdown")
    return next((Section(match[1].strip(), cell) for match, cell in found if match), None)


def section_link(number: str, beginning: str) -> str | None:
    """A link, from the current folder, that opens lesson `number` ("01") at that section; None where there is none."""
    lesson = next((lesson for lesson in layout.lessons("notebooks") if lesson.startswith(f"{number}_")), None)
    notebook = layout.notebook("notebooks", lesson) if lesson else None
    found = section(notebook, beginning) if notebook else None
    return layout.link(layout.from_here(notebook), found.cell) if found else None
