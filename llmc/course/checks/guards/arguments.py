"""Arguments that the learner's code must not change, whatever it is written in.

Inputs are read-only arrays, so that a write stops at its line. Some code cannot take such arrays, although it only
reads them: a Numba kernel with explicit signatures, say, or C that asks for a writable buffer. It gets writable copies
instead, which are compared with the originals after the call.

A list has no such lock: `grads[k] = grads[k] / scale` puts another array into the caller's list, and whoever looks into
the list afterwards takes the result for the input.
"""

import numpy as np

from llmc.course.checks.messages.diagnosis import WrongAnswer, describe
from llmc.course.checks.messages.numba_errors import by_compiler, writes_to_input

STAY = "Inputs must stay as they are: compute into something new."
REFUSES = ("No matching definition", "not writable", "must have flags", "buffer source array is read-only")


class Protected:
    """The arguments of one call of the learner's code, which `run(function, arguments)` makes.

    names: what the code calls its arguments. given: what it gets, read-only copies or buffers. buffers: these buffers.
    """

    def __init__(self, names, given, buffers):
        self.names, self.given = names, given
        self.held = [(buffer.whole, buffer.whole.copy()) for buffer in buffers]
        generators = [value.bit_generator for value in given if isinstance(value, np.random.Generator)]
        self.states = [(generator, generator.state) for generator in generators]

    def run(self, run, function, writable=False):
        """(what the function returned, did it need writable arrays?). writable: it did in an earlier call."""
        if not writable:
            try:
                return run(function, self.given), False
            except Exception as error:
                if not refuses_read_only(error):
                    raise
            self._start_again()
        return self._on_copies(run, function), True

    def _start_again(self):
        """Make buffers and generators what they were before the first try."""
        for whole, held in self.held:
            whole[...] = held
        for generator, state in self.states:
            generator.state = state

    def _on_copies(self, run, function):
        """What the function returns for writable copies; WrongAnswer if it changed one."""
        locked = [isinstance(value, np.ndarray) and not value.flags.writeable for value in self.given]
        copies = [np.array(value) if lock else value for value, lock in zip(self.given, locked)]
        result = run(function, copies)
        for k, (copy, given) in enumerate(zip(copies, self.given)):
            if locked[k] and copy.tobytes() != given.tobytes():
                self._find_line(run, function)
                name = self.names[k] or f"argument {k + 1}"
                raise WrongAnswer(f"An input was written to: your code changed `{name}` {describe(given)}. {STAY}")
        return result

    def _find_line(self, run, function):
        """Run the Python behind a compiled function on read-only arrays: it stops at the line that writes."""
        plain = getattr(function, "py_func", None)
        if plain is not None:
            self._start_again()
            run(plain, self.given)


def refuses_read_only(error) -> bool:
    """Does this exception say that the code cannot take read-only arrays, rather than that it wrote to one?"""
    return not writes_to_input(error) if by_compiler(error) else any(words in str(error) for words in REFUSES)


class Containers:
    """Lists, tuples and dicts among the arguments of one call. buffers: arrays that the call may write to."""

    def __init__(self, named, buffers):
        """named: [(what the function calls it, the argument)]."""
        self.buffers = {id(buffer) for buffer in buffers}
        found = [entry for name, value in named for entry in _containers(value, name or "the argument")]
        self.held = [(where, value, dict(_items(value)), self._copies(value)) for where, value in found]

    def _copies(self, value) -> dict:
        """{key: a copy} of each array in it that the call must not write to."""
        return {k: a.copy() for k, a in _items(value) if isinstance(a, np.ndarray) and id(a) not in self.buffers}

    def inspect(self):
        """Raise WrongAnswer if the call has changed one of them."""
        for where, value, before, copies in self.held:
            after = dict(_items(value))
            for key in before.keys() ^ after.keys():
                did = "took something out of" if key in before else "put something into"
                raise WrongAnswer(f"your code {did} `{where}`, which was given to it. {STAY}")
            for key, new in after.items():
                old, place = before[key], f"{where}[{key!r}]"
                if id(old) in self.buffers and new is not old:
                    do = f"write into the array that is there, with `{place}[...] = …`"
                    raise WrongAnswer(f"your code put a new array into `{place}`, where the caller does not look: {do}")
                if new is not old and not _alike(new, old):
                    was = f"`{place}` was {describe(old)} before the call, and is {describe(new)} after it"
                    raise WrongAnswer(f"your code changed `{where}`, which was given to it: {was}. {STAY}")
                if key in copies and copies[key].tobytes() != old.tobytes():
                    what = f"`{place}` {describe(old)}"
                    raise WrongAnswer(f"An input was written to: your code changed {what}. {STAY}")


def _containers(value, where):
    """(where, container) of each list, tuple and dict in it, and of itself."""
    if isinstance(value, list | tuple | dict):
        yield where, value
        for key, item in _items(value):
            yield from _containers(item, f"{where}[{key!r}]")


def _items(value):
    """(key or place, item) of each item."""
    return value.items() if isinstance(value, dict) else enumerate(value)


def _alike(new, old) -> bool:
    """Is it the same after all, like a number that was replaced by an equal one?"""
    return not isinstance(old, np.ndarray | list | dict) and type(new) is type(old) and new == old
