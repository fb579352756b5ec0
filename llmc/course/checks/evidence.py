"""What the running check has seen: the calls it made, with which a wrong array can be traced to a mistake."""

import copy
import io
import operator
import time
import warnings
from collections import deque
from contextlib import redirect_stdout
from operator import itemgetter

import numpy as np

from llmc.course.checks import origins, text
from llmc.course.checks.copies import written_to_a_copy
from llmc.course.checks.curve import said_of_curve
from llmc.course.checks.overwritten import arrays_of, remains
from llmc.course.checks.rebound import name_of, rebound
from llmc.course.checks.stale import stale
from llmc.course.checks.unreached import left_in_a_loop, returned_name, watch, why_unwritten
from llmc.course.mutants.kept import growing, kept_between, remembered
from llmc.course.mutants.learners import learners
from llmc.course.mutants.picked import close
from llmc.course.mutants.private import glossary as glossary_of
from llmc.course.mutants.recognise import order_of_error, recognised
from llmc.course.mutants.replay import Replay, arrays_in, outputs_of
from llmc.course.mutants.results import mistaken_for, others, place_of, same_array
from llmc.course.mutants.search import Found, change_that_gives
from llmc.course.mutants.solution import Solution, solution_of
from llmc.course.own_names import learners_names

CALLS = 4  # of a check, the last ones, that a wrong array may have come from; a check may make thousands
MANY = 6  # names that are not listed any more
REMAINS = "it keeps something from one call to the next, in a default argument or a global, say"
_open = []  # the Evidence of the check whose block is running, innermost last
_explaining = True


class Evidence:
    """The calls of one check. `found` for the running one says which change explains a wrong array."""

    def __init__(self, exercise, rehearsed=lambda solution: []):
        """rehearsed: makes calls of a solution, on other numbers than the check's."""
        self.exercise, self.rehearsed = exercise, rehearsed
        self.function = None  # the learner's, as it was called last
        self.replays = deque(maxlen=CALLS)
        self.overwritten = set()  # which arrays of the arguments were tried with NaN in them, by their places

    def solution(self):
        """What mutants are made of; None if there is nothing."""
        return solution_of(self.exercise)

    def keeps_results(self) -> str | None:
        """A sentence if a function whose results were right gives them again for other numbers in the same array."""
        sizes = [sum(a.size for a in replay.arguments if isinstance(a, np.ndarray)) for replay in self.replays]
        smallest = min((call for call in zip(sizes, self.replays) if call[0]), key=itemgetter(0), default=(0, None))[1]
        return stale_in(self, smallest) if smallest and _explaining else None

    def __enter__(self):
        _open.append(self)

    def __exit__(self, *unused):
        _open.remove(self)

    def before(self, function, arguments, options, buffers=()):
        """The copy of a call that is about to be made; None where it cannot be made again.

        buffers: the arrays that it may write to.
        """
        self.function = function
        given = {id(array) for array in arrays_in((arguments, options))}
        for earlier in self.replays:  # a buffer that is written again: keep what it holds now
            earlier.outputs = [np.copy(each) if id(each) in given else each for each in earlier.outputs]
        replay = Replay.of(arguments, options)
        if replay is not None:
            replay.buffers = [any(value is buffer for buffer in buffers) for value in arguments]
        return replay

    def after(self, replay, result, arguments, options):
        """Note what that call returned and wrote."""
        if replay is not None:
            replay.outputs = outputs_of(result, arguments, options)
            self.replays.append(replay)


def explaining(on: bool) -> bool:
    """Whether `found` looks for mutants, which takes up to seconds; returns what it was before."""
    global _explaining
    was, _explaining = _explaining, on
    return was


def is_explaining() -> bool:
    """Whether mutants are looked for."""
    return _explaining


def found(got, expected, start) -> Found | None:
    """The change of the solution, or of the learner's function, that explains `got` in place of start + expected.

    None outside of a check, and when no small change does.
    """
    if not (_open and _explaining):
        return None
    running = _open[-1]
    return recognised(running.solution(), running.function, running.replays, got, expected, start, running.rehearsed)


