"""A recorded call of the learner's function: it can be made again, by that function or by another."""

import copy
from dataclasses import dataclass, field

import numpy as np

from llmc.course.checks.exercise import labelled, named_arguments

MANY = 1 << 26  # bytes of arrays that a call may have and still be kept for another try
NEAR = {"float64": 1e-12, "float32": 1e-6, "float16": 1e-3}  # of the largest number: rounding
SHARE = {"float64": 1e-4, "float32": 1e-2, "float16": 5e-2}  # of an error: the part that an explanation may leave


@dataclass
class Call:
    """arguments, options: as they were before the call; None if they are too large, or cannot be copied.

    returns: names of what it returns. outputs: {label: array or value} of what it returned and of the arrays among its
    arguments, as they were afterwards. held: {label: the array itself}, to find out which output an array is.
    """

    function: object
    arguments: tuple | None
    options: dict
    returns: tuple = ()
    outputs: dict = field(default_factory=dict)
    held: dict = field(default_factory=dict)
    locked: tuple = ()  # which arguments were read-only
    lockable: bool = True  # could the function take such arrays?
    text: str = ""  # the call, as a learner would recognise it
    described: str | None = None  # what it returned; None if it has not returned

    @classmethod
    def of(cls, function, arguments, options, returns=()):
        """The Call for a call that is about to be made."""
        try:
            if sum(array.nbytes for array in arrays_in((arguments, options))) <= MANY:
                return cls(function, *copy.deepcopy((arguments, options)), returns)
        except Exception:  # whatever is raised by an object that cannot be copied: a generator, an open file
            pass
        return cls(function, None, {}, returns)

    def finish(self, result, arguments, options):
        """Note what the call returned and wrote."""
        self.held = outputs_of(self.function, result, arguments, options, self.returns)
        self.outputs = copy.deepcopy(self.held) if self.arguments is not None else {}

    def run(self, function) -> dict:
        """The outputs of the same call to another function, which gets its own copies."""
        arguments, options = copy.deepcopy((self.arguments, self.options))
        for array, lock in zip(arguments, self.locked):
            if lock and self.lockable and isinstance(array, np.ndarray):
                array.flags.writeable = False  # as in the check, or Numba would compile once more
        result = function(*arguments, **options)
        if holds_itself(result):
            raise ValueError("a list that holds itself has no shape")
        return outputs_of(self.function, result, arguments, options, self.returns)

    def label_of(self, array) -> str | None:
        """Which output is this array?"""
        if not isinstance(array, np.ndarray):
            return next((label for label, value in self.held.items() if value is array), None)
        arrays = {label: value for label, value in self.held.items() if isinstance(value, np.ndarray)}
        same = [label for label, value in arrays.items() if value is array]
        alike = [k for k, a in arrays.items() if a.shape == array.shape and np.may_share_memory(a, array)]
        return next(iter([*same, *alike]), None)

    @property
    def named(self) -> dict:
        """{name: argument as it was before the call}."""
        return named_arguments(self.function, self.arguments or (), self.options)

    @property
    def size(self) -> int:
        """How many numbers its arrays hold."""
        return sum(array.size for array in arrays_in((self.arguments, self.options)))


def outputs_of(function, result, arguments, options, returns=()) -> dict:
    """{label: array or value} of what a call returned, part by part, and of the arrays among its arguments."""
    several = len(returns) > 1 and isinstance(result, list | np.ndarray) and np.shape(result)[:1] == (len(returns),)
    several = several or isinstance(result, tuple) and len(returns) != 1
    parts = result if several else () if result is None else (result,)
    names = returns if len(returns) == len(parts) else [f"result {k}" for k in range(len(parts))]
    found = {}
    for name, part in zip(names, parts):
        found |= labelled(name, part)
    for name, value in named_arguments(function, arguments, options).items():
        found |= {
            label: part for label, part in labelled(f"argument {name}", value).items() if isinstance(part, np.ndarray)
        }
    return found


def holds_itself(value, above=()) -> bool:
    """Is a list an item of itself, as an edited function may make it? Nothing would ever reach its end."""
    around = (*above, id(value))
    return isinstance(value, list) and (id(value) in above or any(holds_itself(each, around) for each in value))


def arrays_in(value) -> list:
    """The arrays in a value, also in lists, tuples and dicts."""
    if isinstance(value, np.ndarray):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [array for part in parts for array in arrays_in(part)]


def same_error(made, got, right, lost=False) -> bool:
    """Is the error of `made` that of `got`, up to a small share? All three (…,), arrays or numbers.

    lost: does that also count where no number is left in either?
    """
    try:
        if np.shape(made) != np.shape(got) or np.shape(got) != np.shape(right):
            return False
        dtype = _narrowest(made, got, right)
        made, got, right = (np.asarray(array, np.float64) for array in (made, got, right))
    except (TypeError, ValueError):  # a list of texts, say
        return _equal(made, got) and not _equal(made, right)
    finite = np.isfinite(got) & np.isfinite(right)
    if not np.array_equal(np.isfinite(made), np.isfinite(got)):
        return False
    if not finite.any():
        return lost and bool(np.isfinite(right).any())
    largest, error = np.abs(right[finite]).max(), np.abs(got - right)[finite]
    rounding = NEAR.get(dtype, NEAR["float64"]) * largest
    if np.isfinite(got[np.isfinite(right)]).all() and error.max() <= 20 * rounding:
        return False
    return bool(np.abs(made - got)[finite].max() <= SHARE.get(dtype, 1e-9) * error.max() + rounding)


def _equal(one, other) -> bool:
    """Equality of what has no shape; also False where there is no telling."""
    try:
        return bool(np.all(one == other))
    except (TypeError, ValueError):
        return False


def _narrowest(*arrays) -> str:
    """The dtype with the fewest digits among those of the arrays."""
    return max((str(np.asarray(array).dtype) for array in arrays), key=lambda dtype: NEAR.get(dtype, 0.0))


def alike(one, other, share=None) -> bool:
    """The same array or value, up to rounding, or up to this share of the largest number?"""
    try:
        if np.shape(one) != np.shape(other):
            return False
        dtype = _narrowest(one, other)
        one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    except (TypeError, ValueError):  # a list of texts, say
        return _equal(one, other)
    finite = np.isfinite(one)
    if not np.array_equal(finite, np.isfinite(other)) or not np.array_equal(
        one[~finite], other[~finite], equal_nan=True
    ):
        return False
    near = (share or 100 * NEAR.get(dtype, NEAR["float64"])) * np.abs(other[finite]).max(initial=0.0)
    return bool((np.abs(one[finite] - other[finite]) <= near).all())
