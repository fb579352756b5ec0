"""The header at the start of all of llm.c's binary files: 256 little-endian int32, of which the first is a magic
number.

Token files, models, states and tokenizers share it. A bad file is refused, in one sentence, before anything is
allocated.
"""

import numpy as np

from llmc.errors import UserError
from llmc.files.reading import file_size, opened

WORDS = 256
SIZE = 4 * WORDS  # bytes


def make_header(magic: int, version: int, *fields: int) -> np.ndarray:
    """(256,) int32: magic, version, the fields, then zeros."""
    header = np.zeros(WORDS, "<i4")  # (256,)
    header[: 2 + len(fields)] = [magic, version, *fields]
    return header


def read_header(path, magic: int, versions, what: str) -> np.ndarray:
    """(256,) int32: the header of a file that must be `what` ("a token file"), with magic number and version checked.

    Raises UserError if the file is missing, unreadable, shorter than a header, or of another kind or version.
    """
    with opened(path) as file:
        raw = file.read(SIZE)
    if len(raw) < SIZE:
        raise UserError(
            f"{path} is not {what}: it has {len(raw)} bytes, but the header alone takes {SIZE}; give another file."
        )
    header = np.frombuffer(raw, "<i4")  # (256,)
    if header[0] != magic:
        raise UserError(
            f"{path} is not {what}: it begins with {header[0]}, not with the magic number {magic}; give another file."
        )
    if header[1] not in versions:
        known = " or ".join(str(v) for v in versions)
        raise UserError(
            f"{path} is {what} of version {header[1]}, but llmc reads version {known}; write the file again in that"
            " version."
        )
    return header


def check_size(path, expected: int):
    """Raise UserError unless the file has exactly `expected` bytes, as its header promises."""
    size = file_size(path)
    if size != expected:
        state = "truncated" if size < expected else "too long"
        raise UserError(
            f"{path} is {state}: it has {size:,} bytes, but its header promises {expected:,}; get a fresh copy."
        )
