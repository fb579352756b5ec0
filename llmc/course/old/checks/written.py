"""What did the running check's last call write, and where? Left out, twice, too early, or into another array?"""

import copy
import io
import time
from contextlib import redirect_stdout

import numpy as np

from llmc.course.old.checks.copies import written_to_a_copy
from llmc.course.old.checks.discarded import discarded
from llmc.course.old.checks.evidence import last_call, looked_into, made, may_be, of_arrays, running
from llmc.course.old.checks.explain import listed
from llmc.course.old.checks.loop_variables import lost_in_a_loop
from llmc.course.old.checks.overwritten import arrays_of, from_zeros, remains
from llmc.course.old.checks.rebound import name_of, rebound
from llmc.course.old.checks.text import works_on_all_of
from llmc.course.old.checks.unreached import left_in_a_loop, returned_name, watch, why_unwritten
from llmc.course.old.mutants.learners import learners
from llmc.course.old.mutants.picked import close
from llmc.course.old.mutants.replay import arrays_in, outputs_of
from llmc.course.old.mutants.results import mistaken_for, same_array
from llmc.course.old.mutants.traced import Trace
from llmc.course.own_names import learners_names


def renamed(got, adds, target=None) -> str | None:
    """A sentence if the learner's function gives the name of the buffer `got` to a new array; else None.

    target: what it should hold after the call, where that is known.
    """
    last = last_call()
    if last is None or not isinstance(got, np.ndarray):
        return None
    with learners_names(), redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
        return rebound(running().function, last, got, adds, target)


def unchanged(got, sentence) -> str:
    """The sentence that a part of `got` was never written, as far as that is known.

    `params -= step` writes into all of params, and where the step is 0 it is as it was.
    """
    last = last_call()
    name = name_of(got, running().function, last) if last and isinstance(got, np.ndarray) and of_arrays() else None
    if not name or not works_on_all_of(running().function, name):
        return sentence
    return sentence.replace("was never written", "is as it was before the call")


def copied(unwritten, name=None) -> str | None:
    """A sentence if the learner's function writes into a copy of an array, and something is unwritten; else None.

    name: of the array, if it is as it was before the call.
    """
    check, last = running(), last_call()
    if check is None or not unwritten:
        return None
    said = written_to_a_copy(check.function, name=name)
    if said or last is None or not (looked_into() and of_arrays()):
        return said
    with learners_names(), redirect_stdout(io.StringIO()):
        answer = learners(check.function)
        return answer and written_to_a_copy(check.function, Trace.of(answer, last), name)


def one_array(name, got) -> str | None:
    """A sentence if the array `got` is another result of the running check's last call as well; else None."""
    check = running()
    same = same_array(check.solution(), check.replays, got) if check else []
    if not same:
        return None
    others = [each for each in same if each != name]
    other = others[0] if len(others) == 1 and len(same) == 2 else "another result"
    belongs = mistaken_for(check.solution(), check.replays, got)
    holds = f", and hold what belongs in {belongs}" if belongs else ""
    return f"{name} and {other} are one and the same array{holds}: make two"


def left_of_before(name, got) -> str | None:
    """A sentence if the right array `got` of the last call would hold NaN, had it held NaN before; or None.

    It looks at each output of a check once.
    """
    check, last = running(), last_call()
    if last is None or not isinstance(got, np.ndarray) or not of_arrays():
        return None
    solution = check.solution()
    places = [k for k, mine in enumerate(last.outputs) if may_be(mine, got)]
    k = places[-1] - len(last.outputs) if places else 0  # counted from the end
    if solution is None or not k or k in check.overwritten or not any(last.buffers):
        return None
    check.overwritten.add(k)
    count = remains(check.function, solution, last, len(arrays_of(last)) + k)
    if not count:
        return None
    argument = name_of(got, check.function, last) or name
    held = f"with NaN in {argument} before the call, {count} of its {got.size} entries are NaN after it"
    still = "what it held before is still in it, times 0 perhaps, and 0 · NaN is NaN"
    return f"{held}: {still}. Overwrite it, with `{argument}[...] = …`"


def counted_in(name, got, target) -> str | None:
    """A sentence if the array `got`, to be overwritten by the last call, would be right had it held zeros; or None."""
    check, last = looked_into(), last_call()
    if last is None or not of_arrays() or not any(last.buffers) or not made(last, got):
        return None
    k = _which(last, got) - len(last.outputs) + len(arrays_of(last))
    new = from_zeros(check.function, last, k) if check and k >= 0 else None
    right = [np.shape(each) == np.shape(got) and close(each, target, target, "float32") for each in (new, got)]
    if right != [True, False]:
        return None
    return (
        f"{name} would be right if it had held zeros before the call: what it held is counted in, so set it to 0 first"
    )


def thrown_away(name, got, target) -> str | None:
    """A sentence if `got` would be `target` if lines that make a new array, which no line takes, wrote it; or None."""
    last = last_call()
    if last is None or not isinstance(got, np.ndarray) or not (looked_into() and of_arrays()) or not made(last, got):
        return None
    with learners_names(), redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
        answer = learners(running().function)
        return answer and discarded(name, answer, last, _which(last, got), target)


def written_before(got) -> bool:
    """Was the buffer `got`, or what stood in its place, written by an earlier call of the running check?"""
    replays = list(running().replays) if running() else []
    if len(replays) < 2 or not isinstance(got, np.ndarray):
        return False
    *earlier, last = [(replay, arrays_in((replay.arguments, replay.options))) for replay in replays]
    from_the_end = [k - len(last[0].outputs) for k, mine in enumerate(last[0].outputs) if may_be(mine, got)]
    for k in from_the_end:
        for replay, before in earlier:
            if -k <= len(before) == len(last[1]) and not np.array_equal(replay.outputs[k], before[k], equal_nan=True):
                return True
    return False


