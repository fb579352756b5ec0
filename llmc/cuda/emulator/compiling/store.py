"""Where compiled libraries are kept, how they get there complete, and how a damaged one is recognised."""

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from llmc.errors import UserError, cannot, why
from llmc.files.cache_folder import objection, wanted_folder

SEALED = sys.platform != "darwin"  # macOS signs libraries, and nothing may follow the signature
SEAL = b"llmc sha256 "  # and the digest of all that is before it: the end of each library, which no loader reads
LENGTH = len(SEAL) + hashlib.sha256().digest_size


def cache_folder() -> Path:
    """LLMC_CACHE, else the platform's cache folder; a temporary one if that is not writable, or not the user's own."""
    folder = wanted_folder()
    against = objection(folder)
    return _private_folder(folder, against) if against else folder


@lru_cache(maxsize=1)
def _private_folder(instead_of, against):
    """A folder that this process removes when it ends. Raises UserError where not even one of these can be made."""
    try:
        place = tempfile.TemporaryDirectory(prefix="llmc-")
    except OSError as error:
        raise UserError(f"there is no folder to compile kernels in ({why(error)}); set LLMC_CACHE to one.") from None
    atexit.register(place.cleanup)
    print(
        f"llmc: {instead_of or 'the home folder'} {against}, so kernels are compiled again in each new process;"
        " set LLMC_CACHE to a folder of your own.",
        file=sys.stderr,
    )
    return Path(place.name)


def is_whole(library) -> bool:
    """Whether this file is there and ends with its own digest: loading a damaged one could end the process."""
    try:
        data = library.read_bytes()
    except OSError:
        return False
    if not SEALED:
        return bool(data)
    return data[-LENGTH:] == _seal(data[:-LENGTH])


def _seal(data) -> bytes:
    return SEAL + hashlib.sha256(data).digest()


class whole:
    """A temporary folder next to `library`; the file of that name in it becomes `library` if nothing is raised.

    Raises UserError when files cannot be written there (a full disk).
    """

    def __init__(self, library):
        self.library = library
        with suppress(OSError):  # another process removes the same
            for left in library.parent.glob(".building-*"):  # by compilers that were killed, or are at work
                if time.time() - left.stat().st_mtime > 86_400:  # a day, which no compiler takes
                    shutil.rmtree(left, ignore_errors=True)
        try:
            self.folder = tempfile.TemporaryDirectory(prefix=".building-", dir=library.parent)
        except OSError as error:
            raise self._unwritable(error) from error

    def __enter__(self):
        return Path(self.folder.name) / self.library.name

    def __exit__(self, kind, error, traceback):
        try:
            if error is None:
                self._publish(Path(self.folder.name) / self.library.name)
        except OSError as failure:
            raise self._unwritable(failure) from failure
        finally:
            self.folder.cleanup()
        if isinstance(error, OSError):
            raise self._unwritable(error) from error

    def _publish(self, made):
        if SEALED:
            with made.open("r+b") as file:
                file.write(_seal(file.read()))
        if self.library.is_dir():
            shutil.rmtree(self.library)
        os.replace(made, self.library)

    def _unwritable(self, error):
        place = self.library.parent
        return cannot(f"write {place}", error, "set LLMC_CACHE to another folder")
