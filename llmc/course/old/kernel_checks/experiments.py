"""A learner's wrong launch, made again with other numbers, beside our solution's: what is said rests on what changes.

A launch of an exercise takes milliseconds, and so does that of its model (`modelled.py`), so dozens of them fit into a
check that has failed. Nothing here looks at the learner's text.
"""

import copy
import time
from collections.abc import Callable
from functools import cached_property

import numpy as np

MOST = 250  # launches of the learner's kernel
SECONDS = 3.0  # that all of them may take
ALIKE = 1e-3  # of the largest: a difference that counts
LEAST = 1e-5  # of its size: by how much a number of our solution changes, if it depends on another in earnest


class Enough(Exception):
    """No more launches: what is not known by now remains so."""


class Experiment:
    """One launch. names: of its parameters. sizes: (grid, block). arguments: before it, NaN in what it only writes.

    learner: launches the learner's kernel on a list of arguments, and returns the report. model: modelled.Model.
    """

    def __init__(self, names, sizes, arguments, learner: Callable, model):
        self.names, self.sizes, self.arguments = names, sizes, arguments
        self._learner, self._model = learner, model
        self._left, self._end = MOST, time.monotonic() + SECONDS
        floats = [k for k, a in enumerate(arguments) if _floats(a)]
        self.inputs = [k for k in floats if not np.isnan(arguments[k]).all()]
        self.outputs = [k for k in floats if k not in self.inputs]

    def mine(self, arguments) -> list:
        """The arguments as the learner's kernel leaves them."""
        self._left -= 1
        if self._left < 0 or time.monotonic() > self._end:
            raise Enough
        given = copy.deepcopy(arguments)
        if self._learner(given).problems:
            raise Enough
        return given

    def ours(self, arguments) -> list:
        """The arguments as our solution leaves them."""
        given = copy.deepcopy(arguments)
        with np.errstate(all="ignore"):
            self._model.function(time.thread_time() + SECONDS)(*self.sizes, *given)
        return given

    @cached_property
    def base(self) -> tuple[list, list]:
        """(mine, ours) of the launch itself."""
        return self.mine(self.arguments), self.ours(self.arguments)

    @cached_property
    def read(self) -> dict:
        """{k: bool, flat} of each input: which of its numbers our solution reads."""
        given = copy.deepcopy(self.arguments)
        with np.errstate(all="ignore"):
            threads = self._model.function(time.thread_time() + SECONDS)(*self.sizes, *given)
        return {k: threads.read(self.names[k], given[k].size) for k in self.inputs}

    def wrong(self, mine, ours) -> dict:
        """{k: bool, flat} of each array of floats with wrong numbers: which ones."""
        found = {}
        for k, (got, right) in enumerate(zip(mine, ours)):
            if _floats(got):
                bad = ~_close(got.reshape(-1), right.reshape(-1))
                if bad.any():
                    found[k] = bad
        return found

    def vanished(self) -> bool:
        """Are the wrong numbers nothing beside what they should be? Many mistakes lead there."""
        try:
            mine, ours = self.base
            wrong = self.wrong(mine, ours)
        except Enough:
            return False
        pairs = [(mine[k].reshape(-1)[bad], ours[k].reshape(-1)[bad]) for k, bad in wrong.items()]
        return bool(pairs) and all(_is_nothing(got, right) for got, right in pairs)

    def is_right(self, arguments) -> bool:
        """Does the learner's kernel give what ours does?"""
        return not self.wrong(self.mine(arguments), self.ours(arguments))

    def changed(self, k, values) -> list:
        """The arguments with other numbers in the k-th."""
        arguments = list(self.arguments)
        arguments[k] = np.asarray(values, arguments[k].dtype).reshape(arguments[k].shape)
        return arguments

    def place(self, k, element) -> str:
        """ "p[1, 0, 1]"."""
        index = np.unravel_index(int(element), self.arguments[k].shape)
        return f"{self.names[k]}[{', '.join(str(int(i)) for i in index)}]"


def _is_nothing(got, right) -> bool:
    """Is each of these numbers 0, but for rounding?"""
    size = np.abs(right[np.isfinite(right)].astype(np.float64)).max(initial=0.0)
    return bool((np.abs(got.astype(np.float64)) <= LEAST * size).all())


def _floats(argument) -> bool:
    return isinstance(argument, np.ndarray) and argument.dtype.kind == "f" and argument.size > 0


def _close(got, right):
    """Which numbers are alike, relative to the largest."""
    got, right = got.astype(np.float64), right.astype(np.float64)
    finite = np.abs(right[np.isfinite(right)])
    with np.errstate(invalid="ignore"):
        near = np.abs(got - right) <= ALIKE * finite.max(initial=0.0)
    return near | (got == right) | (np.isnan(got) & np.isnan(right))