def right_in_two_arrays(name, got, expected, start) -> str | None:
    """A sentence if `got` was two arguments of the last call, and would be right if these were two arrays; or None."""
    check, last = looked_into(), last_call()
    if not (check and last and isinstance(got, np.ndarray)):
        return None
    named = last.named(check.function)
    given = last.outputs[len(last.outputs) - len(arrays_in((last.arguments, last.options))) :]
    same = [k for k, value in enumerate(named.values()) if any(value is v for v in _but(named.values(), k))]
    same = [k for k in same if isinstance(last.arguments[k], np.ndarray)] if len(named) == len(last.arguments) else []
    if len(same) != 2 or not any(may_be(mine, got) for mine in given):
        return None
    apart = _after(check.function, last, lambda array: array.copy())
    names, one = list(named), last.arguments[same[0]]
    memory = one.copy()
    for k, other in (same, same[::-1]) if apart else ():
        if np.shape(apart[k]) == np.shape(got) and close(apart[k], expected + start, expected, "float32"):
            two = f"{name} would be right if `{names[k]}` and `{names[other]}` were two arrays"
            if close(got, last.arguments[other] + expected, expected, "float32"):
                return f"{two}. As they are one, the result was added to what `{names[other]}` held: overwrite that"
            shared = _after(check.function, last, lambda a: memory.view() if a is one else a.copy())
            if not shared or not close(shared[k], got, got, "float32"):  # it asks which array is which
                return two
            return f"{two}: your function writes into `{names[k]}` before it has read all of `{names[other]}`"
    return None


def _after(function, call, given):
    """The arguments of a call as it leaves them, made again with given(array) for each array; None if it fails."""
    arguments = [given(value) if isinstance(value, np.ndarray) else copy.deepcopy(value) for value in call.arguments]
    try:
        with np.errstate(all="ignore"), redirect_stdout(io.StringIO()), learners_names():
            function(*arguments, **copy.deepcopy(call.options))
    except Exception:
        return None
    return arguments


def _but(values, k) -> list:
    return [value for j, value in enumerate(values) if j != k]


def unwritten_too(got) -> str | None:
    """A sentence if the last call has left all that it should write as it was, besides `got`; else None."""
    check, last = running(), last_call()
    if last is None or not made(last, got):
        return None
    solution, before = check.solution(), arrays_in((last.arguments, last.options))
    named = [name for name, value in last.named(check.function).items() for _ in arrays_in(value)]
    if solution is None or not solution.of_arrays or not len(named) == len(before) == len(last.outputs):
        return None
    try:
        should = last.run(solution.function(time.thread_time() + solution.seconds))
    except Exception:
        return None
    if len(should) != len(before):
        return None
    outputs = [k for k in range(len(before)) if not np.array_equal(should[k], before[k], equal_nan=True)]
    others = [named[k] for k in outputs if not may_be(last.outputs[k], got)]
    left = all(np.array_equal(last.outputs[k], before[k], equal_nan=True) for k in outputs)
    return f"Nor {'was' if len(others) == 1 else 'were'} {listed(others)}" if left and others else None


def unreached(got) -> str | None:
    """A sentence on what kept the lines that write `got` from running in the last call; None if one ran."""
    last, watched = _watched(got)
    if watched is None:
        return None
    given, k = len(arrays_in((last.arguments, last.options))), _which(last, got)
    of = len(last.outputs) - given
    name = returned_name(watched, k, of) if k < of else name_of(got, running().function, last)
    return why_unwritten(watched, name) if name else None


def left_early(got) -> str | None:
    """A sentence if a `return` in a `for` loop ended the call that gave `got`; else None."""
    _, watched = _watched(got)
    return left_in_a_loop(watched) if watched else None


def lost(got) -> str | None:
    """A sentence if a loop changes numbers or rows of a new array in vain, so that `got`, returned, is still zero."""
    last, watched = _watched(got)
    k, of = (_which(last, got), len(last.outputs) - len(arrays_of(last))) if watched else (0, 0)
    name = returned_name(watched, k, of) if k < of else None
    return lost_in_a_loop(watched.tree, name, np.ndim(got)) if name else None


def _watched(got):
    """(the last call, which of its lines ran); (None, None) if another call gave `got`, or no Python of arrays did."""
    check, last = looked_into(), last_call()
    if check is None or last is None or not of_arrays() or not made(last, got):
        return None, None
    with learners_names():
        return last, watch(check.function, last)


def _which(replay, got) -> int:
    """Which output of this call, which gave `got`, is it?"""
    return next(k for k, mine in enumerate(replay.outputs) if may_be(mine, got))


def done_twice(got):
    """What our solution makes of the array `got` if the running check's last call is made twice in a row; or None."""
    check, last = looked_into(), last_call()
    solution = check.solution() if check and last else None
    if solution is None or not solution.of_arrays or not made(last, got):
        return None
    arguments, options = copy.deepcopy((last.arguments, last.options))
    function = solution.function(time.thread_time() + solution.seconds)
    try:
        function(*arguments, **options)
        again = outputs_of(function(*arguments, **options), arguments, options)[_which(last, got)]
    except Exception:
        return None
    return again if np.shape(again) == np.shape(got) else None
