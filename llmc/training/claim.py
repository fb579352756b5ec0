"""A folder for a run that is nobody else's: empty, or made just now."""

from itertools import count
from pathlib import Path

from llmc.errors import UserError, why


def claim(path: Path) -> Path:
    """Make the folder `path`, which may be there when it is empty; returns it."""
    try:
        if path.is_dir() and any(path.iterdir()):
            raise UserError(
                f"{path} is not empty, and a run overwrites nothing; choose another folder with --out, or go on with"
                " the run in it with --resume."
            )
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the run folder {path}: {why(error)}; choose another with --out.") from error
    return path


def claim_number(home: Path, name: str) -> Path:
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


def remove_if_empty(path: Path):
    """Give a claimed folder back, unless something is in it."""
    try:
        path.rmdir()
    except OSError:  # not empty, or gone: both fine
        pass
