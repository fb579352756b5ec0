"""Writing a run folder: no run ever overwrites another's files, and no file is ever left half-written."""

import os
from contextlib import suppress
from functools import partial
from pathlib import Path

from llmc.checkpoints import write_model
from llmc.checkpoints.folder import FINAL_MODEL, latest_checkpoint, model_path, save_checkpoint
from llmc.checkpoints.integrity import check_file
from llmc.data.corpus import TOKENIZER
from llmc.data.tokenizer import write_tokenizer
from llmc.errors import UserError
from llmc.files.atomic_write import atomic_write
from llmc.files.digest import digest
from llmc.terminal import shown
from llmc.training.run_folder import parts
from llmc.training.run_folder.claim import claim_folder, claim_number, remove_if_empty
from llmc.training.run_folder.log import LOG, LogWriter
from llmc.training.run_folder.settings_file import SETTINGS, write_settings

SAMPLE, PLOT = "sample.txt", "loss.png"


class RunFolder:
    """The folder of one run, which belongs to this process as long as its log is open. A context manager.

    RunFolder.create(…) starts a new run, RunFolder(path) continues one. A new run that ends before it has logged a line
    removes its folder again. If the folder or its log disappears during the run, it is written again in full at the
    next save. Raises UserError if another process is training in the folder.
    """

    def __init__(self, path):
        self.path = Path(path)
        self._files = {}  # digests of files next to the checkpoints, once this process has written what they need
        self.log = LogWriter(self.path / LOG)
        self._identity = os.stat(self.path)

    @classmethod
    def create(cls, out, name):
        """Claim a folder right away, so that a bad one is refused before training.

        out: use exactly this folder, empty or not made yet · name: without `out`, use runs/NAME or the first free
        NAME-2, ….
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
        """Step of the newest checkpoint; None if there is none."""
        return latest_checkpoint(self.path)

    def save_checkpoint(self, trainer, history) -> str | None:
        """Save the trainer's state, unless it is already saved; the oldest checkpoints are removed.

        history: the log so far, in the form of read_log. Returns a sentence if the folder had disappeared.
        """
        path, found = self.path, self.log.is_in_place()
        if not found:
            self._restore(history)
        if not self._files or not all((self.path / name).is_file() for name in (SETTINGS, TOKENIZER)):
            self._files = self._describe(trainer)
        if trainer.step != self.latest:
            state = trainer.state()
            state.about["files"] = self._files
            others = partial(parts.announce, trainer.ranks, self.path) if trainer.together.is_sharded else dict
            save_checkpoint(self.path, trainer.model, state, trainer.settings.keep, others)
        elif trainer.together.is_sharded:
            parts.announce_nothing(trainer.ranks)
        return None if found else f"{shown(path)} had disappeared; the whole run is now in {shown(self.path)}."

    def _restore(self, history):
        """Begin again, with the log so far, in this folder, or, when it is gone or another's, in the first free one."""
        if not self._is_ours():
            self.path = claim_number(self.path.parent, self.path.name)
            self._files, self._identity = {}, os.stat(self.path)
        old, self.log = self.log, LogWriter(self.path / LOG)
        old.close()
        self.log.rewrite(history)

    def _is_ours(self) -> bool:
        """Whether the folder is still the one in which the run began."""
        try:
            return os.path.samestat(self._identity, os.stat(self.path))
        except OSError:
            return False

    def _describe(self, trainer) -> dict:
        """Write settings.json and tokenizer.bin, without which a checkpoint cannot be used; returns {name: SHA-256}.

        settings.json holds its own digest. A model.bin from an earlier end of the run stays until there is a new one.
        """
        write_settings(self.path, trainer.settings)
        write_tokenizer(self.path / TOKENIZER, trainer.encoding)
        files = {TOKENIZER: digest(self.path / TOKENIZER)}
        final = self.path / FINAL_MODEL
        if final.is_file():
            with suppress(UserError):  # it is damaged: then nothing shall vouch for it
                files[FINAL_MODEL] = check_file(final) or digest(final)
        return files

    def save_result(self, trainer, result):
        """Write model.bin, sample.txt and loss.png; the last checkpoint and the log could restore all of them."""
        self._save_model(trainer)
        with atomic_write(self.path / SAMPLE, "w") as file:
            file.write(result.sample)
        figure = result.plot()
        with atomic_write(self.path / PLOT) as file:
            figure.savefig(file, format="png")

    def _save_model(self, trainer):
        """Save the last checkpoint's model under a name without a step; the old file stays until this one is whole."""
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
        """Remove half-written files of a killed process. Files from the run's last end stay until it ends again."""
        for path in self.path.glob(".*.tmp"):
            path.unlink(missing_ok=True)
