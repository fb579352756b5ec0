"""What ranks do together with arrays on GPUs, by NVIDIA's NCCL: one process and one GPU for each rank.

Calls are launched on CuPy's current stream and return at once, like kernels. NCCL itself neither notices that a rank
has died nor ends: whoever starts it has to look out (`TcpRanks.watch`; mpirun does it by itself).
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
    """The calls of Ranks that move arrays, for CuPy's. ranks: through which NCCL's processes find one another."""

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
        """*array (n,) = the parts (n / world,) of all ranks; part may lie in its place there."""
        self._communicator.allGather(_at(part), _at(array), part.size, self._type(part), _current().ptr)

    def broadcast(self, array):
        """*array (n,) = that of rank 0."""
        self._communicator.broadcast(_at(array), _at(array), array.size, self._type(array), 0, _current().ptr)

    @cached_property
    def hides(self):
        """Whether sums are so slow, between our GPUs, that they should be hidden behind other work with `beside`.

        NCCL's copies take multiprocessors from that work: on two H200s a step with hidden sums was the slower one.
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
        """All calls inside are one launch."""
        self._nccl.groupStart()
        try:
            yield
        finally:
            self._nccl.groupEnd()

    @contextmanager
    def beside(self):
        """Calls inside run as one, after all that is launched so far, and beside what is launched next until `join`."""
        self._stream.wait_event(_mark(self._reached))
        with self._stream, self.group():
            yield

    def join(self):
        """What is launched from here on waits for the calls that run beside."""
        with self._stream:
            done = _mark(self._done)
        _current().wait_event(done)

    def _type(self, array):
        return getattr(self._nccl, TYPES[array.dtype.name], BFLOAT16)


def use_gpu(ranks):
    """Make the GPU of this rank, by its number among those of its machine, the current one; returns its Nccl.

    Raises UserError where there are fewer GPUs than ranks, or no NCCL.
    """
    import cupy

    count = number_of_gpus()
    if ranks.neighbours > count:
        raise UserError(f"{ranks.neighbours} ranks need as many GPUs, and this machine has {count}; start fewer ranks.")
    if not available():
        raise UserError("several GPUs need NCCL, which CuPy does not find here; run one rank, or install NCCL.")
    cupy.cuda.Device(ranks.local).use()
    communicator = Nccl(ranks)
    ranks.watch(_leave)
    return communicator


def _end_soon():
    """See to it that this process ends in PATIENCE seconds, whatever it still waits for.

    NCCL's own way, ncclCommAbort, does not come back while a CUDA graph waits for a rank that has ended, and the end of
    the interpreter waits for the GPU. So the clock must be one that needs no interpreter.
    """
    faulthandler.dump_traceback_later(PATIENCE, exit=True, file=open(os.devnull, "w"))


def _leave(lost):
    """End this process: it waits for a GPU that waits for one that will never answer."""
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
    """The event, which now stands for what the current stream has been given so far."""
    return _current().record(event)
