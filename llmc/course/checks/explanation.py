"""From a wrong result to its Diagnosis: a list of explainers, tried in order; the first that knows more is taken.

buffers           what a buffer still holds: never written, overwritten, not cleared
kept state        a fresh copy of the learner's function is right
named mistakes    an edit of our solution that has a name gives these numbers, and those of calls on other numbers
exact patterns    sign, factor, transposed, shifted: they rest on every entry
edits of ours     a generated edit of our solution gives these numbers
orders            the right numbers in wrong places
repair            with one edit of the learner's text the whole check passes
region            where it is wrong, and what the wrong entries have in common
"""

from dataclasses import dataclass

import numpy as np

from llmc.course.checks.check import running
from llmc.course.checks.comparison import Difference, same
from llmc.course.checks.messages.diagnosis import Diagnosis, Kind, with_verb
from llmc.course.checks.messages.heatmap import picture
from llmc.course.checks.patterns import BUFFERS, EXACT, ORDERS, first_match
from llmc.course.mutation.edit import Edit

FEW = 6  # indices that a sentence lists
CHANCE = 1e-3  # that entries are right by chance, up to which a sentence may say that they are right
NEARLY = 1e-3  # of the largest entry: errors smaller than this come from inexact numbers


@dataclass
class Case:
    """A wrong result. difference: of arrays; None for texts, lists and whole numbers. search: looks for edits.

    Where the result is not an output of the check's last call, or there is no check, there is nothing to search: None.
    """

    name: str
    difference: Difference | None
    search: object | None
    check: object | None


def buffers(case):
    told = case.difference and first_match(case.difference, BUFFERS)
    return Diagnosis(Kind.BUFFER, told) if told else None


def named_mistakes(case):
    known = case.difference.known.items() if case.difference is not None else ()
    told = next((words for words, array in known if same(case.difference.got, np.asarray(array, np.float64))), None)
    if told:
        return Diagnosis(Kind.NAMED, f"{with_verb(case.difference.what, 'equals')} {told}")
    found = case.search and case.search.mistake()
    if isinstance(found, Edit):
        return edits_of_ours(case, found)
    place = found and case.check.exercise.place(found.place)
    what = case.difference.what if case.difference is not None else case.name
    return Diagnosis(Kind.NAMED, f"{with_verb(what, 'equals')} {found.made}", look=place) if found else None


def exact_patterns(case):
    told = case.difference and case.difference.finite and first_match(case.difference, EXACT)
    return Diagnosis(Kind.PATTERN, told) if told else None


def kept_state(case):
    told = case.search and case.search.right_when_new()
    return Diagnosis(Kind.STATE, f"{with_verb(case.name, 'is')} wrong, and {told}") if told else None


def edits_of_ours(case, edit=None):
    edit = edit or (case.search and case.search.edit_of_ours())
    has = f"{with_verb(case.name, 'has')} the values that our solution gives"
    return edit and Diagnosis(Kind.EDIT_OF_OURS, f"{has} {edit.words}{case.search.in_line(edit)}")


def orders(case):
    told = case.difference and case.difference.finite and first_match(case.difference, ORDERS)
    return Diagnosis(Kind.PATTERN, told) if told else None


def repairs(case):
    edit = case.search and case.search.repair()
    passes = edit and f"Your {case.check.what} passes this whole check {edit.there}"
    return Diagnosis(Kind.REPAIR, f"{with_verb(case.name, 'is')} wrong. {passes}") if edit else None


def regions(case):
    if case.difference is None:
        return None
    news = [f"New in this call: {case.check.news}."] if case.check and case.check.news else []
    return Diagnosis(Kind.PLACE, f"{with_verb(case.name, 'has')} wrong values", more=[*region(case.difference), *news])


EXPLAINERS = (buffers, kept_state, named_mistakes, exact_patterns, edits_of_ours, orders, repairs, regions)


