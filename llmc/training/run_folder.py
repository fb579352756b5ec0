"""`runs/NAME/`: where a run puts what it makes. Nothing here is ever overwritten by another run, or half-written.

main.log        one line at a time, as the run goes
tokenizer.bin   with the first model
model.bin       at every validation, and at the end
sample.txt, loss.png   at the end
"""

from itertools import count
from pathlib import Path

import llmc
from llmc.checkpoints import write_model
from llmc.data.tokenizer import write_tokenizer
from llmc.errors import UserError, atomic_write, why
from llmc.training.log import LogWriter

LOG, MODEL, TOKENIZER, SAMPLE, PLOT = "main.log", "model.bin", "tokenizer.bin", "sample.txt", "loss.png"


def runs_home() -> Path:
    """The folder of all runs: `runs/` of the source checkout when llmc runs from one, else ./runs."""
    checkout = Path(llmc.__file__).resolve().parents[1]
    return (checkout if (checkout / "pyproject.toml").is_file() else Path.cwd()) / "runs"


def find_run(run=None) -> Path:
    """The run folder meant by a path or a name under runs/; the newest under runs/ when None.

    Raises UserError when there is none, or it holds no model yet.
    """
    if run is None:
        models = sorted(runs_home().glob(f"*/{MODEL}"), key=lambda path: path.stat().st_mtime)
        if not models:
            raise UserError(f"there is no trained model in {runs_home()}; make one with `llmc train`.")
        return models[-1].parent
    places = [Path(run).expanduser(), runs_home() / run]
    folder = next((place for place in places if place.is_dir()), None)
    if folder is None:
        raise UserError(f"there is no run {run}, neither here nor in {runs_home()}; make one with `llmc train`.")
    if not (folder / MODEL).is_file():
        raise UserError(f"{folder} holds no {MODEL}; it is no run folder, or it ended before the first save.")
    return folder


class RunFolder:
    """The folder of one run, claimed at once, so that a bad place is refused before training. Use with `with`.

    out: exactly this folder, which must be empty or not there · name: runs/NAME, or the first free of runs/NAME-2, ….
    A run that ends before its log has a line takes its folder away again.
    """

    def __init__(self, out, name):
        self.path = _claim(Path(out).expanduser()) if out is not None else _claim_number(runs_home(), name)
        self.has_model = False
        try:
            self.log = LogWriter(self.path / LOG)
        except UserError:
            _remove_if_empty(self.path)
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
        _remove_if_empty(self.path)

    def save_model(self, model, encoding):
        """Write model.bin in llm.c's format, over the one of an earlier step; tokenizer.bin with the first."""
        if not self.has_model:
            write_tokenizer(self.path / TOKENIZER, encoding)
        write_model(self.path / MODEL, model)
        self.has_model = True

    def save_sample(self, text):
        """Write sample.txt."""
        with atomic_write(self.path / SAMPLE, "w") as file:
            file.write(text)

    def save_plot(self, figure):
        """Write a matplotlib figure as loss.png."""
        with atomic_write(self.path / PLOT) as file:
            figure.savefig(file, format="png")


def _claim(path):
    """Make the folder `path`, which may be there when it is empty."""
    try:
        if path.is_dir() and any(path.iterdir()):
            raise UserError(f"{path} is not empty, and a run overwrites nothing; choose another folder with --out.")
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the run folder {path}: {why(error)}; choose another with --out.") from error
    return path


def _claim_number(home, name):
    """Make home/name or, when that is taken, home/name-2, home/name-3, …; two runs at once get two folders."""
    if name != Path(name).name or name in ("", ".", ".."):
        raise UserError(f"{name!r} cannot name a run; use a plain name, or give a folder with --out.")
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
        raise UserError(f"cannot make a run folder in {home}: {why(error)}; choose another with --out.") from error


def _remove_if_empty(path):
    try:
        path.rmdir()
    except OSError:  # not empty, or gone: both fine
        pass
