"""The same training run with several learning rates, side by side, and which of them ends lowest.

runs/NAME/lr_0.004/      the run folder of each learning rate
runs/NAME/results.json   what came of each; with it, a second sweep into the same folder does only what is missing
runs/NAME/sweep.png      the last losses over the learning rates, and the curves behind them
"""

import tempfile
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

from llmc.checkpoints.folder import latest_checkpoint
from llmc.data import find_corpus
from llmc.data.tokenise import cores
from llmc.errors import UserError
from llmc.files.atomic_write import atomic_write
from llmc.training.claim import claim, claim_number, remove_if_empty
from llmc.training.run_folder import runs_home
from llmc.training.settings import TrainSettings
from llmc.training.start import check_before_data
from llmc.training.sweep.plot import plot_sweep
from llmc.training.sweep.progress import SweepProgress
from llmc.training.sweep.result import SweepRun, read_results, write_results
from llmc.training.sweep.side_by_side import run_side_by_side

FACTORS = (0.1, 10**-0.5, 1.0, 10**0.5, 10.0)  # of the recipe's learning rate: two decades in five
RESULTS, PLOT = "results.json", "sweep.png"


def default_rates(settings) -> list[float]:
    """Five learning rates around that of the settings, a factor √10 apart: 0.004 -> 0.0004, 0.0013, 0.004, …"""
    return [float(f"{settings.learning_rate * factor:.2g}") for factor in FACTORS]


def sweep(settings=None, learning_rates=None, jobs=None, quiet=False, save=True) -> list[SweepRun]:
    """Train with each learning rate, each run a process of its own with one thread; results in order of learning rates.

    settings: TrainSettings that all runs share; its `out` or `name` is the sweep's folder, runs/sweep by default ·
    learning_rates: None takes `default_rates` · jobs: runs at a time, None for as many as there are cores · quiet:
    print nothing · save: False leaves no file.
    A run that diverges is a result like others. Ctrl-C ends all after the step in progress, saved: those are
    "interrupted", what had not begun is missing, and a second sweep into the same `out` goes on with both. Raises
    UserError for bad settings, before any run, and when a run fails for another reason than divergence.
    """
    settings = settings or TrainSettings()
    rates = sorted(set(default_rates(settings) if learning_rates is None else learning_rates))
    shared = [replace(settings, learning_rate=rate, out=None, name=None) for rate in rates]
    jobs = cores() if jobs is None else jobs
    if not rates or jobs < 1:
        raise UserError(f"a sweep needs a learning rate and a run at a time, at least, not {len(rates)} and {jobs}.")
    check_before_data(settings)
    find_corpus(settings.data, say=None if quiet else print)  # prepared here, once
    with _folder(settings, save) as folder:
        results = read_results(folder / RESULTS, settings)  # {learning rate: SweepRun}
        missing = [s for s in shared if s.learning_rate not in results or results[s.learning_rate].unfinished]
        each = [replace(s, out=str(_place(folder, results, s.learning_rate))) for s in missing]
        with closing(SweepProgress(each, quiet)) as progress:

            def on_end(process):
                result = results[process.settings.learning_rate] = SweepRun.of(process)
                write_results(folder / RESULTS, settings, results)
                progress.tell(result, settings.steps)

            run_side_by_side(each, jobs, on_end, progress)
        found = [results[rate] for rate in sorted(results)]
        if not save:
            return [replace(run, run_dir=None) for run in found]
        if found:  # none when Ctrl-C came before the first run
            with atomic_write(folder / PLOT) as file:
                plot_sweep(found).savefig(file, format="png")
    return found


@contextmanager
def _folder(settings, save):
    """The sweep's folder: that of an earlier one, or a new one; gone at the end when nothing is to be saved."""
    if not save:
        with tempfile.TemporaryDirectory(prefix="llmc-sweep-") as folder:
            yield Path(folder)
        return
    if settings.out is None:
        path = claim_number(runs_home(), settings.name or "sweep")
    else:
        path = Path(settings.out).expanduser()
        path = path if (path / RESULTS).is_file() else claim(path)
    try:
        yield path
    finally:
        remove_if_empty(path)


def _place(folder, results, rate) -> Path:
    """Where a run goes on, or begins: its folder of an earlier sweep if that has a checkpoint, else a new one."""
    before = results.get(rate)
    if before and latest_checkpoint(before.run_dir) is not None:
        return Path(before.run_dir)
    names = (f"lr_{rate!r}" if i == 1 else f"lr_{rate!r}-{i}" for i in count(1))
    return next(folder / name for name in names if not (folder / name).exists())
