"""Where a kernel's output holds NaN or infinities: with which numbers it does not, tried in launches of the same sizes.

A Case has numbers that are chosen for one question; a sentence tells which cases came out finite and which did not.
"""

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from llmc.course.old.checks import evidence
from llmc.course.old.checks.explain import WrongAnswer

FAR = 200.0  # exp of it is infinite in float32, and of its negative 0


class Case(NamedTuple):
    """words: behind "if". changed: {k: array that takes the place of argument k}. asked: what a failure makes one ask.

    places: of the output, which are looked at; a bool array.
    """

    words: str
    changed: dict
    asked: str
    places: np.ndarray


def arguments() -> list | None:
    """Those of the launch that failed, with NaN in what is only written; None outside of a check that explains."""
    running = evidence.running()
    if not evidence.is_explaining() or running is None or not running.replays:
        return None
    return list(running.replays[-1].arguments[2:])


def launched(changed) -> list | None:
    """The arguments as the learner's kernel leaves them; None if something else goes wrong."""
    given = arguments()
    for k, array in changed.items():
        given[k] = array
    return evidence.running().check.relaunched(given)


def told(name, k, cases) -> str:
    """Sentences about argument k, which is called `name`; "" where the cases tell nothing."""
    outcomes = []
    with suppress(AttributeError):
        for case in cases:
            after = launched(case.changed)
            if after is None:
                return ""
            outcomes.append((case, bool(np.isfinite(after[k][case.places]).all())))
    fine = [case.words for case, finite in outcomes if finite]
    bad = [case for case, finite in outcomes if not finite]
    if not bad:
        return ""
    if not fine:
        return f"{name} is not finite even if {bad[0].words}."
    return f"{name} is finite if {_either(fine)}, but not if {_either([each.words for each in bad])}. {bad[0].asked}"


def _either(words) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)


def refuse(name, got, why, *sentences, known="has NaN or infinite entries"):
    """WrongAnswer if got is not finite, with what the cases tell, and where to look; `why` where they tell nothing.

    sentences: functions without arguments that return one or "", the first that does is used. known: what is said of
    the output then.
    """
    if np.isfinite(got).all():
        return
    said = ""
    if arguments() is not None:
        said = next(filter(None, (each() for each in sentences)), "")
    place = why.rpartition("; ")[2]
    if said:
        raise WrongAnswer(f"{name} {known}.\n{said}\n→ Where to look: {place}.")
    raise WrongAnswer(f"{name} has NaN or infinite entries: {why}.")


def profiles(n, idle=False) -> dict:
    """{words: (scores (n,), the question when it fails)} of a softmax over n numbers.

    idle: has a warp lanes that see none of them?
    """
    k = np.arange(n, dtype=np.float32)
    low = "exp(-200) is 0 in float32, and 0 / 0 is NaN: is the largest one subtracted in every exp, and does the "
    plain = "Where is 0 / 0, or infinity minus infinity?"
    plain += " Lanes that see no score begin their search for the largest at -3.4e38, too." * idle
    return {
        "all scores are 0": (0 * k, plain),
        "all are 200": (0 * k + FAR, "exp(200) is infinite in float32: is the largest one subtracted in every exp?"),
        "all are -200": (0 * k - FAR, f"{low}search for it begin below every number?"),
        "they rise by 100 from one to the next": (
            100 * k,
            "Is exp of a positive number taken when a larger one comes? What was added up before shrinks by "
            "exp(old top - new top).",
        ),
        "they fall by 100 from one to the next": (
            -100 * k,
            "Is the largest one that of all so far, fmaxf(top, …), or that of the last ones alone?",
        ),
    }
