"""Where compiled libraries are kept, and how they get there complete."""

import os
import sys
import tempfile
from functools import lru_cache
from pathlib import Path


def cache_folder() -> Path:
    """LLMC_CACHE, else the platform's cache folder; a temporary one if that is not writable."""
    home = Path("~/Library/Caches" if sys.platform == "darwin" else os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    folder = Path(os.environ.get("LLMC_CACHE") or home / "llmc").expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except (OSError, RuntimeError):
        pass
    return _private_folder()


@lru_cache(maxsize=1)
def _private_folder():
    return Path(tempfile.mkdtemp(prefix="llmc-"))


class whole:
    """A temporary folder next to `library`; the file of that name in it becomes `library` if nothing is raised."""

    def __init__(self, library):
        self.library = library
        self.folder = tempfile.TemporaryDirectory(prefix=".building-", dir=library.parent)

    def __enter__(self):
        return Path(self.folder.name) / self.library.name

    def __exit__(self, kind, error, traceback):
        if error is None:
            os.replace(Path(self.folder.name) / self.library.name, self.library)
        self.folder.cleanup()
