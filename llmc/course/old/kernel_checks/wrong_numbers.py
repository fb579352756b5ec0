"""What is said of wrong numbers besides where they are: what the kernel's text and its report show, then a change with
which the check accepts it, then what other launches show."""

import re
from collections.abc import Callable
from typing import NamedTuple

from llmc.course.old.checks.evidence import is_explaining
from llmc.course.old.kernel_checks import mending, modelled, words
from llmc.course.old.kernel_checks.cut_off import cut_off
from llmc.course.old.kernel_checks.dependence import SHOULD, made_from
from llmc.course.old.kernel_checks.experiments import Experiment
from llmc.course.old.kernel_checks.in_c import VALUES
from llmc.course.old.kernel_checks.in_the_text import shown_by_the_text
from llmc.course.old.kernel_checks.left import one_column_each
from llmc.course.old.kernel_checks.left_a_loop import left_at_different_turns
from llmc.course.old.kernel_checks.limits import goes_wrong_at, shortened, without_reasons
from llmc.course.old.kernel_checks.never_read import COUNTS_FOURS, UNEXPLAINED, never_read
from llmc.course.old.kernel_checks.scopes import ended_too_soon
from llmc.cuda.emulator.reporting.report import Report

PARTLY = "was never written"
EFFECTS = re.compile(rf"{PARTLY}|was overwritten instead|times what it should be, everywhere")  # no cause
WRONG = "has wrong values."
EXCEPT = "equals the reference, except "  # where, and no cause
ALIKE = "\nOur solution gives the same numbers "  # which names what is missing: a factor elsewhere may make up for it
# what a message says if it names no mistake, or only what comes of it
VAGUE = re.compile(
    r"has wrong values\.|NaN or inf|infinite everywhere|all zeros"
    r"|behind the last whole four|copied as it lies|causal mask\?|the total of the lanes' sums"
)


class Wrong(NamedTuple):
    """A kernel whose numbers are wrong.

    report: of its last launch. open: names of outputs of which any block may make any part. again(arguments, …):
    that launch with other arguments. right(): its arguments as our solution leaves them, or None. accepts(code): does
    the whole check accept this kernel?
    """

    exercise: str
    report: Report
    evidence: modelled.KernelEvidence
    open: set
    again: Callable
    right: Callable
    accepts: Callable


def explained(message, wrong, mended) -> str:
    """The message with what is found. mended(most=…): a sentence about a change that mends the kernel, or None."""
    if scopes := ended_too_soon(wrong.report.raw.code, wrong.accepts) if is_explaining() else []:
        return words.with_sentences(without_reasons(VALUES.sub(WRONG, message, count=1)), scopes)
    shown = shown_by_the_text(wrong.exercise, wrong.report)
    if left := left_at_different_turns(wrong.report):  # the search for a change would cost a learner seconds
        return words.with_sentences(message, left)
    shown += _cut_off(wrong)
    shown += never_read(wrong.report) if UNEXPLAINED in message else []
    shown += one_column_each(wrong.report) if PARTLY in message else []
    message = words.with_sentences(message, shown)
    return message if any(COUNTS_FOURS in each for each in shown) else _tried(message, wrong, mended)


def _tried(message, wrong, mended):
    """The message, if it names no mistake, with what other launches of the kernel show."""
    model, replays = wrong.evidence.solution(), wrong.evidence.replays
    if not replays:
        return message
    sizes, arguments = replays[-1].arguments[:2], list(replays[-1].arguments[2:])
    if VALUES.search(message):  # another mistake may give the same, and many leave nothing
        nothing = model is not None and Experiment(model.names, sizes, arguments, wrong.again, model).vanished()
        mend = mended(mending.ALL if nothing else mending.SLIPS)
        if mend or not nothing:
            return words.with_sentences(VALUES.sub(WRONG, message, count=1), [mend]) if mend else message
        message = VALUES.sub(WRONG, message, count=1)
    place = EXCEPT in message
    if EFFECTS.search(message) and not place:
        mend = mended(mending.NO_FACTORS if ALIKE in message else mending.ALL)
        return words.with_sentences(message, [mend]) if mend else message
    if not (place or VAGUE.search(message)):
        return message
    mend = mended()
    if mend:
        return words.with_sentences(message if place else shortened(message), [mend])
    if model is None:
        return message
    experiment = Experiment(model.names, sizes, arguments, wrong.again, model)  # which has little time from here on
    beyond = goes_wrong_at(experiment, wrong.report.raw.code)
    if beyond:
        return words.with_sentences(message if place else shortened(message), beyond)
    name = message.split(" ")[0]
    if name in wrong.open or "\nNo result uses " in message:  # what it is made from is open, or said already
        return message
    found = made_from(experiment, wrong.report, name)
    return words.with_sentences(shortened(message) if found and SHOULD in found[0] else message, found)


def _cut_off(wrong) -> list[str]:
    """A sentence about a quotient of whole numbers."""
    replays = wrong.evidence.replays
    return cut_off(wrong.report.raw.code, wrong.again, list(replays[-1].arguments[2:]), wrong.right) if replays else []
