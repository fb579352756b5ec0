"""The same training run with several learning rates, side by side, to find the one that ends lowest.

runs/NAME/lr_0.004/      the run folder of each learning rate
runs/NAME/results.json   the plan, written before the first run, and then the outcomes; with them, a second sweep into
                         the same folder makes only the missing runs, even after kill -9
runs/NAME/sweep.png      the final losses over the learning rates, and the curves that lead there
"""

import os
import tempfile
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

from llmc.checkpoints.folder import latest_checkpoint
from llmc.cuda import number_of_gpus
from llmc.data import find_corpus
from llmc.data.tokenise import cores
from llmc.data.tokenizer import read_tokenizer
from llmc.errors import UserError
from llmc.files.atomic_write import atomic_write
from llmc.files.reading import user_path
from llmc.training.log import try_lock
from llmc.training.memory import check_memory
from llmc.training.run_folder import claim_folder, remove_if_empty
from llmc.training.settings import AUTO, TrainSettings
from llmc.training.start import check_before_data
from llmc.training.sweep.plot import plot_sweep
from llmc.training.sweep.progress import SweepProgress
from llmc.training.sweep.result import WAITING, SweepRun, read_results, write_results
from llmc.training.sweep.side_by_side import run_side_by_side

FACTORS = (0.1, 10**-0.5, 1.0, 10**0.5, 10.0)  # times the usual learning rate: two decades in five
RESULTS, PLOT = "results.json", "sweep.png"


def default_rates(settings) -> list[float]:
    """Five learning rates around the one in the settings, a factor √10 apart: 0.004 -> 0.0004, 0.0013, 0.004, …"""
    return [float(f"{settings.learning_rate * factor:.2g}") for factor in FACTORS]


def sweep(settings=None, learning_rates=None, jobs=None, quiet=False, save=True) -> list[SweepRun]:
    """Train with each learning rate, each run in its own process with one thread; returns the results by learning rate.

    settings: the TrainSettings that all runs share; its `out` or `name` is the sweep's folder, runs/sweep by default ·
    learning_rates: None takes `default_rates` · jobs: runs at a time; None for the number of GPUs or, without one, of
    cores · quiet: print nothing · save: False leaves no files.
    A run that diverges counts as a result, and so does a single run that is killed. Ctrl-C ends all runs after the step
    in progress and saves them as "interrupted"; runs that had not begun are missing from the results. A second sweep
    into the same `out` completes all of these. Raises UserError for bad settings, before any run, and if a run fails
    for another reason.
    """
    settings = settings or TrainSettings()
    rates = sorted(set(default_rates(settings) if learning_rates is None else learning_rates))
    gpus = number_of_gpus() if settings.backend == "cuda" else 0
    jobs = (gpus or cores()) if jobs is None else jobs
    if not rates or jobs < 1:
        raise UserError(f"a sweep needs at least one learning rate and one run at a time, not {len(rates)} and {jobs}.")
    if settings.batch_size == AUTO:
        raise UserError("a sweep makes several runs at a time, so auto cannot choose the batch size; give a number.")
    shared = [replace(settings, learning_rate=rate, out=None, name=None) for rate in rates]
    check_before_data(settings)
    corpus = find_corpus(settings.data, say=None if quiet else print)  # prepared here, once
    at_once = -(-min(jobs, len(rates)) // max(gpus, 1))  # runs that share one memory
    check_memory(settings, read_tokenizer(corpus.tokenizer), corpus.train, jobs=at_once)
    with _folder(settings, save) as folder:
        found = _run_missing(folder, settings, shared, jobs, quiet, gpus)
        if not save:
            return [replace(run, run_dir=None) for run in found]
        if found:  # none when Ctrl-C came before the first run
            with atomic_write(folder / PLOT) as file:
                plot_sweep(found).savefig(file, format="png")
    return found


def _run_missing(folder, settings, shared, jobs, quiet, gpus) -> list[SweepRun]:
    """Make the runs that the folder does not hold yet; returns all of its results, by learning rate."""
    results = read_results(folder / RESULTS, settings)  # {learning rate: SweepRun}
    missing = [s for s in shared if s.learning_rate not in results or results[s.learning_rate].unfinished]
    each = [replace(s, out=str(_place(folder, results, s))) for s in missing]
    for s in each:
        if s.learning_rate not in results or results[s.learning_rate].run_dir != s.out:
            results[s.learning_rate] = SweepRun.planned(s)
    write_results(folder / RESULTS, settings, results)
    with closing(SweepProgress(each, quiet)) as progress:

        def on_end(process):
            result = results[process.settings.learning_rate] = SweepRun.of(process)
            write_results(folder / RESULTS, settings, results)
            progress.show(result, settings.steps)

        run_side_by_side(each, jobs, on_end, progress, gpus)
    return [results[rate] for rate in sorted(results) if results[rate].status != WAITING]


@contextmanager
def _folder(settings, save):
    """The sweep's folder: an earlier sweep's, or a new one; removed at the end if nothing is to be saved."""
    if not save:
        with tempfile.TemporaryDirectory(prefix="llmc-sweep-") as folder:
            yield Path(folder)
        return
    path = user_path(settings.out) if settings.out is not None else None
    if path is None or not (path / RESULTS).is_file():
        path = claim_folder(path, settings.name or "sweep")
    with _ours(path):
        try:
            yield path
        finally:
            if [file.name for file in path.iterdir()] == [RESULTS]:  # no run has begun: the plan is all there is
                (path / RESULTS).unlink()
            remove_if_empty(path)


@contextmanager
def _ours(path):
    """Lock the folder, so that two sweeps never share it. Windows cannot lock one; there, each run locks its log."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        yield
        return
    try:
        if not try_lock(SimpleNamespace(fileno=lambda: descriptor)):
            raise UserError(f"another sweep is running in {path}; wait until it ends, or stop it first.")
        yield
    finally:
        os.close(descriptor)


def _place(folder, results, settings) -> Path:
    """The folder of a run: the one from an earlier sweep if that has a checkpoint to continue from, else a new one.

    A run that was killed after its last step but before its last validation has nothing left to continue, and is
    repeated.
    """
    rate = settings.learning_rate
    before = results.get(rate)
    if before and latest_checkpoint(before.run_dir) not in (None, settings.steps):
        return Path(before.run_dir)
    names = (f"lr_{rate!r}" if i == 1 else f"lr_{rate!r}-{i}" for i in count(1))
    return next(folder / name for name in names if not (folder / name).exists())
