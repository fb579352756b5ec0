"""`compare`: is this array the expected one, and if not, what exactly is wrong with it?

It looks at type, shape, dtype, NaN and values, in this order, and reports only the first that is wrong: in an array of
the wrong shape, no entry can be called wrong yet. Wrong values are compared with the known mistakes of the lesson, then
with those that any layer can have (`signatures.py`); if none of them fits, the message lists the numbers.
"""

import numpy as np

from llmc.course.checks import evidence
from llmc.course.checks.explain import WrongAnswer, describe
from llmc.course.checks.heatmap import picture
from llmc.course.checks.narrow import narrowed
from llmc.course.checks.nonfinite import why_not_finite
from llmc.course.checks.ranges import beyond
from llmc.course.checks.signatures import BUFFERS, EXACT, PATTERNS, Case, diagnose, never_written, same
from llmc.course.checks.sums import wrong_sum

TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2}  # relative to the largest expected entry
ROUNDING = {"float64": 1e-9, "float32": 1e-5, "float16": 1e-2}  # relative to the largest: smaller errors are none
UNEXPLAINED = 0.05  # of an error: what a known mistake may leave of it
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
    look: where in the lesson to look; the message for any wrong value ends with it.
    """
    expected = np.asarray(expected)
    _same_kind(name, got, expected, summed)
    got64, expected64 = np.asarray(got, np.float64), expected.astype(np.float64)
    _finite(name, np.asarray(got), expected64, look)
    start = 0.0 if added_to is None else np.asarray(added_to, np.float64)
    rtol = TOLERANCE.get(expected.dtype.name, 0.0) if rtol is None else rtol
    target = start + expected64
    if atol is None:
        atol = rtol * max(np.abs(target).max(initial=0.0), np.abs(expected64).max(initial=0.0))
    with np.errstate(invalid="ignore"):  # inf - inf
        wrong = ~((got64 == target) | (np.abs(got64 - target) <= atol + rtol * np.abs(target)))
    wrong |= np.isinf(target) & (got64 != target)  # an infinite target allows no distance at all
    if not wrong.any():
        return
    held = before if added_to is None else start
    rounding = ROUNDING.get(expected.dtype.name, ROUNDING["float64"])
    case = Case(name, got64 - start, expected64, held, added_to is not None, rounding, sizes or {})
    where, sentence = _known_mistake(case, known or {})
    lines = [_stopped(sentence)] if sentence else _diagnosis(case, got, expected64, start, summed)
    where = where or look
    lines += [_stopped(f"→ Where to look: {where}")] if where else []
    numbers = _numbers(got64, target, wrong, atol + rtol * np.abs(target).max())
    raise WrongAnswer("\n".join([*lines, "", *numbers]), picture(name, got64, target, wrong))


def _diagnosis(case, got, expected, start, summed) -> list[str]:
    """Sentences about a mistake that the lesson does not know: what the numbers show, and which change gives them."""
    sentence = wrong_sum(case.name, case.got, expected, summed) if summed is not None else None
    sentence = sentence or diagnose(case, BUFFERS)
    if sentence:
        return [_stopped(sentence), *_why_unwritten(case, got, sentence)]
    kept = evidence.kept(case.name, got, expected, start)
    if kept:
        return [_stopped(kept)]
    sentence = diagnose(case, EXACT)
    found = evidence.found(got, expected, start)
    if found:
        return _explained_by(case.name, found, sentence)
    sentence = sentence or diagnose(case, PATTERNS)
    if sentence:
        return [_stopped(sentence)]
    by_size = beyond(case, evidence.inputs())
    return [f"{case.name} has wrong values.", *(by_size or narrowed(case)), *evidence.other_results(got)]


def _why_unwritten(case, got, sentence):
    """Sentences after that about a buffer: where its name was given to another array, and what was None."""
    renamed = evidence.renamed(got, case.adds) if sentence == never_written(case) else None
    return [*([renamed] if renamed else []), *(f"In this call {name} is None." for name in evidence.absent())]


def _explained_by(name, found, sentence) -> list[str]:
    """The sentences for a change that explains the wrong array; sentence: what its numbers show, or None."""
    first = [_stopped(sentence or f"{name} has wrong values")]
    if found.ours and found.yours and sentence:
        return first  # which says it all
    if found.ours and found.yours:
        yours = found.yours[0].upper() + found.yours[1:]
        return [*first, f"{yours}, your function gives what our solution gives {found.ours}: compare these two."]
    if found.yours:
        return [*first, f"Your function gives the right {name.removeprefix('the ')} {found.yours}."]
    if sentence:
        return [*first, f"Our solution gives the same numbers {found.ours}."]
    return [f"{name} has the values that our solution gives {found.ours}."]


def _stopped(sentence) -> str:
    """With a full stop, unless it is a question."""
    return sentence if sentence.endswith("?") else sentence + "."


def _same_kind(name, got, expected, summed):
    """Type, shape and dtype."""
    if got is None:
        raise WrongAnswer(f"{name} is None: nothing was returned for it.")
    if not isinstance(got, (np.ndarray, np.generic, float, int)):
        raise WrongAnswer(f"{name} should be a NumPy array, but is {describe(got)}.")
    if np.shape(got) != expected.shape:
        place = evidence.place(got)
        if place is not None:
            order = f"what you return for it belongs in place {place + 1} of the results: are they in another order?"
            raise WrongAnswer(f"{name} has shape {np.shape(got)}, expected {expected.shape}: {order}")
        why = None if summed is None else wrong_sum(name, got, expected, summed)
        raise WrongAnswer(_shape_sentence(name, np.asarray(got), expected) + (f"\n{why}." if why else ""))
    if isinstance(got, (np.ndarray, np.generic)) and got.dtype != expected.dtype:
        raise WrongAnswer(
            f"{name} has dtype {got.dtype}, expected {expected.dtype}: look for an array made without dtype=, or for a "
            "constant that is an array."
        )


def _shape_sentence(name, got, expected):
    """Shape mismatch, with its cause where it shows."""
    sentence = f"{name} has shape {got.shape}, expected {expected.shape}."
    if got.shape == (*expected.shape, 1):
        return sentence + " The last axis is left over from keepdims=True: take [..., 0]."
    if expected.ndim == got.ndim and got.shape == expected.shape[::-1]:
        return sentence + " It is transposed."
    if got.shape == 2 * expected.shape:
        return sentence + " Every position was paired with every other: indexing with an array picks whole rows."
    if got.size == expected.size:
        squeezed = [n for n in expected.shape if n != 1] == [n for n in got.shape if n != 1]
        one = "An axis of length 1 " + ("is missing" if got.ndim < expected.ndim else "is left over or out of place")
        lost = one if squeezed else "The number of entries is right"
        return sentence + f" {lost}: reshape it back."
    lead = got.ndim - expected.ndim
    if lead > 0 and got.shape[lead:] == expected.shape:
        axes = " and ".join(str(axis) for axis in range(lead))
        return sentence + f" It still has one value for every position: sum over axis {axes} of it too (or average)."
    if 0 < got.ndim <= expected.ndim:
        return sentence + " Was it summed (or averaged) over the wrong axis, or is it another result?"
    return sentence


def _finite(name, got, expected, look):
    """NaN and inf where a number should be."""
    bad = ~np.isfinite(got) & np.isfinite(expected)
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise WrongAnswer(
            f"{name} has {int(bad.sum())} of {got.size} entries that are NaN or infinite, first at {list(index)} "
            f"(expected {expected[index]:.6g}): {why_not_finite(got, bad)}."
            + (_stopped(f"\n→ Where to look: {look}") if look else "")
        )


def _known_mistake(case, known):
    """(where to look, sentence) of the first known mistake that `got` equals, else (None, None)."""
    for sentence, wrong in known.items():
        wrong, where = wrong if isinstance(wrong, tuple) else (wrong, None)
        array = np.asarray(wrong() if callable(wrong) else wrong, np.float64)
        if array.shape == case.expected.shape and not same(
            array, case.expected
        ):  # if the mistake happens to give the right array, it explains nothing
            if same(case.got, array) and _explained(case.got, array, case.expected):
                return where, f"{case.name} equals {sentence}"
            if case.adds and same(case.held, array):
                return where, f"{case.name} equals {sentence}, and was overwritten instead of accumulated (use +=)"
    return None, None


def _explained(got, array, expected) -> bool:
    """Is nearly all of the error explained? Two arrays that are both nearly right are not the same mistake."""
    finite = np.isfinite(expected)
    unexplained, error = np.abs(got - array)[finite], np.abs(array - expected)[finite]
    return not finite.any() or unexplained.max() <= UNEXPLAINED * error.max()


def _numbers(got, expected, wrong, allowed):
    """How many entries are wrong, the first of them, and the largest errors."""
    if wrong.ndim == 0:
        yield f"expected {expected:.7g}, got {got:.7g} (allowed error: {allowed:.1g})"
        return
    yield f"{int(wrong.sum())} of {wrong.size} entries are wrong. The first of them:"
    yield f"    {'index':<14}{'expected':>16}{'got':>16}"
    for index in np.argwhere(wrong)[:ROWS]:
        at = tuple(int(i) for i in index)
        yield f"    {str(list(at)):<14}{expected[at]:>16.7g}{got[at]:>16.7g}"
    with np.errstate(invalid="ignore"):  # inf - inf, where both should be infinite
        error = np.nan_to_num(np.abs(got - expected), nan=0.0, posinf=np.inf)
    finite = np.abs(expected[np.isfinite(expected)])
    share = f"; that is {error.max() / finite.max():.2g} of the largest entry" if finite.any() else ""
    yield f"largest error: {error.max():.2g} (allowed: {allowed:.1g}){share}"
