"""Inputs that the learner's code must not change, whatever it is written in.

Inputs are read-only arrays, so that a write stops at its line. Some code cannot take such arrays, although it only
reads them: a Numba kernel with explicit signatures, say, or C that asks for a writable buffer. It gets writable copies
instead, which are compared with the originals after the call.
"""

import numpy as np

from llmc.course.checks.diagnosis import WrongAnswer, describe
from llmc.course.checks.numba_errors import by_compiler, writes_to_input

STAY = "Inputs must stay as they are: compute into a new array."
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
        """Buffers and generators become what they were before the first try."""
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
    if by_compiler(error):
        return not writes_to_input(error)
    return any(words in str(error) for words in REFUSES)
