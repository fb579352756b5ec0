"""Writing a file, or a folder of them, safely: under a temporary name, then renamed."""

import os
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

from llmc.errors import UserError, cannot


@contextmanager
def atomic_write(path, mode: str = "wb"):
    """Open a temporary file next to `path`, and rename it to `path` if the block ends without an error.

    So a reader sees either the old file or the whole new one, never half of it, even after kill -9 or on a full disk.
    Yields the open file (text modes are UTF-8 with "\\n" line ends). Raises UserError if the file cannot be written,
    or if path is a folder, a device or a pipe.
    """
    path = Path(path)
    temporary = None
    try:
        if path.exists() and not path.is_file():  # the renamed file would take the place of a device or a pipe
            raise UserError(f"cannot write {path}: it is not a regular file; choose another name.")
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
        raise cannot(f"write {path}", error) from error
    finally:
        if temporary is not None and temporary.exists():
            temporary.unlink()


@contextmanager
def atomic_folder(folder):
    """Yield a new folder, whose files are moved to `folder` if the block ends without an error, and deleted otherwise.

    A folder that is not empty keeps its other files. Raises UserError if the folder cannot be written, and passes on
    the block's UserErrors with the path that the file would have had.
    """
    folder = Path(folder)
    try:
        in_use = folder.exists() and any(folder.iterdir())
        place = folder if in_use else folder.parent  # the same disk, so that files can be moved
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", suffix=".tmp", dir=place) as temporary:
            made = Path(temporary, "made")
            made.mkdir()
            try:
                yield made
            except UserError as error:
                raise UserError(str(error).replace(str(made), str(folder))) from error
            if place != folder:
                with suppress(OSError):  # somebody has made it meanwhile, and filled it
                    made.rename(folder)
                    return
            for path in sorted(made.iterdir()):
                path.replace(folder / path.name)
    except OSError as error:
        raise cannot(f"write {folder}", error) from error
