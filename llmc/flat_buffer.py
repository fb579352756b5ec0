"""Memory that is allocated once: flat buffers with named views, planned from a table of tensors; scratch memory.

The idea is llm.c's malloc_and_point: one allocation, many pointers.
"""

from collections.abc import Mapping
from math import prod
from typing import NamedTuple


class Tensor(NamedTuple):
    """One array in a flat buffer. stacked: whether its first axis is the layers."""

    name: str
    shape: tuple[int, ...]
    stacked: bool = False


class FlatBuffer(Mapping):
    """Named views into one flat array of a backend: buffer["qkvw"], or buffer.layer(3)["qkvw"] for those of one layer.

    table: tensors (anything with a name, a shape and `stacked`) in the order of memory. Nothing is allocated before
    `allocate` or the first use. The flat array is replaced only when a table needs more than there is, so a smaller
    batch reuses it.
    """

    def __init__(self, backend, dtype, table=()):
        self.backend, self.dtype, self.table = backend, dtype, table
        self._flat, self._inside, self._views, self._layers = None, None, {}, {}

    def allocate(self, table=None, inside=None):
        """Use this table from now on (None: the present one), and allocate if it needs more memory. Returns self.

        inside: an array, large enough, whose memory the tensors share; then nothing is allocated.
        """
        table = self.table if table is None else table
        if self._views and table == self.table and inside is self._inside:
            return self
        self._inside, needed = inside, sum(prod(tensor.shape) for tensor in table)
        if inside is not None:
            self._flat = inside.reshape(-1)
        elif self._flat is None or self._flat.size < needed:
            self._views, self._layers, self._flat = {}, {}, None  # free the old array before allocating the new one
            self._flat = self.backend.zeros(needed, self.dtype)
        self.table, self._views, self._layers, start = table, {}, {}, 0
        for tensor in table:
            end = start + prod(tensor.shape)
            self._views[tensor.name] = self._flat[start:end].reshape(tensor.shape)
            start = end
        return self

    @property
    def flat(self):
        """(capacity,) the array behind all views."""
        return self.allocate()._flat

    def __getitem__(self, name):
        return (self._views or self.allocate()._views)[name]

    def __iter__(self):
        return (tensor.name for tensor in self.table)

    def __len__(self):
        return len(self.table)

    def layer(self, l) -> dict:
        """What layer l works with: its own part of each stacked tensor, and the others as they are."""
        if l not in self._layers:
            self._layers[l] = {t.name: self[t.name][l] if t.stacked else self[t.name] for t in self.table}
        return self._layers[l]

    def zero(self):
        """Set every element to zero. Before the first use there is nothing to do: new memory is zero."""
        if self._flat is not None:
            self.backend.zero(self._flat)


class Scratch:
    """Temporary memory of functions, kept from one call to the next, so that a training step allocates nothing.

    allocate: a function (n, dtype) -> flat array, with anything in it · moves: how often an array has had to grow, and
    so lies elsewhere than before.
    """

    def __init__(self, allocate):
        self._allocate, self._kept, self.moves = allocate, {}, 0

    def __call__(self, name, shape, dtype):
        """An array with anything in it: the same memory for every call with this name and dtype; it grows if needed."""
        flat, size = self._kept.get((name, dtype)), prod(shape)
        if flat is None or flat.size < size:
            self.moves += flat is not None
            flat = self._kept[name, dtype] = self._allocate(size, dtype)  # (size,)
        return flat[:size].reshape(shape)


def plan_table(groups, itemsize: int) -> str:
    """Text of groups {title: table}: shape and MiB of every tensor, subtotals, the total.

    A group whose table equals an earlier one's (gradients, moments) is a single line.
    """
    lines, total, seen = [], 0, []
    for title, table in groups.items():
        size = sum(prod(tensor.shape) for tensor in table)
        total += size
        lines.append(f"{title:<44} {size * itemsize / 2**20:12,.2f} MiB")
        if table not in seen:
            seen.append(table)
            for tensor in table:
                mib = prod(tensor.shape) * itemsize / 2**20
                lines.append(f"  {tensor.name:<12} {str(tensor.shape):<29} {mib:12,.2f}")
    return "\n".join([*lines, f"{'total':<44} {total * itemsize / 2**20:12,.2f} MiB"])
