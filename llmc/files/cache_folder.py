"""The folder for files that can be made again at any time: the emulator's compiled libraries and measured choices."""

import os
import sys
import tempfile
from pathlib import Path

OPEN = "belongs to another user, or lets others write to it (chmod go-w)"  # said of a folder that is_open_to_others


def wanted_folder() -> Path | None:
    """LLMC_CACHE if set, else the platform's cache folder; None if there is no home folder to keep anything in."""
    home = Path("~/Library/Caches" if sys.platform == "darwin" else os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    try:
        return Path(os.environ.get("LLMC_CACHE") or home / "llmc").expanduser()
    except RuntimeError:
        return None


def objection(folder) -> str:
    """Why files cannot be kept there, as part of a sentence; "" if they can. Makes the folder, for the user alone."""
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        if is_open_to_others(folder):
            return OPEN
        tempfile.TemporaryFile(dir=folder).close()  # only an attempt shows it, not the mode
        return ""
    except (AttributeError, OSError, ValueError):  # AttributeError: None, no folder; ValueError: a zero byte
        return "cannot be written to"


def is_open_to_others(folder) -> bool:
    """Whether others could put code there for us to run, since it, or a link to it, is theirs or writable by them."""
    if not hasattr(os, "geteuid") or not folder.exists():  # Windows: a profile's folders are its user's alone
        return False
    seen = folder.stat()
    return {seen.st_uid, folder.lstat().st_uid} != {os.geteuid()} or bool(seen.st_mode & 0o022)
