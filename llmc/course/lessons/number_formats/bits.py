"""Comparing bit patterns: exactly, and the first wrong number is shown in bits, sign | exponent | mantissa."""

import re

import numpy as np

from llmc.course.lessons.number_formats.carries import lost
from llmc.course.lessons.number_formats.formats import BF16, FP32, decode, fields
from llmc.course.old.checks import causes, evidence
from llmc.course.old.checks.comparison import compare
from llmc.course.old.checks.contrast import outcome
from llmc.course.old.checks.explain import Named, WrongAnswer

ROWS = 3  # wrong numbers that are listed
NAN = 0x7FC0  # the pattern that stands for every NaN in a comparison
A_NUMBER = re.compile(r" with -?\d+ in place of -?\d+ in ")


def compare_bits(got, expected, x, known=None, look=None, about="", random=None, right=None):
    """Raise WrongAnswer unless `got` (uint16) equals `expected`, the bf16 patterns of x (float32), of the same shape.

    A NaN may have any pattern of a NaN. known: {sentence: patterns that a mistake gives}; a sentence is said only where
    all patterns are the same. about: what these numbers have in common. random: (like x, uint16) what they were rounded
    with, for the listing. right: the function that gives `expected`, with which a change of the learner's is tried out.
    Returns the sentences that right patterns rule out: those mistakes would have shown here.
    """
    _same_kind(got, np.asarray(expected, np.uint16))
    got, expected = _one_nan(got), _one_nan(expected)
    known = {sentence: _one_nan(patterns) for sentence, patterns in (known or {}).items()}
    known = {sentence: patterns for sentence, patterns in known.items() if (patterns != expected).any()}
    wrong = got != expected
    if not wrong.any():
        return set(known)
    same = next((f"the result equals {text}." for text, mine in known.items() if np.array_equal(mine, got)), None)
    change = _of_its_own(got) or _carry_lost(right) or _changed(got, right, ours=same is None)
    named = bool(same and change and A_NUMBER.search(change)) and (expected[wrong] == NAN).all()
    change = None if named else change  # many other numbers, too, make a NaN
    lines = [same or change or _diagnosis(got, expected)]
    lines += [f"{change[0].upper()}{change[1:]}"] if same and change else []
    lines += [f"The numbers of this call: {about}."] if about else []
    lines += [f"→ Where to look: {look}."] if look else []
    message = "\n".join([*lines, "", *_listing(got, expected, np.asarray(x), wrong, random)])
    raise WrongAnswer(Named(message) if named else message)


def _same_kind(got, expected):
    """Raise WrongAnswer for another type, shape or dtype."""
    if isinstance(got, np.ndarray) and got.shape == expected.shape and got.dtype != expected.dtype:
        raise WrongAnswer(f"the result has dtype {got.dtype}, expected uint16.")
    compare("the result", got, expected, rtol=0, atol=np.inf)


def _one_nan(codes):
    """uint16 patterns in which all NaNs are the same."""
    codes = np.asarray(codes).astype(np.uint16)
    return np.where((codes & 0x7FFF) > 0x7F80, np.uint16(NAN), codes)


def _of_its_own(got) -> str | None:
    """A sentence if the same call gives something else each time."""
    last, check = evidence.last_call(), evidence.looked_into()
    if check is None or last is None:
        return None
    again = [outcome(check.function, *(a.copy() for a in last.arguments)) for _ in range(2)]
    if any(np.shape(each) != got.shape or np.array_equal(_one_nan(each), got) for each in again):
        return None
    if np.array_equal(*map(_one_nan, again)):  # something that is left of an earlier call, perhaps
        return None
    return "called again with the same numbers, your function gives other patterns each time."


def _carry_lost(right) -> str | None:
    """A sentence if 32 bits in place of 16 mend all patterns of this check; else None."""
    calls = [(given, right(*given)) for given, _ in evidence.calls_so_far()] if right else []
    said = lost(calls, lambda mine, its: np.shape(mine) == its.shape and np.array_equal(_one_nan(mine), _one_nan(its)))
    return said and f"{said[0].lower()}{said[1:]}"


def _changed(got, right, ours) -> str | None:
    """The change of the learner's function, or of ours, that explains all patterns; None if no small one does."""

    def alike(mine, its):
        return mine.dtype == its.dtype and np.array_equal(_one_nan(mine), _one_nan(its))

    if right is None:
        return None
    varied = np.ptp(got.astype(int)) > 0  # many changes give the same pattern everywhere
    change = causes.whole("patterns", evidence.calls_so_far(), right, alike, ours=ours and varied)
    return f"{change}." if change else None


def _diagnosis(got, expected) -> str:
    """What all wrong patterns have in common, if it is anything."""
    if got.size > 1 and np.ptp(got.astype(int)) == 0:
        return f"the result has the same pattern everywhere, {fields(got.flat[0], BF16)}."
    apart = np.unique(got.astype(int)[got != expected] - expected[got != expected])
    if len(apart) > 1 or (got != expected).sum() < 3:
        return "the result has wrong values."
    by = f"{abs(apart[0])} too {'large' if apart[0] > 0 else 'small'}"
    return f"the result has wrong values: read as whole numbers, the wrong patterns are {by}."


def _listing(got, expected, x, wrong, random):
    """The first wrong numbers: each with its input, the expected and the given pattern."""
    yield f"Wrong patterns: {int(wrong.sum())} of {wrong.size}. The first of them (sign, exponent, mantissa):"
    for index in np.argwhere(wrong)[:ROWS]:
        at = tuple(int(i) for i in index)
        with_random = "" if random is None else f"   random {int(random[at])} = 0x{int(random[at]):04X}"
        yield f"    x{list(at)}".ljust(14) + shown_float32(x[at]) + with_random
        yield "    expected  " + _shown(expected[at]) + (" (or any other NaN)" if expected[at] == NAN else "")
        yield "    got       " + _shown(got[at])


def _shown(code) -> str:
    """ "0 01111111 0000000                      1"."""
    return f"{fields(code, BF16):<37}{_number(decode(code, BF16))}"


def shown_float32(x) -> str:
    """A float32 in bits, with a bar where bf16 ends: "0 01111111 0000000|1000000000000000  1.00390625"."""
    text = fields(np.float32(x).view(np.uint32), FP32)
    return f"{text[:18]}|{text[18:]}  {_number(x)}"


def _number(x) -> str:
    """Nine digits: enough to tell any two float32 apart."""
    return f"{float(x):.9g}"
