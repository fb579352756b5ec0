"""Arrays that hold nothing yet. It is a problem when a kernel reads an element that nothing has written.

`empty` fills an array with a pattern that no calculation produces, and remembers the array. An element counts as
unwritten for as long as it shows the pattern, so it may be written by a kernel or by a line of NumPy.
"""

import weakref
from math import prod

import numpy as np

from llmc.cuda.emulator.findings.extent import extent
from llmc.cuda.emulator.findings.raw import RawProblem
from llmc.errors import KernelError

NAN_BITS = 0xFF  # each byte of an unwritten float: a NaN that no operation returns
INTEGER_BITS = 0xCB  # and of anything else; all bits set would be -1, which may well be meant

_known = {}  # id of an array made by `empty` -> weak reference to it


def empty(shape, dtype=np.float32) -> np.ndarray:
    """A new array (shape). The emulator knows that nothing has been written to it."""
    array = np.empty(shape, dtype)  # (shape)
    _bytes(array)[...] = _pattern(array)  # (elements, bytes of one)
    key = id(array)
    _known[key] = weakref.ref(array, lambda _: _known.pop(key, None))
    return array


def elements(array) -> np.ndarray | None:
    """(elements,) bool, True where nothing was written; None for an unknown array or one that is complete."""
    root = _owner(array)
    if id(root) not in _known or not array.size:
        return None
    missing = (_bytes(array) == _pattern(array)).all(axis=1)  # (elements,)
    if missing.any():
        return missing
    if array.size == root.size:
        del _known[id(root)]
    return None


def of_launch(arguments, outputs) -> dict[int, np.ndarray]:
    """Argument index -> (elements,) bool, True where nothing is yet: in arrays from `empty`, and all of each output."""
    arrays = {i: argument.array for i, argument in enumerate(arguments) if argument.array is not None}
    found = {i: elements(array) for i, array in arrays.items()} if _known else {}
    found |= {i: np.ones(arrays[i].size, bool) for i in outputs}  # (elements,)
    return {i: missing for i, missing in found.items() if missing is not None}


def settle(raw, missing, outputs):
    """After a launch: what is still missing shows the pattern again, and in an output that is a problem.

    It is not one where the launch ended early: then it is a mere consequence.
    """
    finished = raw.blocks_run == prod(raw.grid) and not raw.lost_threads
    for i, still in missing.items():
        array, const = raw.arguments[i].array, raw.arguments[i].const
        if still.any() and not const:
            mark(array, still)
            if i in outputs and finished:
                raw.problems.append(_never_written(i, array, still))


def _never_written(argument, array, still):
    first, size = int(still.argmax()), array.itemsize
    return RawProblem(
        "never-written",
        space="global",
        argument=argument,
        offset=first * size,
        size=size,
        count=int(still.sum()),
        detail=extent(still.reshape(array.shape)),
    )


def mark(array, missing):
    """Let the elements where `missing` (elements,) is True show the pattern again."""
    _bytes(array)[missing] = _pattern(array)  # (missing, bytes of one)


def indices(arguments, outputs) -> tuple[int, ...]:
    """Indices of the arguments that `outputs` lists by name or index. Raises KernelError for one that is no output."""
    names = [argument.name for argument in arguments]
    wanted = (outputs,) if isinstance(outputs, (str, int)) else tuple(outputs)
    found = []
    for output in wanted:
        i = names.index(output) if output in names else output
        if not isinstance(i, int) or not 0 <= i < len(names) or arguments[i].array is None or arguments[i].const:
            arrays = ", ".join(each.name for each in arguments if each.array is not None and not each.const)
            raise KernelError(f"{output!r} is not an array that the kernel can write; those are: {arrays or 'none'}.")
        found.append(i)
    return tuple(found)


def _bytes(array):
    """The bytes of a contiguous array, (elements, bytes of one)."""
    return array.reshape(-1).view(np.uint8).reshape(-1, array.itemsize)


def _owner(array):
    """The array that a view looks at."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _pattern(array):
    return NAN_BITS if _owner(array).dtype.kind in "fcV" else INTEGER_BITS
