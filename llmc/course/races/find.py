"""Which turn of a parallel loop writes where? Plain Python plays Numba, turn by turn, and takes notes.

Two turns of a `prange` race if they touch the same number and one of them writes it: Numba may run them at the same
time, and then one of two additions may be lost. Running the kernel shows that only by luck; here it always shows.

    find_races(scatter, dwte, dwpe, dout, tokens)     -> Watch(races=[Race], loops=1, arguments=…)

The kernel and the functions that it calls run uncompiled, on copies of its arguments, as if there were THREADS threads;
every array remembers which turn read and wrote each of its numbers. Use small arrays: this is slow.
"""

import functools
import traceback
import types
from pathlib import Path

import numba
import numpy as np

from llmc.course.own_names import learners_names
from llmc.course.races.watched import Notes, Watch

THREADS = 3  # not a power of 2: equal parts leave a remainder
MAKERS = ("empty", "zeros", "ones", "full", "empty_like", "zeros_like", "ones_like")  # of arrays that turns may share


def find_races(function, *arguments) -> Watch | None:
    """Run `function` (a kernel, or a Python function that calls kernels) uncompiled, and watch its pranges.

    Returns None if plain Python cannot run it, because it uses something that only Numba has. `total += row` on a whole
    array is no race: Numba gives each thread its own copy and adds the copies up.
    """
    notes = Notes(THREADS)
    code = getattr(getattr(function, "py_func", function), "__code__", None)
    names = dict(enumerate(code.co_varnames[: code.co_argcount] if code else ()))
    given = [
        notes.watched(value, names.get(i)) if isinstance(value, np.ndarray) else value
        for i, value in enumerate(arguments)
    ]
    try:
        with learners_names():
            _Uncompiled(notes).ours(function)(*given)
    except IndexError as error:
        notes.watch.outside = _where(error)
        return notes.watch if notes.watch.outside else None
    except Exception:
        return None
    notes.watch.arguments = tuple(np.array(value) if isinstance(value, np.ndarray) else value for value in given)
    return notes.watch


def _where(error) -> str:
    """ "in line 9, `dw[c] += d[c]`, index 7 is out of bounds for axis 0 with size 7"; "" for another error."""
    library = (np.__path__[0], numba.__path__[0], str(Path(__file__).parent))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(library)]
    if not frames or "out of bounds" not in str(error):
        return ""
    return f"in line {frames[-1].lineno}, `{frames[-1].line}`, {error}"


class _Uncompiled:
    """Copies of functions in which Numba's names mean something to plain Python."""

    def __init__(self, notes):
        self.notes, self.done = notes, {}
        ours = {"get_num_threads": lambda: THREADS, "get_thread_id": lambda: notes.thread or 0}
        ours |= {"njit": _as_it_is, "jit": _as_it_is}
        makers = {name: self._maker(getattr(np, name)) for name in MAKERS}
        self.replaced = {}  # {does the kernel run on several threads?: {id of what is replaced: replacement}}
        for parallel in (True, False):
            all_of_them = ours | {"prange": notes.loop if parallel else range}
            replaced = {id(getattr(numba, name)): value for name, value in all_of_them.items()}
            self.replaced[parallel] = replaced | {id(numba): _Module(numba, all_of_them), id(np): _Module(np, makers)}

    def _maker(self, make):
        """np.zeros and its relatives: an array made outside of a loop is shared by its turns."""
        return lambda *a, **k: self.notes.watched(make(*a, **k)) if self.notes.turn is None else make(*a, **k)

    def plain(self, function):
        """The function, or the Python function behind a compiled one, with the names in it replaced."""
        options = getattr(function, "targetoptions", {"parallel": True})  # of a Python function: its kernels say it
        function, parallel = getattr(function, "py_func", function), bool(options.get("parallel"))
        if function in self.done:
            return self.done[function]
        code, variables = function.__code__, dict(function.__globals__)
        self.notes.by_thread |= "get_thread_id" in code.co_names
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        copy = types.FunctionType(code, variables, function.__name__, function.__defaults__, cells)
        copy.__kwdefaults__ = function.__kwdefaults__
        self.done[function] = copy
        for cell, original in zip(cells, function.__closure__ or ()):
            cell.cell_contents = self.ours(original.cell_contents, parallel)
        variables |= {name: self.ours(variables[name], parallel) for name in code.co_names if name in variables}
        return copy

    def ours(self, value, parallel=True):
        """The replacement of this object, or the object itself."""
        if id(value) in self.replaced[parallel]:
            return self.replaced[parallel][id(value)]
        if isinstance(value, functools.partial):
            return functools.partial(self.ours(value.func, parallel), *value.args, **value.keywords)
        if isinstance(value, types.MethodType):
            return types.MethodType(self.ours(value.__func__, parallel), value.__self__)
        library = (getattr(value, "__module__", None) or "").startswith(("numpy", "numba"))
        own = isinstance(value, types.FunctionType) and not library
        return self.plain(value) if own or hasattr(value, "py_func") else value


class _Module:
    """A module in which some names mean something else."""

    def __init__(self, module, names):
        self._module, self._names = module, names

    def __getattr__(self, name):
        return self._names[name] if name in self._names else getattr(self._module, name)


def _as_it_is(*function, **options):
    """`@njit`, `@njit(parallel=True)` and `@njit("void(float32[:])")`, without compiling anything."""
    return function[0] if function and callable(function[0]) else lambda function: function
