"""Which mistake do the numbers of the running check's calls show? They are compared with those of changed programs.

What is changed is our solution, or the learner's function. A mistake is named only if the changed program gives every
digit of the learner's results, or turns them into the right ones.
"""

import copy
import io
import operator
import time
import warnings
from contextlib import redirect_stdout, suppress

import numpy as np

from llmc.course.old.checks import between_threads, digits, evidence, lengths, narrow_types, origins, text
from llmc.course.old.checks.curve import said_of_curve
from llmc.course.old.checks.evidence import looked_into
from llmc.course.old.checks.explain import listed
from llmc.course.old.checks.influence import influences
from llmc.course.old.checks.left_over import left_over as of_quotients
from llmc.course.old.checks.left_over import with_threads
from llmc.course.old.checks.silence import silent_libraries
from llmc.course.old.mutants.kept import growing, kept_between, remembered
from llmc.course.old.mutants.learners import learners
from llmc.course.old.mutants.picked import close, where
from llmc.course.old.mutants.private import glossary as glossary_of
from llmc.course.old.mutants.recognise import order_of_error, recognised
from llmc.course.old.mutants.replay import arrays_in
from llmc.course.old.mutants.results import mistaken_for, others, place_of
from llmc.course.old.mutants.search import Found, change_that_gives, with_copies
from llmc.course.old.mutants.solution import Solution
from llmc.course.old.mutants.steps import step_in_place
from llmc.course.old.mutants.traced import Trace
from llmc.course.own_names import learners_names

REMAINS = "it keeps something from one call to the next, in a default argument or a global, say"


def found(got, expected, start) -> Found | None:
    """The change of the solution, or of the learner's function, that explains `got` in place of start + expected.

    None outside of a check, and when no small change does.
    """
    check = looked_into()
    if check is None:
        return None
    with silent_libraries():
        return recognised(check.solution(), check.function, check.replays, got, expected, start, check.rehearsed)


def inexact(got, expected, start, bounds) -> list[str]:
    """Sentences about an error that is small, or grows along an input: which piece it comes from, where it begins.

    bounds: the check's own, (rtol, atol).
    """
    check = looked_into()
    if check is None:
        return []
    small = order_of_error(check.solution(), check.function, check.replays, got, expected, start)
    if small:
        number, order = small
        share, kind = ("half", "one-sided") if order == 1 else ("a quarter", "central")
        falls = f"The error falls to {share} when {number} is halved, as that of a {kind} difference does"
        return [f"{falls}: the formula of the derivative has no such error."]
    last, solution = replay_like(got), check.solution()
    if not last or solution is None or not solution.of_arrays:
        return []
    right = solution.function(time.thread_time() + solution.seconds)
    with redirect_stdout(io.StringIO()), np.errstate(all="ignore"), learners_names():
        return said_of_curve(check.function, right, *last, bounds)


def replay_like(got):
    """(the call that made `got`, which of its outputs that is); an earlier call for one too large to be kept."""
    last = evidence.last_call()
    if last is None:
        return None
    mine = [k for k, each in enumerate(last.outputs) if each is got or evidence.may_be(each, got)]
    before = arrays_in((last.arguments, last.options))
    given = len(last.outputs) - len(before)
    written = [given + k for k, old in enumerate(before) if not np.array_equal(old, last.outputs[given + k])]
    only = mine or [*range(given), *written]
    return (last, only[0]) if len({id(last.outputs[k]) for k in only}) == 1 else None


def remarks() -> list[str]:
    """Sentences about the text of the learner's function that make wrong results of its last call plausible."""
    check, last = looked_into(), evidence.last_call()
    solution = check and last and check.solution()
    if not isinstance(solution, Solution):
        return []
    with np.errstate(all="ignore"), redirect_stdout(io.StringIO()):
        return text.remarks(check.function, solution, last)


def glossary(words) -> list[str]:
    """A sentence on what the names of our solution stand for that these words quote; [] if there are none."""
    check = evidence.running()
    solution = check and check.solution()
    said = glossary_of(words, solution.tree) if isinstance(solution, Solution) else ""
    return [said] if said else []


def why_nan(got, at=None) -> str | None:
    """A sentence about the expression of the learner's that makes the first NaN or infinity of `got`; or None.

    at: the index of the entry that the message names, if it names one.
    """

    def why(answer, last, k):
        return origins.why_nan(answer, last, k, at if np.shape(last.outputs[k]) == np.shape(got) else None)

    return _of_last_call(why, got)


def why_wide(got) -> str | None:
    """A sentence about the expression of the learner's that makes `got` float64; or None."""
    return _of_last_call(origins.why_wide, got)


def rounded_by_type(name, got, target) -> str | None:
    """A sentence if `got` would be `target` without a narrow type in the learner's text, np.float32 say; or None."""
    return _of_last_call(lambda answer, last, k: narrow_types.rounded_by_type(name, answer, last, k, target), got)


