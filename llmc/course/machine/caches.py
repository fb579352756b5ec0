"""The doctor's rows about compiled kernels: whether Numba can be loaded, and whether there is a place to keep them."""

import os
import secrets
import tempfile
from pathlib import Path

import llmc
from llmc.backends import numba_variables
from llmc.course.machine.advice import Row, set_variable, unset_variables
from llmc.errors import UserError
from llmc.files.cache_folder import is_open_to_others, wanted_folder


def wrong_variable(what):
    """A row when a variable keeps Numba from loading, or from doing what the variable says."""
    try:
        numba_variables.check()
    except UserError as error:
        name = str(error).split()[0]
        found = f"Numba does not run: {name} is {os.environ.get(name, '')!r}"
        return Row(what, found, "warning", "training stops with an error", unset_variables(name))


def compiled(what) -> Row:
    """Whether there is a place to keep compiled kernels, those of the "cpu" backend and those of the emulator."""
    own = Path(llmc.__file__).parent / "backends" / "cpu" / "__pycache__"
    users = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    numbas = [Path(os.environ["NUMBA_CACHE_DIR"])] if os.environ.get("NUMBA_CACHE_DIR") else []
    first = next(filter(_can_be_written, [*numbas, own, _at_home(users / "numba")]), None)  # where Numba goes
    if first is None or (first != own and is_open_to_others(first)):
        costs, name = "each start of training takes ten to thirty seconds longer", "NUMBA_CACHE_DIR"
    elif not _can_be_written(wanted_folder()) or is_open_to_others(wanted_folder()):
        costs, name = "each notebook compiles the CUDA kernels again", "LLMC_CACHE"
    else:
        return Row(what, "kept on the disk")
    place = Path(tempfile.gettempdir()) / f"llmc-{secrets.token_hex(8)}"  # a name that nobody can take first
    found = "not kept: their folder cannot be written to, or is open to other users"
    return Row(what, found, "warning", costs, set_variable(name, place))


def _at_home(path):
    """With the user's home folder for ~; None where there is none."""
    try:
        return path.expanduser()
    except RuntimeError:
        return None


def _can_be_written(folder) -> bool:
    """Whether files can be written there, once the folder is made; nothing is made here."""
    if folder is None:
        return False
    nearest = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
