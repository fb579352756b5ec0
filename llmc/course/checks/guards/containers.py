"""Lists, tuples and dicts of arrays that a call was given: it must leave them, and the arrays in them, as they are.

A read-only array stops the line that writes to it. A list has no such lock: `grads[k] = grads[k] / scale` gives the
caller's list another array, and whoever looks into the list afterwards takes the result for the input.
"""

import numpy as np

from llmc.course.checks.diagnosis import WrongAnswer, describe

STAY, NEW = "Inputs must stay as they are", "compute into a new array"


class Containers:
    """Those among the arguments of one call. buffers: arrays that the call may write to."""

    def __init__(self, named, buffers):
        """named: [(what the function calls it, the argument)]."""
        self.buffers = {id(buffer) for buffer in buffers}
        found = [entry for name, value in named for entry in _containers(value, name or "the argument")]
        self.held = [(where, value, dict(_items(value)), _copies(value, self.buffers)) for where, value in found]

    def inspect(self):
        """Raise WrongAnswer if the call has changed one of them."""
        for where, value, before, copies in self.held:
            after = dict(_items(value))
            if isinstance(value, list) and _same_in_another_order(before, after):
                order = (
                    f"your code put `{where}`, which was given to it, in another order, with sort or reverse perhaps"
                )
                raise WrongAnswer(f"{order}. {STAY}: `sorted({where})`, say, makes a new list.")
            for key in before.keys() | after.keys():
                if key not in after or key not in before:
                    did = "took something out of" if key not in after else "put something into"
                    raise WrongAnswer(f"your code {did} `{where}`, which was given to it. {self._make(where)}.")
                if after[key] is not before[key] and not _alike(after[key], before[key]):
                    self._replaced(f"{where}[{key!r}]", where, before[key], after[key])
            for key, copy in copies.items():
                if copy.tobytes() != before[key].tobytes():
                    what = f"`{where}[{key!r}]` {describe(copy)}"
                    raise WrongAnswer(f"An input was written to: your code changed {what}. {STAY}: {NEW}.")

    def _replaced(self, place, where, old, new):
        if id(old) in self.buffers:
            how = f"write into the array that is there, with `{place}[...] = …`"
            raise WrongAnswer(f"your code put a new array into `{place}`, where the caller does not look: {how}.")
        was, now = describe(old), describe(new)
        became = f"{now} after it" if now != was else "another one after it"
        raise WrongAnswer(
            f"your code changed `{where}`, which was given to it: `{place}` was {was} before the call, "
            f"and is {became}. {self._make(where)}."
        )

    def _make(self, where):
        outputs = any(
            id(item) in self.buffers for name, _, before, _ in self.held if name == where for item in before.values()
        )
        if outputs:
            return f"Leave `{where}` as it is, and write into the arrays that it holds"
        return f"{STAY}: leave `{where}` alone, and put what you compute into something new"


def _same_in_another_order(before, after) -> bool:
    """Does a list hold the same objects, and not in their places?"""
    old, new = list(map(id, before.values())), list(map(id, after.values()))
    return old != new and sorted(old) == sorted(new)


def _containers(value, where):
    """(where, container) of each list, tuple and dict that holds something else than plain numbers and text."""
    if isinstance(value, list | tuple | dict):
        yield where, value
        for key, item in _items(value):
            yield from _containers(item, f"{where}[{key!r}]")


def _items(value):
    """(key or place, item) of each item."""
    return value.items() if isinstance(value, dict) else enumerate(value)


def _copies(value, buffers) -> dict:
    """{key: a copy} of each array in it that the call must not write to."""
    return {key: item.copy() for key, item in _items(value) if isinstance(item, np.ndarray) and id(item) not in buffers}


def _alike(new, old) -> bool:
    """Is it the same after all, as a number that was put in the place of an equal one is?"""
    return not isinstance(old, np.ndarray | list | dict) and type(new) is type(old) and new == old
