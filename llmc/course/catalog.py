"""Which exercises exist: read from the metadata of the solution notebooks' cells.

{"llmc": {"exercise": "layernorm_forward", "role": "answer", "minutes": 10, "difficulty": 1}}     on the answer's cell
{"llmc": {"exercise": "layernorm_forward", "role": "check"}}                                      on the check's cell
"""

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Exercise:
    """One exercise of one lesson; minutes is how long it takes a learner, difficulty 1 to 3."""

    name: str
    lesson: str
    minutes: int
    difficulty: int


def checkout() -> Path | None:
    """The folder that holds `solutions/`: the source checkout llmc runs from, else one above the current folder."""
    places = [Path(__file__).resolve().parents[2], Path.cwd(), *Path.cwd().parents]
    return next((place for place in places if (place / "solutions").is_dir()), None)


def exercises_of(notebook: Path) -> list[Exercise]:
    """The exercises of one notebook file, in its order."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    marks = [cell["metadata"].get("llmc", {}) for cell in cells]
    return [
        Exercise(mark["exercise"], notebook.stem, mark["minutes"], mark["difficulty"])
        for mark in marks
        if mark.get("role") == "answer"
    ]


def all_exercises(root: Path | None = None) -> list[Exercise]:
    """Every exercise of the course, by lesson; an empty list where there is no checkout."""
    root = root or checkout()
    if root is None:
        return []
    notebooks = sorted((root / "solutions").glob("*.ipynb"))
    return [exercise for notebook in notebooks for exercise in exercises_of(notebook)]
