"""How much memory a function takes."""

import ctypes
import gc
import sys
import tracemalloc
from contextlib import nullcontext, suppress
from pathlib import Path

from llmc.course.own_names import among_learners_names


def peak_bytes(function) -> int:
    """The most memory that Python, NumPy and Numba held at once of what function() made, its result included.

    It runs a second time if Numba compiled something in the first run, whose memory does not count.
    """
    function = among_learners_names(function)
    with _compilations() as first:
        peak = _traced_peak(function)
    return _traced_peak(function) if first and first.buffer else peak


def _compilations():
    """A context manager that records what Numba compiles meanwhile; nothing if nobody has imported Numba."""
    if "numba" not in sys.modules:
        return nullcontext()
    from numba.core import event

    return event.install_recorder("numba:compile")


def _traced_peak(function) -> int:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        result = function()  # noqa: F841   alive until the peak is read
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def resident_peak(function) -> int | None:
    """How many bytes more than before this process held at once while function() ran, in arrays of any library.

    Coarse: only megabytes mean something. None where the system does not say; Linux does.
    """
    function = among_learners_names(function)
    gc.collect()  # garbage that goes away meanwhile would lower the count
    _give_back()
    try:
        CLEAR.write_text("5")  # the peak starts again from what is held now
        before = _status("VmRSS")
        function()
        return _status("VmHWM") - before
    except OSError:
        return None


def _give_back():
    """Let glibc return what was freed but is kept for the next array: filling that again would not count."""
    with suppress(AttributeError, OSError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def _status(name) -> int:
    """Bytes, from a line like "VmRSS:  1024 kB"."""
    return next(1024 * int(line.split()[1]) for line in STATUS.read_text().splitlines() if line.startswith(name))
