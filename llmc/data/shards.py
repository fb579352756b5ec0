"""The token files that a path refers to (one file, or the shards that match a pattern), read by position.

A shard is read with `seek` and `read`, never mapped. If a mapped file is truncated, the next access kills the process
(SIGBUS), whereas a read that comes back short can be reported. An open file stays readable after it is deleted.
"""

import glob
from pathlib import Path

import numpy as np

from llmc.data.tokens import check_ids, layout, shrunk
from llmc.errors import UserError, why

RESTORE = "restore the tokens that the run began with, or start a new run from its weights with --model"


def find_shards(path) -> list[Path]:
    """The files that `path` refers to: a file, a pattern ("…/x_train_*.bin"; sorted by name, as in llm.c), or a list.

    Raises UserError if a pattern matches nothing or a list is empty.
    """
    if isinstance(path, list | tuple):
        paths = [Path(p) for p in path]
    elif glob.has_magic(str(path)) and not Path(path).exists():
        folder = Path(path).parent
        # If the folder exists, only the last part is a pattern: a folder's name may contain "[" and "]".
        paths = sorted(folder.glob(Path(path).name) if folder.is_dir() else map(Path, glob.glob(str(path))))
    else:
        paths = [Path(path)]
    if not paths:
        raise UserError(f"no token file matches {path}; check the path.")
    return paths


def count_tokens(path) -> int:
    """The number of tokens in all files of `path`, according to their headers. Raises UserError for a bad file."""
    return sum(layout(p).ntok for p in find_shards(path))


class Shards:
    """Random access to the tokens of several files, with one of them open at a time.

    `sizes`: the number of tokens in each. With V, a shard is read in full whenever it is opened, to check its ids and
    compare its digest with the earlier one. Every method raises UserError for a file that is bad, has disappeared or
    shrunk, or holds different tokens than before.
    """

    def __init__(self, path, V=None):
        self.paths, self.V = find_shards(path), V
        self._layouts = [layout(p) for p in self.paths]
        self.sizes = [found.ntok for found in self._layouts]
        self._digests = [None] * len(self.paths)  # SHA-256 of the tokens of each, once it has been opened
        self._file, self._index = None, None

    def open(self, index):
        """Make shard `index` the one that `read` reads."""
        if index == self._index:
            return
        path = self.paths[index]
        found = layout(path)
        if found != self._layouts[index]:
            raise UserError(f"{path} has changed since training began; start again with the new file.")
        if self.V is not None:
            self._compare(index, check_ids(path, found, self.V))
        try:
            file = open(path, "rb", buffering=0)
        except OSError as error:
            raise UserError(f"cannot read {path}: {why(error)}.") from error
        self.close()  # only now: if the new file is bad, the old one stays open
        self._file, self._index = file, index

    def fingerprints(self) -> list:
        """[[name, number of tokens, SHA-256 of the tokens]], one for each shard; the SHA-256 is None if it was never
        opened."""
        return [[path.name, *rest] for path, *rest in zip(self.paths, self.sizes, self._digests)]

    def expect(self, fingerprints):
        """Raise UserError, now or when a shard is opened later, unless these shards match the fingerprints.

        Their names may differ; only the tokens count.
        """
        if len(fingerprints) != len(self.paths):
            raise UserError(
                f"{self.paths[0].parent} holds {len(self.paths)} token files, but the run had"
                f" {len(fingerprints)}; {RESTORE}."
            )
        for index, (_, ntok, digest) in enumerate(fingerprints):
            if self.sizes[index] != ntok:
                raise UserError(
                    f"{self.paths[index]} has {self.sizes[index]:,} tokens, but had {ntok:,} in this run; {RESTORE}."
                )
            if digest is not None:
                self._compare(index, digest)

    def _compare(self, index, digest):
        """Remember the digest of a shard. Raises UserError if it had a different one before."""
        if self._digests[index] not in (None, digest):
            raise UserError(f"{self.paths[index]} holds different tokens than earlier in this run; {RESTORE}.")
        self._digests[index] = digest

    def buffer(self, n) -> np.ndarray:
        """An empty array (n,) for `read`, with the dtype of the open shard."""
        return np.empty(n, self._layouts[self._index].dtype)

    def read(self, start, out):
        """Fill `out` (n,), made by `buffer`, with the tokens of the open shard from position `start` on."""
        try:
            self._file.seek(self._layouts[self._index].offset + start * out.itemsize)
            read = self._file.readinto(out)
        except OSError as error:
            raise UserError(f"cannot read {self.paths[self._index]}: {why(error)}.") from error
        if read < out.nbytes:
            raise shrunk(self.paths[self._index])

    def head(self, n) -> np.ndarray:
        """(min(n, all),) uint16: the first n tokens across all shards."""
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
        """Close the open shard, if any."""
        if self._file is not None:
            self._file.close()
        self._file, self._index = None, None

    def __del__(self):
        if getattr(self, "_file", None) is not None:
            self._file.close()
