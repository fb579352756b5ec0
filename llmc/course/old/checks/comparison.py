"""`compare`: is this array the expected one, and if not, what exactly is wrong with it?

It looks at type, shape, dtype and values, in this order, and reports only the first that is wrong: in an array of the
wrong shape, no entry can be called wrong yet. Wrong values are compared with the known mistakes of the lesson, then
with those that any layer can have (`signatures.py`); if none of them fits, the message lists the numbers.

Whatever a message says of the cause rests on evidence of this run. What nobody tested is left out, or is a question.
"""

import re

import numpy as np

from llmc.course.old.checks import causes, evidence, second_draw, text, written
from llmc.course.old.checks.arrangement import one_for_all
from llmc.course.old.checks.beside import digits_apart
from llmc.course.old.checks.changes import cured, explained_by, only_meet
from llmc.course.old.checks.curve import COARSE, ENDS
from llmc.course.old.checks.explain import WrongAnswer, stopped
from llmc.course.old.checks.first_wrong import first_wrong
from llmc.course.old.checks.heatmap import picture
from llmc.course.old.checks.kinds import same_kind
from llmc.course.old.checks.known_mistakes import as_known, known_mistake
from llmc.course.old.checks.narrow import narrowed
from llmc.course.old.checks.nonfinite import why_not_finite
from llmc.course.old.checks.period import AGAIN, at_multiples, said_of_overlap, said_of_slices
from llmc.course.old.checks.ranges import beyond
from llmc.course.old.checks.signatures import (
    BUFFERS,
    EXACT,
    PATTERNS,
    Case,
    all_zero,
    diagnose,
    never_written,
    overwritten,
    partly_written,
)
from llmc.course.old.checks.stale import COMPUTED
from llmc.course.old.checks.sums import wrong_sum
from llmc.course.old.checks.weights import as_a_sum
from llmc.course.old.mutants.picked import close

TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2}  # relative to the largest expected entry
ROUNDING = {"float64": 1e-9, "float32": 1e-5, "float16": 1e-2}  # relative to the largest: smaller errors are none
ROWS = 4  # wrong entries that are listed


def compare(
    name,
    got,
    expected,
    rtol=None,
    atol=None,
    known=None,
    *,
    before=None,
    added_to=None,
    sizes=None,
    summed=None,
    look=None,
    new=None,
    why=None,
    measured=None,
    parts=None,
):
    """Raise WrongAnswer when the array `got` is not `expected`; the message says how, and names the mistake if it can.

    name: what the learner calls it, "dx". expected: array of the wanted shape and dtype.
    rtol, atol: |got - expected| <= atol + rtol · |expected| must hold everywhere. Default: rtol by dtype (1e-9 float64,
        1e-4 float32) and atol = rtol · max|expected|, so that entries near zero are judged by the size of the others.
    known: {"the reference without the mean(dnorm) term": wrong array, or a function of nothing that makes it}. The
        message says the sentence when `got` equals that array. A value may be a pair (wrong, where to look).
    added_to: what the buffer held before, if the call had to ADD `expected` to it (known arrays are then added, too).
    before: what the buffer held before, if the call had to OVERWRITE it.
    sizes: lengths by name, {"C": 7, "B·T": 15}, so that a wrong factor can be named.
    summed: the terms (B, T, C) whose sum over some axes is `expected`, so that a sum over others can be named.
    look: the section of the lesson that derives the array; the message for any wrong value ends with it.
    why: function of nothing that looks into a mistake that `known` does not name; a sentence, or None.
    measured: function of nothing, asked when no cause is found: a sentence on what the numbers show, or None.
    parts: {"grads": array} of arrays that `expected` is a sum of, with weights: wrong ones are named.
    new: what this call has that the check's calls before had not, "x goes from -300 to 300"; said if nothing is found.
    """
    expected = np.asarray(expected)
    start = 0.0 if added_to is None else np.asarray(added_to, np.float64)
    if second_draw.noted(name, got, expected, known, start):
        return
    same_kind(name, got, expected, summed)
    got64, expected64 = np.asarray(got, np.float64), expected.astype(np.float64)
    rtol = TOLERANCE.get(expected.dtype.name, 0.0) if rtol is None else rtol
    target = start + expected64
    if atol is None:
        atol = rtol * max(np.abs(target).max(initial=0.0), np.abs(expected64).max(initial=0.0))
    with np.errstate(invalid="ignore"):  # inf - inf
        wrong = ~((got64 == target) | (np.abs(got64 - target) <= atol + rtol * np.abs(target)))
    wrong |= np.isinf(target) & (got64 != target)  # an infinite target allows no distance at all
    if not wrong.any():
        kept = written.left_of_before(name, got) if before is not None else None
        if kept:
            raise WrongAnswer("\n".join([stopped(kept), *([f"→ Where to look: {look}."] if look else [])]))
        return
    held = before if added_to is None else start
    rounding = ROUNDING.get(expected.dtype.name, ROUNDING["float64"])
    case = Case(name, got64 - start, expected64, held, added_to is not None, rounding, sizes or {}, wrong, (rtol, atol))
    where, sentence = known_mistake(case, known or {}, got)
    thrown = written.thrown_away(name, got, target.astype(expected.dtype))
    looked = thrown if thrown or sentence or not evidence.is_explaining() else _looked_into(case, why, parts)
    broken = not np.isfinite(got64[np.isfinite(target)]).all()
    elsewhere = [] if thrown else _not_the_formula(case, got, sentence, new)
    if elsewhere:
        where, lines = None, elsewhere
    elif looked:
        lines, where = [stopped(looked)], look
    elif broken:
        where, lines = where or look, _not_finite(case, np.asarray(got), start, sentence, new)
    else:
        lines = as_known(sentence) if sentence else _diagnosis(case, got, expected64, start, summed, new)
        elsewhere = any(words in line for line in lines for words in (COARSE, COMPUTED))  # not in the formula
        where = where or (None if elsewhere else look)
    if measured and lines == [f"{name} has wrong values."]:
        lines += [stopped(told) for told in [measured()] if told]
    early = written.left_early(got)
    lines += [early] if early and early not in lines else []
    lines += [stopped(f"→ Where to look: {where}")] if where else []
    if broken:
        raise WrongAnswer("\n".join(lines))
    numbers = _numbers(got64, target, wrong, atol + rtol * np.abs(target))
    raise WrongAnswer("\n".join([*lines, "", *numbers]), picture(name, got64, target, wrong))