def inexact(got, expected, start) -> list[str]:
    """Sentences about an error that is small, or grows along an input: which piece it comes from, where it begins."""
    if not (_open and _explaining):
        return []
    running = _open[-1]
    small = order_of_error(running.solution(), running.function, running.replays, got, expected, start)
    if small:
        number, order = small
        share, kind = ("half", "one-sided") if order == 1 else ("a quarter", "central")
        falls = f"The error falls to {share} when {number} is halved, as that of a {kind} difference does"
        return [f"{falls}: the formula of the derivative has no such error."]
    last, solution = _replay_like(got), running.solution()
    if not last or solution is None or not solution.of_arrays:
        return []
    whole = solution.function(time.thread_time() + solution.seconds)
    with redirect_stdout(io.StringIO()), np.errstate(all="ignore"), learners_names():
        return said_of_curve(running.function, whole, *last)


def _replay_like(got):
    """(the call that made `got`, which of its outputs that is); an earlier call for one too large to be kept."""
    if not _open[-1].replays:
        return None
    last = _open[-1].replays[-1]
    made = [k for k, mine in enumerate(last.outputs) if mine is got or _may_be(mine, got)]
    before = arrays_in((last.arguments, last.options))
    given = len(last.outputs) - len(before)
    written = [given + k for k, old in enumerate(before) if not np.array_equal(old, last.outputs[given + k])]
    only = made or [*range(given), *written]
    return (last, only[0]) if len({id(last.outputs[k]) for k in only}) == 1 else None


def remarks() -> list[str]:
    """Sentences about the text of the learner's function that make wrong results of its last call plausible."""
    running = _open[-1] if _open and _explaining else None
    solution = running and running.replays and running.solution()
    if not isinstance(solution, Solution):
        return []
    with np.errstate(all="ignore"), redirect_stdout(io.StringIO()):
        return text.remarks(running.function, solution, running.replays[-1])


def glossary(words) -> list[str]:
    """A sentence on what the names of our solution stand for that these words quote; [] if there are none."""
    solution = _open[-1].solution() if _open else None
    said = glossary_of(words, solution.tree) if isinstance(solution, Solution) else ""
    return [said] if said else []


def absent() -> list[str]:
    """Names of the arguments that are None in the running check's last call, and were not in an earlier one."""
    replays = _open[-1].replays if _open else ()
    if not replays:
        return []
    *earlier, last = (replay.named(_open[-1].function) for replay in replays)
    return [name for name, value in last.items() if value is None and any(e.get(name) is not None for e in earlier)]


def learners_function():
    """The learner's function as the running check called it last; None outside of a check."""
    return _open[-1].function if _open else None


def inputs() -> dict:
    """{name: value} of the arguments of the running check's last call, as they were before; {} outside of a check."""
    return _open[-1].replays[-1].named(_open[-1].function) if _open and _open[-1].replays else {}


def renamed(got, adds) -> str | None:
    """A sentence if the learner's function gives the name of the buffer `got` to a new array; else None."""
    running = _open[-1] if _open else None
    if running is None or not running.replays or not isinstance(got, np.ndarray):
        return None
    return rebound(running.function, running.replays[-1], got, adds)


def copied(unwritten) -> str | None:
    """A sentence if the learner's function writes into a copy of an array, and something is unwritten; else None."""
    return written_to_a_copy(_open[-1].function) if _open and unwritten else None


def of_arrays() -> bool:
    """Do the functions of the running check work on whole arrays, and not thread by thread?"""
    solution = _open[-1].solution() if _open else None
    return solution is None or solution.of_arrays


def launch() -> tuple[int, int] | None:
    """(blocks, threads of a block) along x of the running check's last launch; None if that was no kernel."""
    if of_arrays() or not _open[-1].replays:
        return None
    (blocks, *_), (threads, *_) = _open[-1].replays[-1].arguments[:2]
    return blocks, threads


def one_array(name, got) -> str | None:
    """A sentence if the array `got` is another result of the running check's last call as well; else None."""
    same = same_array(_open[-1].solution(), _open[-1].replays, got) if _open else []
    if not same:
        return None
    others = [each for each in same if each != name]
    other = others[0] if len(others) == 1 and len(same) == 2 else "another result"
    how = "as after `a = b = np.zeros(…)`, or `a = b` and then `a += …`, which changes b, too"
    return f"{name} and {other} are one and the same array, {how}: make two"


