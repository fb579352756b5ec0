'''An exercise is one object: what is right, which calls are tried, what else is required, which mistakes have a name.

    Exercise(
        "layernorm_backward",
        "01",
        reference=backward,                      # of the same arguments as the learner's function
        returns="dx dw db",                      # what it returns; writes="out": arguments to be overwritten;
        cases=rows_and_gradients,                #   adds="dwte dwpe": arguments to be added to
        look="3.6 · The two means fall out",     # a section of lesson 01
        mistakes=r"""
            without the mean(dnorm) term | - through_mean =>
            …
        """,
    )

A named mistake is an edit of our solution (`mutation/named.py`); its words continue "dx equals the reference …". The
check compares what the edited solution gives with what the learner's function gives; the tests give each edited
solution to the check, which must refuse it with these words.
'''

import inspect
from collections.abc import Callable
from dataclasses import dataclass

EXERCISES = {}  # {name: Exercise} of the lessons that have been imported


@dataclass
class Exercise:
    """reference: a function of the same arguments (copies of them) that returns what is right, in order.

    Where it is None, our solution is the reference. cases: a generator function of the check, which yields what its
    cell gives to `c.compare`. rules: functions of a `Tried` call that return a sentence, or None; they run before the
    numbers are compared. look: a section of the lesson ("2 · Forward"), any other place ("hint 2"), or {output: …}.
    rtol, atol: as in `compare`, for all outputs, or {output: …}, or a function of the call's arguments that returns one
    of these. slow: what to look at first if an answer is too slow.
    """

    name: str
    lesson: str
    reference: Callable | None = None
    returns: str = ""
    writes: str = ""
    adds: str = ""
    cases: Callable | None = None
    rules: tuple = ()
    mistakes: str = ""
    look: str | dict = ""
    rtol: float | dict | Callable | None = None
    atol: float | dict | Callable | None = None
    slow: str = ""

    def __post_init__(self):
        EXERCISES[self.name] = self

    def look_for(self, output="", exactly=False) -> str:
        """Where to look if this output is wrong: 'lesson 01, section "2 · Forward"', or "". exactly: only if named."""
        look = self.look.get(output) if exactly and isinstance(self.look, dict) else None
        return self.place((look if exactly else _of(self.look, output)) or "")

    def place(self, look) -> str:
        """A section of this exercise's lesson, in full; a hint, or another lesson's section, as it is."""
        return look if not look or look.startswith(("hint", "lesson")) else f'lesson {self.lesson}, section "{look}"'

    def bounds(self, output, arguments, options) -> dict:
        """Keywords for `compare`, in this call."""
        of_call = (each(*arguments, **options) if callable(each) else each for each in (self.rtol, self.atol))
        return {name: _of(each, output) for name, each in zip(("rtol", "atol"), of_call)}

    def written(self, function, arguments, options) -> dict:
        """{name: argument} of those that a call of the function must write to."""
        wanted = [*self.writes.split(), *self.adds.split()]
        given = named_arguments(function, arguments, options) if wanted else {}
        return {name: given[name] for name in wanted if name in given}


def exercise_named(name) -> Exercise:
    """The Exercise of that name; one that knows nothing if no lesson has it."""
    return EXERCISES.get(name) or Exercise(name, "")


def named_arguments(function, arguments, options) -> dict:
    """{name: value} of a call's arguments; what has no name, or does not fit, is numbered."""
    try:
        return dict(inspect.signature(function).bind(*arguments, **options).arguments)
    except (TypeError, ValueError):
        return {**{f"argument {k}": value for k, value in enumerate(arguments)}, **options}


def labelled(label, value) -> dict:
    """{label: array or other value} of a result: parts of dicts, and of lists of arrays, one by one."""
    if isinstance(value, dict):
        parts = {f"{label}[{key!r}]": part for key, part in value.items()}
    elif isinstance(value, list | tuple) and any(hasattr(part, "shape") or isinstance(part, dict) for part in value):
        parts = {f"{label}[{k}]": part for k, part in enumerate(value)}
    else:
        return {label: value}
    return {name: part for each, whole in parts.items() for name, part in labelled(each, whole).items()}


def _of(setting, output):
    """The setting for one output."""
    return setting.get(output, setting.get("")) if isinstance(setting, dict) else setting
