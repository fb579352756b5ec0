"""The native half of the emulator as Python sees it: the runtime's library, kernels' libraries, one call per launch.

The runtime (`runtime/*.cpp`) is compiled once on each machine. Kernels are loaded after it and find its functions
there.
"""

import ctypes
import os
import threading
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_int64, c_size_t, c_uint64, c_void_p
from functools import lru_cache
from pathlib import Path
from time import monotonic

from llmc.cuda.emulator.calling.shapes import THREADS
from llmc.cuda.emulator.compiling.compile_warnings import Warning, from_text
from llmc.cuda.emulator.compiling.compiler import compile_runtime
from llmc.cuda.emulator.launching.records import CONSTANTS, Options, Outcome, agreement
from llmc.errors import KernelError

BUDGET_S, CHECKED_BUDGET_S = 120.0, 20.0  # a launch that runs longer is stopped; LLMC_EMULATOR_SECONDS sets both
STEP_S = 0.1  # of a launch's time that one look at it counts at most: a laptop may have slept meanwhile
NUDGE_S = 0.05  # between two interruptions of a long launch, so that threads that spin let others run
TOO_LONG, BY_USER = CONSTANTS["TOO_LONG"], CONSTANTS["BY_USER"]
MOST_WORKERS = 16  # a block of 1024 threads needs 1024 stacks on each

_lock = threading.RLock()  # one launch at a time: they share the workers, the arena and the signal handlers


@lru_cache(maxsize=1)
def library():
    """The runtime's library, compiled if need be. Raises NoCompiler where there is no compiler."""
    library = ctypes.CDLL(str(compile_runtime(agreement())), mode=ctypes.RTLD_GLOBAL)
    library.llmc_run.argtypes = [POINTER(Options), POINTER(c_void_p)]
    library.llmc_begin.argtypes = [POINTER(Options)]
    library.llmc_begin.restype = c_void_p
    library.llmc_wait.argtypes = [c_int, c_int]
    library.llmc_abort.argtypes = [c_void_p, c_int]
    library.llmc_outcome.argtypes = [c_void_p, POINTER(Outcome)]
    library.llmc_release.argtypes = [c_void_p]
    library.llmc_place.argtypes = [c_int, c_size_t, c_void_p, c_int, c_int, c_void_p]
    library.llmc_place.restype = c_void_p
    library.llmc_forget.argtypes, library.llmc_forget.restype = [c_int], c_uint64
    library.llmc_shared_arrays.argtypes = [c_int] + 3 * [POINTER(c_int64)]
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=library.llmc_after_fork)
    return library


class Library:
    """A kernel's library in memory: its entries by index, and their signatures."""

    def __init__(self, path: Path):
        library()
        self.path, self.kept = path, []
        self._cdll = ctypes.CDLL(str(path))
        self.anchor = ctypes.cast(self._cdll.llmc_shared_memory, c_void_p).value

    def entry(self, index: int) -> int:
        """Address of the function that unpacks the arguments and runs one thread of kernel `index`."""
        return ctypes.cast(self._cdll[f"llmc_entry_{index}"], c_void_p).value

    def signature(self, index: int) -> str:
        """The kernel's parameters, such as "pf4,Pf4x4,vi4"; calling/parameters.py says how to read it.

        Raises KernelError for a kernel that uses what the emulator does not run.
        """
        if hasattr(self._cdll, f"llmc_refusal_{index}"):
            refusal = self._cdll[f"llmc_refusal_{index}"]
            refusal.restype = c_char_p
            line, _, sentence = refusal().decode().partition(" ")
            raise KernelError(sentence, int(line))
        function = self._cdll[f"llmc_signature_{index}"]
        function.restype = c_char_p
        return function().decode()

    def most_threads(self, index: int) -> int:
        """What kernel `index` says of a block in its __launch_bounds__; 1024 if it says nothing."""
        bound = getattr(self._cdll, f"llmc_bound_{index}", None)
        return min(THREADS, bound()) if bound else THREADS

    def warnings(self) -> list[Warning]:
        """What the compiler said about local variables without a value."""
        try:
            return from_text(ctypes.string_at(ctypes.addressof(c_char.in_dll(self._cdll, "llmc_warnings"))).decode())
        except ValueError:
            return []

    def global_variable(self, name: str):
        """(address, bytes) of a __device__ or __constant__ variable, or None."""
        try:
            function = self._cdll[f"llmc_global_{name}"]
        except AttributeError:
            return None
        function.restype, size = c_void_p, c_size_t()
        return function(byref(size)), size.value


