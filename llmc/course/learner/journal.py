"""Which exercises are done, and how many hints were seen: a small JSON file at the root of the checkout.

    {"version": 1, "done": {"layernorm_forward": "2025-01-31T12:00:00+00:00"}, "hints": {"layernorm_backward": 2}}

Two notebooks may record at once: a lock file makes them take turns, and each reads the file again before it writes.
"""

import json
import os
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from llmc.course.exercises.catalog import all_exercises, checkout
from llmc.course.learner import board
from llmc.errors import UserError
from llmc.files.atomic_write import atomic_write

PATIENCE = 2.0  # seconds to wait for the lock: it is held for milliseconds, so an older one belongs to a dead process
_recording = True
_seen = {}  # {exercise: number of hints} of this session


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
        with _change(progress_file()) as state:
            state["done"].setdefault(name, datetime.now(UTC).isoformat(timespec="seconds"))
    except (UserError, OSError) as error:  # an answer is right even where nothing can be written
        return f"(Not recorded: {error})"
    board.redraw(state["done"])
    return _standing(name, state["done"])


def hints_seen(name: str) -> int:
    """How many hints of this exercise were asked for so far."""
    return max(_seen.get(name, 0), _load(progress_file())["hints"].get(name, 0) if _recording else 0)


def record_hint(name: str, count: int):
    """Note that `count` hints were seen: in the file, or for this session where nothing can be written."""
    _seen[name] = count
    if _recording:
        with suppress(UserError, OSError), _change(progress_file()) as state:
            state["hints"][name] = count


def read(path: Path) -> dict:
    """{exercise: time}. A missing file is an empty one; a damaged one is kept as .bak, and we start afresh."""
    return _load(path)["done"]


def _load(path: Path) -> dict:
    """{"done": {exercise: time}, "hints": {exercise: number}}."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        done = {str(name): str(when) for name, when in stored["done"].items()}
        return {"done": done, "hints": {str(name): int(n) for name, n in stored.get("hints", {}).items()}}
    except (FileNotFoundError, NotADirectoryError):
        return {"done": {}, "hints": {}}
    except (ValueError, KeyError, TypeError, AttributeError):
        path.replace(path.with_name(path.name + ".bak"))
        return {"done": {}, "hints": {}}


@contextmanager
def _change(path: Path):
    """The file's content as a dict; what the block makes of it is stored."""
    with _turn(path):
        state = _load(path)
        yield state
        with atomic_write(path, "w") as file:
            json.dump({"version": 1, **state}, file, indent=1, sort_keys=True)


def progress() -> board.Board:
    """The board of all lessons: what is done, what is next, minutes left. Shown by a notebook, or with print()."""
    return board.Board(all_exercises(), set(read(progress_file())), board.path_from_here)


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
        yield
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