def explain(known: Diagnosis | None, difference: Difference | None, name, got, expected, look="") -> Diagnosis:
    """What to say about a wrong result. known: what is already known about it, where there is no `difference`."""
    check = running()
    explains = check is not None and check.explains
    if known is not None and known.kind is Kind.SHAPE:
        found = known
    elif check is not None and not explains:
        found = known or Diagnosis(Kind.PLACE, f"{with_verb(name, 'has')} wrong values")
    else:
        kind = np.asarray(got if difference is not None else 0).dtype  # a list may be ragged
        right = expected if difference is None else difference.target.astype(kind if kind.kind == "f" else np.float64)
        case = Case(name, difference, check.search(got, right) if explains else None, check)
        if difference is not None and check is not None and check.calls:
            difference.lengths = _lengths(check.calls[-1])
        found = next((it for explainer in EXPLAINERS if (it := explainer(case))), known)
    found.output, found.look = name, found.look or look
    if difference is not None and not found.table:
        if difference.finite:
            found.picture = picture(difference.name, difference.held, difference.target, difference.wrong)
        found.table = difference.table()
    elif known is not None and found is not known:
        found.table = known.table
        found.more = [*found.more, f"{known.sentence}."]
    return found


def _lengths(call) -> dict:
    """{"x.shape[-1]": 7}: lengths of the call's arrays, by which a factor can be named."""
    found = {}
    for name, value in call.named.items() if call.arguments is not None else ():
        if isinstance(value, np.ndarray):
            for k, n in enumerate(value.shape):
                found.setdefault(f"{name}.shape[{k - value.ndim if k == value.ndim - 1 else k}]", n)
        elif isinstance(value, int) and not isinstance(value, bool):
            found.setdefault(name, value)
    return {name: n for name, n in found.items() if n > 1}


def region(it: Difference) -> list[str]:
    """A few sentences; none of them says more than the numbers do."""
    if it.wrong.ndim == 0:
        return []
    if not it.finite:
        bad = ~np.isfinite(it.held) & np.isfinite(it.target)
        at = [int(i) for i in np.argwhere(bad)[0]]
        kinds = [word for word, there in (("NaN", np.isnan), ("infinite", np.isinf)) if there(it.held[bad]).any()]
        return [f"{bad.sum()} of {bad.size} entries are {' or '.join(kinds)}, the first at {at}.", *_along_axes(bad)]
    with np.errstate(all="ignore"):
        return [*_nearly(it), *_along_axes(it.wrong)]


def _nearly(it):
    """A sentence if the wrong entries are nearly right: then no term is missing."""
    scale = np.abs(it.target[np.isfinite(it.target)]).max(initial=0.0)
    error = np.abs(it.held - it.target)[it.wrong].max()
    return (
        [f"It is nearly right, to within {error / scale:.1g} of the largest entry."] if error < NEARLY * scale else []
    )


def _along_axes(wrong) -> list[str]:
    """ "Along axis 1 it is wrong only at index 3." for every axis along which some slices are right."""
    said = []
    for axis, length in enumerate(wrong.shape):
        bad = wrong.any(axis=tuple(k for k in range(wrong.ndim) if k != axis))  # (length,)
        share = wrong.take(np.flatnonzero(bad), axis).mean()
        right = wrong.size // length * (length - bad.sum())
        if bad.all() or (1 - min(share, 1)) ** right > CHANCE:
            continue
        few = (~bad).sum() <= FEW < bad.sum() and (np.diff(np.flatnonzero(bad)) > 1).any()
        said.append(f"Along axis {axis} it is {'right' if few else 'wrong'} only {_indices(~bad if few else bad)}.")
    return said


def _indices(flags) -> str:
    """ "at index 3", "at indices 0, 2, 4", "from index 5 to the end"."""
    at, end = np.flatnonzero(flags), len(flags) - 1
    if len(at) == 1:
        return f"at index {at[0]}{', the first' if at[0] == 0 else ', the last' if at[0] == end else ''}"
    if (np.diff(at) == 1).all():
        return f"from index {at[0]} to the end" if at[-1] == end else f"at indices {at[0]} to {at[-1]}"
    return f"at indices {', '.join(map(str, at[:FEW]))}" + (f", … ({len(at)} of {len(flags)})" if len(at) > FEW else "")
