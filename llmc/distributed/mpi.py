"""Ranks over MPI, for arrays on the host: mpirun (or srun) has started the processes, mpi4py carries the numbers.

MPI may add in any order, so it only carries data: each rank gets one part of every array, adds it in the order of
ranks, and then the sums are gathered.
"""

import os
import sys
import time
from contextlib import suppress

import numpy as np

from llmc.distributed.ranks import CHUNK, Ranks, add, as_bytes, chunks, from_text, to_text, wide
from llmc.errors import UserError
from llmc.terminal import pip

EXTRA = '".[mpi]"'


class MpiRanks(Ranks):
    """See Ranks. A rank that fails ends all ranks, just as mpirun does if a process dies."""

    ends_when_closed = True

    def __init__(self, communicator):
        self._mpi = communicator
        self.rank, self.world = communicator.Get_rank(), communicator.Get_size()
        names = communicator.allgather(_machine())
        here = [rank for rank, name in enumerate(names) if name == names[self.rank]]
        self.local, self.neighbours = here.index(self.rank), len(here)

    def all_reduce(self, array):
        for c in chunks(array.size, CHUNK * self.world):
            each = -(-array[c].size // self.world)  # elements of a part, the last of which is filled up
            filled = np.zeros(each * self.world, array.dtype)  # (world · each,)
            filled[: array[c].size] = array[c]
            total = self._part_of_sum(filled)  # (each,)
            self._mpi.Allgather(as_bytes(total), as_bytes(filled))
            array[c] = filled[: array[c].size]

    def reduce_scatter(self, out, array):
        parts = array.reshape(self.world, -1)  # (world, n / world)
        for c in chunks(out.size):
            out[c] = self._part_of_sum(np.ascontiguousarray(parts[:, c]).reshape(-1))

    def _part_of_sum(self, array):
        """(n / world,) our part of the sum of all ranks' arrays (n,); each rank sends us that part of its array."""
        received = np.empty_like(array)  # (n,)
        self._mpi.Alltoall(as_bytes(array), as_bytes(received))
        first, *others = received.reshape(self.world, -1)  # (n / world,) each
        total = wide(first)  # (n / world,)
        for other in others:
            add(total, other)
        return total.astype(array.dtype, copy=False)

    def all_gather(self, array, part):
        part = np.array(part)  # (n / world,): it may lie in array, which MPI does not allow
        self._mpi.Allgather(as_bytes(part), as_bytes(array))

    def broadcast(self, array):
        for c in chunks(array.size):  # so that no message has more bytes than MPI can count
            self._mpi.Bcast(as_bytes(array[c]))

    def exchange(self, value, shape=object) -> list:
        return [from_text(text, shape) for text in self._mpi.allgather(to_text(value))]

    def close(self, reason=""):
        if reason:  # Abort ends the launcher too, and what that has not read by then is lost
            print(f"llmc: rank {self.rank}: {reason}", file=sys.stderr, flush=True)
            _wait_until_read(sys.stderr)
            self._mpi.Abort(2)
            os._exit(2)  # Abort may come back before the launcher kills us; all is said
        self.barrier()


def connect(started: int) -> MpiRanks:
    """The `started` ranks that mpirun has started. Raises UserError if mpi4py is missing, finds no MPI library, or
    finds one that does not belong to this mpirun, because then each process would train alone.
    """
    try:
        from mpi4py import MPI
    except ImportError:
        command = pip("install", "-e", EXTRA)
        raise UserError(f"mpirun started this process, but mpi4py is not installed here; run `{command}`.") from None
    except RuntimeError as error:  # mpi4py's word for a library that it cannot load
        first = str(error).splitlines()[0]
        raise UserError(f"mpi4py finds no MPI library ({first}); run `{pip('install', 'mpich')}`.") from None
    if MPI.COMM_WORLD.Get_size() != started:
        raise UserError(
            f"mpirun started {started} processes, but mpi4py sees {MPI.COMM_WORLD.Get_size()}: it uses another"
            f" MPI ({MPI.Get_library_version().split(',')[0].strip()}); start the ranks with that MPI's mpirun."
        )
    return MpiRanks(MPI.COMM_WORLD)


def _wait_until_read(stream, at_most=2.0):
    """Wait, at most `at_most` seconds, until the launcher has read our output, and a moment longer so it can pass it
    on.

    A terminal, a file and some systems do not say how much is unread; for them, the moment must be enough.
    """
    end, unread = time.monotonic() + at_most, bytearray(b"\1\0\0\0")
    with suppress(OSError, ImportError, ValueError):
        import fcntl
        import termios

        while any(unread) and time.monotonic() < end:
            fcntl.ioctl(stream.fileno(), termios.FIONREAD, unread)
            time.sleep(0.01)
    time.sleep(0.1)


def _machine():
    from mpi4py import MPI

    return MPI.Get_processor_name()
