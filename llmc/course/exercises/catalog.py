"""Which exercises exist, and in which files: read from the metadata of the solution notebooks' cells.

{"llmc": {"exercise": "layernorm_forward", "role": "answer", "minutes": 10, "difficulty": 1}}     on the answer's cell
{"llmc": {"exercise": "layernorm_forward", "role": "check"}}                                      on the check's cell
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

OWN_FOLDER = ".llmc-exercises.json"  # the file that marks a learner's own folder, see learner_folder.py


@dataclass(frozen=True)
class Exercise:
    """One exercise of one lesson; minutes is how long it takes a learner, difficulty 1 to 3."""

    name: str
    lesson: str
    minutes: int
    difficulty: int


def checkout() -> Path | None:
    """The folder that holds `solutions/`: the source checkout llmc runs from, else one above the current folder."""
    places = [Path(__file__).resolve().parents[3], Path.cwd(), *Path.cwd().parents]
    return next((place for place in places if (place / "solutions").is_dir()), None)


def own_folder() -> Path | None:
    """The learner's own folder of exercises (`llmc exercises start`), when the current folder is in it."""
    places = [Path.cwd(), *Path.cwd().parents]
    return next((place for place in places if (place / OWN_FOLDER).is_file()), None)


class Cell(NamedTuple):
    """A notebook's cell; mark is its "llmc" metadata, {} for most."""

    id: str | None
    mark: dict
    kind: str
    source: str


def cells_of(notebook: Path) -> list[Cell]:
    """Every cell of that file; none of a damaged one."""
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        return [
            Cell(cell.get("id"), cell["metadata"].get("llmc", {}), cell["cell_type"], "".join(cell["source"]))
            for cell in cells
        ]
    except (ValueError, KeyError, TypeError, AttributeError):  # a merge conflict, say: the other lessons must go on
        return []


def exercises_of(notebook: Path) -> list[Exercise]:
    """The exercises of one notebook file, in its order."""
    marks = [cell.mark for cell in cells_of(notebook)]
    return [
        Exercise(mark["exercise"], notebook.stem, mark["minutes"], mark["difficulty"])
        for mark in marks
        if mark.get("role") == "answer"
    ]


def all_exercises(root: Path | None = None) -> list[Exercise]:
    """Every exercise of the course, by lesson; those of the learner's own folder where there is no checkout."""
    root = root or checkout()
    folder = root / "solutions" if root else own_folder()
    notebooks = sorted(folder.glob("*.ipynb")) if folder else []
    return [exercise for notebook in notebooks for exercise in exercises_of(notebook)]


def notebooks_for(lesson: str) -> list[Path]:
    """The files that hold this lesson's exercises, the learner's own copy first, the solutions last."""
    root, own = checkout(), own_folder()
    folders = [own] * bool(own) + ([root / "exercises", root / "solutions"] if root else [])
    paths = [folder / f"{lesson}.ipynb" for folder in folders]
    return [path for path in paths if path.is_file()]
