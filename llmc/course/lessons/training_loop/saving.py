"""Lesson 10, exercise 5: every folder that a crash may leave, and what is wrong with a way to save.

A log is a list of ("write", name, data), ("sync", name), ("rename", old, new), ("remove", name), ("sync_folder",). The
rules: kill -9 keeps everything that was done. A power cut keeps, of each file, what was synced and any first part of
what was written since; of the folder, its changes up to its last sync and any first ones of those since.
"""

from collections import namedtuple
from itertools import product
from types import SimpleNamespace

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import WrongAnswer

KILL, POWER = "7.1 · kill -9, for real", "7.2 · The power goes"
SYNC = "sync the temporary file before you rename it, because the new name may reach the disk before the bytes"


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
    at_end = kills[-1].files
    told, look, crash = _of_what_stays(start, log, name, data, cuts, at_end), POWER, None
    for event, some in (("a power cut", cuts), ("kill -9", kills)) if at_end.get(name) == data else ():
        damage = next((each for each in some if each.files.get(name) not in (start.get(name), data)), None)
        if damage:
            crash, found, look = damage, damage.files.get(name), POWER if event == "a power cut" else KILL
            left = "no file at all" if found is None else f"half a file, {found!r}," if found else "an empty file"
            told = f"{event} may leave {left} under {name}: {_why(start, log, name, event, crash)}"
    if told:
        raise WrongAnswer(told, more=plan(log, crash), look=c.exercise.place(look))
    return len(kills) + len(cuts)


def _why(start, log, name, event, crash) -> str:
    """Which step makes this crash possible, or which one is missing."""
    steps, last = [step[:2] for step in log], log[crash.after - 1]
    if crash.files.get(name) is None and name in start and last[:2] in [("remove", name), ("rename", name)]:
        return f"for a moment {name} is gone, and rename replaces the old file by itself"
    if ("write", name) in steps:
        return f"writing to {name} itself {'empties it first' if name in start else 'leaves a part of it there'}"
    if event == "kill -9":
        return "rename the temporary file once it is complete, not before"
    renamed = next(k for k, step in enumerate(log) if step[0] == "rename" and step[2] == name)
    synced = [step[1:] for step in steps[:renamed] if step[0] == "sync"]
    if (log[renamed][1],) in synced:
        return "sync the temporary file after its bytes are written, not before"
    late = "the sync comes too late: " * any(step[0] == "sync" for step in steps)
    return f"the file that was synced is not the one that was renamed: {SYNC}" if synced else late + SYNC


def _of_what_stays(start, log, name, data, cuts, at_end):
    """A sentence if the data are not there, if a power cut may undo that, if another file is touched, or left over."""
    if at_end.get(name) != data:
        there = f"it holds {at_end[name]!r}" if name in at_end else "there is no file of that name"
        return f"after write_whole has returned, {name} should hold {data!r}, but {there}"
    if any(each.after == len(log) and each.done and each.files.get(name) != data for each in cuts):
        left = "bring back the old file" if name in start else f"leave no file {name}"
        end = "sync_folder() at the end, which puts the new name on the disk"
        return f"a power cut after write_whole has returned may {left}: call {end}"
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


Exercise("write_whole", "10", cases=folders, look=POWER)
