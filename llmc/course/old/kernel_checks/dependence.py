"""Which inputs a wrong number is made from, and which it should be made from: inputs are changed until it changes."""

import copy
from itertools import chain

import numpy as np

from llmc.course.old.kernel_checks import shares, staging
from llmc.course.old.kernel_checks.experiments import LEAST, Enough
from llmc.cuda.emulator.compiling.text import mask

SHOULD = "; it should "  # in a sentence about what a number depends on
STEPS = (2, 3, 4)  # every second, third or fourth may be left out
FEW = 3  # numbers that are listed one by one
HIDDEN = (-100.0, 100.0, -1.0)  # times the largest number: changes that rounding does not hide
KEPT = {"out", "stats", "mean", "rstd", "delta"}  # inputs that an earlier kernel has made from the other ones
FACTOR = 3.0  # by how many deviations an input grows: enough to count in a maximum, or in a sum


def made_from(experiment, report, name="") -> list[str]:
    """Sentences about the first wrong number, of the array `name` if that is one of the wrong ones; [] if unclear."""
    try:
        mine, ours = experiment.base
        wrong = experiment.wrong(mine, ours)
        arrays = sorted(wrong, key=lambda k: experiment.names[k] != name)
        for k in arrays:
            finite = np.flatnonzero(wrong[k] & np.isfinite(mine[k].reshape(-1)))
            if len(finite):
                return _compared(experiment, report, k, int(finite[0]))
    except Enough:
        pass
    return []


def _compared(experiment, report, k, element) -> list[str]:
    """What one number depends on, in both kernels."""
    if untouched := _untouched(experiment, report, k):
        return [untouched]
    reaches = []  # (argument, mine, ours), each a list of flat indices, or (first, last) of many
    for source in experiment.inputs:
        values = experiment.arguments[source].reshape(-1)
        grown = values + FACTOR * (np.std(values) + 1) * (1 + np.arange(values.size) % 7 / 7)
        mine = _reach(_affects(experiment, experiment.mine, source, grown, k, element, 0.0), values.size)
        ours = _should(experiment, source, grown, k, element)
        mine = ours if _hidden(experiment, source, mine, ours, k, element) else mine
        mine = ours if ours and not mine and _made_otherwise(experiment, source, grown) else mine
        ours = _with_hidden_by_0(experiment, source, grown, mine, ours, (k, element))
        reaches.append((source, mine, ours))
    single = all(len(mine) < 2 and len(ours) < 2 for _, mine, ours in reaches)
    place, differ = experiment.place(k, element), [each for each in reaches if each[1] != each[2]]
    if not differ:
        named = [experiment.place(source, mine[0]) for source, mine, _ in reaches if mine]
        if not single or not named:
            return []
        return [f"{place} is made from the right numbers, {_and(named)}: look at what is done with them."]
    if vanished := _vanished(experiment, report, differ, (k, element)):
        return [vanished]
    if left_out := _left_out(experiment, differ, (k, element)):
        return [left_out]
    mine, ours = (_listed(experiment, [(each[0], each[which]) for each in differ]) for which in (1, 2))
    verb = "be made from" if single else "depend on"
    is_made = "is made from" if single else "depends on"
    if all(experiment.names[source] in KEPT and not had for source, had, _ in differ):
        return [f"{place} {is_made} {mine}; in our solution it {is_made} {ours}."]
    lines = [f"{place} {is_made} {mine}{SHOULD}{verb} {ours}."]
    found = [(source, mine[0]) for source, mine, ours in differ if single and mine and ours]
    if single and found:
        lines += staging.through_shared(experiment, report, (k, element), differ) or _where(
            experiment, report, found, (k, element)
        )
    elif not single:
        lines += _foreign(experiment, report, differ, (k, element))
    return lines


def _should(experiment, source, grown, k, element) -> tuple:
    """What our number depends on; where nothing that grows a little matters, what does once it changes much more.

    In a flat part of a curve, as of GELU's derivative above 3, a small change makes none.
    """
    values = experiment.arguments[source].reshape(-1)
    much = (values + factor * (np.abs(values).max(initial=0.0) + 1) for factor in HIDDEN)
    for changed in chain([grown], much):
        found = _reach(_affects(experiment, experiment.ours, source, changed, k, element, LEAST), values.size)
        if found:
            return found
    return ()


