"""What ranks do together. `Ranks` itself is for a single process, which already has everything.

A rank is one of `world` processes, and also its number, counted from 0. All ranks make the same calls in the same
order, and none returns before it has what it needs from the others. Sums are taken in the order of ranks, whatever
carries the numbers, and 16-bit numbers are added in float32 and rounded once. So the bits of a run do not depend on how
its ranks are connected, and `reduce_scatter` gives each rank exactly the bits that `all_reduce` would give it.
"""

import json
from contextlib import nullcontext

import numpy as np

from llmc.errors import UserError
from llmc.files.checked_json import parse_json

CHUNK = 1 << 20  # elements that are added at a time


class RankLost(UserError):
    """Another rank has ended or can no longer be reached, so this one cannot go on."""


class Ranks:
    """All the ranks of a run, as seen by one of them. Arrays are flat, without gaps, and on the host.

    rank: our number · world: how many ranks there are · neighbours: how many of them run on this machine, as far as
    known · local: our number among these.
    """

    rank = 0
    world = 1
    local, neighbours = 0, 1
    ends_when_closed = False  # whether `close` with a reason ends this process
    abort = staticmethod(lambda: None)  # ends what is under way elsewhere; whoever starts such things puts it here

    def all_reduce(self, array):
        """*array (n,) = the sum of all ranks' arrays."""

    def reduce_scatter(self, out, array):
        """*out (n / world,) = our part of the sum of all ranks' arrays (n,); afterwards array may hold anything."""
        out[...] = array

    def all_gather(self, array, part):
        """*array (n,) = the parts (n / world,) of all ranks, one after another; part may already be in its place in
        array."""
        array[...] = part

    def broadcast(self, array):
        """*array (n,) = that of rank 0."""

    def exchange(self, value, shape=object) -> list:
        """All ranks' values, in JSON's types and in the order of ranks; shape: what each must be (see checked_json)."""
        return [value]

    def group(self):
        """`with ranks.group():` around calls that do not need each other's results, so that they may run as one."""
        return nullcontext()

    def close(self, reason=""):
        """Leave. reason: why, if it is too early, to tell the others. Without a reason, wait until all ranks leave."""

    def watch(self, lost):
        """Have lost(RankLost) called if a rank ends while this one is stuck; not needed if mpirun ends all of them."""

    # ------------------------------------------------------------------------- made of these

    def share(self, value, shape=object):
        """Rank 0's value, in JSON's types and of this shape; the others' values are ignored."""
        return from_text(to_text(self.exchange(value if self.rank == 0 else None)[0]), shape)

    def sum(self, *numbers) -> list:
        """The sum of each number over all ranks, in float64."""
        array = np.array(numbers, np.float64)  # (how many,)
        self.all_reduce(array)
        return array.tolist()

    def mean(self, number) -> float:
        """The mean of all ranks' numbers, in float64."""
        return self.sum(number)[0] / self.world

    def barrier(self):
        """Wait until all ranks are here."""
        self.sum(0.0)

    def agree(self, what):
        """Raise UserError, naming what differs and on which rank, unless {name: value} is the same on all ranks."""
        all_of_them = self.exchange(what, dict)
        for rank, other in enumerate(all_of_them):
            for name, value in all_of_them[0].items():
                if other.get(name) != value:
                    raise UserError(
                        f"rank 0 has {name} {value!r} and rank {rank} {other.get(name)!r}; start all ranks with the"
                        " same command, the same files and the same version of llmc."
                    )


def add(total, array):
    """*total (k,) += array (k,), where total is float32 for 16-bit arrays, and otherwise of the same type."""
    np.add(total, array if array.dtype == total.dtype else array.astype(total.dtype), out=total)


def wide(array):
    """An array for the sum of such arrays: a copy of this one, in float32 if it has 16 bits."""
    return array.astype(np.float32 if array.dtype.itemsize == 2 else array.dtype)


def chunks(size, step=CHUNK):
    """Slices that cover `size` elements, `step` at a time."""
    return (slice(start, min(start + step, size)) for start in range(0, size, step))


def as_bytes(array) -> memoryview:
    """The memory of an array (n,) without gaps, whatever its type."""
    if not array.flags.c_contiguous:
        raise ValueError("an array that ranks exchange must be contiguous")
    return memoryview(array.view(np.uint8))


def to_text(value) -> bytes:
    """A value in JSON's types, for a message."""
    return json.dumps(value).encode()


def from_text(text, shape=object):
    """The value that `to_text` encoded. Raises RankLost for anything else, and for a value of the wrong shape."""
    try:
        return parse_json(text, shape)
    except ValueError as error:
        raise RankLost(
            f"a rank sent something that this run does not expect ({error}); use the same version of llmc on all ranks."
        ) from None
