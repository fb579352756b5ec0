"""`git pull` for a checkout in which somebody has run or edited notebooks, where git by itself would refuse.

What was written never leaves its place. After a fetch, each notebook that both the learner and the course have changed
is merged where it lies (merging.py), the index says that git need not write it, and git moves on. If it is killed
anywhere in between, the next pull does the same again, with the same result.
"""

import shutil
import subprocess
from functools import cache
from os import environ
from pathlib import Path
from subprocess import PIPE

from llmc.course.exercises.merging import fingerprints, merge
from llmc.course.exercises.own_files import as_notebook, read_bytes, read_notebook, to_json, write_over
from llmc.errors import UserError
from llmc.terminal import pip

NEW = "@{upstream}"


def is_clone(root: Path) -> bool:
    """Is this the root of a git repository that pulls from another one? (An unpacked archive is not.)

    Raises UserError with git's own words where it refuses the folder, which may be another user's.
    """
    if shutil.which("git") is None or not (root / ".git").exists():
        return False
    _run(root, "rev-parse", "--git-dir")
    return _git(root, "rev-parse", NEW).returncode == 0


def commit(root: Path) -> str:
    """What is checked out there, as git shortens it; "" where there is no repository, or no git."""
    if shutil.which("git") is None or not (root / ".git").exists():
        return ""
    return _git(root, "rev-parse", "--verify", "--short", "HEAD").stdout.decode(errors="replace").strip()


def pull(root: Path) -> list[str]:
    """Pull, and keep what was written into notebooks; returns lines that say what was done.

    Raises UserError with git's own words when git refuses; the notebooks are then as they were.
    """
    packages = (root / "pyproject.toml").read_bytes()
    _run(root, "fetch", "--quiet")
    count = _run(root, "rev-list", "--count", f"HEAD..{NEW}").strip()
    if count == "0":
        return ["The course has nothing new."]
    news = [f"The course has changed ({count} commit{'s' * (count != '1')}).", *_move_on(root)]
    if packages != (root / "pyproject.toml").read_bytes():
        news.append(f"Its packages may have changed too: run `{pip('install', '-e', '.')}` in {root}.")
    return news


def _move_on(root) -> list[str]:
    """Merge what both have changed, and let git bring the rest; returns what to say about each."""
    both, done = _met(root)
    for path in both:
        read_notebook(root / path)  # raises before anything is touched
    _run(root, "update-index", "-z", "--index-info", stdin="".join(entry + "\0" for entry in done))
    news, written = [], {}
    try:
        for path, blobs in both.items():
            base, course = (_git(root, "cat-file", "blob", blob).stdout for blob in blobs)
            mine, merged, lines = _bring(root / path, base, course)
            written[root / path] = merged, mine
            news += [f"{path}: {line}" for line in lines]
        _run(root, "merge", "--ff-only", "--quiet", NEW)
    except UserError:
        _git(root, "reset", "--quiet")
        for path, (merged, mine) in written.items():
            write_over(path, merged, mine)
        raise
    return news


def _met(root) -> tuple[dict, list]:
    """Of what the course has changed: {notebook that also differs here: (old, new blob)}, and entries for the index.

    The index gets these notebooks, and what a killed git has written already.
    """
    rows = _run(root, "diff", "--raw", "--no-abbrev", "--no-renames", "-z", "HEAD", NEW).split("\0")
    rows = {path: row[1:].split() for row, path in zip(rows[::2], rows[1::2]) if (root / path).is_file()}
    here = _run(root, "hash-object", "--stdin-paths", stdin="".join(path + "\n" for path in rows)).split()
    both, done = {}, []
    for (path, (mode, new_mode, old, new, _)), now in zip(rows.items(), here):
        if path.endswith(".ipynb") and now not in (old, new) and int(old, 16):
            both[path] = old, new
        if path in both and not int(new, 16):
            done.append(f"{mode} {old}\t{path}")
        elif path in both or now == new:
            done.append(f"{new_mode} {new}\t{path}")
    return both, done


def _bring(path, base, course) -> tuple[bytes, bytes, list]:
    """Merge one notebook where it lies, and again if it is saved meanwhile: what it was, what it is, what to say.

    base: the file as committed here, course: as it is now, empty where the course has dropped it.
    """
    mine = read_bytes(path)
    cells, given = as_notebook(mine, path)["cells"], fingerprints(as_notebook(base, path)["cells"])
    new, lines = course or base, []  # where it was only run, or git is to drop it
    if fingerprints(cells) != given and course:
        merged = merge(cells, as_notebook(course, path)["cells"], given)
        new, lines = to_json({**as_notebook(mine, path), "cells": merged.cells}).encode(), merged.report()
    elif fingerprints(cells) != given:
        own = path.with_name(f"yours_{path.name}")
        while not write_over(own, None, mine):
            own = own.with_name(f"yours_{own.name}")
        lines = [f"no longer part of the course; yours is now {own.name}."]
    return (mine, new, lines) if write_over(path, mine, new) else _bring(path, base, course)


def _run(root, *words, stdin="") -> str:
    """What git prints. Raises UserError with its own words when it refuses."""
    done = _git(root, *words, stdin=stdin)
    if done.returncode:
        told = " ".join(done.stderr.decode(errors="replace").split())
        raise UserError(f"git could not pull: {told or 'it gave no reason'}")
    return done.stdout.decode(errors="replace")


def _git(root, *words, stdin=""):
    """A fetch may ask for a password, and ends with Ctrl-C; what writes here runs to its end, whatever ends us."""
    how = {"cwd": root, "env": _environment(), "start_new_session": words[0] != "fetch"}
    with subprocess.Popen(["git", *words], stdin=PIPE, stdout=PIPE, stderr=PIPE, **how) as git:
        out, err = git.communicate(stdin.encode())
    return subprocess.CompletedProcess(words, git.returncode, out, err)


def _environment() -> dict:
    """This process's, without what would lead git to a repository other than the one in the folder."""
    return {name: value for name, value in environ.items() if name not in _names_of_a_repository()}


@cache
def _names_of_a_repository() -> list:
    """The variables that git itself calls those of one repository: GIT_DIR, GIT_INDEX_FILE and others."""
    return subprocess.run(["git", "rev-parse", "--local-env-vars"], capture_output=True, text=True).stdout.split()
