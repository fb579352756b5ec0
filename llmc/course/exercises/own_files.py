"""The files behind `llmc start` and `llmc update`: what the course gives, what a copy of it holds, where it may lie.

Everything here refuses rather than guesses: a folder that is not empty, a damaged notebook, a place that is git's.

A copy's .llmc-course.json remembers what it was given: {"version": 2, "cells": {notebook: {cell id: fingerprint}},
"files": {file: digest}, "course": digest of all}, with paths relative to the copy.
"""

import hashlib
import json
import os
import platform
from pathlib import Path, PurePosixPath

from llmc.course.exercises import builder, layout, notebooks
from llmc.course.exercises.layout import FOLDERS, FOR_ASSISTANTS, FOR_LESSONS, MARKER, place_in_copy
from llmc.course.exercises.relinking import relinked
from llmc.errors import UserError
from llmc.files.atomic_write import atomic_write
from llmc.files.checked_json import Damaged, checked_json, read_json
from llmc.files.reading import opened
from llmc.terminal import llmc_command

OF_THE_COURSE = (*FOLDERS, "llmc", "data", "runs")  # folders of the checkout that copies do not get
THIS_MACHINE = "this-machine"  # the tag of cells whose stored outputs would be another machine's in a copy
STATE = {"cells": {str: {str: (str, None)}}, "files": {str: (str, None)}, "course": (str, None)}
LANGUAGE = {  # as the kernel says it: JupyterLab takes over whatever differs, and calls the notebook modified
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
    "version": platform.python_version(),
}
EMPTY = {
    "metadata": {"kernelspec": dict(notebooks.KERNEL), "language_info": LANGUAGE},
    "nbformat": 4,
    "nbformat_minor": 5,
}


def course() -> Path:
    """The root of the checkout. Raises UserError where there is none."""
    root = layout.checkout()
    if root is None:
        raise UserError("the course is not here; run this inside a clone of it.")
    return root.resolve()


def course_notebooks(root, copy) -> dict:
    """{path in the copy: cells} of all notebooks, as a copy gets them: with links that work there."""
    found = {}
    for kind in FOLDERS:
        for path in sorted((root / ("solutions" if kind == "exercises" else kind)).glob("*.ipynb")):
            inside = PurePosixPath(kind, path.name)
            cells = built(path) if kind == "exercises" else read_notebook(path)["cells"]
            found[str(place_in_copy(inside))] = [relinked(_not_run(cell), inside, root, copy) for cell in cells]
    return found


def _not_run(cell) -> dict:
    """Without what it printed, if that is about the machine that it ran on."""
    of_a_machine = THIS_MACHINE in cell["metadata"].get("tags", [])
    return {**cell, "outputs": [], "execution_count": None} if of_a_machine else cell


def built(solution: Path) -> list[dict]:
    """Cells of an exercise as `llmc exercises build` makes them."""
    return json.loads(notebooks.to_text(builder.exercise_from(solution)))["cells"]


def course_files(root) -> dict:
    """{path in the copy: path in the checkout} of all that is not a notebook."""
    paths = [root / "exercises" / FOR_ASSISTANTS]
    paths += [path for folder in FOR_LESSONS for path in sorted((root / "notebooks" / folder).rglob("*"))]
    paths = [path for path in paths if path.is_file() and not path.name.startswith(".")]
    return {str(place_in_copy(PurePosixPath(path.relative_to(root).as_posix()))): path for path in paths}


def read_notebook(path) -> dict:
    """A notebook, with everything that is in the file. Raises UserError when its cells cannot be told apart."""
    return as_notebook(read_bytes(path), path)


def as_notebook(data: bytes, path) -> dict:
    """The same for what was in that file."""
    notebook = checked_json(data, path, notebooks.NOTEBOOK, notebooks.SAVE_AGAIN)
    ids = {cell.get("id") for cell in notebook["cells"]} - {None}
    if len(ids) < len(notebook["cells"]):
        raise UserError(f"{path} has cells without an id, or two with the same; {notebooks.SAVE_AGAIN}.")
    return notebook


def read_bytes(path) -> bytes:
    """What a file holds. Raises UserError for a folder, a pipe and whatever else is not a file."""
    with opened(path) as file:
        return file.read()


def read_state(copy) -> dict:
    """What the copy was given so far. Raises UserError for a folder that is not a copy."""
    path = copy / MARKER
    if not path.is_file():
        raise UserError(f"{copy} is not a copy of the course; make one with `{llmc_command('start', 'my-course')}`.")
    try:
        stored = read_json(path, STATE)
        return {**new_state(), **{name: stored.get(name) for name in STATE}}
    except Damaged:  # every cell that differs now counts as edited: nothing gets lost
        return new_state()


def new_state() -> dict:
    """The state of a copy that was given nothing."""
    return {"version": 2, "cells": {}, "files": {}, "course": None}


def refuse_bad_place(copy, root):
    """Raise UserError when this is no place for a new copy."""
    if (copy / MARKER).is_file():
        update = llmc_command("update", copy)
        raise UserError(f"{copy} already holds a copy of the course; bring it up to date with `{update}`.")
    if copy.exists() and not copy.is_dir():
        raise UserError(f"{copy} is a file; name a folder that does not exist yet.")
    if copy.is_dir() and any(copy.iterdir()):
        raise UserError(f"{copy} is not empty; name a folder that does not exist yet.")
    if copy == root or any(copy.is_relative_to(root / name) for name in OF_THE_COURSE):
        raise UserError(f"{copy} belongs to the course and changes with it; name a folder of your own.")


def digest(data: bytes) -> str:
    """Of a file's bytes."""
    return hashlib.sha256(data).hexdigest()[:16]


def course_digest(root) -> str:
    """Of all that copies are made from: quick, so that `llmc lab` can ask each time whether a copy is up to date."""
    paths = [path for kind in FOLDERS for path in sorted((root / kind).glob("*.ipynb"))]
    return digest(b"".join(read_bytes(path) for path in [*paths, *course_files(root).values()]))


def to_json(value) -> str:
    """Sorted keys, indent 1: as Jupyter writes."""
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def write_bytes(path, data):
    """Whole or not at all."""
    with atomic_write(path) as file:
        file.write(data)


def write_over(path, mine: bytes | None, data: bytes) -> bool:
    """Write over a file that still holds `mine` (None: does not exist); False, with nothing done, if it was saved."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    write_bytes(new, data)  # which takes a while
    same = (read_bytes(path) if path.exists() else None) == mine
    new.replace(path) if same else new.unlink()
    return same