def left_over(got, wrong) -> str | None:
    """A sentence if those entries of `got` are wrong that a quotient of the learner's, rounded down, leaves over.

    got: of the last call, or what it gives with three threads.
    """
    said = _of_last_call(lambda answer, last, k: of_quotients(answer, last, wrong), got)
    return said or _of_last_call(lambda answer, last, k: of_quotients(with_threads(answer), last, wrong), got, None)


def _of_last_call(explain, got, *other):
    """explain(the learner's function as a program, its last call, which of that call's outputs `got` is); or None.

    None outside of a check, for a call too large to be kept, and where the function cannot be run again.
    other: what explain is given where `got` is none of them.
    """
    check, last = looked_into(), evidence.last_call()
    if check is None or last is None:
        return None
    k = next((k for k, mine in enumerate(last.outputs) if mine is got or evidence.may_be(mine, got)), None)
    if k is None and np.ndim(got) == 0:  # a number: the only one that equals it
        equal = [k for k, mine in enumerate(last.outputs) if np.ndim(mine) == 0 and mine == got]
        k = equal[0] if len(equal) == 1 and np.isfinite(got) else None
    if k is None and not other:
        return None
    with warnings.catch_warnings(), np.errstate(all="ignore"), redirect_stdout(io.StringIO()), learners_names():
        answer = learners(check.function)
        warnings.simplefilter("ignore")
        return answer and explain(answer, last, k)


def exchanged(name, got) -> str | None:
    """A sentence if the array `got` is what another result of the running check's last call should be; else None."""
    check = looked_into()
    if check is None:
        return None
    with np.errstate(all="ignore"):
        other = mistaken_for(check.solution(), check.replays, got)
    return other and f"{name} holds what belongs in {other}."


def whole(what, calls, right, same=operator.eq, ours=True) -> str | None:
    """A sentence about results that are right or wrong as a whole, such as lists of ids: which change explains them?

    what: their name, "ids". calls: [(arguments, what the learner's function returned)] of the running check.
    right: the reference. same(a, b): are two results the same? ours: are changes of our solution tried, too?
    None outside of a check, and when no small change of the learner's function mends every call, and none of our
    solution gives what that returned.
    """
    check = looked_into()
    solution = check and check.solution()
    if solution is None:
        return None
    wrong_first = sorted(calls, key=lambda call: same(call[1], right(*call[0])))
    with redirect_stdout(io.StringIO()), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with learners_names():
            answer = learners(check.function)
            if answer and _right_at_first(answer, wrong_first, right, same):
                return f"your function gives the right {what} when it is called for the first time: {REMAINS}"
            more = check.rehearsed(solution.function(time.thread_time() + solution.seconds)) if answer else []
            given = [arguments for arguments, _ in wrong_first] + [replay.arguments for replay in more]
            wanted = [(each, right(*each)) for each in given]
            mended = answer and change_that_gives(answer, wanted, same, with_copies, solution)
        if mended:
            return f"your function gives the right {what} {mended}"
        with learners_names():
            shown = [*wrong_first, *_made_again(check.function, [replay.arguments for replay in more])]
        changed = change_that_gives(solution, shown, same) if ours else None
    return changed and f"these are the {what} that our solution gives {changed}"


def _made_again(function, given) -> list:
    """[(arguments, what the learner's function returns)] of those calls that it can make."""
    made = []
    for arguments in given:
        with suppress(Exception):
            made.append((arguments, function(*copy.deepcopy(arguments))))
    return made


def _right_at_first(answer, calls, right, same) -> bool:
    """Is each of these wrong results right if nothing was called before?"""
    wrong = [arguments for arguments, result in calls if not same(result, right(*arguments))]
    try:
        end = time.thread_time() + answer.seconds
        return all(same(answer.function(end)(*copy.deepcopy(given)), right(*given)) for given in wrong)
    except Exception:  # it needs more than its source
        return False


def digits_lost(name, got) -> list[str]:
    """A sentence if the array `got` of the last call would be right in float64; [] otherwise."""
    check, found = looked_into(), replay_like(got)
    solution = check.solution() if check and found else None
    if not isinstance(solution, Solution) or found[0].outputs[found[1]] is None:
        return []
    return [*filter(None, [digits.lost(name, check.function, solution, *found)])]


def times_a_length(name, got) -> str | None:
    """A sentence about a number that is as many times too large, or too small, as an axis is long; or None."""
    check, last = looked_into(), evidence.last_call()
    solution = check.solution() if check and last else None
    if not isinstance(solution, Solution) or np.ndim(got):
        return None
    with redirect_stdout(io.StringIO()), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        right = lambda: solution.function(time.thread_time() + solution.seconds)  # noqa: E731
        more = check.rehearsed(right())
        return lengths.times_a_length(name, got, check.function, right, last, more)


def reversed_axes() -> str | None:
    """The one piece of the learner's last call that reverses the order of more than two axes; None without one."""
    check, last = looked_into(), evidence.last_call()
    if check is None or last is None:
        return None
    with learners_names(), redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
        answer = learners(check.function)
        trace = answer and Trace.of(answer, last)
    steps = (
        [step for step in trace.steps if isinstance(step.value, np.ndarray) and step.value.ndim > 2] if trace else []
    )
    found = {step.text for step in steps if step.text.strip("`").endswith((".T", ".transpose()"))}
    return found.pop() if len(found) == 1 else None


