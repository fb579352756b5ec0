"""A learner's own copy of the course: `llmc start my-course` makes it, `llmc update` brings what is new into it.

Answers and runs in the copy never meet git. `merging.py` tells from fingerprints of what was given which cells the
learner changed: those stay, and all others follow the course.
"""

from pathlib import Path, PurePosixPath
from typing import NamedTuple

from llmc.course.exercises import own_files as files
from llmc.course.exercises.layout import FOLDERS, MARKER
from llmc.course.exercises.merging import fingerprints, merge
from llmc.course.exercises.relinking import relinked
from llmc.files.atomic_write import atomic_folder
from llmc.terminal import llmc_command, shown

FEW = 4  # names of files that a line has room for


def start(copy: Path, root: Path | None = None) -> list[str]:
    """Make the copy; returns lines that say what was done and how to go on.

    Exercises that somebody has worked on inside the checkout come with the answers. Raises UserError rather than write
    into a folder that holds anything.
    """
    root, copy = root or files.course(), Path(copy).expanduser().resolve()
    files.refuse_bad_place(copy, root)
    state, news = {**files.new_state(), "course": files.course_digest(root)}, []
    with atomic_folder(copy) as temporary:
        for name, cells in files.course_notebooks(root, copy).items():
            text = _answered(root, copy, name, cells)
            news += [f"{name}: with the answers that you wrote in the checkout."] * bool(text)
            brought = Brought(text or _new(cells), fingerprints(cells), whole=not text)
            files.write_bytes(temporary / name, brought.text.encode())
            _remember(name, brought, state)
        _bring_files(root, temporary, state)
        if copy.is_relative_to(root):
            files.write_bytes(temporary / ".gitignore", b"*\n")
        files.write_bytes(temporary / MARKER, files.to_json(state).encode())
    lab = llmc_command("lab") if copy.parent == root else llmc_command("lab", copy)
    return [f"{shown(copy)} holds the lessons, their exercises and the solutions.", *news, f"Open it with `{lab}`."]


def update(copy: Path, root: Path | None = None) -> list[str]:
    """Bring what is new in the checkout into a copy; returns lines that say what was done.

    Cells that the learner edited or added stay as they are, a notebook that was only run becomes the course's, and one
    that was deleted comes back. Everything is merged before anything is written.
    """
    root, copy = root or files.course(), Path(copy).expanduser().resolve()
    state = {**files.read_state(copy), "course": files.course_digest(root)}
    course = files.course_notebooks(root, copy)
    notebooks = {name: _brought(copy, name, cells, state) for name, cells in course.items()}
    for name, brought in notebooks.items():
        while brought.text and not files.write_over(copy / name, brought.mine, brought.text.encode()):
            notebooks[name] = brought = _brought(copy, name, course[name], state)  # it was saved meanwhile
        _remember(name, brought, state)
    renewed = [name for name, brought in notebooks.items() if brought.text and brought.whole]
    renewed += _bring_files(root, copy, state)
    files.write_bytes(copy / MARKER, files.to_json(state).encode())
    news = [f"New from the course: {_listed(renewed)}."] * bool(renewed)
    news += [f"{name}: {line}" for name, brought in notebooks.items() for line in brought.lines]
    if not news:
        return [f"{shown(copy)} is up to date; your answers are as they were."]
    return [*news, "Your answers are as they were. If JupyterLab is open: File → Reload Notebook from Disk."]


def _listed(names) -> str:
    """ "a, b", "20 files: a, b, c, …"."""
    return ", ".join(names) if len(names) <= FEW else f"{len(names)} files: {', '.join(names[:FEW])}, …"


class Brought(NamedTuple):
    """What becomes of one notebook of a copy."""

    text: str | None  # of the file; None when it stays as it is
    given: dict  # fingerprints of the course's cells
    whole: bool  # is the text the course's alone?
    mine: bytes | None = None  # of the file so far
    lines: tuple = ()  # what to say about it


def _brought(copy, name, cells, state) -> Brought:
    path, given = copy / name, state["cells"].get(name, {})
    data = files.read_bytes(path) if path.exists() else None
    if data is None or files.digest(data) == state["files"].get(name):  # deleted, or never saved since it came
        text = _new(cells)
        return Brought(text if text.encode() != data else None, fingerprints(cells), True, data)
    notebook = files.as_notebook(data, path)
    merged = merge(notebook["cells"], cells, given)
    if merged.changes and merged.cells == cells:  # it was run, and nothing else
        return Brought(_new(cells), merged.given, True, data)
    text = files.to_json({**notebook, "cells": merged.cells}) if merged.changes else None
    return Brought(text, merged.given, False, data, tuple(merged.report()))


def _remember(name, brought, state):
    """What was given, to tell next time what the learner has changed."""
    state["cells"][name] = brought.given
    if brought.text:
        state["files"][name] = files.digest(brought.text.encode()) if brought.whole else None


def _new(cells) -> str:
    return files.to_json({**files.EMPTY, "cells": cells})


def _answered(root, copy, name, cells) -> str | None:
    """The exercise with the answers from the checkout's own copy of it; None when there are none."""
    folder, prefix = FOLDERS["exercises"]
    lesson = Path(name).stem.removeprefix(prefix)
    inside = PurePosixPath("exercises", f"{lesson}.ipynb")
    if Path(name).parent != Path(folder) or not (root / inside).exists():
        return None
    notebook = files.read_notebook(root / inside)
    mine = [relinked(cell, inside, root, copy) for cell in notebook["cells"]]
    merged = merge(mine, cells, fingerprints(cells))
    return files.to_json({**notebook, "cells": merged.cells}) if merged.kept else None


def _bring_files(root, copy, state) -> list[str]:
    """Images, data and AGENTS.md, unless the learner has changed them; returns the names of those that were written."""
    written = []
    for name, source in files.course_files(root).items():
        target, data = copy / name, source.read_bytes()
        mine = files.read_bytes(target) if target.exists() else None
        if mine == data or (mine is not None and files.digest(mine) != state["files"].get(name)):
            continue
        if files.write_over(target, mine, data):
            state["files"][name] = files.digest(data)
            written.append(name)
    return written
