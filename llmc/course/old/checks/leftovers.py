"""What one call leaves for the next, in a default argument or a global: the same arguments then give another result.

Leftovers of rounding are far too small to show after calls on numbers of the same size. So when an answer seems to be
right, one of its calls is made again, but only after the same call with very large numbers.
"""

import copy
from contextlib import suppress

import numpy as np

from llmc.course.old.checks.inputs import read_only
from llmc.course.old.checks.stale import far
from llmc.course.old.mutants.learners import learners
from llmc.course.old.mutants.replay import arrays_in, outputs_of
from llmc.course.own_names import learners_names

ONCE = "Python makes a default once, not in every call"
IN_DEFAULT = ", in its default argument `{}`"
KEEPS = "it keeps something from one call to the next"
ROOM = 1 / 3  # the power of a type's largest number that the large ones are: their squares are finite


def after_large(function, solution, replay) -> str | None:
    """A sentence if very large numbers in one call change what the next one gives, as they do not in our solution.

    solution: a function. replay: a call of the learner's `function`, which was right.
    """
    factor = _factor(arrays_in((replay.arguments, replay.options)))
    if factor is None:
        return None
    with suppress(Exception):  # such large numbers may stop it
        _outputs(function, replay.scaled(factor))
        held = copy.deepcopy(_defaults(function))
        again = _outputs(function, replay)
        if any(map(_differ, replay.outputs, again)):
            ours = replay.run(solution)  # the check may have changed what the first call returned
            if any(_differ(old, new) and _differ(right, new) for old, new, right in zip(replay.outputs, again, ours)):
                once = "your function gives something else for the same arguments after a call with very large numbers"
                return f"{once}: {KEEPS}{_in_default(function, held)}"
    return None


def of_same_call(function, arguments, got) -> str | None:
    """A sentence if the same call, made again, does not give what it gave, a list or a string; else None."""
    with suppress(Exception), learners_names():
        held = copy.deepcopy(_defaults(function))
        if list(function(*copy.deepcopy(arguments))) == list(got):
            return None
        program = learners(function)
        results = [list(program.function(np.inf)(*copy.deepcopy(arguments))) for _ in range(2)] if program else []
        kept = f"{KEEPS}{_in_default(function, held)}" if results and results[0] == results[1] else None
        why = kept or "does something remain from one call to the next, or does chance play a part?"
        return f"called again with the same arguments, your function gives something else: {why}"
    return None


def _factor(arrays) -> float | None:
    """What makes the floats among them large, but none too large for its type; None if there are none."""
    floats = [a for a in arrays if a.dtype in (np.float16, np.float32, np.float64) and a.size]
    largest = [(float(np.abs(a[np.isfinite(a)]).max(initial=0)), float(np.finfo(a.dtype).max) ** ROOM) for a in floats]
    factors = [top / most for most, top in largest if most]
    return float(2 ** int(np.log2(min(factors)))) if factors and min(factors) > 1 else None


def _outputs(function, replay) -> list:
    """As the check makes a call: inputs are read-only, if the function takes such arrays."""
    for locked in (True, False):
        arguments, options = copy.deepcopy((replay.arguments, replay.options))
        buffers = [*replay.buffers, *[False] * len(arguments)]
        if locked:
            arguments = [v if mine else _locked(v) for v, mine in zip(arguments, buffers)]
            options = {name: _locked(value) for name, value in options.items()}
        try:
            result = function(*arguments, **options)
        except Exception:
            if not locked:
                raise
        else:
            return [np.array(value) for value in outputs_of(result, arguments, options)]


def _differ(one, other) -> bool:
    return far(one, other) or bool((np.isfinite(one) != np.isfinite(other)).any())


def _locked(value):
    return read_only(value) if isinstance(value, np.ndarray) else value


def _defaults(function) -> dict:
    """{name: value} of the defaults that a call can change."""
    function = getattr(function, "py_func", function)
    code, values = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    named = [*zip(names, values), *(function.__kwdefaults__ or {}).items()]
    return {name: value for name, value in named if isinstance(value, dict | list | set | np.ndarray)}


def default_of(function, new) -> str:
    """The same, of a function that has been called and another that has the same text, and has not; or ""."""
    held, now = _defaults(new), _defaults(function)
    changed = next((name for name in held.keys() & now.keys() if repr(held[name]) != repr(now[name])), None)
    return f"{IN_DEFAULT.format(changed)}; {ONCE}" if changed else ""


def _in_default(function, held) -> str:
    """ ", in its default argument `memory`; …", if calls have changed that since it was `held`."""
    now = _defaults(function)
    changed = next((name for name in held if repr(held[name]) != repr(now[name])), None)
    return f"{IN_DEFAULT.format(changed)}; {ONCE}" if changed else ", in a default argument or a global, say"
