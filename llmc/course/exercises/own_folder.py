"""A learner's own copy of the exercises: `llmc exercises start DIR`, and `llmc exercises update DIR` for what is new.

Answers written there never meet git, so `git pull` never conflicts with them. DIR/.llmc-exercises.json holds a
fingerprint of every cell as it was given; `merging.py` tells from it what the learner changed.
"""

import os
from pathlib import Path

from llmc.course.exercises import own_files as files
from llmc.course.exercises.catalog import OWN_FOLDER
from llmc.course.exercises.merging import fingerprint, fingerprints, merge

FOR_ASSISTANTS = "AGENTS.md"


def start(folder: Path, root: Path | None = None) -> list[str]:
    """Make the folder, with all exercises in it; returns lines that say what was done and how to go on.

    Exercises in which somebody has worked inside the checkout come with the answers. Raises UserError rather than
    write into a folder that holds anything.
    """
    root, folder = root or files.course(), Path(folder).expanduser().resolve()
    files.refuse_bad_place(folder, root)
    state, told = {"version": 1, "cells": {}, "files": {}}, []
    with files.new_folder(folder) as temporary:
        for name, cells in files.course_notebooks(root, folder).items():
            worked_in = root / "exercises" / f"{name}.ipynb"
            notebook, merged = _merged(worked_in, cells, fingerprints(files.course_cells(root, name)))
            told += [f"{name}: with the answers that you wrote in exercises/."] * bool(merged.kept)
            state["cells"][name] = merged.given
            files.write_text(temporary / f"{name}.ipynb", files.to_json(notebook))
        _assistants_page(root, temporary, state)
        if folder.is_relative_to(root):
            files.write_text(temporary / ".gitignore", "*\n")
        files.write_text(temporary / OWN_FOLDER, files.to_json(state))
    return [f"{len(state['cells'])} exercise notebooks are in {_shown(folder)}.", *told, _how_to_open(folder, root)]


def update(folder: Path, root: Path | None = None) -> list[str]:
    """Bring what is new in the course into a folder made by `start`; returns lines that say what was done.

    Cells that the learner edited or added stay as they are; a notebook that they deleted comes fresh. Everything is
    merged before anything is written.
    """
    root, folder = root or files.course(), Path(folder).expanduser().resolve()
    state, told, changed = files.read_state(folder), [], {}
    for name, cells in files.course_notebooks(root, folder).items():
        path = folder / f"{name}.ipynb"
        notebook, merged = _merged(path, cells, state["cells"].get(name, {}))
        told += _report(name, merged, new=not path.exists())
        state["cells"][name] = merged.given
        if merged.changes:
            changed[path] = notebook
    for path, notebook in changed.items():
        files.write_text(path, files.to_json(notebook))
    told += _assistants_page(root, folder, state)
    files.write_text(folder / OWN_FOLDER, files.to_json(state))
    if not told:
        return [f"{_shown(folder)} is up to date; your answers are as they were."]
    return [*told, "Your answers are as they were. If JupyterLab is open: File → Reload Notebook from Disk."]


def _merged(path, cells, given):
    """(notebook, Merge) of the file a learner works in; of a new one when there is no such file."""
    notebook = files.read_notebook(path) if path.exists() else {**files.EMPTY, "cells": []}
    merged = merge(notebook["cells"], cells, given if path.exists() else {})
    return {**notebook, "cells": merged.cells}, merged


def _report(name, merged, new) -> list[str]:
    """What happened to one notebook; nothing when nothing did."""
    if new:
        return [f"{name}: new."]
    happened = {"added": merged.added, "updated": merged.updated, "removed": merged.removed, "kept": merged.kept}
    told = [f"{name}: cells " + ", ".join(f"{len(ids)} {what}" for what, ids in happened.items() if ids) + "."]
    told = told if merged.changes else []
    if merged.differing:
        cells = ", ".join(merged.differing)
        told.append(f"{name}: the course changed cells that you had edited: {cells}. Yours are kept.")
        told.append("    To get the course's, delete yours and update again.")
    return told


def _assistants_page(root, folder, state) -> list[str]:
    """AGENTS.md, unless the learner has changed it; state["files"] remembers what they got."""
    source, target = root / "exercises" / FOR_ASSISTANTS, folder / FOR_ASSISTANTS
    if not source.exists():
        return []
    now, before = _print_of(source), state["files"].get(FOR_ASSISTANTS)
    if now == before or (target.exists() and _print_of(target) != before):
        return []
    state["files"][FOR_ASSISTANTS] = now
    files.write_text(target, source.read_text(encoding="utf-8"))
    return [f"{FOR_ASSISTANTS}: updated."]


def _print_of(path):
    return fingerprint({"cell_type": "raw", "source": path.read_text(encoding="utf-8")})


def _how_to_open(folder, root) -> str:
    """The command that opens JupyterLab where both the folder and the lessons can be seen."""
    if folder.is_relative_to(root):
        where = folder.relative_to(root).as_posix()
        return f"Open them with `make lab` (or `jupyter lab` in {_shown(root)}): they are in {where}/."
    above = os.path.commonpath([folder, root])
    return f'Open them with `jupyter lab --notebook-dir="{above}"`, so that the links to the lessons work.'


def _shown(path) -> str:
    """Relative to the current folder when it is below it."""
    here = Path.cwd().resolve()
    if path == here:
        return "this folder"
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else str(path)
