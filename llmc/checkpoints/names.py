"""The names of a checkpoint's files, which are llm.c's, and the checkpoints that a folder holds."""

import os
import re
from pathlib import Path

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
    """The file that marks a checkpoint as complete; record.py describes its contents."""
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
