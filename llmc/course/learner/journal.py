"""Which exercises are done, which were worked on and when, how many hints were seen: a small JSON file.

    {"version": 1, "done": {"layernorm_forward": "2025-01-31T12:00:00+00:00"}, "hints": {"layernorm_backward": 2},
     "worked": {"layernorm_forward": "2025-01-31T12:00:00+00:00", "layernorm_backward": "2025-02-01T09:30:00+00:00"}}

It lies at the root of the checkout. Two notebooks may record at once: a lock file makes them take turns, and each reads
the file again before it writes.
"""

import json
import os
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from llmc.course.exercises.catalog import all_exercises
from llmc.course.exercises.layout import checkout
from llmc.course.learner import board
from llmc.errors import UserError
from llmc.files.atomic_write import atomic_write
from llmc.files.checked_json import Damaged, read_json

PATIENCE = 2.0  # seconds to wait for the lock; held for milliseconds, an older one is left from a process that died
STORED = {"done": {str: str}, "worked": ({str: str}, None), "hints": ({str: int}, None)}
_recording = True
_seen = {}  # {exercise: number of hints} of this session


def recording(on: bool) -> bool:
    """Switch recording on or off for this kernel and return what it was. Solution notebooks and tests switch it off."""
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
            state["worked"][name] = _now()
            state["done"].setdefault(name, state["worked"][name])
    except (UserError, OSError) as error:  # an answer is right even where nothing can be written
        return f"(Not recorded: {error})"
    board.redraw(state["done"], state["worked"])
    return _standing(name, state["done"])


def record_try(name: str):
    """Note that this exercise was worked on just now, without success yet. Never raises."""
    if _recording:
        with suppress(UserError, OSError), _change(progress_file()) as state:
            state["worked"][name] = _now()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def hints_seen(name: str) -> int:
    """How many hints of this exercise were seen so far."""
    kept = 0
    if _recording:
        with suppress(UserError, OSError):
            kept = read(progress_file())["hints"].get(name, 0)
    return max(_seen.get(name, 0), kept)


def record_hint(name: str, count: int):
    """Note that `count` hints were seen: in the file, or for this session only where nothing can be written."""
    _seen[name] = count
    if _recording:
        with suppress(UserError, OSError), _change(progress_file()) as state:
            state["hints"][name], state["worked"][name] = count, _now()


def read(path: Path) -> dict:
    """{"done": {exercise: time}, "worked": {exercise: time}, "hints": {exercise: number}}.

    A missing file counts as an empty one; a damaged one is kept as .bak, which we say, and we start afresh. Raises
    UserError for what is not a regular file, and leaves it alone.
    """
    if not path.exists():
        return {"done": {}, "worked": {}, "hints": {}}
    try:
        stored = read_json(path, STORED, "give another file in LLMC_PROGRESS")
        worked = stored["done"] if stored.get("worked") is None else stored["worked"]
        return {"done": stored["done"], "worked": dict(worked), "hints": stored.get("hints") or {}}
    except Damaged:
        aside = path.with_name(path.name + ".bak")
        path.replace(aside)
        print(f"{path} was damaged, so your progress begins afresh; the damaged file is now {aside.name}.")
    return {"done": {}, "worked": {}, "hints": {}}


@contextmanager
def _change(path: Path):
    """The file's content as a dict; the block changes it, and the result is stored."""
    with _turn(path):
        state = read(path)
        yield state
        with atomic_write(path, "w") as file:
            json.dump({"version": 1, **state}, file, indent=1, sort_keys=True)


def progress() -> board.Board:
    """The board of all lessons: what is done, what is next, the time left. Shown by a notebook, or with print()."""
    state = read(progress_file())
    return board.Board(all_exercises(), state["done"], state["worked"])


def _standing(name, done) -> str:
    """ "2 of 5 exercises of 01_layernorm done." """
    exercises = all_exercises()
    lesson = next((exercise.lesson for exercise in exercises if exercise.name == name), None)
    names = [exercise.name for exercise in exercises if exercise.lesson == lesson]
    return f"{sum(n in done for n in names)} of {len(names)} exercises of {lesson} done." if lesson else ""


@contextmanager
def _turn(path: Path):
    """Hold path.lock while reading and writing. O_EXCL is the one kind of lock that all systems share."""
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
