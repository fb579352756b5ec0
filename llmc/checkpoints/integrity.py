"""Whether a run's files have changed since they were saved. A DONE file tells, unless it is empty, like llm.c's."""

from pathlib import Path

from llmc.checkpoints.names import FINAL_MODEL, OURS, checkpoints, done_path, done_steps, model_path, state_path
from llmc.checkpoints.record import read_record
from llmc.errors import UserError
from llmc.files.digest import digest


def check_checkpoint(folder, step: int) -> dict:
    """The record of a checkpoint (see record.py), after checking that its model and state are unchanged.

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
