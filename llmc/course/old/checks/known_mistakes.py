"""Is a wrong array what one of the lesson's known mistakes gives? Then the message names that one."""

import re

import numpy as np

from llmc.course.old.checks import causes, evidence, second_draw, text, written
from llmc.course.old.checks.explain import stopped
from llmc.course.old.checks.nonfinite import not_finite_alike
from llmc.course.old.checks.ruled_out import ruled_out
from llmc.course.old.checks.signatures import same

UNEXPLAINED = {"float64": 1e-4}  # of an error: what a known mistake may leave of it
ROUNDED = 0.01  # the same in other dtypes
CLOSELY = 1e-3  # the same, of a mistake that gives nearly the right numbers
ALONE = {"float32": 1e-5}  # of a single number, which many formulas nearly give
ALONE_WIDE = 5e-7  # of one in float64
MOST = 2  # sentences that are joined
OF_ALL = re.compile(r"\bheld\b|overwritten instead")  # in a sentence on all of an array, not on what was added


def known_mistake(case, known, got):
    """(where to look, sentence) of the known mistakes that `got` equals, else (None, None).

    Where several give the same numbers, here and in other calls, and the text of the learner's function does not tell
    them apart, nobody knows which one was made: the sentence names the first two. One whose array is `got` itself only
    says where it is right, and gives way to one that was computed.
    """
    made, equal, shapes = {}, {}, set()  # {sentence: where}
    share = UNEXPLAINED.get(np.asarray(got).dtype.name, ROUNDED)
    for sentence, wrong in known.items():
        wrong, where = wrong if isinstance(wrong, tuple) else (wrong, None)
        shapes |= {sentence} if wrong is got else set()
        array = np.asarray(wrong() if callable(wrong) else wrong, np.float64)
        made[sentence] = where, array
        if array.shape != case.expected.shape:
            continue
        if same(array, case.expected):  # or nearly: then it only explains what it explains to the digit
            if _explained(case.got, array, case.expected, CLOSELY):
                equal[sentence] = where
        elif _like(case.got, array, got) and _explained(case.got, array, case.expected, share):
            equal[sentence] = where
        elif not equal and case.adds and same(case.held, array):
            return where, f"{case.name} equals {sentence}, and was overwritten instead of accumulated (use +=)"
    equal = {sentence: where for sentence, where in equal.items() if sentence not in shapes} or equal
    against = second_draw.contradicted(case.name, equal, known) if equal and evidence.is_explaining() else ()
    equal = {sentence: where for sentence, where in equal.items() if sentence not in against}
    out = ruled_out(equal) if len(equal) > 1 else ()
    equal = {sentence: where for sentence, where in equal.items() if sentence not in out}
    if equal:
        whole = evidence.of_arrays() and any(OF_ALL.search(sentence) for sentence in equal)
        what = case.name if whole else case.what
        return next(iter(equal.values())), f"{what} equals {_either(list(equal))}"
    alike = [s for s, (_, array) in made.items() if not_finite_alike(case.got, array, case.expected)]
    return (made[alike[0]][0], f"{case.name} equals {alike[0]}") if len(alike) == 1 else (None, None)


def _either(sentences) -> str:
    """The first sentence, or the first two of several: a longer list helps nobody."""
    if len(sentences) == 1:
        return sentences[0]
    return "; or ".join(sentences[:MOST]) + " (these give the same numbers here)"


def as_known(sentence) -> list[str]:
    """Sentences about a known mistake, without what the learner's text contradicts."""
    held = "what it held before" in sentence
    name = sentence.split(" ")[0] if held else None
    said = [*causes.remarks(), *filter(None, [written.copied(True, name)])]
    return [stopped(text.known(sentence, evidence.learners_function(), said)), *said]


def _like(got, array, given) -> bool:
    """given: what the learner's function gave, for its dtype."""
    alone = ALONE.get(np.asarray(given).dtype.name, ALONE_WIDE)
    return same(got, array) and (array.size > 1 or bool(np.abs(got - array).max() <= alone * np.abs(array).max()))


def _explained(got, array, expected, share) -> bool:
    """Is all but this share of the error explained? Two arrays that are both nearly right are not the same mistake."""
    finite = np.isfinite(expected)
    unexplained, error = np.abs(got - array)[finite], np.abs(array - expected)[finite]
    return not finite.any() or unexplained.max() <= share * error.max()
