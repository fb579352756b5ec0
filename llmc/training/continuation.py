"""Restoring a run that stopped: its settings, its newest checkpoint, and its log up to there."""

from contextlib import contextmanager
from dataclasses import fields, replace

from llmc.checkpoints.folder import latest_checkpoint, load_checkpoint, model_path
from llmc.checkpoints.integrity import check_file
from llmc.data.corpus import TOKENIZER
from llmc.errors import UserError
from llmc.training.run_folder.find_models import find_run
from llmc.training.run_folder.log import read_log
from llmc.training.run_folder.settings_file import SETTINGS, edited, has_digest, read_settings
from llmc.training.run_folder.writing import RunFolder
from llmc.training.settings import PLACE, TrainSettings
from llmc.training.start import check_tokenizer
from llmc.training.trainer import Trainer

# The weights and the order of the batches depend on these: another value would make it another run.
FIXED = ("preset", "model", "batch_size", "sequence_length", "shuffle", "seed", "precision", "master_weights")


@contextmanager
def load_run(run=None, changes=(), say=None):
    """`with load_run(…) as (trainer, folder, history)`: a run ready to continue; its folder is ours meanwhile.

    run: as in find_run · changes: {setting: new value} · say: as in Trainer. Raises UserError when the run cannot be
    continued, or not with these changes.
    """
    with RunFolder(_find(run)) as folder:
        before = read_settings(folder.path)
        settings = changed(before, dict(changes), folder.path)
        step = folder.latest
        if step >= settings.steps:
            raise UserError(
                f"{folder.path} has made all of its {step} steps; to train longer, give the new total with --steps N."
            )
        model, state = load_checkpoint(folder.path, step, settings.backend, settings.precision, settings.master_weights)
        saved = state.about.get("settings", {})
        check_settings(before, saved, folder.path)
        if saved and not has_digest(folder.path):  # such a checkpoint comes with a digest
            raise edited(folder.path)
        check_file(folder.path / TOKENIZER)
        trainer = Trainer(settings, say, model, state)
        check_tokenizer(model.config, trainer.encoding, model_path(folder.path, step), settings.data)
        history = until(read_log(folder.log.path), step)
        folder.reopen()
        yield trainer, folder, history


def _find(run):
    """The folder of a run that has a checkpoint."""
    path = find_run(run)
    if latest_checkpoint(path) is None:
        raise UserError(f"{path} holds no checkpoint to resume from; start a new run from its weights with --model.")
    return path


def changed(settings, changes, path) -> TrainSettings:
    """The settings of a run with some replaced. Raises UserError for one that cannot change within a run."""
    unknown = changes.keys() - {field.name for field in fields(TrainSettings)}
    if unknown:
        raise TypeError(f"there is no setting {', '.join(sorted(unknown))}")
    if not changes.keys().isdisjoint(PLACE):
        raise UserError(f"a resumed run stays in its folder, {path}; leave out --out and --name.")
    for name in FIXED:
        before, now = getattr(settings, name), changes.get(name, getattr(settings, name))
        if now != before:
            raise UserError(
                f"{path} cannot change its {name.replace('_', ' ')} from {before} to {now}; start a new run from its"
                f" weights with --model {path}."
            )
    return replace(settings, **changes)


def check_settings(settings, saved, path):
    """Raise UserError unless the settings of a run are those that its checkpoint was made with, where they must be."""
    for name in FIXED:
        now = getattr(settings, name)
        if saved.get(name, now) != now:
            raise UserError(
                f"{path / SETTINGS} says {name.replace('_', ' ')} {now}, but the run was trained with {saved[name]};"
                " put the right settings back."
            )


def until(history, step) -> dict:
    """A history as it was when `step` steps were made, including the validation before the next one."""
    last = {"train": step - 1, "val": step, "eval": step}
    return {name: [row for row in rows if row[0] <= last[name]] for name, rows in history.items()}