def left_of_before(name, got) -> str | None:
    """A sentence if the right array `got` of the last call would hold NaN, had it held NaN before; or None.

    It looks at each output of a check once.
    """
    running = _open[-1] if _open else None
    if running is None or not running.replays or not isinstance(got, np.ndarray) or not of_arrays():
        return None
    last, solution = running.replays[-1], running.solution()
    places = [k for k, mine in enumerate(last.outputs) if _may_be(mine, got)]
    k = places[-1] - len(last.outputs) if places else 0  # counted from the end
    if solution is None or not k or k in running.overwritten or not any(last.buffers):
        return None
    running.overwritten.add(k)
    count = remains(running.function, solution, last, len(arrays_of(last)) + k)
    if not count:
        return None
    argument = name_of(got, running.function, last) or name
    held = f"with NaN in {argument} before the call, {count} of its {got.size} entries are NaN after it"
    still = "what it held before is still in it, times 0 perhaps, and 0 · NaN is NaN"
    return f"{held}: {still}. Overwrite it, with `{argument}[...] = …`, before you add to it"


def written_before(got) -> bool:
    """Was the buffer `got`, or what stood in its place, written by an earlier call of the running check?"""
    replays = list(_open[-1].replays) if _open else []
    if len(replays) < 2 or not isinstance(got, np.ndarray):
        return False
    *earlier, last = [(replay, arrays_in((replay.arguments, replay.options))) for replay in replays]
    from_the_end = [k - len(last[0].outputs) for k, mine in enumerate(last[0].outputs) if _may_be(mine, got)]
    for k in from_the_end:
        for replay, before in earlier:
            if -k <= len(before) == len(last[1]) and not np.array_equal(replay.outputs[k], before[k], equal_nan=True):
                return True
    return False


def right_in_two_arrays(name, got, expected, start) -> str | None:
    """A sentence if `got` was two arguments of the last call, and would be right if these were two arrays; or None."""
    if not (_open and _explaining and _open[-1].replays and isinstance(got, np.ndarray)):
        return None
    function, last = _open[-1].function, _open[-1].replays[-1]
    named = last.named(function)
    given = last.outputs[len(last.outputs) - len(arrays_in((last.arguments, last.options))) :]
    same = [k for k, value in enumerate(named.values()) if any(value is v for v in _but(named.values(), k))]
    same = [k for k in same if isinstance(last.arguments[k], np.ndarray)] if len(named) == len(last.arguments) else []
    if len(same) != 2 or not any(_may_be(mine, got) for mine in given):
        return None
    apart = [value.copy() if isinstance(value, np.ndarray) else copy.deepcopy(value) for value in last.arguments]
    try:
        with np.errstate(all="ignore"), redirect_stdout(io.StringIO()), learners_names():
            function(*apart, **copy.deepcopy(last.options))
    except Exception:
        return None
    names = list(named)
    for k, other in (same, same[::-1]):
        if np.shape(apart[k]) == np.shape(got) and close(apart[k], expected + start, expected, "float32"):
            early = f"your function writes into `{names[k]}` before it has read all of `{names[other]}`"
            return f"{name} would be right if `{names[k]}` and `{names[other]}` were two arrays: {early}"
    return None


def _but(values, k) -> list:
    return [value for j, value in enumerate(values) if j != k]


def unwritten_too(got) -> str | None:
    """A sentence if the last call has left all that it should write as it was, besides `got`; else None."""
    if not (_open and _open[-1].replays and _made(_open[-1].replays[-1], got)):
        return None
    running, last = _open[-1], _open[-1].replays[-1]
    solution, before = running.solution(), arrays_in((last.arguments, last.options))
    named = [name for name, value in last.named(running.function).items() for _ in arrays_in(value)]
    if solution is None or not solution.of_arrays or not len(named) == len(before) == len(last.outputs):
        return None
    try:
        should = last.run(solution.function(time.thread_time() + solution.seconds))
    except Exception:
        return None
    if len(should) != len(before):
        return None
    outputs = [k for k in range(len(before)) if not np.array_equal(should[k], before[k], equal_nan=True)]
    others = [named[k] for k in outputs if not _may_be(last.outputs[k], got)]
    left = all(np.array_equal(last.outputs[k], before[k], equal_nan=True) for k in outputs)
    return f"Nor {'was' if len(others) == 1 else 'were'} {_listed(others)}" if left and others else None


