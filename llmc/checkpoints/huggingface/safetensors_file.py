"""The safetensors format, implemented by hand: 8 bytes of header length, a JSON header, then the numbers of all
tensors.

The header maps a name to {"dtype": "F32", "shape": [3, 4], "data_offsets": [begin, end]}, with offsets from the end of
the header. Follows github.com/huggingface/safetensors. The library's own NumPy reader does not support bfloat16, and
reading part of a file is easy, so llmc does without it.
"""

import json
from dataclasses import dataclass
from math import prod

import numpy as np

from llmc.errors import UserError
from llmc.files.atomic_write import atomic_write
from llmc.files.floats import bfloat16_to_float32, float32_to_bfloat16
from llmc.files.reading import file_size, opened

LONGEST_HEADER = 100_000_000  # bytes, the format's own limit
MOST_DIMENSIONS = 8
TYPES = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor is: its file, its first byte there, its dtype as the format names it, and its shape."""

    path: str
    start: int
    dtype: str
    shape: tuple[int, ...]

    def read(self) -> np.ndarray:
        """The tensor as float32. Raises UserError if its dtype is not a float, or if the file has become shorter."""
        if self.dtype not in TYPES:
            raise UserError(
                f"{self.path} holds {self.dtype}, but llmc reads only {', '.join(TYPES)}; convert it first."
            )
        with opened(self.path) as file:
            file.seek(self.start)
            values = np.fromfile(file, TYPES[self.dtype], prod(self.shape))  # (size,)
        if values.size < prod(self.shape):
            raise UserError(f"{self.path} shrank while it was being read; get a fresh copy.")
        values = bfloat16_to_float32(values) if self.dtype == "BF16" else values  # (size,)
        with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite
            return values.astype(np.float32, copy=False).reshape(self.shape)


def read_index(path) -> dict[str, StoredTensor]:
    """The tensors in a file, {name: StoredTensor}, without reading any of them.

    Every size is checked against the file's, so nothing is allocated for data that does not exist. Raises UserError if
    the file is missing, truncated, or not a safetensors file.
    """
    size = file_size(path)
    with opened(path) as file:
        begin = 8 + int.from_bytes(file.read(8), "little")  # where the numbers begin
        if not 8 < begin <= min(size, LONGEST_HEADER):
            raise UserError(f"{path} is not a safetensors file, or is truncated inside its header; get a fresh copy.")
        raw = file.read(begin - 8)
    try:
        header = json.loads(raw)
    except (ValueError, RecursionError):  # ValueError: also bytes that are not UTF-8, and endless numbers
        header = None
    if not isinstance(header, dict):
        raise UserError(f"{path} is not a safetensors file: its header is not a JSON object; get a fresh copy.")
    header.pop("__metadata__", None)
    return {name: _entry(str(path), name, entry, begin, size) for name, entry in header.items()}


def _entry(path, name, entry, begin, size):
    """The StoredTensor for one header entry, with every field checked."""
    try:
        dtype, shape, (first, last) = entry["dtype"], entry["shape"], entry["data_offsets"]
        numbers = [first, last, *shape]
        sound = isinstance(dtype, str) and len(shape) <= MOST_DIMENSIONS
        sound = sound and all(type(n) is int and 0 <= n <= size for n in numbers) and first <= last
    except (TypeError, KeyError, ValueError):
        sound = False
    if not sound:
        raise UserError(
            f"{path} is damaged: its header describes the tensor {name[:80]!r} incorrectly; get a fresh copy."
        )
    if begin + last > size:
        raise UserError(
            f"{path} is truncated: the tensor {name[:80]!r} extends past its {size:,} bytes; get a fresh copy."
        )
    if dtype in TYPES and last - first != prod(shape) * TYPES[dtype].itemsize:
        raise UserError(
            f"{path} is damaged: the size of the tensor {name[:80]!r} does not match its shape; get a fresh copy."
        )
    return StoredTensor(path, start=begin + first, dtype=dtype, shape=tuple(shape))


def write_safetensors(path, shapes: dict, arrays, dtype="F32"):
    """Write tensors, given their shapes {name: tuple} and, in the same order, their arrays in any float type.

    dtype: "F32", or "BF16", to which they are rounded. The arrays are taken one at a time. The file gets its name once
    it is complete. Raises UserError if it cannot be written.
    """
    header, end = {"__metadata__": {"format": "pt"}}, 0  # transformers requires the format
    for name, shape in shapes.items():
        begin, end = end, end + TYPES[dtype].itemsize * prod(shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the numbers begin at a multiple of 8
    with atomic_write(path) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays:
            values = np.ascontiguousarray(array, "<f4")
            file.write((float32_to_bfloat16(values) if dtype == "BF16" else values).data)
