"""`runs/NAME/`: where a run puts what it makes. Nothing here is ever overwritten by another run, or half-written.

main.log        one line at a time, as the run goes
settings.json, tokenizer.bin   with the first checkpoint
model_%08d.bin, state_%08d_00000.bin, DONE_%08d   checkpoints, see llmc/checkpoints/folder.py
model.bin, sample.txt, loss.png   at the end, also of a run that was interrupted; gone again while it is resumed
"""

import os
from pathlib import Path

import llmc
from llmc.checkpoints import write_model
from llmc.checkpoints.folder import (
    FINAL_MODEL,
    latest_checkpoint,
    model_path,
    newest_model,
    save_checkpoint,
)
from llmc.data.tokenizer import write_tokenizer
from llmc.errors import UserError
from llmc.files.atomic_write import atomic_write
from llmc.training.claim import claim, claim_number, remove_if_empty
from llmc.training.log import LogWriter
from llmc.training.run_json import write_settings

LOG, MODEL, TOKENIZER, SAMPLE, PLOT = "main.log", FINAL_MODEL, "tokenizer.bin", "sample.txt", "loss.png"


def runs_home() -> Path:
    """The folder of all runs: `runs/` of the source checkout when llmc runs from one, else ./runs."""
    checkout = Path(llmc.__file__).resolve().parents[1]
    return (checkout if (checkout / "pyproject.toml").is_file() else Path.cwd()) / "runs"


def find_run(run=None) -> Path:
    """The run folder meant by a path or a name under runs/; the newest under runs/ when None.

    Raises UserError when there is none, or it holds no model yet.
    """
    if run is None:
        models = filter(None, map(newest_model, runs_home().glob("*/")))
        newest = max(models, key=lambda path: path.stat().st_mtime, default=None)
        if newest is None:
            raise UserError(f"there is no trained model in {runs_home()}; make one with `llmc train`.")
        return newest.parent
    places = [Path(run).expanduser(), runs_home() / run]
    folder = next((place for place in places if place.is_dir()), None)
    if folder is None:
        raise UserError(f"there is no run {run}, neither here nor in {runs_home()}; make one with `llmc train`.")
    if newest_model(folder) is None:
        raise UserError(f"{folder} holds no {MODEL}; it is no run folder, or it ended before the first save.")
    return folder


def find_model(model=None) -> Path:
    """The model file meant by its own path, or by a run as in `find_run`. Raises UserError when there is none."""
    if model is not None and Path(model).expanduser().is_file():
        return Path(model).expanduser()
    return newest_model(find_run(model))


class RunFolder:
    """The folder of one run, which belongs to this process as long as the log is open. Use with `with`.

    RunFolder.create(…) for a new run · RunFolder(path) to go on with one. A new run that ends before its log has a line
    takes its folder away again. Raises UserError when another process trains into it.
    """

    def __init__(self, path):
        self.path = Path(path)
        self._described = False  # settings and tokenizer are those of this process
        self.log = LogWriter(self.path / LOG)

    @classmethod
    def create(cls, out, name):
        """Claim a place at once, so that a bad one is refused before training.

        out: exactly this folder, empty or not there · name: runs/NAME, or the first free of runs/NAME-2, ….
        """
        path = claim(Path(out).expanduser()) if out is not None else claim_number(runs_home(), name)
        try:
            return cls(path)
        except UserError:
            remove_if_empty(path)
            raise

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.log.close()
        if self.log.path.is_file() and self.log.path.stat().st_size == 0:
            self.discard()

    def discard(self):
        """Take the log and, when nothing else is in it, the folder away."""
        self.log.close()
        self.log.path.unlink(missing_ok=True)
        remove_if_empty(self.path)

    @property
    def latest(self) -> int | None:
        """Step of the newest checkpoint."""
        return latest_checkpoint(self.path)

    def save_checkpoint(self, trainer):
        """Keep where the trainer stands, unless that is kept already; the oldest checkpoints go."""
        if trainer.step == self.latest:
            return
        if not self._described:
            self._describe(trainer)
        save_checkpoint(self.path, trainer.model, trainer.state(), trainer.settings.keep)

    def _describe(self, trainer):
        """Write settings.json and tokenizer.bin: all that a checkpoint does not say itself."""
        write_settings(self.path, trainer.settings)
        write_tokenizer(self.path / TOKENIZER, trainer.encoding)
        self._described = True

    def save_result(self, trainer, result):
        """What can be made again from the last checkpoint and the log: model.bin, sample.txt, loss.png."""
        self._save_model(trainer)
        with atomic_write(self.path / SAMPLE, "w") as file:
            file.write(result.sample)
        figure = result.plot()
        with atomic_write(self.path / PLOT) as file:
            figure.savefig(file, format="png")

    def _save_model(self, trainer):
        """The model of the last checkpoint under a name that says nothing of steps."""
        source, target = model_path(self.path, trainer.step), self.path / MODEL
        target.unlink(missing_ok=True)
        try:
            os.link(source, target)
        except OSError:  # a file system without hard links
            write_model(target, trainer.model)

    def reopen(self):
        """Take away what only the end of a run leaves, and the half-written files of a process that was killed."""
        for path in (*(self.path / name for name in (MODEL, SAMPLE, PLOT)), *self.path.glob(".*.tmp")):
            path.unlink(missing_ok=True)