def another_step(name, got) -> list[str]:
    """Sentences if the array `got` is what our solution has at another step, in this call and in others; else []."""
    check, last = looked_into(), replay_like(got)
    if check is None or last is None or last[0].outputs[last[1]] is None:
        return []
    solution, (replay, k) = check.solution(), last
    if not isinstance(solution, Solution) or np.shape(replay.outputs[k]) != np.shape(got):
        return []
    with redirect_stdout(io.StringIO()), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        more = check.rehearsed(solution.function(time.thread_time() + solution.seconds))
        text = step_in_place(solution, check.function, replay, k, more[1:4])
    return [f"{name} holds what {text} gives in our solution, at another step.", *glossary(text)] if text else []


def place(got) -> str | None:
    """Words for the result of the running check's last call that should be what `got` is; None if none should."""
    check = looked_into()
    return place_of(check.solution(), check.replays, got) if check else None


def kept(name, got, expected, start) -> str | None:
    """A sentence about an array that is wrong because the learner's function keeps something between calls, or rounds.

    None if it is wrong for another reason, or outside of a check.
    """
    check, last = looked_into(), evidence.last_call()
    if check is None:
        return None
    with learners_names():
        grown = growing(check.function, check.replays, got, expected)
    old = check.stale_in(last) if last and not grown else None
    if old:
        return old
    changed = not grown and kept_between(check.solution(), check.replays, got, expected, start)
    if changed:
        return f"{name} has the values that our solution gives {changed}"
    if last and not grown and (first := check.right_at_first(last)):
        return first
    with learners_names():
        again = grown or remembered(check.function, check.replays, got)
        if not again and _right_when_new(check, got, expected + start):
            first = "would be right if this were the first call of your function"
            return (
                f"{name} {first}: it keeps something from one call to the next, in a global or a default argument, say"
            )
    return again and f"{name} {again}"


def _right_when_new(check, got, target) -> bool:
    """Does the learner's function, defined anew, make this array right, and not the function that has been called?

    A default argument is made anew then, and a global is not.
    """
    found, solution = replay_like(got), check.solution()
    if found is None or len(check.replays) < 2 or not isinstance(solution, Solution):
        return False
    replay, k = found
    with redirect_stdout(io.StringIO()), np.errstate(all="ignore"), suppress(Exception):
        answer = learners(check.function)
        if answer is None or np.shape(replay.outputs[k]) != np.shape(got):
            return False
        new = replay.run(answer.function(time.thread_time() + answer.seconds))
        return close(new[k], target, target, "float32") and not close(got, target, target, "float32")
    return False


def shared_by_threads(got) -> str | None:
    """A sentence about what the threads of the learner's function share, if `got` is right without threads; or None."""
    check = looked_into()
    return between_threads.shared_by_threads(check.function, replay_like(got), got) if check else None


def stale() -> str | None:
    """A sentence if the learner's function gives a result of its last call again for other numbers; else None."""
    check, last = looked_into(), evidence.last_call()
    return check.stale_in(last) if check and last else None


def influenced(name, got, expected, start, wrong) -> list[str]:
    """A sentence about inputs on which a wrong entry of `got` depends and should not, or the other way round; or []."""
    check, last = looked_into(), evidence.last_call()
    solution = check.solution() if check and last else None
    if not isinstance(solution, Solution) or not wrong.any():
        return []
    with redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
        pick = where(last, solution, got, expected, start)
        if pick is None or np.shape(pick.index) != np.shape(got):
            return []
        some = np.argwhere(wrong & (expected != 0))  # a number in the middle: the first may be a special case
        if not len(some):
            return []
        at, end = tuple(int(i) for i in some[len(some) // 2]), time.thread_time() + solution.seconds
        with learners_names():
            words = influences(check.function, solution.function(end), last, pick.k, int(pick.index[at]))
    return [f"{name}[{', '.join(map(str, at))}] {words}."] if words else []


def other_results(got) -> list[str]:
    """Sentences about the other results of the running check's last call: which of them are right, which wrong, too."""
    right, wrong = _others(got)
    said = [f"{listed(right)} {'is' if len(right) == 1 else 'are'} right in the same call"] * bool(right)
    said += [f"{listed(wrong)} {'is' if len(wrong) == 1 else 'are'} wrong, too"] * bool(wrong)
    return [f"{'; '.join(said)}."] if said else []


def right_results(got) -> list[str]:
    """Names of the other results of the running check's last call that are right; [] where unknown."""
    return _others(got)[0]


def _others(got):
    """Names of the other results of the running check's last call: (right ones, wrong ones)."""
    check = looked_into()
    if check is None:
        return [], []
    with np.errstate(all="ignore"):
        return others(check.solution(), check.replays, got)
