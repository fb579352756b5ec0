"""`runs/NAME/`, the folder of a run: no run ever overwrites another's files, and no file is ever left half-written.

main.log        written line by line, as the run goes
settings.json, tokenizer.bin   with the first checkpoint
model_%08d.bin, state_%08d_00000.bin, DONE_%08d   checkpoints, see llmc/checkpoints/folder.py
model.bin, sample.txt, loss.png   at the end, even of an interrupted run; a resumed one keeps them until it ends
"""

import os
import shutil
from contextlib import suppress
from itertools import count
from pathlib import Path

from llmc.checkpoints import write_model
from llmc.checkpoints.folder import FINAL_MODEL, latest_checkpoint, model_path, save_checkpoint, save_part
from llmc.checkpoints.saved_files import check_file
from llmc.data.corpus import TOKENIZER
from llmc.data.tokenizer import write_tokenizer
from llmc.errors import UserError, cannot
from llmc.files.atomic_write import atomic_write
from llmc.files.digest import digest
from llmc.files.reading import user_path
from llmc.precision import find_precision
from llmc.terminal import shown
from llmc.training.find_models import runs_home
from llmc.training.log import LOG, LogWriter
from llmc.training.memory import WITHOUT, size
from llmc.training.settings_file import SETTINGS, write_settings

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
            others = (lambda: self._others(trainer.ranks)) if trainer.together.is_sharded else dict
            save_checkpoint(self.path, trainer.model, state, trainer.settings.keep, others)
        elif trainer.together.is_sharded:
            trainer.ranks.share("")  # tells the others that there is nothing to save: see save_our_part
        return None if found else f"{shown(path)} had disappeared; the whole run is now in {shown(self.path)}."

    def _others(self, ranks) -> dict:
        """Have the other ranks, which share the optimizer's state, add their parts; returns {rank: SHA-256}."""
        ranks.share(str(self.path.resolve()))
        return dict(enumerate(ranks.exchange("", str)[1:], start=1))

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


def save_our_part(trainer):
    """On a rank other than 0: add our part of the optimizer's state to a checkpoint, if rank 0 says where to."""
    folder = trainer.ranks.share(None, str)
    if folder:
        trainer.ranks.exchange(save_part(folder, trainer.model, trainer.state()))


def claim_folder(out, name) -> Path:
    """Make the folder `out`, unless a run has written to it; without `out`, make runs/NAME or the first free
    runs/NAME-2, ….

    Raises UserError if `out` is not empty, if `name` is not a plain name, or if the folder cannot be made.
    """
    return _claim(user_path(out)) if out is not None else claim_number(runs_home(), name)


def _claim(path) -> Path:
    try:
        held = list(path.iterdir()) if path.is_dir() else []  # an empty log is all that a killed start has left
        if any(entry.name != LOG or entry.stat().st_size for entry in held):
            raise UserError(
                f"{path} is not empty, and a run never overwrites anything; choose another folder with --out, or"
                " continue that run with --resume."
            )
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot(f"make the run folder {path}", error, "choose another with --out") from error
    return path


def claim_number(home, name) -> Path:
    """home/NAME or, if that is taken, home/NAME-2, home/NAME-3, …; two runs that start at once get two folders."""
    if name != Path(name).name or name in ("", ".", ".."):
        raise UserError(f"{name!r} cannot be the name of a run; use a plain name, or give a folder with --out.")
    try:
        home.mkdir(parents=True, exist_ok=True)
        for number in count(1):
            path = home / (name if number == 1 else f"{name}-{number}")
            try:
                path.mkdir()
                return path
            except FileExistsError:
                continue
    except OSError as error:
        raise cannot(f"make a run folder in {home}", error, "choose another with --out") from error


def remove_if_empty(path: Path):
    """Remove a claimed folder, unless something is in it."""
    try:
        path.rmdir()
    except OSError:  # not empty, or gone: both are fine
        pass


def check_disk(settings, config, folder, saved=(), step=0):
    """Raise UserError if a run's checkpoints would not fit onto the disk that holds its folder.

    saved: the steps of the checkpoints that already exist · step: where the run begins.
    """
    s, free = settings, shutil.disk_usage(folder).free
    each = checkpoint_bytes(config, s.precision, s.master_weights)
    left = -(-(s.steps - step) // s.checkpoint_every) if s.checkpoint_every else 1  # checkpoints still to be written
    most = min(left, s.keep + 1 - len(saved)) if s.keep else left  # one more than are kept, while it is written
    if each * most <= free or os.environ.get(WITHOUT):
        return
    keep = free // each - 1
    fewer = f"--keep {keep} fits" if keep > 0 else "free some space, or choose another disk with --out"
    raise UserError(
        f"{most:,} checkpoints of {size(each)} each do not fit onto the disk of {folder}, which has"
        f" {size(free)} free; {fewer}, or set {WITHOUT}=1 to try anyway."
    )


def checkpoint_bytes(config, precision="fp32", master_weights=True) -> int:
    """Bytes of the weights, both moments and, if weights have 16 bits, the master weights; headers hardly count."""
    p = find_precision(precision)
    exact = 3 if p.is_mixed and master_weights else 2
    return (p.weights.itemsize + exact * p.exact.itemsize) * config.num_parameters_padded