@lru_cache(maxsize=1024)
def load(path: Path) -> Library:
    """The library at `path`, loaded once."""
    return Library(path)


def workers() -> int:
    """How many cores blocks run on: LLMC_EMULATOR_THREADS, else all that this process may use."""
    wanted = os.environ.get("LLMC_EMULATOR_THREADS")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(int(wanted) if wanted and wanted.isdigit() else cores, MOST_WORKERS))


def budget(checked: bool) -> float:
    """How many seconds a launch may take."""
    try:
        return float(os.environ["LLMC_EMULATOR_SECONDS"])
    except (KeyError, ValueError):
        return CHECKED_BUDGET_S if checked else BUDGET_S


def options(
    library: Library, index: int, grid, block, arguments, shared_mem: int, checked=False, measured=False, first=False
):
    """Options of a launch; grid and block are triples, `arguments` the address of an array of pointers to values."""
    one = Options(library.entry(index), arguments, library.anchor)
    one.grid[:], one.block[:] = grid, block
    one.shared, one.checked, one.measured, one.workers, one.first = shared_mem, checked, measured, workers(), first
    return one


def run_plain(prepared: Options):
    """Run an unchecked launch. None if all went well, else the handle of an ended one: read it, then `release` it."""
    handle = c_void_p()
    with _lock:
        status = library().llmc_run(byref(prepared), byref(handle))
        if status == 0:
            return None
        ended = finish(handle.value, waiting=status == 1)
        left = outcome(ended)
        if left.problems.size or left.printed.size:
            return ended
        release(ended)
        return None


def run_checked(prepared: Options):
    """Run a checked launch to its end; its handle: read it, then `release` it. The caller holds `exclusive()`."""
    return finish(library().llmc_begin(byref(prepared)), waiting=True, checked=True)


def outcome(handle) -> Outcome:
    """What a launch that has ended leaves behind. Its arrays are the runtime's, until `release`."""
    left = Outcome()
    library().llmc_outcome(handle, byref(left))
    return left


def set_shared_arrays(arrays):
    """Say which static `__shared__` arrays (`statics.SharedArray`) the next checked launch may touch; (): unknown."""
    numbers = c_int64 * max(1, len(arrays))
    starts, ends = numbers(*[a.offset for a in arrays]), numbers(*[a.offset + a.size for a in arrays])
    marks = numbers(*[a.mark for a in arrays])
    library().llmc_shared_arrays(len(arrays) or -1, starts, ends, marks)


def exclusive():
    """The lock to hold from placing arrays to reading results."""
    return _lock


def finish(handle, waiting: bool, checked: bool = False):
    """Wait for a launch; stop it when it takes too long or the user presses Ctrl-C."""
    runtime, left, last, nudged = library(), budget(checked), monotonic(), monotonic()
    try:
        while waiting and not runtime.llmc_wait(5, nudge := last - nudged > NUDGE_S):
            before, last = last, monotonic()
            nudged = last if nudge else nudged
            left -= min(last - before, STEP_S)
            if left < 0:
                _stop(handle, TOO_LONG)
                waiting = False
    except KeyboardInterrupt:
        _stop(handle, BY_USER)
        runtime.llmc_restore()
        runtime.llmc_release(handle)
        raise
    runtime.llmc_restore()
    return handle


def _stop(handle, why):
    runtime, give_up = library(), monotonic() + 10
    runtime.llmc_abort(handle, why)
    while not runtime.llmc_wait(1, 1):
        if monotonic() > give_up:
            raise KernelError("this kernel does not end and cannot be stopped; restart the notebook's Python kernel.")


def release(handle):
    """Free what a launch left behind."""
    library().llmc_release(handle)
