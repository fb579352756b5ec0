"""Arrays that are reached through addresses in a struct or in an array of pointers, such as a `float**`.

They are looked for among the variables of the functions that are running, and follow the arguments of a launch: copied
into the arena, checked and named like these.
"""

import ctypes
import sys
from types import ModuleType

import numpy as np

from llmc.cuda.emulator.calling.arguments import Argument


def followed(arguments, kept=()) -> list[Argument]:
    """The arguments, followed by the arrays to which addresses in them lead, one after the other.

    kept: arguments of the previous launch to which the kernels have kept pointers, in `__device__` variables, say.
    """
    held = {each.array.ctypes.data for each in arguments if each.array is not None}
    found = [*arguments, *(each for each in kept if each.array.ctypes.data not in held)]
    live = None
    for argument in found:  # of those that are appended meanwhile, too: an array of structs may lead to the next
        if argument.points and (words := argument.words()).size:
            for known in found:
                words = words if known.array is None else words[~_inside(known.array, words)]
            if words.size and live is None:
                live = list(_live())
            for name, array in live if words.size else ():
                if (there := _inside(array, words)).any():
                    points = array.dtype == np.uint64 or array.dtype.kind == "V"
                    found.append(Argument(name, array, None, not array.flags.writeable, points=points))
                    words = words[~there]
    return found


def redirect(memory: int, size: int, moves):
    """Let the addresses among `size` bytes of memory lead elsewhere. moves: (from, bytes, to) of each array."""
    words = np.frombuffer((ctypes.c_char * (size // 8 * 8)).from_address(memory), np.uint64)  # (words,)
    leads = [(words >= old) & (words < old + size) for old, size, _ in moves]  # (words,) each
    for there, (old, _, new) in zip(leads, moves):
        words[there] += np.uint64((new - old) % 2**64)


def _inside(array, words):
    start = array.ctypes.data
    return (words >= start) & (words < start + array.nbytes)  # (words,) bool


def _live():
    """(name, array) of what variables of the running functions hold, themselves or in a list, dict or object."""
    frame, seen = sys._getframe(1), set()
    while frame is not None:
        for variables in (frame.f_locals, frame.f_globals):
            if id(variables) not in seen:
                seen.add(id(variables))
                for each in list(variables.items()):
                    for name, value in (each, *_held(*each)):
                        if isinstance(value, np.ndarray) and value.flags.c_contiguous and value.nbytes:
                            yield name, value
        frame = frame.f_back


def _held(name, value):
    if isinstance(value, list | tuple):
        return [(f"{name}[{k}]", each) for k, each in enumerate(value)]
    if isinstance(value, dict):
        return [(f"{name}[{key!r}]", each) for key, each in value.items()]
    attributes = {} if isinstance(value, ModuleType) else getattr(value, "__dict__", {})
    return [(f"{name}.{key}", each) for key, each in attributes.items()]