def _looked_into(case, why, parts):
    """What the check's own look into this mistake says, or the weights of the parts; None if nothing.

    What the buffer held, or a constant factor, is plainer.
    """
    told = why() if why else None
    if told or not parts or diagnose(case, (*BUFFERS, *EXACT)):
        return told
    held = {f"what {case.name} held": case.before} if case.adds else {}
    told = as_a_sum(case.name, case.held, case.expected + (case.before if case.adds else 0), parts | held)
    return told and "\n".join([stopped(told), *causes.remarks()]).removesuffix(".")


def _not_the_formula(case, got, known, new) -> list[str]:
    """Sentences about a result that is another one's array, or about an untouched buffer; [] if it is neither.

    known: the sentence of a known mistake, or None.
    """
    shared = written.one_array(case.name, got)
    if shared:
        return [stopped(shared)]
    with np.errstate(invalid="ignore"):  # NaN
        unwritten = None if known else never_written(case)
        sentence = None if known else unwritten or partly_written(case)
    if not sentence:
        return []
    sentence = sentence if unwritten else written.unchanged(got, sentence)
    if unwritten and written.written_before(got):
        sentence = f"{sentence}. The calls before did write it, so this one left it out, or changed nothing in it"
    return [stopped(sentence), *_why_unwritten(case, got, bool(unwritten)), *_said_new(new)]


def _not_finite(case, got, start, sentence, new) -> list[str]:
    """Sentences about NaN and infinities; sentence: the known mistake that makes them, or None."""
    bad = ~np.isfinite(got) & np.isfinite(case.expected)
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    count = f"{case.name} has {int(bad.sum())} of {got.size} entries that are NaN or infinite"
    count = f"{count}, first at {list(at)} (expected {case.expected[at]:.6g})"
    if sentence:
        return [stopped(sentence), stopped(count)]
    why = why_not_finite(got, bad)
    one_infinity = np.isinf(got[bad]).all() and len(np.unique(got[bad])) == 1
    searched = not (why or one_infinity or new) and evidence.of_arrays()
    found = causes.found(got, case.expected, start) if searched else None
    if found and found.yours and not found.ours:
        return [stopped(count), cured(case.name, found)]
    origin = causes.why_nan(got, at)
    alike = [f"Our solution gives the same {found.ours}."] if found and found.ours and not found.yours else []
    if origin or alike:
        shown = bool(origin) and "exp" in origin and why and not new  # the pattern of NaN does not deceive
        first = f"{count}: {why}" if shown else count
        by_chance = origin and alike and not found.ours.startswith("without") and _right_but_for_nan(case)
        alike = [] if by_chance else alike
        return [stopped(first), *(_said_new(_not_asked(new)) if origin else []), *filter(None, [origin]), *alike]
    return [stopped(count), *_said_new(new)] if new or not why else [stopped(f"{count}: {why}")]


