"""The folder of what can be made again at any time: compiled libraries of the emulator, choices that were measured."""

import os
import sys
import tempfile
from pathlib import Path

OPEN = "belongs to another user, or others may write there (chmod go-w)"  # said of a folder that is_open_to_others


def wanted_folder() -> Path | None:
    """LLMC_CACHE, else the platform's; None when there is no home folder to keep anything in."""
    home = Path("~/Library/Caches" if sys.platform == "darwin" else os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    try:
        return Path(os.environ.get("LLMC_CACHE") or home / "llmc").expanduser()
    except RuntimeError:
        return None


def objection(folder) -> str:
    """What speaks against keeping files there, for a sentence; "" if nothing does. Makes it, for the user alone."""
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        if is_open_to_others(folder):
            return OPEN
        tempfile.TemporaryFile(dir=folder).close()  # only an attempt shows it, not the mode
        return ""
    except (AttributeError, OSError, ValueError):  # AttributeError: None, no folder; ValueError: a zero byte
        return "cannot be written"


def is_open_to_others(folder) -> bool:
    """Whether others could put code there, which we would run: it, or a link to it, is theirs, or lets them write."""
    if not hasattr(os, "geteuid") or not folder.exists():  # Windows: a profile's folders are its user's alone
        return False
    seen = folder.stat()
    return {seen.st_uid, folder.lstat().st_uid} != {os.geteuid()} or bool(seen.st_mode & 0o022)
