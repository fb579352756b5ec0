"""Memory that is allocated only once: flat buffers with named views, planned from a table of tensors, and scratch
memory.

The idea is llm.c's malloc_and_point: one allocation, many pointers.
"""

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

import numpy as np

WORD = 16  # bytes that fast kernels read at once, from an address that is a multiple of this


class Tensor(NamedTuple):
    """One array in a flat buffer.

    stacked: whether its first axis runs over the layers · kind: "exact", "stream" or "factor", if its type may differ
    from that of the others (llmc/precision.py).
    """

    name: str
    shape: tuple[int, ...]
    stacked: bool = False
    kind: str = ""


class FlatBuffer(Mapping):
    """Named views into one flat array of a backend: buffer["qkvw"], or for one layer buffer.layer(3)["qkvw"].

    table: tensors (anything with a name, a shape and `stacked`) in memory order · kinds: {kind of a tensor: its dtype},
    for kinds that do not have `dtype`; each dtype has a flat array of its own · aligned: whether all tensors begin at
    multiples of WORD, so that the size of one does not affect how another is read. Nothing is allocated before
    `allocate` or the first use. A flat array is replaced only when a table needs more memory, so a smaller batch reuses
    it.
    """

    def __init__(self, backend, dtype, table=(), kinds=None, aligned=False):
        self.backend, self.dtype, self.table, self.aligned = backend, np.dtype(dtype), table, aligned
        self.kinds = {kind: np.dtype(its) for kind, its in (kinds or {}).items()}
        self._flats, self._inside, self._views, self._layers = {}, None, {}, {}

    def dtype_of(self, tensor) -> np.dtype:
        """The data type of one of its tensors."""
        return self.kinds.get(getattr(tensor, "kind", ""), self.dtype)

    @property
    def nbytes(self) -> int:
        """How many bytes its table takes up, whether allocated or not."""
        return sum(dtype.itemsize * size for dtype, size in self._places(self.table)[1].items())

    def _places(self, table):
        """([(tensor, its dtype, where it begins)], {dtype: how many numbers there are})."""
        places, ends = [], dict.fromkeys([self.dtype, *map(self.dtype_of, table)], 0)
        for tensor in table:
            dtype = self.dtype_of(tensor)
            step = WORD // dtype.itemsize if self.aligned else 1
            start = -(-ends[dtype] // step) * step
            places.append((tensor, dtype, start))
            ends[dtype] = start + prod(tensor.shape)
        return places, ends

    def allocate(self, table=None, inside=None):
        """Use this table from now on (None: the current one), and allocate if it needs more memory. Returns self.

        inside: a large enough array whose memory the tensors then share, so that nothing is allocated.
        """
        table = self.table if table is None else table
        if self._views and table == self.table and inside is self._inside:
            return self
        self._inside, (places, needed) = inside, self._places(table)
        if inside is not None:
            self._flats = {self.dtype: inside.reshape(-1)}
        for dtype, size in needed.items():
            if dtype not in self._flats or self._flats[dtype].size < size:
                self._views, self._layers = {}, {}
                self._flats.pop(dtype, None)  # free the old array before allocating the new one
                self._flats[dtype] = self.backend.zeros(size, dtype)
        self.table, self._views, self._layers = table, {}, {}
        for tensor, dtype, start in places:
            self._views[tensor.name] = self._flats[dtype][start : start + prod(tensor.shape)].reshape(tensor.shape)
        return self

    @property
    def flat(self):
        """(capacity,) the array behind all views, except those of another dtype."""
        return self.allocate()._flats[self.dtype]

    @property
    def flats(self) -> list:
        """All arrays behind the views: one for each dtype."""
        return list(self.allocate()._flats.values())

    def __getitem__(self, name):
        return (self._views or self.allocate()._views)[name]

    def __iter__(self):
        return (tensor.name for tensor in self.table)

    def __len__(self):
        return len(self.table)

    def layer(self, l) -> dict:
        """What layer l works with: its own part of each stacked tensor, and all other tensors unchanged."""
        if l not in self._layers:
            self._layers[l] = {t.name: self[t.name][l] if t.stacked else self[t.name] for t in self.table}
        return self._layers[l]

    def zero(self):
        """Set every element to zero. Before the first use this does nothing, since new memory is zero."""
        for flat in self._flats.values():
            self.backend.zero(flat)


class Scratch:
    """Temporary memory for functions, kept from one call to the next, so that a training step allocates nothing.

    allocate: a function (n, dtype) -> flat array with arbitrary contents · moves: how many times an array has had
    to grow, and so has moved in memory.
    """

    def __init__(self, allocate):
        self._allocate, self._kept, self.moves = allocate, {}, 0

    def free(self):
        """Keep nothing; the next calls allocate again."""
        self._kept.clear()

    def __call__(self, name, shape, dtype):
        """An array with arbitrary contents: calls with the same name and dtype share memory, which grows if needed."""
        flat, size = self._kept.get((name, dtype)), prod(shape)
        if flat is None or flat.size < size:
            self.moves += flat is not None
            flat = self._kept[name, dtype] = self._allocate(size, dtype)  # (size,)
        return flat[:size].reshape(shape)


def plan_table(buffers) -> str:
    """Describe {title: FlatBuffer} as text: type, shape and MiB of every tensor, subtotals and total. Allocates
    nothing.

    A buffer with the same tensors as an earlier one (gradients, moments) gets a single line.
    """
    lines, seen = [], []
    for title, buffer in buffers.items():
        lines.append(f"{title:<44} {buffer.nbytes / 2**20:12,.2f} MiB{_type(buffer.dtype)}")
        if buffer.table not in seen:
            seen.append(buffer.table)
            lines += [_row(buffer, tensor) for tensor in buffer.table]
    return "\n".join([*lines, f"{'total':<44} {sum(b.nbytes for b in buffers.values()) / 2**20:12,.2f} MiB"])


def _row(buffer, tensor) -> str:
    dtype = buffer.dtype_of(tensor)
    mib = dtype.itemsize * prod(tensor.shape) / 2**20
    own = f"      {dtype.name}" if dtype != buffer.dtype else ""  # the others have the one of the line above
    return f"  {tensor.name:<12} {str(tensor.shape):<29} {mib:12,.2f}{own}"


def _type(dtype) -> str:
    """What follows MiB: nothing for float32, which most models have throughout."""
    return "" if dtype == np.float32 else f"  {dtype.name}"