def unreached(got) -> str | None:
    """A sentence on what kept the lines that write `got` from running in the last call; None if one ran."""
    last, watched = _watched(got)
    if watched is None:
        return None
    given, k = len(arrays_in((last.arguments, last.options))), _which(last, got)
    of = len(last.outputs) - given
    name = returned_name(watched, k, of) if k < of else name_of(got, _open[-1].function, last)
    return why_unwritten(watched, name) if name else None


def left_early(got) -> str | None:
    """A sentence if a `return` in a `for` loop ended the call that gave `got`; else None."""
    _, watched = _watched(got)
    return left_in_a_loop(watched) if watched else None


def _watched(got):
    """(the last call, which of its lines ran); (None, None) if another call gave `got`, or no Python of arrays did."""
    if not (_open and _explaining and _open[-1].replays and of_arrays()):
        return None, None
    function, last = _open[-1].function, _open[-1].replays[-1]
    if not _made(last, got):
        return None, None
    with learners_names():
        return last, watch(function, last)


def _which(replay, got) -> int:
    return next(k for k, mine in enumerate(replay.outputs) if _may_be(mine, got))


def last_call(got):
    """(the learner's function as a program, its last call, which of that call's outputs `got` is); or None.

    None outside of a check, for a call too large to be kept, and where the function cannot be run again.
    """
    if not (_open and _explaining and _open[-1].replays):
        return None
    running, last = _open[-1], _open[-1].replays[-1]
    k = next((k for k, mine in enumerate(last.outputs) if mine is got or _may_be(mine, got)), None)
    with learners_names():
        answer = None if k is None else learners(running.function)
    return answer and (answer, last, k)


def why_nan(got) -> str | None:
    """A sentence about the expression of the learner's that makes the first NaN or infinity of `got`; or None."""
    return _of_last_call(origins.why_nan, got)


def why_wide(got) -> str | None:
    """A sentence about the expression of the learner's that makes `got` float64; or None."""
    return _of_last_call(origins.why_wide, got)


def _of_last_call(explain, got):
    found = last_call(got)
    if not found:
        return None
    with warnings.catch_warnings(), np.errstate(all="ignore"), redirect_stdout(io.StringIO()), learners_names():
        warnings.simplefilter("ignore")
        return explain(*found)


def _made(replay, got) -> bool:
    """Was it this call that gave `got`? Calls on large arrays are not kept."""
    return any(_may_be(mine, got) for mine in replay.outputs)


def _may_be(mine, got) -> bool:
    return isinstance(mine, np.ndarray) and np.may_share_memory(mine, got)


def done_twice(got):
    """What our solution makes of the array `got` if the running check's last call is made twice in a row; or None."""
    solution = _open[-1].solution() if _open and _explaining and _open[-1].replays else None
    if solution is None or not solution.of_arrays or not _made(_open[-1].replays[-1], got):
        return None
    last = _open[-1].replays[-1]
    k = next(k for k, mine in enumerate(last.outputs) if _may_be(mine, got))
    arguments, options = copy.deepcopy((last.arguments, last.options))
    function = solution.function(time.thread_time() + solution.seconds)
    try:
        function(*arguments, **options)
        again = outputs_of(function(*arguments, **options), arguments, options)[k]
    except Exception:
        return None
    return again if np.shape(again) == np.shape(got) else None


def exchanged(name, got) -> str | None:
    """A sentence if the array `got` is what another result of the running check's last call should be; else None."""
    if not (_open and _explaining):
        return None
    with np.errstate(all="ignore"):
        other = mistaken_for(_open[-1].solution(), _open[-1].replays, got)
    return other and f"{name} holds what belongs in {other}: are the two exchanged?"


