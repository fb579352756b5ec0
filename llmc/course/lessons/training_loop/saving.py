"""Lesson 10: every folder that a crash may leave, what is wrong with a way to save, and a process that is killed.

A log is a list of ("write", name, data), ("sync", name), ("rename", old, new), ("remove", name), ("sync_folder",). The
rules: kill -9 keeps everything that was done. A power cut keeps, of each file, what was synced and any first part of
what was written since; of the folder, its changes up to its last sync and any first ones of those since.
"""

import subprocess
import sys
import time
from collections import namedtuple
from itertools import product
from types import SimpleNamespace

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import WrongAnswer

KILL, POWER = "7.1 · kill -9, for real", "7.2 · The power goes"
# operations of the log that were begun, whether the last was complete, {name: bytes} of the files that are left
Crash = namedtuple("Crash", "after done files")


def crashes(start, log, power):
    """Yield a Crash for every moment and for everything that may then be left.

    start: {name: bytes}, safe on the disk. power: a power cut; else kill -9.
    """
    folders = [{name: _file(data) for name, data in start.items()}]  # since the last sync of the folder; files shared
    for after, step in enumerate([(), *log]):
        for done in _perform(folders, *step):
            for folder in folders if power else folders[-1:]:
                for contents in product(*(_survivors(file, power) for file in folder.values())):
                    yield Crash(after, done, dict(zip(folder, contents)))


def _file(*pieces):
    """The pieces written since it was opened, and how many of them are surely on the disk."""
    return SimpleNamespace(pieces=[*pieces], safe=len(pieces))


def _survivors(file, power):
    """Every content of the file that a crash may leave now."""
    whole = len(file.pieces)
    return [b"".join(file.pieces[:n]) for n in range(file.safe if power else whole, whole + 1)]


def _perform(folders, kind="", name="", data=b""):
    """Change folders by one operation; yields False in the middle of it and True at its end. data: or the new name."""
    now = dict(folders[-1])
    if kind == "write":
        if name in now:  # opened again: the same file, emptied
            now[name].pieces, now[name].safe = [], 0
        else:
            now[name] = _file()
            folders.append(now)
        for piece in (data[: len(data) // 2], data[len(data) // 2 :]):
            yield False
            now[name].pieces.append(piece)
    elif kind == "sync":
        now[name].safe = len(now[name].pieces)
    elif kind == "sync_folder":
        del folders[:-1]
    elif kind:
        file = now.pop(name)
        folders.append(now | {data: file} if kind == "rename" else now)
    yield True


def folders(c):
    """{name: bytes} at the start, the name to save under, the data: with an old file of that name, and without."""
    others = {"main.log": b"s:0 trl:6.9\n", "tmp": b"notes", "temp": b"notes", "sweep.bin.tmp": b"another run's"}
    old, data = others | {"model.bin": b"old weights"}, bytes(c.rng.integers(97, 123, 8, dtype=np.uint8))
    yield from [
        (old, "model.bin", data),
        (others, "model.bin", data),
        (old, "state.bin", data),
        (old, "main.log", data),
    ]


def judge_saving(c, start, log, name, data) -> int:
    """How many crashes were tried; WrongAnswer if one of them, or the end, leaves what should not be there.

    start: {name: bytes} before. log: what was done to the disk.
    """
    kills, cuts = (list(crashes(start, log, power)) for power in (False, True))
    told, look, crash = _of_what_stays(start, log, name, data, cuts, kills[-1].files), POWER, None
    for event, some, section in (("a power cut", cuts, POWER), ("kill -9", kills, KILL)):
        damage = next((each for each in some if each.files.get(name) not in (start.get(name), data)), None)
        if damage:
            crash, look, left = damage, section, damage.files.get(name)
            left = "no file" if left is None else repr(left) if left else "an empty file"
            told = f"{event} may leave {left} under {name}"
    if told:
        raise WrongAnswer(told, more=plan(log, crash), look=c.exercise.place(look))
    return len(kills) + len(cuts)


def _of_what_stays(start, log, name, data, cuts, at_end):
    """A sentence if the data are not there, a power cut may undo that, or another file is touched or left over."""
    if at_end.get(name) != data:
        return f"after write_whole has returned, {name} should hold {data!r}, but it holds {at_end.get(name)!r}"
    if any(each.after == len(log) and each.done and each.files.get(name) != data for each in cuts):
        return "a power cut after write_whole has returned may undo it: call sync_folder() at the end"
    touched = [other for other in start if other != name and any(e.files.get(other) != start[other] for e in cuts)]
    if touched:
        return f"{touched[0]}, another file in the folder, does not survive: leave it alone"
    spare = at_end.keys() - start.keys() - {name}
    return f"{min(spare)} is left over at the end" if spare else None


def plan(log, crash=None) -> list[str]:
    """The steps as lines, with a mark where the crash comes."""
    lines = [f"    {k}  disk.{kind}({', '.join(map(repr, rest))})" for k, (kind, *rest) in enumerate(log, start=1)]
    if crash:
        lines[crash.after - 1] += f"   ← the crash comes {'right after' if crash.done else 'in the middle of'} this"
    return ["What was done:", *lines] if lines else []


def whole_after_kills(program, folder, how, times=10) -> int:
    """After how many of `times` kills (-9) in the middle of saving the file is whole.

    program: Python source that writes a file again and again; its arguments are the file's path and `how`.
    folder: a Path, where the file is. It is whole when it is as long as before, and all of its bytes are equal.
    """
    path, whole = folder / f"{how}.bin", 0
    for delay in np.random.default_rng(1).uniform(0.002, 0.03, times):  # seconds
        path.write_bytes(bytes(64 * 65536))  # the checkpoint before
        first = path.stat().st_mtime_ns
        process = subprocess.Popen([sys.executable, "-S", "-c", program, str(path), how])
        while path.stat().st_mtime_ns == first and process.poll() is None:
            time.sleep(0.001)  # until it has begun
        time.sleep(delay)
        process.kill()  # SIGKILL: the process cannot even notice
        process.wait()
        content = path.read_bytes()
        whole += len(content) == 64 * 65536 and content == content[:1] * len(content)
    return whole


Exercise("write_whole", "10", cases=folders, look=POWER)
