"""Checkpoints of a run, following llm.c's protocol: model_%08d.bin, state_%08d_00000.bin, and finally DONE_%08d.

Ranks that share the optimizer's state (ZeRO-1) each write a state file: state_%08d_00001.bin and so on.

A checkpoint counts only with its DONE, which also holds the digests of the other two files (saved_files.py). Each file
gets its name once it is complete and on disk, and DONE comes last; when a checkpoint is removed, DONE goes first. So
even if a process is killed or the disk is full, a checkpoint is either complete or does not count, and the previous one
still exists; and if a file changes later, that is noticed before it is used.
"""

import filecmp
import os
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from llmc.checkpoints.model_file import read_model, write_model
from llmc.checkpoints.optimizer_state import TrainState, read_optimizer_state, write_optimizer_state
from llmc.checkpoints.saved_files import (
    FINAL_MODEL,
    check_checkpoint,
    check_file,
    checkpoints,
    done_path,
    latest_checkpoint,
    leftovers,
    model_path,
    read_record,
    state_path,
    write_record,
)
from llmc.errors import UserError, cannot
from llmc.files.digest import digest


def newest_model(folder) -> Path | None:
    """The file with a run folder's newest weights: model.bin or the newest checkpoint's model; None if there is
    neither.

    While a finished run is continued, its model.bin stays until there is a new one, so a checkpoint can be newer: then
    its record mentions that model.bin. For llm.c's checkpoints, which have no record, the file's time decides.
    """
    final, step = Path(folder) / FINAL_MODEL, latest_checkpoint(folder)
    newest = None if step is None else model_path(folder, step)
    if newest is None or not final.is_file():
        return final if final.is_file() else newest
    known = {}
    with suppress(UserError):  # a damaged one; who reads the model says so
        known = read_record(done_path(folder, step))["files"]
    if known:  # only a continued run knows an older model.bin; of others nothing is hashed
        return newest if FINAL_MODEL in known and known[FINAL_MODEL] == digest(final) else final
    return max([final, newest], key=saved_at)


def saved_at(path) -> int:
    """When a file was written, in ns; -1 if a run in progress has removed it meanwhile."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return -1


def load_model(path, backend="numpy", precision="fp32", master_weights=True):
    """The model in an llm.c file. Raises UserError like `read_model`, and if it has changed since its run saved it."""
    check_file(path)
    return read_model(path, backend, precision, master_weights)


def load_checkpoint(folder, step: int, backend="numpy", precision="fp32", master_weights=True, part=(0, 1)):
    """(model, TrainState) of a complete checkpoint: weights, AdamW's moments and step, and the run's state.

    part: which part of the moments to load, see `GPT2.keep_part`; it does not matter how many parts were saved.

    Raises UserError if there is no such checkpoint, or if one of its files has changed since it was saved.
    """
    if step not in checkpoints(folder):
        steps = ", ".join(map(str, checkpoints(folder))) or "none"
        raise UserError(f"{folder} holds no complete checkpoint of step {step}; complete checkpoints there: {steps}.")
    record = check_checkpoint(folder, step)
    model = read_model(model_path(folder, step), backend, precision, master_weights)
    model.keep_part(*part)
    state = read_optimizer_state(state_path(folder, step), model)
    if state.step != step:
        raise UserError(
            f"{state_path(folder, step)} is damaged: it claims to be of step {state.step}; use another checkpoint."
        )
    return model, replace(state, about=record)


def save_checkpoint(folder, model, state: TrainState, keep: int = 0, others=dict) -> int:
    """Write the checkpoint of state.step, then remove all but the newest `keep` checkpoints (0 keeps all); returns the
    step.

    Half-written files of killed processes are removed too. An existing checkpoint of this step is left alone if it is
    identical, and replaced as a whole otherwise. Raises UserError if a file cannot be written; then all older
    checkpoints remain, and nothing new is left.
    others: a function that has the other ranks call `save_part`, and returns {rank: SHA-256}.
    """
    folder, step = Path(folder), state.step
    names = [model_path(folder, step), state_path(folder, step)]
    with _reporting_errors(folder):
        _remove_leftovers(folder)
        try:
            digests = [write_model(new_name(names[0]), model), write_optimizer_state(new_name(names[1]), model, state)]
            for rank, of_part in others().items():
                names.append(state_path(folder, step, rank))
                digests.append(of_part)
            _publish(folder, step, names, digests, {**state.about, "parts": model.part[1]})
        finally:
            _remove_leftovers(folder)
    older = [s for s in checkpoints(folder) if s < step]
    for s in older[: max(0, len(older) + 1 - keep)] if keep else ():
        _remove(folder, s)
    return step


def save_part(folder, model, state: TrainState) -> str:
    """Add the part of the optimizer's state that a rank other than 0 has to a checkpoint; returns the SHA-256."""
    with _reporting_errors(folder):
        return write_optimizer_state(new_name(state_path(folder, state.step, model.part[0])), model, state)


def new_name(path):
    """A file's name until the whole checkpoint is complete."""
    return path.with_name(path.name + ".new")


def _publish(folder, step, names, digests, about):
    """Give the complete files their final names, then add DONE. An existing checkpoint with the same bytes stays."""
    new = [new_name(path) for path in names]
    if step in checkpoints(folder) and all(map(_same, new, names)):
        return
    done_path(folder, step).unlink(missing_ok=True)
    _sync(folder)
    for path, name in zip(new, names):
        path.replace(name)
    _sync(folder)  # both names must be on the disk before DONE
    files = {path.name: digest for path, digest in zip(names, digests)}
    write_record(done_path(folder, step), {**about, "step": step, "files": about.get("files", {}) | files})
    _sync(folder)


def _same(one, other) -> bool:
    return other.is_file() and filecmp.cmp(one, other, shallow=False)


def _remove(folder, step):
    """Remove a checkpoint, DONE first, so that whatever is left after an interruption does not count."""
    with suppress(OSError):  # one old checkpoint too many does no harm
        done_path(folder, step).unlink()
        _sync(folder)
        _remove_leftovers(folder)


def _remove_leftovers(folder):
    """Delete what a killed process left behind."""
    for path in leftovers(folder):
        with suppress(OSError):
            path.unlink()


@contextmanager
def _reporting_errors(folder):
    try:
        yield
    except OSError as error:
        raise cannot(f"save in {folder}", error) from error


def _sync(folder):
    """Make the names in the folder durable. Windows has no call for this."""
    if os.name != "nt":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
