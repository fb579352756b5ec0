"""Writing a file safely: under a temporary name, then renamed."""

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path

from llmc.errors import UserError, why


@contextmanager
def atomic_write(path, mode: str = "wb"):
    """Open a temporary file next to `path` and rename it to `path` when the block ends without an error.

    So a reader sees the old file or the whole new one, never half of it, even after kill -9 or a full disk. Yields the
    open file (text modes are UTF-8 with "\\n" line ends). Raises UserError when the file cannot be written, or when
    path is a folder, a device or a pipe.
    """
    path = Path(path)
    temporary = None
    try:
        if path.exists() and not path.is_file():  # the renamed file would take the place of a device or a pipe
            raise UserError(f"cannot write {path}: it is no regular file; choose another name.")
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        temporary = Path(name)
        text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
        with os.fdopen(handle, mode, **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # the bytes must be on the disk before the new name is
        temporary.chmod(0o644)  # mkstemp makes it private; the finished file is not
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {why(error)}; free some space or choose another folder.") from error
    finally:
        if temporary is not None and temporary.exists():
            temporary.unlink()
