"""Token files: a text as numbers on disk, in llm.c's format (`dev/data/data_common.py`): header, then uint16 token ids.

llm.c's first release wrote int32 without a header; that format can be read and written too. Nothing marks it, so a file
is taken to be in that format if it does not begin with a magic number and consists of whole int32 words that could all
be token ids.
"""

import hashlib
import os
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from llmc.errors import UserError, why
from llmc.files.atomic_write import atomic_write
from llmc.files.header import SIZE, check_size, make_header, read_header
from llmc.files.reading import opened

MAGIC = 20240520
VERSION = 1
HIGHEST = 65535  # the largest id that fits uint16
MOST = 2**31 - 1  # tokens in one file: the header counts them in an int32
DTYPES = {"uint16": "<u2", "int32": "<i4"}
NUMPY = int.from_bytes(b"\x93NUM", "little", signed=True)  # how an .npy file begins
CHUNK = 1 << 20  # tokens checked at a time


class Layout(NamedTuple):
    """How a token file is laid out: ntok ids of `dtype`, beginning at byte `offset`."""

    dtype: str
    offset: int
    ntok: int


def layout(path) -> Layout:
    """The layout of a token file, from its header and size, or, without a header, from all of its ids.

    Raises UserError if the file is missing, not a token file, of another version, truncated or empty.
    """
    first, size = _first_word(path)
    if first is not None and 0 <= first <= HIGHEST and size % 4 == 0:
        found = Layout(DTYPES["int32"], 0, size // 4)
        _check_headerless(path, found)
        return found
    if first not in (None, MAGIC) and size > SIZE and size % 2 == 0:
        load = f"load({str(path)!r})" if first == NUMPY else f"fromfile({str(path)!r}, 'uint16')"
        raise UserError(
            f"{path} is not a token file: it begins with {first}, not with the magic number {MAGIC}; if it holds"
            f" ids, like nanoGPT's files, convert it with `llmc.data.write_tokens('tokens.bin', numpy.{load})`."
        )
    header = read_header(path, MAGIC, (VERSION,), "a token file")
    ntok = int(header[2])
    if ntok < 1:
        raise UserError(f"{path} is empty: its header says {ntok} tokens; prepare the data again.")
    check_size(path, SIZE + 2 * ntok)
    return Layout(DTYPES["uint16"], SIZE, ntok)


def _first_word(path):
    """(first int32, or None in a shorter file; size in bytes) of a file. Raises UserError when it cannot be read."""
    with opened(path) as file:
        raw, size = file.read(4), os.fstat(file.fileno()).st_size
    return (int.from_bytes(raw, "little", signed=True) if len(raw) == 4 else None), size


def _check_headerless(path, found: Layout):
    """Raise UserError unless every word of a file without a header could be a token id, and not all are zero."""
    nonzero = False
    for index, tokens in chunks(path, found):
        if int(tokens.min()) < 0 or int(tokens.max()) > HIGHEST:
            at = int(np.flatnonzero((tokens < 0) | (tokens > HIGHEST))[0])
            raise UserError(
                f"{path} is not a token file: it has no header, and read as int32 its token {index + at:,} would be"
                f" {int(tokens[at])}, but ids go from 0 to {HIGHEST}; prepare the data again."
            )
        nonzero = nonzero or bool(tokens.any())
    if not nonzero:
        raise UserError(f"{path} is not a token file: it holds only zeros; prepare the data again.")


def chunks(path, found: Layout):
    """Yield (index of the first id, ids (n,)) from front to back.

    The file is read, not mapped, so that a file that shrinks meanwhile causes a UserError and does not kill the
    process.
    """
    with opened(path) as file:
        file.seek(found.offset)
        for index in range(0, found.ntok, CHUNK):
            n = min(CHUNK, found.ntok - index)
            tokens = np.fromfile(file, found.dtype, n)  # (n,)
            if tokens.size < n:
                raise shrunk(path)
            yield index, tokens


def shrunk(path) -> UserError:
    """The error for a file that has become shorter since it was opened."""
    return UserError(f"{path} has shrunk since it was opened; prepare the data again and start over.")


def check_ids(path, found: Layout, V: int) -> str:
    """The SHA-256 of all ids in a file. Raises UserError at the first id that a vocabulary of V does not have.

    This takes one pass over the file.
    """
    sha = hashlib.sha256()
    for index, tokens in chunks(path, found):
        _check_range(tokens, V - 1, str(path), "prepare it with this model's tokenizer", index)
        sha.update(tokens.data)
    return sha.hexdigest()


def read_tokens(path, V=None) -> np.ndarray:
    """The tokens of a file as a read-only memory map (ntok,): uint16, or int32 in the first release's format.

    With V, every id is checked to be < V (one pass over the file). Raises UserError if the file is missing, not a token
    file, of another version, truncated or empty, or if it holds an id that a vocabulary of V does not have.
    """
    found = layout(path)
    if V is not None:
        check_ids(path, found, V)
    try:
        return np.memmap(Path(path), found.dtype, "r", offset=found.offset, shape=(found.ntok,))  # (ntok,)
    except OSError as error:
        raise UserError(f"cannot read {path}: {why(error)}.") from error


# --------------------------------------------------------------------------------------------------------- writing


def write_tokens(path, tokens, form="uint16"):
    """Write token ids (ntok,), of any integer type or as a list, under a temporary name until the file is complete.

    [7, 8] -> 1024 bytes of header that say "2 tokens", then 07 00 08 00; with form "int32", no header and 4 bytes each
    Raises UserError if there are no tokens, if one does not fit into uint16, or if the file cannot be written.
    """
    with token_writer(path, form) as writer:
        writer.append(tokens)


@contextmanager
def token_writer(path, form="uint16"):
    """A TokenWriter whose file appears, complete, if the block ends without an error. Raises like `write_tokens`."""
    if form not in DTYPES:
        raise UserError(f"there is no token format {form!r}; choose {' or '.join(DTYPES)}.")
    with atomic_write(path) as file:
        writer = TokenWriter(file, path, form)
        yield writer
        writer.finish()


class TokenWriter:
    """Writes tokens as they arrive. `ntok` counts them."""

    def __init__(self, file, path, form):
        self.ntok, self._file, self._path, self._form = 0, file, path, form
        if form == "uint16":
            file.write(bytes(SIZE))  # the header: it holds the count, so it is written last

    def append(self, tokens):
        """Add token ids (n,), of any integer type or as a list."""
        tokens = np.asarray(tokens)
        if not tokens.size:
            return
        if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
            found = f"{tokens.dtype} of shape {tokens.shape}"
            raise UserError(f"tokens must be whole numbers of shape (ntok,), not {found}.")
        _check_range(tokens, HIGHEST, f"the tokens for {self._path}", "a token file stores uint16", self.ntok)
        self.ntok += tokens.size
        if self.ntok > MOST:
            raise UserError(f"{self._path} would hold more than {MOST:,} tokens; split them into several shards.")
        self._file.write(tokens.astype(DTYPES[self._form]).tobytes())

    def finish(self):
        """Write the header."""
        if not self.ntok:
            raise UserError(f"there are no tokens to write to {self._path}; a token file needs at least one.")
        if self._form == "uint16":
            self._file.seek(0)
            self._file.write(make_header(MAGIC, VERSION, self.ntok).tobytes())


def _check_range(tokens, highest, whose, hint, index=0):
    """Raise UserError for the first of tokens (n,) outside 0..highest. index: that of tokens[0], for the message."""
    if 0 <= int(tokens.min()) and int(tokens.max()) <= highest:
        return
    at = int(np.flatnonzero((tokens < 0) | (tokens > highest))[0])
    raise UserError(
        f"{whose}: token {index + at:,} is {int(tokens[at])}, but ids must be from 0 to {highest} here; {hint}."
    )
