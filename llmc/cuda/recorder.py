"""Work that is repeated, as CUDA graphs: Python launches kernels one by one, a graph launches all of them at once.

A graph holds the addresses and the numbers that each launch was recorded with. So what is recorded must work on arrays
that stay where they are; numbers that change from one time to the next must lie in such arrays too.
"""

from contextlib import suppress
from warnings import warn

from llmc.cuda.devices import device
from llmc.switches import switch

MOST = 32  # graphs that are kept

_graphs = {}  # key: None for work that has run once, or a function that launches the graph
_on = None  # not decided yet


def graphs(on=None) -> bool:
    """Whether repeated work is recorded on a GPU; with an argument, from now on. The results are the same.

    Unless an argument was given, the environment variable LLMC_GRAPHS decides, and without it they are. Raises
    UserError for a value of it other than 0 and 1.
    """
    global _on
    if on is not None or _on is None:
        _on = switch("LLMC_GRAPHS") is not False if on is None else bool(on)
    return _on


def recorded() -> int:
    """How many graphs there are."""
    return sum(graph is not None for graph in _graphs.values())


def forget():
    """Forget all graphs: what is repeated is recorded again."""
    _graphs.clear()


def repeat(key, arrays, work):
    """work(), which makes the same launches each time it is called with the same key and the same arrays.

    The first time it just runs: kernels are compiled, scratch memory is allocated. The second time it is recorded, and
    from then on its graph is launched. key: anything hashable · arrays: those that the launches read and write, as far
    as they could be different ones the next time. On the emulator nothing is recorded.
    """
    if not graphs() or device() == "emulator":
        return work()
    key = key, tuple((array.data.ptr, array.size) for array in arrays)
    if key not in _graphs:
        if len(_graphs) == MOST:
            forget()
        work()
        _graphs[key] = None
        return None
    if _graphs[key] is None:
        _graphs[key] = _recorded(work)
    return _graphs[key]()


def _recorded(work):
    """A function that launches what work() launches, all at once; work itself, with a warning, if it cannot be done."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)  # only to record: the graph is launched on the current stream
    with stream:
        stream.begin_capture()
        try:
            work()
        except Exception as error:
            with suppress(cupy.cuda.runtime.CUDARuntimeError):
                stream.end_capture()
            text = f"this cannot be recorded into a CUDA graph and runs without one, a little slower: {error}"
            warn(text, stacklevel=3)
            return work
        return stream.end_capture().launch
