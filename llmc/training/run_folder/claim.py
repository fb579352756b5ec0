"""Claiming a folder for a run, so that two runs never share one."""

from itertools import count
from pathlib import Path

from llmc.errors import UserError, cannot
from llmc.files.reading import user_path
from llmc.training.run_folder.find_models import runs_home
from llmc.training.run_folder.log import LOG


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
