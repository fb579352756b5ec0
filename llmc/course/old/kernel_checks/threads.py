"""The threads of a `masked` launch: which of them take part at the moment, and what they read and write in memory.

A number is an array (threads, 1), or (threads, 4) for a float4. An access outside of an array is noted, and left out.
"""

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Memory:
    """An array of a launch, flat, from `offset` on; shared: one that each block has of its own, (blocks, n).

    width: of a row, if it is a shared array of two axes, whose index is a pair.
    """

    name: str
    array: np.ndarray
    shared: bool = False
    offset: object = 0
    width: int = 0

    def __add__(self, more):
        return replace(self, offset=self.offset + more)


class Threads:
    """All threads of one launch, block after block; blocks, threads: how many, and in each block."""

    def __init__(self, grid, block):
        self.blocks, self.threads = int(np.prod(grid)), int(np.prod(block))
        self.thread = np.tile(np.arange(self.threads), self.blocks)[:, None]  # (threads, 1)
        self.block = np.repeat(np.arange(self.blocks), self.threads)[:, None]
        self.zero, self.active = np.zeros_like(self.thread), np.ones_like(self.thread, bool)
        self._outside = {}  # {name: ((index, thread, block), which threads)}
        self._writes = []  # (name, (n, 2) elements and the threads that wrote them)
        self._reads = {}  # {name: [elements]}

    def shared(self, n, width=0):
        """`__shared__ float …[n]`, or `…[n][width]`, with nothing in it yet."""
        empty = np.full((self.blocks, n * (width or 1)), np.nan)  # (blocks, n · width)
        return Memory("shared memory", empty, shared=True, width=width)

    def load(self, memory, index):
        """memory[index], (threads, 1 or 4); NaN, or the int 0, outside and in threads that take no part."""
        index, taken = self._inside(memory, index)
        place = np.where(taken, index, 0)
        array = memory.array[self.block, place] if memory.shared else memory.array[place]
        if not memory.shared:
            self._reads.setdefault(memory.name, []).append(index[taken])
        if array.dtype.kind == "i":  # it may be an index
            return np.where(taken, array, 0)
        return np.where(taken, array.astype(np.float64), np.nan)

    def store(self, memory, index, value):
        """memory[index] = value."""
        index, taken = self._inside(memory, index)
        value, place = (value + np.zeros(index.shape))[taken], index[taken]
        if memory.shared:
            memory.array[(self.block + 0 * index)[taken], place] = value
        else:
            memory.array[place] = value
            writer = (self.block * self.threads + self.thread + 0 * index)[taken]
            self._writes.append((memory.name, np.stack([place, writer], axis=1)))

    def _inside(self, memory, index):
        """An index for each thread and which of them are taken, (threads, 1 or 4); notes those outside."""
        if isinstance(index, tuple):
            row, column = index
            index = np.where((0 <= column) & (column < memory.width), row * memory.width + column, -1)
        index = index + memory.offset + self.zero
        if index.dtype.kind != "i":
            raise TypeError("an index that is not an integer")
        out = self.active & ((index < 0) | (index >= memory.array.shape[-1]))
        if out.any():
            first, slot = np.argwhere(out)[0]
            where = int(index[first, slot]), int(self.thread[first, 0]), int(self.block[first, 0])
            _, threads = self._outside.setdefault(memory.name, (where, np.zeros_like(self.active)))
            threads |= out.any(axis=1, keepdims=True)
        return index, self.active & ~out

    def outside(self) -> list:
        """(name, first index, its thread, its block, how many threads) of each array that was left."""
        return [(name, *where, int(threads.sum())) for name, (where, threads) in self._outside.items()]

    def written(self, name, size):
        """(size,) bool: which elements of an array were written."""
        written = np.zeros(size, bool)
        for memory, pairs in self._writes:
            if memory == name:
                written[pairs[:, 0]] = True
        return written

    def writers(self) -> set:
        """{(name, element, thread)} of all that was written."""
        return {(name, int(element), int(thread)) for name, pairs in self._writes for element, thread in pairs}

    def read(self, name, size):
        """(size,) bool: which elements of an array were read."""
        read = np.zeros(size, bool)
        for places in self._reads.get(name, []):
            read[places] = True
        return read

    def rewritten(self) -> list:
        """(name, element) for every writer of an element beyond the first."""
        found = []
        for name in {name for name, _ in self._writes}:
            pairs = np.unique(np.concatenate([w for n, w in self._writes if n == name]), axis=0)  # (n, 2)
            elements, writers = np.unique(pairs[:, 0], return_counts=True)
            found += [(name, int(e)) for e, n in zip(elements, writers) for _ in range(n - 1)]
        return found


def memories(names, arguments) -> list:
    """The arguments of a kernel whose parameters have these names, arrays as flat Memory."""
    pairs = zip(names, arguments, strict=True)
    return [Memory(name, a.reshape(-1)) if isinstance(a, np.ndarray) else a for name, a in pairs]
