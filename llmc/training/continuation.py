"""Restoring a run that has stopped: its settings, its newest checkpoint, and its log up to that checkpoint."""

from contextlib import contextmanager, nullcontext
from dataclasses import fields, replace
from pathlib import Path

from llmc.checkpoints.folder import latest_checkpoint, load_checkpoint, model_path
from llmc.checkpoints.saved_files import check_file
from llmc.data.corpus import TOKENIZER
from llmc.distributed.data_parallel import ALONE
from llmc.errors import UserError
from llmc.training.find_models import find_run
from llmc.training.log import LOG, read_log
from llmc.training.run_folder import RunFolder
from llmc.training.settings import FIXED, PLACE, TrainSettings
from llmc.training.settings_file import SETTINGS, edited, has_digest, read_settings
from llmc.training.start import check_tokenizer, find_communicator, part_of
from llmc.training.trainer import Trainer


@contextmanager
def load_run(run=None, changes=(), say=None, ranks=ALONE):
    """`with load_run(…) as (trainer, folder, history)`: a run that is ready to continue, with its folder locked for us.

    run: as in find_run · changes: {setting: new value} · say, ranks: as in Trainer; only rank 0 gets the folder, the
    others get None. Raises UserError if the run cannot be continued, or not with these changes.
    """
    with RunFolder(_find(run)) if not ranks.rank else nullcontext() as folder:
        latest = {"path": str(folder.path.resolve()), "step": folder.latest} if folder else None
        latest = ranks.share(latest, {"path": str, "step": int})
        path, step = folder.path if folder else Path(latest["path"]), latest["step"]
        before = read_settings(path)
        # a step has as many tokens as before, also where other ranks take other batches
        tokens = {"total_batch_size": before.tokens_per_step} if ranks.world > 1 else {}
        changes = tokens | dict(changes)
        settings = changed(before, changes, path)
        if step >= settings.steps:
            raise UserError(
                f"{path} has completed all of its {step} steps; to train longer, give a new total with --steps N."
            )
        communicator = find_communicator(settings, ranks)
        how = settings.backend, settings.precision, settings.master_weights, part_of(settings, ranks)
        model, state = load_checkpoint(path, step, *how)
        saved = state.about.get("settings", {})
        fixed = (*FIXED, "batch_size") if state.ranks == ranks.world else FIXED  # fewer ranks may take larger batches
        changed(before, changes, path, fixed)
        check_settings(before, saved, path, fixed)
        if saved and not has_digest(path):  # such a checkpoint comes with a digest
            raise edited(path)
        check_file(path / TOKENIZER)
        trainer = Trainer(settings, say, model, state, ranks, communicator)
        check_tokenizer(model.config, trainer.encoding, model_path(path, step), settings.data)
        history = until(read_log(path / LOG), step)
        ranks.barrier()  # all of them have read what is there
        if folder:
            folder.reopen()
        yield trainer, folder, history


def _find(run):
    """The folder of a run that has a checkpoint."""
    path = find_run(run)
    if latest_checkpoint(path) is None:
        raise UserError(f"{path} holds no checkpoint to resume from; start a new run from its weights with --model.")
    return path


def changed(settings, changes, path, fixed=FIXED) -> TrainSettings:
    """A run's settings with some replaced. Raises UserError for a setting that cannot change within a run."""
    unknown = changes.keys() - {field.name for field in fields(TrainSettings)}
    if unknown:
        raise TypeError(f"there is no setting {', '.join(sorted(unknown))}")
    if not changes.keys().isdisjoint(PLACE):
        raise UserError(f"a resumed run stays in its own folder, {path}; leave out --out and --name.")
    for name in fixed:
        before, now = getattr(settings, name), changes.get(name, getattr(settings, name))
        if now != before:
            raise UserError(
                f"{path} cannot change its {name.replace('_', ' ')} from {before} to {now}; start a new run from its"
                f" weights with --model {path}."
            )
    return replace(settings, **changes)


def check_settings(settings, saved, path, fixed=FIXED):
    """Raise UserError if a setting that must not change differs from the one saved in the run's checkpoint."""
    for name in fixed:
        now = getattr(settings, name)
        if saved.get(name, now) != now:
            raise UserError(
                f"{path / SETTINGS} says {name.replace('_', ' ')} {now}, but the run was trained with {saved[name]};"
                " put the right settings back."
            )


def until(history, step) -> dict:
    """A history as it was after `step` steps, including the validation before the next step."""
    last = {"train": step - 1, "val": step, "eval": step}
    return {name: [row for row in rows if row[0] <= last[name]] for name, rows in history.items()}
