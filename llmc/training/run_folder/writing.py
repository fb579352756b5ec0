"""Writing a run folder: nothing is ever overwritten by another run, and no file is ever half-written."""

import os
from pathlib import Path

from llmc.checkpoints import write_model
from llmc.checkpoints.folder import FINAL_MODEL, latest_checkpoint, model_path, save_checkpoint
from llmc.data.corpus import TOKENIZER
from llmc.data.tokenizer import write_tokenizer
from llmc.errors import UserError
from llmc.files.atomic_write import atomic_write
from llmc.training.run_folder.claim import claim_folder, remove_if_empty
from llmc.training.run_folder.log import LOG, LogWriter
from llmc.training.run_folder.settings_file import write_settings

SAMPLE, PLOT = "sample.txt", "loss.png"


class RunFolder:
    """The folder of one run, which belongs to this process for as long as its log is open. A context manager.

    RunFolder.create(…) starts a new run, RunFolder(path) continues one. A new run that ends before it has logged a line
    removes its folder again. Raises UserError when another process is training in the folder.
    """

    def __init__(self, path):
        self.path = Path(path)
        self._described = False  # settings.json and tokenizer.bin are by this process
        self.log = LogWriter(self.path / LOG)

    @classmethod
    def create(cls, out, name):
        """Claim a folder at once, so that a bad one is refused before training.

        out: exactly this folder, empty or not there yet · name: without `out`, runs/NAME, or the first free NAME-2, ….
        """
        path = claim_folder(out, name)
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
        """Remove the log and, if nothing else is in it, the folder."""
        self.log.close()
        self.log.path.unlink(missing_ok=True)
        remove_if_empty(self.path)

    @property
    def latest(self) -> int | None:
        """Step of the newest checkpoint; None when there is none."""
        return latest_checkpoint(self.path)

    def save_checkpoint(self, trainer):
        """Save the state of the trainer, unless it is saved already; the oldest checkpoints are removed."""
        if trainer.step == self.latest:
            return
        if not self._described:
            self._describe(trainer)
        save_checkpoint(self.path, trainer.model, trainer.state(), trainer.settings.keep)

    def _describe(self, trainer):
        """Write settings.json and tokenizer.bin, which a checkpoint needs to be used."""
        write_settings(self.path, trainer.settings)
        write_tokenizer(self.path / TOKENIZER, trainer.encoding)
        self._described = True

    def save_result(self, trainer, result):
        """Write model.bin, sample.txt and loss.png; the last checkpoint and the log could restore all of them."""
        self._save_model(trainer)
        with atomic_write(self.path / SAMPLE, "w") as file:
            file.write(result.sample)
        figure = result.plot()
        with atomic_write(self.path / PLOT) as file:
            figure.savefig(file, format="png")

    def _save_model(self, trainer):
        """The model of the last checkpoint, under a name without a step; the old one stays until this one is there."""
        source, target = model_path(self.path, trainer.step), self.path / FINAL_MODEL
        link = self.path / f".{FINAL_MODEL}.link.tmp"
        try:
            os.link(source, link)
            link.replace(target)
        except OSError:  # a file system without hard links
            write_model(target, trainer.model)
        finally:
            link.unlink(missing_ok=True)  # still there when both names were links to one file already

    def reopen(self):
        """Remove the half-written files of a killed process. What the end of the run left stays until it ends again."""
        for path in self.path.glob(".*.tmp"):
            path.unlink(missing_ok=True)
