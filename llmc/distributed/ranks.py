"""What ranks do together. `Ranks` itself is a process that is alone: everything is there already.

A rank is one of `world` processes, and its number from 0. All of them make the same calls in the same order, and none
returns before what it needs from the others has come. A sum is taken in the order of ranks, whoever carries the
numbers, and those of 16 bits are added in float32 and rounded once: so the bits of a run do not depend on how its ranks
met, and what `reduce_scatter` gives each rank is what `all_reduce` would have given it, to the last bit.
"""

import json
from contextlib import nullcontext

import numpy as np

from llmc.errors import UserError
from llmc.files.checked_json import parse_json

CHUNK = 1 << 20  # elements that are added at a time


class RankLost(UserError):
    """Another rank has ended, or cannot be reached any more, so this one cannot go on."""


class Ranks:
    """All the ranks of a run, as one of them sees them. Arrays are flat, without gaps, and on the host.

    rank: our number · world: how many there are · neighbours: how many of them run on this machine, as far as known ·
    local: our number among these.
    """

    rank = 0
    world = 1
    local, neighbours = 0, 1
    ends_when_closed = False  # whether `close` with a reason ends this process
    abort = staticmethod(lambda: None)  # ends what is under way elsewhere; whoever starts such things puts it here

    def all_reduce(self, array):
        """*array (n,) = the sum of all ranks' arrays."""

    def reduce_scatter(self, out, array):
        """*out (n / world,) = our part of the sum of all ranks' arrays (n,); array itself may hold anything then."""
        out[...] = array

    def all_gather(self, array, part):
        """*array (n,) = the parts (n / world,) of all ranks, one after the other. part may lie in its place there."""
        array[...] = part

    def broadcast(self, array):
        """*array (n,) = that of rank 0."""

    def exchange(self, value, shape=object) -> list:
        """The values, in JSON's types, of all ranks, in their order; shape: what each must be (see checked_json)."""
        return [value]

    def group(self):
        """`with ranks.group():` around calls of which none needs the result of another: they may run as one."""
        return nullcontext()

    def close(self, reason=""):
        """Leave. reason: why, if it is too early; the others learn it. Without one, wait until all of them leave."""

    def watch(self, lost):
        """Have lost(RankLost) called if a rank ends while this one is stuck; where mpirun ends all, it need not be."""

    # ------------------------------------------------------------------------- made of these

    def share(self, value, shape=object):
        """The value, in JSON's types and of this shape, that rank 0 has; what the others give is ignored."""
        return from_text(to_text(self.exchange(value if self.rank == 0 else None)[0]), shape)

    def sum(self, *numbers) -> list:
        """Of each number, its sum over all ranks, in float64."""
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
        """Raise UserError unless {name: value} is the same on all ranks: it names what differs, and on which rank."""
        all_of_them = self.exchange(what, dict)
        for rank, other in enumerate(all_of_them):
            for name, value in all_of_them[0].items():
                if other.get(name) != value:
                    raise UserError(
                        f"rank 0 has {name} {value!r} and rank {rank} {other.get(name)!r}; start all ranks with the"
                        " same command, the same files and the same version of llmc."
                    )


def add(total, array):
    """*total (k,) += array (k,), where total is float32 for arrays of 16 bits, and otherwise of their type."""
    np.add(total, array if array.dtype == total.dtype else array.astype(total.dtype), out=total)


def wide(array):
    """What a sum of such arrays is kept in: a copy of it, in float32 if it has 16 bits."""
    return array.astype(np.float32 if array.dtype.itemsize == 2 else array.dtype)


def chunks(size, step=CHUNK):
    """Slices that cover `size` elements, `step` at a time."""
    return (slice(start, min(start + step, size)) for start in range(0, size, step))


def as_bytes(array) -> memoryview:
    """The memory of an array (n,) without gaps, whatever its type."""
    if not array.flags.c_contiguous:
        raise ValueError("an array that ranks exchange must lie in one piece")
    return memoryview(array.view(np.uint8))


def to_text(value) -> bytes:
    """A value in JSON's types, for a message."""
    return json.dumps(value).encode()


def from_text(text, shape=object):
    """The value of `to_text`. Raises RankLost for anything else, and for a value that is not of this shape."""
    try:
        return parse_json(text, shape)
    except ValueError as error:
        raise RankLost(
            f"a rank sent what this run does not expect ({error}); use one version of llmc on all."
        ) from None
