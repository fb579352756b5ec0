"""`git pull` for a checkout in which somebody has run or edited notebooks, where git by itself would refuse.

The notebooks that differ from the last commit step aside, git pulls, and each comes back: as it was where the course
has not changed it, merged cell by cell where it has (merging.py). One that was only run becomes the course's. Until all
is done, a second copy of each lies in .git/llmc-update/.
"""

import shutil
import subprocess
from pathlib import Path

from llmc.course.exercises.layout import FOLDERS
from llmc.course.exercises.merging import fingerprints, merge
from llmc.course.exercises.own_files import as_notebook, read_notebook, to_json, write_bytes, write_text
from llmc.errors import UserError
from llmc.terminal import pip


def is_clone(root: Path) -> bool:
    """Is this the root of a git repository that pulls from another one? (An unpacked archive is not.)"""
    if shutil.which("git") is None or _git(root, "rev-parse", "--show-prefix").stdout.strip():
        return False
    return _git(root, "rev-parse", "@{upstream}").returncode == 0


def pull(root: Path) -> list[str]:
    """Pull, and keep what was written into notebooks; returns lines that say what was done.

    Raises UserError with git's own words when git refuses; the notebooks are then as they were.
    """
    before, packages = _head(root), (root / "pyproject.toml").read_bytes()
    mine = {path: (root / path).read_bytes() for path in _changed(root)}
    for path in mine:
        read_notebook(root / path)  # raises before anything is touched
    aside = root / _git(root, "rev-parse", "--git-path", "llmc-update").stdout.decode().strip()
    if aside.exists():
        raise UserError(f"an earlier update was killed, and {aside} holds your notebooks; move that folder away first.")
    _write_all(aside, mine)
    try:
        news = _pull_without(root, mine)
    except BaseException:
        _write_all(root, mine)
        shutil.rmtree(aside, ignore_errors=True)
        raise
    shutil.rmtree(aside, ignore_errors=True)
    if before == _head(root):
        return ["The course has nothing new."]
    count = _git(root, "rev-list", "--count", f"{before}..HEAD").stdout.decode().strip()
    news.insert(0, f"The course has changed ({count} commit{'s' * (count != '1')}).")
    if packages != (root / "pyproject.toml").read_bytes():
        news.append(f"Its packages may have changed too: run `{pip('install', '-e', '.')}` in {root}.")
    return news


def _pull_without(root, mine) -> list[str]:
    """Pull while the changed notebooks are as in the last commit, then bring each back."""
    base = {path: _git(root, "show", f"HEAD:{path}").stdout for path in mine}
    for path in mine:
        as_notebook(base[path], f"{path} as last committed")
    if mine:
        _git(root, "checkout", "--quiet", "HEAD", "--", *mine)
    done = _git(root, "pull", "--ff-only", "--quiet")
    if done.returncode:
        words = done.stderr.decode(errors="replace").split()
        raise UserError(f"git could not pull: {' '.join(words) or 'it gave no reason'}")
    return [line for path in mine for line in _bring_back(root / path, path, mine[path], base[path])]


def _bring_back(target, name, mine, base) -> list[str]:
    """One notebook after the pull; returns what to say about it. mine, base: the file before, and as committed then."""
    if target.exists() and target.read_bytes() == base:
        write_bytes(target, mine)
        return []
    old, given = as_notebook(mine, name), fingerprints(as_notebook(base, name)["cells"])
    if fingerprints(old["cells"]) == given:
        return []  # it was only run
    if not target.exists():
        write_bytes(target, mine)
        return [f"{name} is no longer part of the course; yours is kept."]
    merged = merge(old["cells"], read_notebook(target)["cells"], given)
    write_text(target, to_json({**old, "cells": merged.cells}))
    return [f"{name}: {line}" for line in merged.report()]


def _changed(root) -> list[str]:
    """The course's notebooks that differ from the last commit."""
    listed = _git(root, "diff", "--name-only", "--diff-filter=M", "-z", "HEAD", "--", *FOLDERS).stdout.decode()
    return [path for path in listed.split("\0") if path.endswith(".ipynb")]


def _head(root) -> str:
    return _git(root, "rev-parse", "HEAD").stdout.decode().strip()


def _write_all(folder, files):
    for path, data in files.items():
        write_bytes(folder / path, data)


def _git(root, *words):
    return subprocess.run(["git", *words], cwd=root, capture_output=True)