def _hidden(experiment, source, mine, ours, k, element) -> bool:
    """Does the learner's number depend on what it seems not to depend on, once that changes much more?

    Rounding, or a bound, may hide a change: then nothing is to be said of it.
    """
    values = experiment.arguments[source].reshape(-1)
    missing = [i for i in (ours[:1] + ours[-1:]) if not mine or not mine[0] <= i <= mine[-1]]
    for factor in HIDDEN if mine != ours else ():
        for i in missing or ours[:1]:
            large = values + (np.arange(values.size) == i) * factor * (np.abs(values).max() + 1)
            if not mine or missing:
                if _affects(experiment, experiment.mine, source, large, k, element, 0.0)(i, i + 1):
                    return True
    return False


def _with_hidden_by_0(experiment, source, grown, mine, ours, target) -> tuple:
    """Where our number depends on this input, if what an earlier kernel has kept held other numbers.

    With the right ones a factor may be 0 in our solution: dp - D of a query that sees one key, of which p is 1.
    """
    missing = [i for i in (mine[:1] + mine[-1:]) if not ours or not ours[0] <= i <= ours[-1]]
    kept = [j for j in experiment.inputs if experiment.names[j] in KEPT]
    if not missing or not kept:
        return ours
    other = copy.copy(experiment)
    other.arguments = [1.25 * a + 0.5 if j in kept else a for j, a in enumerate(experiment.arguments)]
    affects = _affects(other, other.ours, source, grown, *target, LEAST)
    places = sorted({*ours, *(i for i in missing if affects(i, i + 1))})
    return mine if places and (places[0], places[-1]) == (mine[0], mine[-1]) else tuple(places)


def _made_otherwise(experiment, source, grown) -> bool:
    """Has the learner made another output right without this input, which ours is made from? Then it can be done."""
    (mine, ours), arguments = experiment.base, experiment.changed(source, grown)
    right = [k for k in experiment.outputs if k not in experiment.wrong(mine, ours)]
    after = (experiment.mine(arguments), experiment.ours(arguments)) if right else (mine, ours)
    return any(np.array_equal(after[0][k], mine[k]) and not np.array_equal(after[1][k], ours[k]) for k in right)


def _vanished(experiment, report, differ, target) -> str:
    """A sentence if the number is 0, or as good as that, although what it does not depend on is read.

    Then it may well be made from all of that, times something that is 0 in this launch.
    """
    (k, element), (mine, ours) = target, experiment.base
    size = np.abs(ours[k][np.isfinite(ours[k])]).max(initial=0.0)
    lacking = [source for source, had, wanted in differ if len(had) < len(wanted) or not {*wanted} <= {*had}]
    read = {*shares.accessed(report, written=False)[:, 0].tolist()}
    unread = report.raw.trace is not None and not read & {*lacking}
    if abs(mine[k].reshape(-1)[element]) > LEAST * size or not lacking or unread:
        return ""
    names, verb = _and([experiment.names[source] for source in lacking]), "is" if len(lacking) == 1 else "are"
    asked = "is nothing added up, or is what is added up lost?"
    if "exp" in mask(report.raw.code):
        asked = "is a factor 0 there (exp of less than -103.9 is), or is nothing added up?"
    return f"{experiment.place(k, element)} is 0, or nearly, although {names} {verb} read: {asked}"


def _untouched(experiment, report, k) -> str:
    """A sentence if no thread has written the wrong numbers, which are what the array held before."""
    mine, ours = experiment.base
    wrong = np.flatnonzero(experiment.wrong(mine, ours)[k])
    written = shares.accessed(report, written=True)
    written = written[written[:, 0] == k, 1]
    if report.raw.trace is None or np.isin(wrong, written).any():
        return ""
    first, last = experiment.place(k, wrong[0]), experiment.place(k, wrong[-1])
    run = wrong[-1] - wrong[0] + 1 == len(wrong)
    what = first if len(wrong) == 1 else f"{first} to {last}" if run else f"{first} and {len(wrong) - 1:,} others"
    held = "it still holds what it" if len(wrong) == 1 else "they still hold what they"
    return f"No thread writes {what}: {held} held before."


