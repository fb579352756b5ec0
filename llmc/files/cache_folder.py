"""The folder of what can be made again at any time: compiled libraries of the emulator, choices that were measured."""

import os
import sys
import tempfile
from pathlib import Path


def wanted_folder() -> Path | None:
    """LLMC_CACHE, else the platform's; None when there is no home folder to keep anything in."""
    home = Path("~/Library/Caches" if sys.platform == "darwin" else os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    try:
        return Path(os.environ.get("LLMC_CACHE") or home / "llmc").expanduser()
    except RuntimeError:
        return None


def is_usable(folder) -> bool:
    """Whether files can be written there; the folder is made if need be. Only an attempt shows it, not its mode."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        return True
    except (OSError, ValueError):  # ValueError: a zero byte
        return False