def _right_but_for_nan(case) -> bool:
    """Is NaN all that is wrong? Then many expressions of our solution would give the same."""
    finite = np.isfinite(case.got)
    return np.allclose(case.got[finite], case.expected[finite], rtol=1e-4)


def _not_asked(new) -> str:
    """What is new, without the question whether anything overflows: the origin of NaN, which is known, answers it."""
    return re.sub(r"\. Does anything [^.?]*\?$", "", new or "")


def _said_new(new) -> list[str]:
    return [stopped(f"The calls before this one were right; what is new here: {new}")] if new else []


def _diagnosis(case, got, expected, start, summed, new) -> list[str]:
    """Sentences about a mistake that the lesson does not know: what the numbers show, and which change gives them."""
    sentence = wrong_sum(case.name, case.got, expected, summed) if summed is not None else None
    if summed is not None and not sentence and case.adds:  # written over what the buffer held
        over = wrong_sum(case.name, case.held, expected, summed)
        sentence = over if over and "term alone" in over else None
    in_place = None if sentence else written.right_in_two_arrays(case.name, got, expected, start)
    if in_place:
        return [stopped(in_place)]
    sentence, learners = sentence or diagnose(case, BUFFERS), evidence.learners_function()
    if sentence:
        found = _change(got, expected, start) if sentence == overwritten(case) and text.adds(learners) else None
        if found and found.yours and not found.ours:
            what = f"{case.name} was overwritten instead of accumulated: what it held before is lost"
            return [stopped(what), cured(case.name, found)]
        zeros = sentence == all_zero(case)
        why = written.copied(zeros) or (zeros and (written.unreached(got) or written.lost(got)))
        return [stopped(sentence), *([why] if why else []), *_absent(), *_said_new(new)]
    exchanged = causes.exchanged(case.name, got)
    if exchanged:
        return [exchanged]
    shared = causes.shared_by_threads(got)
    if shared:
        return [f"{case.name} has wrong values.", stopped(shared)]
    kept = causes.kept(case.name, got, expected, start)
    if kept:
        return [stopped(kept), *causes.remarks()]
    held = None if case.adds or case.before is None else written.counted_in(case.name, got, expected)
    if held:
        return [stopped(held)]
    slices = _where_slices_meet(case, got, expected + start)
    if slices and AGAIN in slices[0]:
        return [f"{case.name} has wrong values.", *slices]
    sentence = diagnose(case, EXACT)
    rounded = (
        None if sentence else causes.rounded_by_type(case.name, got, (expected + start).astype(np.asarray(got).dtype))
    )
    if rounded:
        return [f"{case.name} has wrong values.", stopped(rounded)]
    found = _change(got, expected, start)

    def inexact():
        return [] if expected.ndim == 0 else causes.inexact(got, expected, start, case.bounds)

    piece = inexact() if found and found.ours and found.yours else []  # of which the two changes show only the place
    if any(words in line for line in piece for words in (COARSE, ENDS)):
        return [f"{case.name} has wrong values.", *piece]
    found = None if found and only_meet(found) else found
    if found:
        only_a_place = found.ours and found.yours and expected.ndim
        shown = causes.influenced(case.name, got, expected, start, _is_wrong(case)) if only_a_place else []
        return [*explained_by(case, got, found, sentence, inexact), *shown]
    sentence = sentence or causes.times_a_length(case.name, got)
    step = [] if sentence else causes.another_step(case.name, got)
    if step:
        return step
    sentence = sentence or diagnose(case, PATTERNS)
    if sentence:
        return [stopped(sentence), *_said_new(new)]
    if slices:
        return [f"{case.name} has wrong values.", *slices]
    early = written.left_early(got) or _left_over(case, got)
    if early:
        return [f"{case.name} has wrong values.", early, *causes.other_results(got)]
    said = [*causes.remarks(), *filter(None, [written.copied(True)])]
    if said:
        return [f"{case.name} has wrong values.", *said]
    digits = causes.digits_lost(case.name, got)
    given = evidence.inputs()
    cause = digits or inexact() or beyond(case, given)
    place = [] if cause else first_wrong(case.name, got)
    if place:
        return place
    shown = narrowed(case, not evidence.of_arrays(), evidence.launch(), cause, given)
    new = None if cause and not digits else new
    shown += [] if cause or expected.ndim == 0 else causes.influenced(case.name, got, expected, start, _is_wrong(case))
    return [f"{case.name} has wrong values.", *one_for_all(case), *shown, *_said_new(new), *causes.other_results(got)]


