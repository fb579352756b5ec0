"""Checkpoints of a run, by llm.c's protocol: model_%08d.bin, state_%08d_00000.bin, and last an empty DONE_%08d.

A checkpoint counts only with its DONE. Each file gets its name once it is complete and on the disk, and DONE comes
after the other two; when a checkpoint is removed, DONE goes first. So whenever a process is killed or the disk is full,
a checkpoint is whole or does not count, and the previous one is still there.
"""

import filecmp
import os
import re
from contextlib import contextmanager, suppress
from pathlib import Path

from llmc.checkpoints.model_file import read_model, write_model
from llmc.checkpoints.optimizer_state import TrainState, read_optimizer_state, write_optimizer_state
from llmc.errors import UserError, why

FINAL_MODEL = "model.bin"  # the model that a run leaves when it ends
DONE = re.compile(r"DONE_(\d{8,18})", re.ASCII)
# All the files that this module writes, by their final or temporary names; the first group that matches is the step.
OURS = re.compile(r"\.?(?:model_(\d{8,18})\.bin|state_(\d{8,18})_\d{5}\.bin)(\.new)?(\.\w+\.tmp)?", re.ASCII)


def model_path(folder, step: int) -> Path:
    """The file with the weights of a checkpoint."""
    return Path(folder) / f"model_{step:08d}.bin"


def state_path(folder, step: int) -> Path:
    """The file with the optimizer state of a checkpoint."""
    return Path(folder) / f"state_{step:08d}_00000.bin"


def done_path(folder, step: int) -> Path:
    """The empty file that marks a checkpoint as complete."""
    return Path(folder) / f"DONE_{step:08d}"


def checkpoints(folder) -> list[int]:
    """Steps of all complete checkpoints in a folder, lowest first; empty when there is no such folder."""
    return sorted(s for s in _done(folder) if model_path(folder, s).is_file() and state_path(folder, s).is_file())


def latest_checkpoint(folder) -> int | None:
    """Step of the newest complete checkpoint; None when there is none."""
    return max(checkpoints(folder), default=None)


def newest_model(folder) -> Path | None:
    """The file with the newest weights of a run folder: model.bin or its newest checkpoint's; None without either.

    While a finished run is continued, its model.bin stays until there is a new one, so a checkpoint can be newer.
    """
    final, step = Path(folder) / FINAL_MODEL, latest_checkpoint(folder)
    files = [final] * final.is_file() + ([] if step is None else [model_path(folder, step)])
    return max(files, key=lambda path: path.stat().st_mtime_ns, default=None)  # model.bin, when both are as new


def load_checkpoint(folder, step: int, backend="numpy"):
    """(model, TrainState) of a complete checkpoint: weights, AdamW's moments and step, and the state of the run.

    Raises UserError when there is no such checkpoint, or when one of its files is damaged.
    """
    if step not in checkpoints(folder):
        there = ", ".join(map(str, checkpoints(folder))) or "none"
        raise UserError(f"{folder} holds no complete checkpoint of step {step}; its complete steps: {there}.")
    model = read_model(model_path(folder, step), backend)
    state = read_optimizer_state(state_path(folder, step), model)
    if state.step != step:
        raise UserError(f"{state_path(folder, step)} is damaged: it claims step {state.step}; use another checkpoint.")
    return model, state


def save_checkpoint(folder, model, state: TrainState, keep: int = 0) -> int:
    """Write the checkpoint of state.step, then remove all but the newest `keep` (0 keeps all); returns the step.

    Half-written files of killed processes are removed too. An existing checkpoint of this step is left alone when it is
    identical, and replaced as a whole otherwise. Raises UserError when a file cannot be written; then all the older
    checkpoints remain, and nothing new.
    """
    folder, step = Path(folder), state.step
    new = [path.with_name(path.name + ".new") for path in (model_path(folder, step), state_path(folder, step))]
    with _reporting_errors(folder):
        _remove_leftovers(folder)
        try:
            write_model(new[0], model)
            write_optimizer_state(new[1], model, state)
            _publish(folder, step, new)
        finally:
            _remove_leftovers(folder)
    older = [s for s in checkpoints(folder) if s < step]
    for s in older[: max(0, len(older) + 1 - keep)] if keep else ():
        _remove(folder, s)
    return step


def _publish(folder, step, new):
    """Give the complete files `new` their names, then add DONE. An existing step with the same bytes stays."""
    names = [model_path(folder, step), state_path(folder, step)]
    if step in checkpoints(folder) and all(filecmp.cmp(*pair, shallow=False) for pair in zip(new, names)):
        return
    done_path(folder, step).unlink(missing_ok=True)
    _sync(folder)
    for path, name in zip(new, names):
        path.replace(name)
    _sync(folder)  # both names must be on the disk before DONE
    done_path(folder, step).touch()
    _sync(folder)


def _remove(folder, step):
    """Remove a checkpoint, DONE first, so that what is left after an interruption does not count."""
    with suppress(OSError):  # one old checkpoint too many does no harm
        done_path(folder, step).unlink()
        _sync(folder)
        _remove_leftovers(folder)


def _remove_leftovers(folder):
    """Delete the files of checkpoints without DONE, and those that never got their final names."""
    complete = _done(folder)
    for match in filter(None, map(OURS.fullmatch, _names(folder))):
        if match[3] or match[4] or int(match[1] or match[2]) not in complete:
            with suppress(OSError):
                (Path(folder) / match[0]).unlink()


def _done(folder):
    """Steps that have a DONE."""
    return {int(match[1]) for match in map(DONE.fullmatch, _names(folder)) if match}


def _names(folder):
    try:
        return os.listdir(folder)
    except OSError:  # it does not exist, or is not a folder
        return []


@contextmanager
def _reporting_errors(folder):
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot save in {folder}: {why(error)}; free some space or choose another folder.") from error


def _sync(folder):
    """Make the names in the folder durable. Windows has no such call."""
    if os.name != "nt":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
