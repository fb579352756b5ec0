"""The header that all of llm.c's binary files begin with: 256 little-endian int32, the first a magic number.

Shared by token files, models, states and tokenizers. Every refusal is one sentence, made before anything is allocated.
"""

from contextlib import contextmanager
from pathlib import Path

import numpy as np

from llmc.errors import UserError, why

WORDS = 256
SIZE = 4 * WORDS  # bytes


def make_header(magic: int, version: int, *fields: int) -> np.ndarray:
    """(256,) int32: magic, version, the fields, then zeros."""
    header = np.zeros(WORDS, "<i4")  # (256,)
    header[: 2 + len(fields)] = [magic, version, *fields]
    return header


@contextmanager
def opened(path):
    """`with opened(path) as file`: the file for reading bytes. Raises UserError when the system refuses, also later."""
    try:
        with Path(path).open("rb") as file:
            yield file
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; check the path.") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {why(error)}.") from error


def file_size(path) -> int:
    """Bytes in a file. Raises UserError when the system does not tell."""
    with opened(path) as file:
        return file.seek(0, 2)


def read_header(path, magic: int, versions, what: str) -> np.ndarray:
    """(256,) int32 of a file that must be `what` ("a token file"): magic and version are checked.

    Raises UserError when the file is missing, unreadable, shorter than a header, of another kind or another version.
    """
    with opened(path) as file:
        raw = file.read(SIZE)
    if len(raw) < SIZE:
        raise UserError(f"{path} is not {what}: it has {len(raw)} bytes, and the header alone takes {SIZE}.")
    header = np.frombuffer(raw, "<i4")  # (256,)
    if header[0] != magic:
        raise UserError(f"{path} is not {what}: it begins with {header[0]}, not with the magic number {magic}.")
    if header[1] not in versions:
        known = " or ".join(str(v) for v in versions)
        raise UserError(f"{path} is {what} of version {header[1]}, and llmc reads version {known}; write it anew.")
    return header


def check_size(path, expected: int):
    """Raise UserError unless the file has exactly `expected` bytes, as its header promises."""
    size = file_size(path)
    if size != expected:
        state = "truncated" if size < expected else "too long"
        raise UserError(
            f"{path} is {state}: it has {size:,} bytes, and its header promises {expected:,}; get a fresh copy."
        )