def _left_out(experiment, differ, target) -> str:
    """A sentence if the wrong number depends on all of our solution's but every second, third or fourth; else ""."""
    (source, mine, ours), *others = differ
    if others or len(mine) < FEW or len(ours) < FEW or np.abs(np.subtract(mine, ours)[[0, -1]]).sum() >= max(STEPS):
        return ""
    values, begin, end = experiment.arguments[source].reshape(-1), ours[0], ours[-1] + 1
    grown = values + FACTOR * (np.std(values) + 1)
    runs = (experiment.mine, 0.0), (experiment.ours, LEAST)
    affects_mine, affects_ours = (_affects(experiment, run, source, grown, *target, least) for run, least in runs)
    for step in STEPS:
        lacking = [i for i in range(begin, begin + step) if not affects_mine(i, end, step)]
        if len(lacking) == 1 and affects_ours(lacking[0], end, step):
            first, second = (experiment.place(source, i) for i in (lacking[0], lacking[0] + step))
            which = {2: "second", 3: "third", 4: "fourth"}[step]
            return f"{experiment.place(*target)} does not depend on {first}, {second}, …, every {which} one; it should."
    return ""


def _affects(experiment, run, source, grown, k, element, least):
    """A function of first, end, step: does the number change when those of the input between them grow?"""
    values = experiment.arguments[source].reshape(-1)
    before = float(run(experiment.arguments)[k].reshape(-1)[element])

    def affects(first, end, step=1):
        now = values.copy()
        now[first:end:step] = grown[first:end:step]
        after = float(run(experiment.changed(source, now))[k].reshape(-1)[element])
        return after != before and not abs(after - before) <= least * abs(before)

    return affects


def _reach(affects, n) -> tuple:
    """The few places that matter, or the first and the last of many."""
    if not affects(0, n):
        return ()
    first = _least(lambda m: affects(0, m + 1), n)
    last = n - 1 - _least(lambda m: affects(n - 1 - m, n), n)
    if last - first < FEW:
        return tuple(i for i in range(first, last + 1) if affects(i, i + 1))
    return first, (first + last) // 2, last  # three, so that it is no list of two


def _least(holds, n) -> int:
    """The smallest m below n with holds(m), which does not end once it holds."""
    low, high = 0, n - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _listed(experiment, reaches) -> str:
    """ "x1[0] and x2[0]", "numbers from scores[0, 0] to scores[0, 4]", "no number of scores"."""
    return _and([_words(experiment, source, reach) for source, reach in reaches])


def _words(experiment, source, reach) -> str:
    if not reach:
        return f"no number of {experiment.names[source]}"
    if reach[-1] - reach[0] >= FEW:
        return f"numbers from {experiment.place(source, reach[0])} to {experiment.place(source, reach[-1])}"
    return _and([experiment.place(source, i) for i in reach])


def _and(words) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)


def _where(experiment, report, found, target=None) -> list[str]:
    """In which line the wrong ones are read, by the thread that writes the target where that is known."""
    lines = {shares.line_that_reads(report, source, element, target) for source, element in found} - {0}
    verb = "is" if len(found) == 1 else "are"
    read = _and([experiment.place(*each) for each in found])
    return [f"{read} {verb} read in line{'s' * (len(lines) > 1)} {_and(sorted(map(str, lines)))}."] if lines else []


def _foreign(experiment, report, differ, target) -> list[str]:
    """The line where the target's own warp reads a number on which it should not depend; others read it rightly."""
    for source, mine, ours in differ:
        extra = next((i for i in (mine[:1] + mine[-1:]) if not ours or not ours[0] <= i <= ours[-1]), None)
        if extra is not None and shares.read_by_its_warp(report, (source, extra), target):
            return _where(experiment, report, [(source, extra)], target)
    return []