def _change(got, expected, start):
    """The change that explains the array; None where its error is so small that the search, too, would call it right.

    Any change that does nothing would then seem to mend it.
    """
    dtype = "float32" if np.asarray(got).dtype == np.float32 else "float64"
    near = close(got, expected + start, expected, dtype)
    return None if near else causes.found(got, expected, start)


def _where_slices_meet(case, got, target) -> list[str]:
    """Sentences about an array that is wrong only at the ends of slices, or where they overlap; [] for others."""
    wrong = np.abs(case.got - case.expected) > case.rounding * np.abs(target).max(initial=0.0)
    twice = None if wrong.all() else written.done_twice(got)
    if at_multiples(wrong) != at_multiples(case.refused):  # an entry is wrong for one of two bounds alone
        return []
    if not at_multiples(wrong):
        return said_of_overlap(case.held, target, twice, wrong)
    return said_of_slices(case.name, case.held, target, case.before, twice, wrong)


def _why_unwritten(case, got, unwritten):
    """Sentences after that about a buffer: which line gave its name to another array, or why none wrote, and so on."""
    why = (
        (written.renamed(got, case.adds, case.expected + (case.before if case.adds else 0)) if unwritten else None)
        or written.copied(unwritten, case.name)
        or _left_over(case, got)
    )
    if not unwritten:
        return [*filter(None, [why or written.left_early(got)]), *_absent()]
    stopped_at = None if why else written.unreached(got)
    too = None if why else written.unwritten_too(got)
    return [*filter(None, [why, stopped_at, too and stopped(too)]), *_absent()]


def _left_over(case, got):
    """A sentence if what is wrong is what a quotient, rounded down, leaves over; else None."""
    wrong = _is_wrong(case)
    sentence = causes.left_over(got, wrong) if 0 < wrong.mean() < 1 else None
    return stopped(sentence) if sentence else None


def _is_wrong(case):
    """Where the array is wrong, True: beyond rounding, or for the check's own bounds."""
    with np.errstate(invalid="ignore"):
        return case.refused | ~(
            np.abs(case.got - case.expected) <= case.rounding * np.abs(case.expected).max(initial=0.0)
        )


def _absent() -> list[str]:
    return [f"In this call {name} is None." for name in evidence.absent()]


def _numbers(got, expected, wrong, allowed):
    """How many entries are wrong, the first of them, and the largest errors."""
    if wrong.ndim == 0:
        digits = digits_apart([(expected, got)])
        yield f"expected {expected:.{digits}g}, got {got:.{digits}g} (allowed error: {float(allowed):.1g})"
        return
    yield f"{int(wrong.sum())} of {wrong.size} entries are wrong. The first of them:"
    places = [tuple(int(i) for i in index) for index in np.argwhere(wrong)[:ROWS]]
    digits = digits_apart([(expected[at], got[at]) for at in places])
    wide = 9 + digits  # 16 for seven digits
    yield f"    {'index':<14}{'expected':>{wide}}{'got':>{wide}}"
    for at in places:
        yield f"    {str(list(at)):<14}{expected[at]:>{wide}.{digits}g}{got[at]:>{wide}.{digits}g}"
    with np.errstate(invalid="ignore"):  # inf - inf, where both should be infinite
        error = np.nan_to_num(np.abs(got - expected), nan=0.0, posinf=np.inf)
    finite = np.abs(expected[np.isfinite(expected)])
    share = f"; that is {error.max() / finite.max():.2g} of the largest entry" if finite.any() else ""
    worst = np.unravel_index(np.where(wrong, error, -1.0).argmax(), error.shape)  # the largest of those refused
    digits = 1 if error[worst] >= 2 * allowed[worst] else 3
    yield f"largest error: {error[worst]:.{digits + 1}g} (allowed there: {allowed[worst]:.{digits}g}){share}"
