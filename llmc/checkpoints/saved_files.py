"""The files of a checkpoint, whose names are llm.c's: which a folder holds, and whether they have changed since.

What DONE_%08d says about its checkpoint, as JSON: what the files contained, and how the run was trained.

    {"record": {"step": 200, "files": {"model_00000200.bin": SHA-256, …}, …}, "sha256": of the record}

llm.c only looks at the names in the folder (`find_max_step` in its llmc/utils.h), so it can resume from these
checkpoints as from its own. Its own DONE files are empty: they have no record, and nothing about them is checked. But
next to a settings.json with a digest, as our runs write it, an empty DONE counts as damaged.
"""

import json
import os
import re
from contextlib import suppress
from pathlib import Path

from llmc.errors import UserError
from llmc.files.atomic_write import atomic_write
from llmc.files.digest import digest, json_digest
from llmc.files.reading import opened

FINAL_MODEL = "model.bin"  # the model that a run leaves when it ends
DONE = re.compile(r"DONE_(\d{8,18})", re.ASCII)
# All the other files that a save writes, by their final or temporary names; the first number that matches is the step.
OURS = re.compile(
    r"\.?(?:model_(\d{8,18})\.bin|state_(\d{8,18})_\d{5}\.bin)(\.new)?(\.\w+\.tmp)?|\.DONE_(\d{8,18})(\.\w+\.tmp)",
    re.ASCII,
)


def model_path(folder, step: int) -> Path:
    """The file with the weights of a checkpoint."""
    return Path(folder) / f"model_{step:08d}.bin"


def state_path(folder, step: int, rank: int = 0) -> Path:
    """The file with the optimizer state of a checkpoint, or with one rank's part of it."""
    return Path(folder) / f"state_{step:08d}_{rank:05d}.bin"


def done_path(folder, step: int) -> Path:
    """The file that marks a checkpoint as complete."""
    return Path(folder) / f"DONE_{step:08d}"


def checkpoints(folder) -> list[int]:
    """The steps of all complete checkpoints in a folder, lowest first; empty if there is no such folder."""
    return [s for s in done_steps(folder) if model_path(folder, s).is_file() and state_path(folder, s).is_file()]


def latest_checkpoint(folder) -> int | None:
    """The step of the newest complete checkpoint; None if there is none."""
    return max(checkpoints(folder), default=None)


def done_steps(folder) -> list[int]:
    """The steps that have a DONE, lowest first."""
    return sorted(int(match[1]) for match in map(DONE.fullmatch, listed(folder)) if match)


def leftovers(folder) -> list[Path]:
    """The files of checkpoints without DONE, and files that never got their final names."""
    complete, found = done_steps(folder), []
    for match in filter(None, map(OURS.fullmatch, listed(folder))):
        step, temporary = match[1] or match[2] or match[5], match[3] or match[4] or match[6]
        if temporary or int(step) not in complete:
            found.append(Path(folder) / match[0])
    return found


def listed(folder) -> list[str]:
    """The names in a folder; empty if there is no such folder."""
    try:
        return os.listdir(folder)
    except OSError:  # it does not exist, or is not a folder
        return []


def write_record(path, record: dict):
    """Write a DONE file, under a temporary name until it is complete; record: {"step", "files": {name: SHA-256}, …}."""
    with atomic_write(path, "w") as file:
        json.dump({"record": record, "sha256": json_digest(record)}, file, indent=1)


def read_record(path) -> dict:
    """The record in a DONE file; {"files": {}} for an empty one. Raises UserError if the file is missing or damaged."""
    with opened(path) as file:
        raw = file.read()
    if not raw and not _is_ours(Path(path).parent):
        return {"files": {}}
    try:
        found = json.loads(raw)
        if found.keys() == {"record", "sha256"} and found["sha256"] == json_digest(found["record"]):
            return found["record"]
    except (ValueError, RecursionError, AttributeError):
        pass
    raise UserError(f"{path} has changed since it was saved; delete it to ignore its checkpoint.")


def _is_ours(folder) -> bool:
    """Whether this is one of our runs: then its settings hold a digest."""
    with suppress(OSError):
        return b'"sha256"' in (folder / "settings.json").read_bytes()
    return False


def check_checkpoint(folder, step: int) -> dict:
    """The record of a checkpoint, after checking that its model and state are unchanged.

    Raises UserError if they have changed, naming the file and the checkpoint to continue from instead.
    """
    path = damaged_file(folder, step)
    if path is None:
        return read_record(done_path(folder, step))
    earlier = [s for s in checkpoints(folder) if s < step and damaged_file(folder, s) is None]
    if not earlier:
        advice = "there is no earlier checkpoint, so restore the file from a copy, or start again"
    else:
        later = ", ".join(done_path(folder, s).name for s in checkpoints(folder) if s > earlier[-1])
        advice = f"to continue from step {earlier[-1]} instead, delete {later} in this folder"
    raise UserError(f"{path} has changed since it was saved; {advice}.")


def damaged_file(folder, step: int) -> Path | None:
    """The file of a checkpoint that has changed since it was saved; None if there is none, or if its DONE is empty."""
    done = done_path(folder, step)
    try:
        record = read_record(done)
    except UserError:
        return done
    if record.get("step", step) != step:  # the DONE of another checkpoint
        return done
    files = record["files"]
    paths = model_path(folder, step), *(state_path(folder, step, rank) for rank in range(record.get("parts", 1)))
    return next((path for path in paths if path.name in files and _differs(path, files[path.name])), None)


def _differs(path, known) -> bool:
    return not path.is_file() or digest(path) != known


def check_file(path) -> str | None:
    """The SHA-256 of a model or tokenizer that a checkpoint next to it has recorded; None if none has.

    Raises UserError if they recorded different contents.
    """
    path = Path(path)
    known = set().union(*(_digests(path, read_record(done)) for done in _marks(path)))
    if not known or None in known:
        return None
    found = digest(path)
    if found not in known:
        raise UserError(
            f"{path} has changed since it was saved; use another checkpoint of its run, or restore the file from"
            " a copy."
        )
    return found


def _marks(path):
    """Each DONE that may have recorded a file: that of its step or, for a file without a step, all in its folder."""
    match, folder = OURS.fullmatch(path.name), path.parent
    own = match and (match[1] or match[2])
    return [done_path(folder, step) for step in done_steps(folder) if not own or int(own) == step]


def _digests(path, record) -> set:
    """The digests that a record has for a file; {None} if it should have one but is empty."""
    files = record["files"]
    if not files:
        return {None}
    names = [path.name]
    if path.name == FINAL_MODEL:  # it is the model of the run's last step, or one that an earlier end of the run left
        names.append(model_path(path.parent, record["step"]).name)
    return {files[name] for name in names if name in files}
