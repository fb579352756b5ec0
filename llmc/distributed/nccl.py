"""What ranks do together with arrays on GPUs, using NVIDIA's NCCL: each rank has one process and one GPU.

Calls are launched on CuPy's current stream and return at once, like kernels. NCCL does not notice that a rank has died,
and does not end either, so its caller has to watch the ranks (`TcpRanks.watch`; mpirun does so by itself).
"""

import faulthandler
import os
import sys
from contextlib import contextmanager
from functools import cached_property

import numpy as np

from llmc.cuda import number_of_gpus
from llmc.errors import UserError

TYPES = {"float16": "NCCL_FLOAT16", "float32": "NCCL_FLOAT32", "float64": "NCCL_FLOAT64", "bfloat16": "NCCL_BFLOAT16"}
BFLOAT16 = 9  # ncclBfloat16, where CuPy has no name for it
QUICK = 100e9  # bytes a second of an all-reduce: two H200s with NVLink have 290e9, a few PCIe cards 10e9 to 25e9
TRIED = 1 << 25  # bytes of the all-reduce that finds the rate
PATIENCE = 2.0  # seconds that a process has to end by itself


class Nccl:
    """The calls of Ranks that move arrays, for CuPy's arrays. ranks: how NCCL's processes find one another."""

    def __init__(self, ranks):
        import cupy
        from cupy.cuda import nccl

        self.rank, self.world, self._nccl = ranks.rank, ranks.world, nccl
        name = ranks.share(list(nccl.get_unique_id()) if ranks.rank == 0 else None, [int])
        self._communicator = nccl.NcclCommunicator(ranks.world, bytes(name), ranks.rank)
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._reached, self._done = (cupy.cuda.Event(disable_timing=True) for _ in range(2))
        self._ranks = ranks
        ranks.abort = _end_soon

    def all_reduce(self, array):
        """*array (n,) = the sum of all ranks' arrays."""
        self._communicator.allReduce(
            _at(array), _at(array), array.size, self._type(array), self._nccl.NCCL_SUM, _current().ptr
        )

    def reduce_scatter(self, out, array):
        """*out (n / world,) = our part of the sum of all ranks' arrays (n,)."""
        how = self._type(array), self._nccl.NCCL_SUM, _current().ptr
        self._communicator.reduceScatter(_at(array), _at(out), out.size, *how)

    def all_gather(self, array, part):
        """*array (n,) = the parts (n / world,) of all ranks; part may already be in its place in array."""
        self._communicator.allGather(_at(part), _at(array), part.size, self._type(part), _current().ptr)

    def broadcast(self, array):
        """*array (n,) = rank 0's array."""
        self._communicator.broadcast(_at(array), _at(array), array.size, self._type(array), 0, _current().ptr)

    @cached_property
    def hides(self):
        """Whether sums between our GPUs are so slow that they should be hidden behind other work with `beside`.

        NCCL's copies take multiprocessors away from that work: on two H200s, a step with hidden sums was slower.
        """
        import cupy

        array = cupy.zeros(TRIED // 4, np.float32)
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        for _ in range(2):  # the first one also connects the ranks
            begin.record()
            self.all_reduce(array)
            end.record()
        end.synchronize()
        seconds = cupy.cuda.get_elapsed_time(begin, end) / 1e3
        return self._ranks.share(TRIED / seconds < QUICK, bool)  # as rank 0 found it

    @contextmanager
    def group(self):
        """All calls inside become one launch."""
        self._nccl.groupStart()
        try:
            yield
        finally:
            self._nccl.groupEnd()

    @contextmanager
    def beside(self):
        """Calls inside run as one, after everything launched so far, and in parallel with what is launched before
        `join`."""
        self._stream.wait_event(_mark(self._reached))
        with self._stream, self.group():
            yield

    def join(self):
        """Everything launched from here on waits for the calls that run in parallel."""
        with self._stream:
            done = _mark(self._done)
        _current().wait_event(done)

    def _type(self, array):
        return getattr(self._nccl, TYPES[array.dtype.name], BFLOAT16)


def use_gpu(ranks):
    """Make this rank's GPU, chosen by its number on its machine, the current one; returns its Nccl.

    Raises UserError if there are fewer GPUs than ranks, or if NCCL is missing.
    """
    import cupy

    count = number_of_gpus()
    if ranks.neighbours > count:
        raise UserError(f"{ranks.neighbours} ranks need as many GPUs, but this machine has {count}; start fewer ranks.")
    if not available():
        raise UserError("several GPUs need NCCL, which CuPy cannot find here; run one rank, or install NCCL.")
    cupy.cuda.Device(ranks.local).use()
    communicator = Nccl(ranks)
    ranks.watch(_leave)
    return communicator


def _end_soon():
    """Make sure that this process ends in PATIENCE seconds, whatever it is still waiting for.

    NCCL's own way, ncclCommAbort, does not return while a CUDA graph waits for a rank that has ended, and the
    interpreter's exit waits for the GPU. So the timer must be one that needs no interpreter.
    """
    faulthandler.dump_traceback_later(PATIENCE, exit=True, file=open(os.devnull, "w"))


def _leave(lost):
    """End this process, which waits for a GPU that waits for another that will never answer."""
    print(f"llmc: {lost}", file=sys.stderr, flush=True)
    os._exit(UserError.status)


def available() -> bool:
    """Whether CuPy has NCCL."""
    try:
        from cupy.cuda import nccl

        return bool(nccl.available)
    except ImportError:
        return False


def _at(array):
    return array.data.ptr


def _current():
    import cupy

    return cupy.cuda.get_current_stream()


def _mark(event):
    """Record the event, which now marks everything that the current stream has been given so far."""
    return _current().record(event)
