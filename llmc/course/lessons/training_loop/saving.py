"""Lesson 10, saving: every folder that a crash may leave, and what is wrong with a way to save.

A log is a list of ("write", name, data), ("sync", name), ("rename", old, new), ("remove", name), ("sync_folder",). The
rules: kill -9 keeps everything that was done. A power cut keeps, of each file, what was synced and any first part of
what was written since; of the folder, its changes up to its last sync and any first ones of those since.
"""

from dataclasses import dataclass
from itertools import product

from llmc.course.old.checks.explain import WrongAnswer

# where to look; a test compares these titles with the headings of notebooks/10_training_loop.ipynb
POWER = 'lesson 10, section "7.2 · The power goes"'
KILL = 'lesson 10, section "7.1 · kill -9, for real"'
FOLDER_SYNC = "sync_folder() at the end, which puts the new name on the disk"
EMPTIES = "each write begins the file anew, so that only the last piece is in it: write all the data in one call"
SYNC = "sync the temporary file before you rename it: the new name may reach the disk before the bytes do"


class File:
    """The pieces written to a file since it was opened, and how many of them are surely on the disk."""

    def __init__(self, *pieces):
        self.pieces, self.safe = list(pieces), len(pieces)

    def survivors(self, power):
        """Every content that a crash may leave now."""
        first = self.safe if power else len(self.pieces)
        return [b"".join(self.pieces[:n]) for n in range(first, len(self.pieces) + 1)]


@dataclass
class Crash:
    """after: how many operations of the log were begun · done: whether the last was complete · files: {name: bytes}."""

    after: int
    done: bool
    files: dict


def crashes(start, log, power):
    """Yield a Crash for every moment and for everything that may then be left.

    start: {name: bytes}, safe on the disk. power: a power cut; else kill -9.
    """
    folders = [{name: File(data) for name, data in start.items()}]  # since the last sync of the folder; files shared
    yield from _left(folders, power, 0, True)
    for number, (kind, *rest) in enumerate(log, start=1):
        for done in _perform(folders, kind, rest):
            yield from _left(folders, power, number, done)


def _left(folders, power, after, done):
    for folder in folders if power else folders[-1:]:
        for contents in product(*(file.survivors(power) for file in folder.values())):
            yield Crash(after, done, dict(zip(folder, contents)))


def _perform(folders, kind, rest):
    """Change folders by one operation; yields False in the middle of it and True at its end."""
    now = dict(folders[-1])
    if kind == "write":
        name, data = rest
        if name in now:  # opened again: the same file, emptied
            now[name].pieces, now[name].safe = [], 0
        else:
            now[name] = File()
            folders.append(now)
        yield False
        half = len(data) // 2
        now[name].pieces.append(data[:half])
        yield False
        now[name].pieces.append(data[half:])
    elif kind == "sync":
        now[rest[0]].safe = len(now[rest[0]].pieces)
    elif kind == "sync_folder":
        del folders[:-1]
    else:
        file = now.pop(rest[0])
        folders.append(now | {rest[1]: file} if kind == "rename" else now)
    yield True


# ---------------------------------------------------------------------------------------------- what is wrong with it