def whole(what, calls, right, same=operator.eq, ours=True) -> str | None:
    """A sentence about results that are right or wrong as a whole, such as lists of ids: which change explains them?

    what: their name, "ids". calls: [(arguments, what the learner's function returned)] of the running check.
    right: the reference. same(a, b): are two results the same? ours: are changes of our solution tried, too?
    None outside of a check, and when no small change of the learner's function mends every call, and none of our
    solution gives what that returned.
    """
    if not (_open and _explaining):
        return None
    running, wrong_first = _open[-1], sorted(calls, key=lambda call: same(call[1], right(*call[0])))
    solution = running.solution()
    if solution is None:
        return None
    with redirect_stdout(io.StringIO()), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with learners_names():
            answer = learners(running.function)
            if answer and _right_at_first(answer, wrong_first, right, same):
                return f"your function gives the right {what} when it is called for the first time: {REMAINS}"
            more = running.rehearsed(solution.function(time.thread_time() + solution.seconds)) if answer else []
            given = [arguments for arguments, _ in wrong_first] + [replay.arguments for replay in more]
            mended = answer and change_that_gives(answer, [(each, right(*each)) for each in given], same)
        if mended:
            return f"your function gives the right {what} {mended}"
        changed = change_that_gives(solution, wrong_first, same) if ours else None
    return changed and f"these are the {what} that our solution gives {changed}"


def _right_at_first(answer, calls, right, same) -> bool:
    """Is each of these wrong results right if nothing was called before?"""
    wrong = [arguments for arguments, result in calls if not same(result, right(*arguments))]
    try:
        end = time.thread_time() + answer.seconds
        return all(same(answer.function(end)(*copy.deepcopy(given)), right(*given)) for given in wrong)
    except Exception:  # it needs more than its source
        return False


def calls_so_far() -> list[tuple]:
    """[(arguments, result)] of the running check's last calls of a function that returns one array; [] outside."""
    return [(replay.arguments, replay.outputs[0]) for replay in _open[-1].replays] if _open else []


def place(got) -> str | None:
    """Words for the result of the running check's last call that should be what `got` is; None if none should."""
    return place_of(_open[-1].solution(), _open[-1].replays, got) if _open and _explaining else None


def kept(name, got, expected, start) -> str | None:
    """A sentence about an array that is wrong because the learner's function keeps something between calls, or rounds.

    None if it is wrong for another reason, or outside of a check.
    """
    if not (_open and _explaining):
        return None
    running = _open[-1]
    with learners_names():
        grown = growing(running.function, running.replays, got, expected)
    old = not grown and running.replays and stale_in(running, running.replays[-1])
    if old:
        return old
    changed = not grown and kept_between(running.solution(), running.replays, got, expected, start)
    if changed:
        return f"{name} has the values that our solution gives {changed}"
    with learners_names():
        again = grown or remembered(running.function, running.replays, got)
    return again and f"{name} {again}"


def stale_in(running, replay) -> str | None:
    """A sentence if the learner's function keeps results by address or size. running: an Evidence. replay: a call."""
    solution = running.solution()
    if not isinstance(solution, Solution):
        return None
    with learners_names(), np.errstate(all="ignore"), redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = solution.function(time.thread_time() + solution.seconds)
        return stale(running.function, whole, lambda: learners(running.function), replay)


def other_results(got) -> list[str]:
    """Sentences about the other results of the running check's last call: which of them are right, which wrong, too."""
    right, wrong = _others(got)
    said = [f"{_listed(right)} {'is' if len(right) == 1 else 'are'} right in the same call"] * bool(right)
    said += [f"{_listed(wrong)} {'is' if len(wrong) == 1 else 'are'} wrong, too"] * bool(wrong)
    return [f"{'; '.join(said)}."] if said else []


def right_results(got) -> list[str]:
    """Names of the other results of the running check's last call that are right; [] where unknown."""
    return _others(got)[0]


def _others(got):
    """Names of the other results of the running check's last call: (right ones, wrong ones)."""
    if not (_open and _explaining):
        return [], []
    with np.errstate(all="ignore"):
        return others(_open[-1].solution(), _open[-1].replays, got)


def _listed(names) -> str:
    """ "dx, dw and db"; of many only how many they are."""
    if len(names) > MANY:
        return f"{len(names)} other results"
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
