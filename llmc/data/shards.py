"""The token files behind a path: one file, or the shards that a pattern names, read by position.

A shard is read with `seek` and `read`, never mapped: a file that is truncated while it is mapped ends the process at
the next access (SIGBUS); a read that comes back short is a sentence. An open file stays readable when it is deleted.
"""

import glob
from pathlib import Path

import numpy as np

from llmc.data.tokens import check_ids, layout, shrunk
from llmc.errors import UserError, why


def find_shards(path) -> list[Path]:
    """The files meant by `path`: a file, a pattern ("…/x_train_*.bin"; sorted by name, as llm.c does), or a list.

    Raises UserError when a pattern or an empty list names none.
    """
    if isinstance(path, list | tuple):
        paths = [Path(p) for p in path]
    elif glob.has_magic(str(path)) and not Path(path).exists():
        folder = Path(path).parent
        # Only the name is a pattern where the folder is there: "[" and "]" may stand in a folder's name.
        paths = sorted(folder.glob(Path(path).name) if folder.is_dir() else map(Path, glob.glob(str(path))))
    else:
        paths = [Path(path)]
    if not paths:
        raise UserError(f"no token file matches {path}; check the path.")
    return paths


def count_tokens(path) -> int:
    """Tokens in all files of `path`, by their headers. Raises UserError for a bad one."""
    return sum(layout(p).ntok for p in find_shards(path))


class Shards:
    """Random access to the tokens of several files, one of them open at a time.

    `sizes`: tokens of each. With V, the ids of a shard are checked when it is opened. Every method raises UserError for
    a file that is bad, gone, or shorter than it was.
    """

    def __init__(self, path, V=None):
        self.paths, self.V = find_shards(path), V
        self._layouts = [layout(p) for p in self.paths]
        self.sizes = [found.ntok for found in self._layouts]
        self._file, self._index = None, None

    def open(self, index):
        """Make shard `index` the one that `read` reads."""
        if index == self._index:
            return
        path = self.paths[index]
        found = layout(path)
        if found != self._layouts[index]:
            raise UserError(f"{path} has changed since training began; start again with the new one.")
        if self.V is not None:
            check_ids(path, found, self.V)
        try:
            file = open(path, "rb", buffering=0)
        except OSError as error:
            raise UserError(f"cannot read {path}: {why(error)}.") from error
        self.close()  # not before: when the new one is bad, all stays as it was
        self._file, self._index = file, index

    def buffer(self, n) -> np.ndarray:
        """An array (n,) for `read`, in the type of the open shard."""
        return np.empty(n, self._layouts[self._index].dtype)

    def read(self, start, out):
        """Fill out (n,), made by `buffer`, with the tokens of the open shard from `start` on."""
        try:
            self._file.seek(self._layouts[self._index].offset + start * out.itemsize)
            read = self._file.readinto(out)
        except OSError as error:
            raise UserError(f"cannot read {self.paths[self._index]}: {why(error)}.") from error
        if read < out.nbytes:
            raise shrunk(self.paths[self._index])

    def head(self, n) -> np.ndarray:
        """(min(n, all),) uint16: the first n tokens across the shards."""
        opened, parts = self._index, []
        for index, size in enumerate(self.sizes):
            take = min(size, n - sum(map(len, parts)))
            if take > 0:
                self.open(index)
                part = self.buffer(take)  # (take,)
                self.read(0, part)
                parts.append(part.astype(np.uint16))
        if opened is not None:
            self.open(opened)
        return np.concatenate(parts) if parts else np.empty(0, np.uint16)  # (n,)

    def close(self):
        """Close the open shard, if one is."""
        if self._file is not None:
            self._file.close()
        self._file, self._index = None, None

    def __del__(self):
        if getattr(self, "_file", None) is not None:
            self._file.close()