def explain_saving(start, log, name, data):
    """What is wrong with a way to save `data` under `name`, as a sentence and where it happens; None when it is right.

    start: {name: bytes}, what was in the folder, with or without an old file of that name.
    """
    if not log:
        return "nothing was done to the disk"
    at_end = _at_end(start, log)
    if at_end.get(name) != data:
        there = "there is no file of that name" if name not in at_end else f"it holds {at_end[name]!r}"
        told = f"after write_whole has returned, {name} should hold {data!r}, but {there}"
        if _in_pieces(log, data, at_end.get(name)):
            raise WrongAnswer(f"{told}: {EMPTIES}.\n{plan(log)}", explained=True)
        return f"{told}.\n{plan(log)}"
    for event, power in (("kill -9", False), ("a power cut", True)):
        for crash in crashes(start, log, power):
            found = crash.files.get(name)
            if found not in (start.get(name), data):
                return _damage(start, log, name, event, crash, found)
    for crash in crashes(start, log, power=True):
        if crash.after == len(log) and crash.done and crash.files.get(name) != data:
            left = "bring back the old file" if name in start else f"leave no file {name}"
            too = "" if name in start else ", where there was none before, too"
            return f"a power cut after write_whole has returned may {left}: call {FOLDER_SYNC}{too}.\n{plan(log)}"
        for other in start.keys() - {name}:
            if crash.files.get(other) != start[other]:
                return f"{other}, another file in the folder, does not survive: leave it alone.\n{plan(log)}"
    spare = at_end.keys() - start.keys() - {name}
    if spare:
        return f"{min(spare)} is left over at the end.\n{plan(log)}"
    return None


def _in_pieces(log, data, left) -> bool:
    """Was `data` written in several pieces, one after the other, under the same name, and is the last what is left?"""
    written = {}  # {name: pieces}
    for _, name, piece in (step for step in log if step[0] == "write"):
        written.setdefault(name, []).append(piece)
    return any(pieces[-1] == left and b"".join(pieces) == data for pieces in written.values())


def _at_end(start, log):
    """{name: bytes} when nothing crashes."""
    return list(crashes(start, log, power=False))[-1].files


def _synced_too_early(log, name) -> bool:
    """Was the file that became `name` synced, but not after it was written?"""
    at = next(k for k, step in enumerate(log) if step[0] == "rename" and step[-1] == name)
    steps = [kind for kind, file, *_ in (step for step in log[:at] if len(step) > 1) if file == log[at][1]]
    return "sync" in steps and steps[-1] == "write"


def _damage(start, log, name, event, crash, found):
    """The sentence for a crash that leaves neither the old file nor the new one."""
    old = start.get(name)
    what = "no file at all" if found is None else "an empty file" if not found else f"half a file, {found!r}"
    kinds, where = [kind for kind, *_ in log], KILL
    moved_away = found is None and crash.after and log[crash.after - 1][:2] == ("rename", name)
    if ("write", name) in [step[:2] for step in log] and event == "kill -9" and not moved_away:
        early = "itself empties it first" if name in start else "itself leaves a part of it there"
        why = f"writing to {name} {early}"
    elif found is None and old is not None:
        why = f"for a moment {name} is gone: rename replaces the old file by itself"
        told = f"{event} may leave no file at all under {name}: {why}.\n→ Where to look: {where}.\n{plan(log, crash)}"
        raise WrongAnswer(told, explained=True)
    elif event == "a power cut" and "sync" not in kinds:
        why, where = f"{SYNC}", POWER
    elif event == "a power cut" and kinds.index("sync") > kinds.index("rename"):
        why, where = f"the sync comes too late: {SYNC}", POWER
    elif event == "a power cut" and _synced_too_early(log, name):
        why, where = "sync the temporary file after its bytes are written, not before", POWER
    elif event == "a power cut":
        why, where = f"the file that was synced is not the one that was renamed: {SYNC}", POWER
    else:
        why = "rename the temporary file once it is complete, not before"
    return f"{event} may leave {what} under {name}: {why}.\n→ Where to look: {where}.\n{plan(log, crash)}"


def plan(log, crash=None) -> str:
    """The operations as lines, with a mark where the crash happens."""
    lines = []
    for number, (kind, *rest) in enumerate(log, start=1):
        arguments = ", ".join(repr(part) for part in rest)
        mark = ""
        if crash is not None and crash.after == number:
            mark = (
                "   ← the crash comes right after this" if crash.done else "   ← the crash comes in the middle of this"
            )
        lines.append(f"    {number}  disk.{kind}({arguments}){mark}")
    return "\n".join(["What was done:", *lines])
