"""The files behind `llmc exercises start` and `update`: the course's exercises, the learner's notebooks, their folder.

Everything here refuses rather than guesses: a folder that holds something, a damaged notebook, a place that is git's.
"""

import json
import os
import re
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

from llmc.course.exercises import builder, notebooks
from llmc.course.exercises.catalog import OWN_FOLDER, checkout
from llmc.course.exercises.merging import fingerprint
from llmc.errors import UserError, why
from llmc.files.atomic_write import atomic_write

OTHERS = ("notebooks", "solutions", "exercises", "llmc", "data", "runs")  # folders of the course, not for answers
LINK = re.compile(r"(\]\(|href=\")\.\./(exercises/)?")
EMPTY = {
    "metadata": {"kernelspec": dict(notebooks.KERNEL), "language_info": {"name": "python"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}


def course() -> Path:
    """The root of the course's clone."""
    root = checkout()
    if root is None:
        raise UserError("the course's solutions/ folder is not here; run this inside a clone of the course.")
    return root.resolve()


def course_cells(root, name) -> list[dict]:
    """Cells of an exercise as `llmc exercises build` makes them."""
    return json.loads(notebooks.to_text(builder.exercise_from(root / "solutions" / f"{name}.ipynb")))["cells"]


def course_notebooks(root, folder) -> dict:
    """{name: cells} of all exercises, with links that work from the folder."""
    names = [path.stem for path in sorted((root / "solutions").glob("*.ipynb"))]
    return {name: [_relinked(cell, folder, root) for cell in course_cells(root, name)] for name in names}


def _relinked(cell, folder, root):
    """`../notebooks/…` is seen from exercises/: make it relative to the folder; other exercises lie beside it."""
    if cell["cell_type"] != "markdown":
        return cell
    try:
        up = Path(os.path.relpath(root, folder)).as_posix()
    except ValueError as error:
        raise UserError(f"{folder} is on another drive than the course; choose a folder on that of {root}.") from error
    target = up.replace(" ", "%20").replace("(", "%28").replace(")", "%29")
    source = LINK.sub(lambda link: link[1] + ("" if link[2] else target + "/"), "".join(cell["source"]))
    return {**cell, "source": source.splitlines(keepends=True)}


def read_notebook(path) -> dict:
    """The learner's notebook, with everything that is in the file. Raises UserError when cells cannot be matched."""
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        ids = [cell["id"] for cell in notebook["cells"]]
        _ = [fingerprint(cell) for cell in notebook["cells"]]
    except OSError as error:
        raise UserError(f"cannot read {path}: {why(error)}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged or its cells have no ids; save it again from JupyterLab.") from error
    if len(set(ids)) < len(ids):
        raise UserError(f"{path} has two cells with one id; save it again from JupyterLab.")
    return notebook


def read_state(folder) -> dict:
    """What the folder was given so far."""
    path = folder / OWN_FOLDER
    if not folder.is_dir() or not path.is_file():
        raise UserError(f"{folder} was not made by `llmc exercises start`; make one with `llmc exercises start DIR`.")
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        return {"version": 1, "cells": dict(stored["cells"]), "files": dict(stored["files"])}
    except (ValueError, KeyError, TypeError):  # every cell that differs now counts as edited: nothing gets lost
        return {"version": 1, "cells": {}, "files": {}}


def refuse_bad_place(folder, root):
    """Raise UserError when this is no place for a new folder of exercises."""
    if (folder / OWN_FOLDER).is_file():
        raise UserError(f"{folder} holds your exercises already; `llmc exercises update` brings what is new.")
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; name a folder that is not there yet.")
    if folder.is_dir() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty; name a folder that is not there yet.")
    if folder == root or any(folder.is_relative_to(root / name) for name in OTHERS):
        raise UserError(f"{folder} belongs to the course and changes with `git pull`; name a folder of your own.")


@contextmanager
def new_folder(folder: Path):
    """Fill a temporary folder beside the wanted one, then rename it: the wanted one is complete or not there."""
    temporary = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent))
        yield temporary
        if folder.exists():
            folder.rmdir()  # it was seen to be empty
        temporary.chmod(0o755)  # mkdtemp makes it private
        temporary.rename(folder)
    except OSError as error:
        raise UserError(f"cannot make {folder}: {why(error)}; choose another folder.") from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def to_json(value) -> str:
    """Sorted keys, indent 1: as Jupyter writes."""
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def write_text(path, text):
    """Whole or not at all."""
    with atomic_write(path, "w") as file:
        file.write(text)
