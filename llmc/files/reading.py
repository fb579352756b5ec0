"""The one way to open a file named by the user: if it is not a regular, readable file, one sentence says so."""

import os
import stat
from contextlib import contextmanager
from pathlib import Path

from llmc.errors import UserError, cannot


def user_path(text) -> Path:
    """A path as the user typed it, with ~ for a home folder. Raises UserError for one that no file can have."""
    if "\0" in str(text):
        raise UserError(f"{str(text)!r} cannot be a path, because it contains a zero byte; check it.")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise UserError(f"{text} names a home folder that does not exist; write the whole path.") from None


def folder_path(text) -> Path:
    """A folder as the user typed it, made absolute and without links. Raises UserError for an impossible one."""
    try:
        return user_path(text).resolve()
    except (OSError, RuntimeError):  # RuntimeError: before Python 3.13
        raise UserError(f"{text} cannot be found because its links form a circle; give another folder.") from None


@contextmanager
def opened(path, advice="check the path"):
    """`with opened(path) as file`: a file for reading bytes. Raises UserError if opening or reading it fails.

    Only regular files are opened: a named pipe would wait forever, and a device has no end. advice: what to do if the
    file does not exist or cannot be read.
    """
    try:
        path = user_path(path)
        kind = os.stat(path).st_mode
        if not stat.S_ISREG(kind):
            what = "a folder" if stat.S_ISDIR(kind) else "not a regular file"
            raise UserError(f"{path} is {what}; give a file.")
        with path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; {advice}.") from None
    except OSError as error:
        raise cannot(f"read {path}", error, advice) from error


def file_size(path) -> int:
    """The size of a file in bytes. Raises UserError if it cannot be opened."""
    with opened(path) as file:
        return file.seek(0, 2)
