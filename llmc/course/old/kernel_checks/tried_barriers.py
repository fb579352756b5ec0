"""What a race's advice is worth in an exercise: the barrier is put where it says, and the kernel is launched again.

If the race goes and the numbers are right, the advice stays. If not, the message says what was seen with the barrier,
and names another order of the two lines where the whole check accepts the kernel with it.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from llmc.course.old.kernel_checks import orders
from llmc.course.old.kernel_checks.mending import alike
from llmc.course.old.kernel_checks.writers import named
from llmc.cuda.emulator.compiling.text import line_at, statements
from llmc.cuda.emulator.findings.barrier_advice import (
    BLOCK,
    OR_EARLIER,
    OUTSIDE_OF_LOOPS,
    WARP,
    barrier_of_one_turn,
    lines_that_read,
)
from llmc.cuda.emulator.findings.loops import loop_around
from llmc.cuda.emulator.findings.race_advice import ONE_WRITES, barrier_that_mends, column_beyond_its_row

RACES = ("race", "missing-syncwarp")
NOT_ALL = ("barrier-divergence", "deadlock", "inactive-lane")
TOGETHER = 3  # barriers that are put for races that are left
RIGHT, STAYS = "right", "the race stays."
PASSES = "Your kernel passes this whole check with"


class Trial(NamedTuple):
    """How a changed kernel is tried on the launch that went wrong.

    launch(code): (report, the arguments afterwards), or None if it does not run. right(): the arguments as our solution
    leaves them, or None. open: names of outputs that may be made in several ways. accepts(code): does the whole check?
    """

    launch: Callable
    right: Callable
    open: set
    accepts: Callable


def tried(report, problem, trial) -> tuple[str, bool]:
    """(what takes the place of a race's advice, is it about a barrier that helps?); "" where it stays as it is."""
    if problem.kind not in RACES or problem.found is None:
        return "", True
    code, barrier = report.raw.code, BLOCK if problem.kind == "race" else WARP
    if barrier_of_one_turn(problem.found, barrier):  # which is for a barrier that moves
        return "", True
    place = barrier_that_mends(problem.found)
    if place is None and OUTSIDE_OF_LOOPS in problem.text and (several := _several_write(report, problem)):
        return several, False
    if place is None and ONE_WRITES in problem.text:
        return _one_of_them(code, problem, trial), False
    if place is None:
        return _before_the_write(code, problem, barrier, trial), True
    if problem.found.between and place.head == "between":
        place = place._replace(first=problem.found.between[0], second=problem.found.between[1])
    changed = orders.with_barrier(code, place, barrier)
    seen = _seen(changed, report, problem, trial) if changed else None
    if seen == RIGHT:
        return OR_EARLIER.sub("", problem.text.splitlines()[-1]), True
    if not seen:
        return "", True
    other = _another_order(code, problem, barrier, trial)
    where = {
        "between": f"between line {place.first} and line {place.second}",
        "end of a loop": f"at the end of the loop on line {place.line}",
        "after a call": f"after the call on line {place.line}",
    }[place.head]
    other = other or (_or_else(problem) if seen != STAYS else "")
    return " ".join(filter(None, [f"With `{barrier}` {where} {seen}", other])), False


def _seen(code, first, problem, trial) -> str:
    """What a launch with the barrier shows; RIGHT if the kernel is right with it, "" if nobody knows.

    first: the report without it.
    """
    for _ in range(TOGETHER):
        launched = trial.launch(code)
        more = [_mends(each) for each in launched[0].problems] if launched else []
        if not any(more):
            break
        code = orders.with_barrier(code, *next(filter(None, more)))
        if code is None:
            return ""
    else:
        return ""
    if not launched or (right := trial.right()) is None:
        return ""
    report, after = launched
    if any(_is_the_same(each, problem) for each in report.problems):
        return STAYS
    before = {(each.kind, each.line) for each in first.problems}
    new = [each for each in report.problems if each.kind not in RACES and (each.kind, each.line) not in before]
    if any(each.kind in NOT_ALL for each in report.problems):
        return ""  # the advice says that all threads must come
    if not new and report.problems:
        return ""
    if new:
        return f"the race is gone, but then {_told(new[0])}"
    names = [each.name for each in report.raw.arguments]
    wrong = [k for k, pair in enumerate(zip(after, right)) if names[k] not in trial.open and not _is_right(*pair)]
    if not wrong or trial.accepts(code):
        return RIGHT
    return f"the race is gone, but {_first_of(names[wrong[0]], after[wrong[0]], right[wrong[0]])}."


def _several_write(report, problem) -> str:
    """A sentence if two threads of a block write one place of shared memory in the line of the race; else ""."""
    trace, line = report.raw.trace, problem.line
    if trace is None or problem.found.problem.space != "shared" or problem.line2 not in (0, line):
        return ""
    mine = trace[(trace["argument"] < 0) & trace["write"].astype(bool) & (trace["block"] == 0)]
    mine = mine[np.isin(mine["pc"], [pc for pc in np.unique(mine["pc"]) if report.line_of(int(pc)) == line])]
    for offset in np.unique(mine["offset"]):
        threads = np.unique(mine["thread"][mine["offset"] == offset])
        if len(threads) > 1:
            one, other = (named(report, number).partition(" of block")[0] for number in threads[:2])
            return (
                f"{one[:1].upper()}{one[1:]} and {other} of a block write the same element in line {line}, and no "
                "barrier in front of that line or behind it parts them."
            )
    return ""


def _mends(problem):
    """(the place of a barrier that would mend a race, the barrier); None for other problems, and where none would."""
    place = barrier_that_mends(problem.found) if problem.kind in RACES and problem.found else None
    return (place, BLOCK if problem.kind == "race" else WARP) if place else None


def _is_the_same(one, other) -> bool:
    return one.kind in RACES and {one.line, one.line2} == {other.line, other.line2}


def _told(problem) -> str:
    """ "line 12 reads tile[264], which nothing has written yet."."""
    if problem.kind == "uninitialised":
        return f"line {problem.line} reads {problem.where}, which nothing has written yet."
    return f"there is another problem, {problem.kind.replace('-', ' ')} in line {problem.line}."


def _is_right(got, right) -> bool:
    return not isinstance(got, np.ndarray) or alike([got], [right])


def _first_of(name, got, right) -> str:
    """ "losses is wrong: losses[0] is 0.1 and should be 3"."""
    with np.errstate(all="ignore"):
        got, right = got.astype(np.float64), right.astype(np.float64)
        far = ~(np.abs(got - right) <= 1e-3 * np.nanmax(np.abs(np.where(np.isfinite(right), right, 0)), initial=0.0))
    place = tuple(int(i) for i in np.argwhere(far)[0]) if far.any() else (0,) * got.ndim
    index = ", ".join(map(str, place))
    return f"{name} is still wrong: {name}[{index}] is {got[place]:.7g} and should be {right[place]:.7g}"


def _or_else(problem) -> str:
    """What may be wrong with a kernel that is not right with the barrier."""
    raw = problem.found.problem
    if raw.write and raw.write2:
        return "So either something else is wrong, too, or not both threads should write it."
    reader = problem.line2 if raw.write else problem.line
    sees = f"line {reader} should see another value than it does with the barrier: in which order should they come"
    return f"So either something else is wrong, too, or {sees}?" if reader else ""


def _another_order(code, problem, barrier, trial) -> str:
    """A sentence about an order of the two lines with which the whole check accepts the kernel; else ""."""
    first, second = sorted((problem.line, problem.line2))
    if first == second or problem.calls or problem.calls2:
        return ""
    with suppress(ValueError):
        if (changed := orders.in_two_loops(code, first, second, barrier)) and trial.accepts(changed):
            head, _ = loop_around(code, first, second)
            return (
                f"{PASSES} two loops in place of that on line {head}: one for line {first}, then `{barrier}`, then one "
                f"for line {second}."
            )
        if (changed := orders.exchanged(code, first, second, barrier)) and trial.accepts(changed):
            (start, _), _ = orders.parted(code, first, second)
            ahead = line_at(statements(code), start)
            return f"{PASSES} line {second} in front of line {ahead}, and `{barrier}` between them."
    return ""


def _one_of_them(code, problem, trial) -> str:
    """What becomes of two threads' writes of one element if one thread alone makes them, or if they are atomic."""
    general, line = problem.text.splitlines()[-1], problem.line
    for guard, who in (("if (threadIdx.x == 0) ", "thread 0"), ("if (threadIdx.x % 32 == 0) ", "lane 0 of a warp")):
        changed = orders.in_front(code, line, guard)
        if changed and trial.accepts(changed):
            return f"{PASSES} `{guard.strip()}` in front of line {line}: {who} alone writes there."
    if column_beyond_its_row(problem.found):
        return general
    values = general.partition("The first has ")
    told = f"Both threads write this element in line {line}, and no barrier in front of it or behind it parts them."
    return f"{told}{f' {values[1]}{values[2]}' if values[1] else ''}"


def _before_the_write(code, problem, barrier, trial) -> str:
    """Where a barrier makes the check accept the kernel, if the line of the other access is not known; else ""."""
    reads = [line for line in lines_that_read(problem.found) if line < problem.line] if not problem.line2 else []
    for line in reads:
        parts = orders.parted(code, line, problem.line)
        if parts is None:
            continue
        _, (start, _) = parts
        if trial.accepts(f"{code[:start]}{barrier} {code[start:]}"):
            place = f"right in front of line {line_at(code, start)}"
            return f"Put `{barrier}` {place}: {PASSES[:1].lower()}{PASSES[1:]} it."
    return ""
