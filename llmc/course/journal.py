"""Which exercises are done: a small JSON file at the root of the checkout, and the board drawn from it.

    {"version": 1, "done": {"layernorm_forward": "2025-01-31T12:00:00+00:00"}}

Two notebooks may record at once: a lock file makes them take turns, and each reads the file again before it writes.
"""

import json
import os
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from llmc.course.board import Board
from llmc.course.catalog import all_exercises, checkout
from llmc.errors import UserError, atomic_write

PATIENCE = 2.0  # seconds to wait for the lock: it is held for milliseconds, so an older one belongs to a dead process
_recording = True


def recording(on: bool) -> bool:
    """Switch recording on or off for this kernel; returns what it was. Solution notebooks and tests switch it off."""
    global _recording
    was, _recording = _recording, on
    return was


def progress_file() -> Path:
    """LLMC_PROGRESS if set, else .progress.json at the root of the checkout, else in the current folder."""
    if os.environ.get("LLMC_PROGRESS"):
        return Path(os.environ["LLMC_PROGRESS"])
    return (checkout() or Path.cwd()) / ".progress.json"


def record(name: str) -> str:
    """Note that this exercise is done; return a few words about it for the success line. Never raises."""
    if not _recording:
        return ""
    try:
        with _turn(progress_file()) as path:
            done = read(path)
            done.setdefault(name, datetime.now(UTC).isoformat(timespec="seconds"))
            with atomic_write(path, "w") as file:
                json.dump({"version": 1, "done": done}, file, indent=1, sort_keys=True)
    except (UserError, OSError) as error:  # an answer is right even where nothing can be written
        return f"(Not recorded: {error})"
    return _standing(name, done)


def read(path: Path) -> dict:
    """{exercise: time}. A missing file is an empty one; a damaged one is kept as .bak, and we start afresh."""
    try:
        done = json.loads(path.read_text(encoding="utf-8"))["done"]
        return {str(name): str(when) for name, when in done.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError):
        path.replace(path.with_name(path.name + ".bak"))
        return {}


def progress() -> Board:
    """The board of all lessons: what is done, what is next, minutes left. Shown by a notebook, or with print()."""
    return Board(all_exercises(), set(read(progress_file())))


def _standing(name, done) -> str:
    """ "2 of 5 exercises of 01_layernorm done." """
    exercises = all_exercises()
    lesson = next((exercise.lesson for exercise in exercises if exercise.name == name), None)
    names = [exercise.name for exercise in exercises if exercise.lesson == lesson]
    return f"{sum(n in done for n in names)} of {len(names)} exercises of {lesson} done." if lesson else ""


@contextmanager
def _turn(path: Path):
    """Hold path.lock while reading and writing. O_EXCL is the one way to lock that all systems share."""
    lock = path.with_name(path.name + ".lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    while not _create(lock):
        if time.monotonic() - start > PATIENCE:
            lock.unlink(missing_ok=True)
            start = time.monotonic()
        time.sleep(0.02)
    try:
        yield path
    finally:
        lock.unlink(missing_ok=True)


def _create(lock: Path) -> bool:
    """Create the lock file; False when another process has it."""
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except (FileExistsError, PermissionError):  # Windows says PermissionError while the file is being deleted
        if not lock.exists() and not os.access(lock.parent, os.W_OK):
            raise
        return False
    return True
