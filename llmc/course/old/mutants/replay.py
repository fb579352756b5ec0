"""A call of a learner's function that can be made again with another function."""

import copy
import inspect
from dataclasses import dataclass, field

import numpy as np

MANY = 1 << 20  # bytes of arrays that a call may have, to be kept for another try
WHOLE = "what is returned"
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


@dataclass
class Replay:
    """arguments, options: as they were before the call. outputs: `outputs_of` the call itself, once it has returned."""

    arguments: tuple
    options: dict
    outputs: list | None = None
    arrays: list | None = None  # of a kernel: what its arguments were, written by the launch
    report: object = None  # of a kernel: the emulator's, of the learner's launch
    buffers: list = field(default_factory=list)  # which arguments are buffers of the check, where that matters
    later: bool = False  # made long after the failing call: there may be other mistakes in it

    @classmethod
    def of(cls, arguments, options):
        """Of a call that is about to be made; None if its arguments are too large, or cannot be copied."""
        if sum(array.nbytes for array in arrays_in((arguments, options))) > MANY:
            return None
        try:
            return cls(*copy.deepcopy((arguments, options)))
        except Exception:  # whatever an object says that cannot be copied: a generator, an open file
            return None

    def named(self, function) -> dict:
        """{name: value} of the arguments; empty where the function does not take them."""
        try:
            return inspect.signature(function).bind(*self.arguments, **self.options).arguments
        except (TypeError, ValueError):
            return {}

    def scaled(self, factor):
        """The same call with its arrays of floats multiplied."""

        def times(value):
            floats = isinstance(value, np.ndarray) and np.issubdtype(value.dtype, np.floating)
            return value * value.dtype.type(factor) if floats else copy.deepcopy(value)

        options = {name: times(value) for name, value in self.options.items()}
        return Replay(tuple(map(times, self.arguments)), options, buffers=self.buffers)

    def run(self, function) -> list:
        """Outputs of the same call of another function, which gets its own copies."""
        arguments, options = copy.deepcopy((self.arguments, self.options))
        return outputs_of(function(*arguments, **options), arguments, options)


def outputs_of(result, arguments, options) -> list:
    """What a call returned, arrays and numbers one by one, then the arrays among its arguments."""
    return [*(number for _, number in labelled(result)), *arrays_in((arguments, options))]


def arrays_in(value) -> list:
    """The arrays in a value, also in lists, tuples and dicts."""
    return [item for _, item in labelled(value) if isinstance(item, np.ndarray)]


def labelled(value, words=None):
    """(words, array or number) of each one in what was returned, also in lists, tuples and dicts.

    words: "the second result", or a dict's key, as "ln1b" with its quotation marks.
    """
    if isinstance(value, dict):
        for key in sorted(value, key=str):  # in which order a dict was filled does not matter
            yield from labelled(value[key], f'"{key}"')
    elif isinstance(value, list | tuple):
        if value and all(isinstance(item, int | float) for item in value):
            yield words or WHOLE, np.array(value, np.float64)
        for k, item in enumerate(value):
            yield from labelled(item, words or _place(k))
    elif isinstance(value, np.ndarray | np.generic | float | int):
        yield words or WHOLE, value


def _place(k) -> str:
    """Of a result: its number would be read as an index, which counts from 0."""
    return f"the {ORDINALS[k]} result" if k < len(ORDINALS) else f"result {k + 1}, counted from 1"
