"""What the three exercises on byte-pair encoding share: cases that tell mistakes apart, and the sentence on a mistake.

A wrong answer is often right by chance on a single input. So an exercise is called on many small inputs, and each known
mistake shows on at least one of them. A mistake is named only when it explains everything that was returned.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import numpy as np

from llmc.course.old.checks.causes import whole
from llmc.course.old.checks.contrast import outcome
from llmc.course.old.checks.evidence import is_explaining, learners_function
from llmc.course.old.checks.explain import Named
from llmc.course.old.checks.smallest import in_common, smallest

KEPT = "this is what an earlier call returned, with other arguments in part"
TRIED = 300  # small calls
CONFIRMED = 100  # small calls in which a mistake must give what the learner's function gives
BYTES = [bytes([b]) for b in range(256)]


def call_all(c, function, cases) -> list:
    """What the learner's function returns for each case, a tuple of arguments. It must not change any of them."""
    results = []
    for case in cases:
        given = deepcopy(case)
        results.append(c.call(function, *given))
        assert given == case, f"{function.__name__} changed one of its arguments, and should leave them as they are"
    c.calls.clear()  # the explanation shows the call that went wrong, which need not be the last
    return results


def telling_cases(rng, draw, right, mistakes) -> list:
    """Cases on which every mistake differs from what is right, and wherever possible from every other mistake.

    draw(rng): a random case. Of 200 of them, the one that distinguishes most functions comes first, and so on; ten that
    were not chosen for anything come last.
    """
    functions = [right, *mistakes.values()]
    n = len(functions)
    apart, chosen = set(), []  # pairs of functions distinguished so far
    for _ in range(20):  # one or two rounds do, nearly always
        drawn = [draw(rng) for _ in range(200)]
        tells = [_told_apart([repr(function(*case)) for function in functions]) for case in drawn]
        while tells[best := max(range(len(drawn)), key=lambda k: len(tells[k] - apart))] - apart:
            apart |= tells[best]
            chosen.append(drawn[best])
        if len(apart) == n * (n - 1) // 2:
            break
    return [*chosen, *drawn[:10]]


def _told_apart(results) -> set:
    """{(i, j)}: the pairs of results that differ, i < j."""
    n = len(results)
    return {(i, j) for i in range(n) for j in range(i + 1, n) if results[i] != results[j]}


def explain(cases, results, right, mistakes, told, small, what="results") -> str | None:
    """The mistake that explains all results, or else the smallest wrong one; None when all are right.

    small: what makes small calls. what: the results' name, "ids".
    """
    every = [k for k, case in enumerate(cases) if results[k] != right(*case)]
    if not every:
        return None
    wrong = every[0]
    shown = next((k for k in every if _readable(cases[k][0])), wrong)
    numbers = told(cases[shown], results[shown], right(*cases[shown]))
    for sentence, mistake in mistakes.items():
        if all(results[k] == mistake(*case) for k, case in enumerate(cases)) and confirmed(mistake, small.draw):
            return Named(f"{sentence}.\n{numbers}")
    if _kept(cases, results, wrong, right):
        return f"{KEPT}.\n{numbers}"
    change = whole(what, list(zip(cases, results)), right)
    if change or not learners_function() or not is_explaining():
        return f"{change}.\n{numbers}" if change else numbers
    return small.told([cases[k] for k in (shown, *every)], right, told) or numbers


def confirmed(mistake, draw, part=lambda result: result) -> bool:
    """Does the learner's function give what the mistake gives, on many other small calls? True if it is not known.

    draw(rng): a random small case. part(result): what is compared.
    """
    function = learners_function() if is_explaining() else None
    rng = np.random.default_rng(5)
    for case in (draw(rng) for _ in range(CONFIRMED if function else 0)):
        did, wrong = outcome(function, *deepcopy(case)), mistake(*case)
        did = tuple(did) if isinstance(did, list) and isinstance(wrong, tuple) else did
        if isinstance(did, Exception) or part(did) != part(wrong):
            return False
    return True


@dataclass(frozen=True)
class Small:
    """draw(rng): a random small case. shrunk(case): smaller ones. properties: as in `in_common`."""

    draw: Callable
    shrunk: Callable
    properties: dict

    def told(self, cases, right, told) -> str | None:
        """What is wrong with the smallest call, as told(case, result, right result) says it, and with which calls.

        cases: wrong ones. None if they are right when they are made again.
        """
        function = learners_function()
        shape = type(right(*cases[0]))  # a list of two things is as good as a tuple
        mine = function if shape is str else lambda *arguments: shape(function(*arguments))
        found = smallest(mine, right, cases, self.shrunk)
        if found is None:
            return None
        rng = np.random.default_rng(3)
        shared = in_common(mine, right, (self.draw(rng) for _ in range(TRIED)), self.properties)
        numbers = told(*found, right(*found[0]))
        return f"{shared}\nThe smallest: {numbers}" if shared else numbers


def _readable(value) -> bool:
    """Are all bytes in it, also in lists, letters that are easy to read?"""
    if isinstance(value, list):
        return all(map(_readable, value))
    return not isinstance(value, bytes) or all(97 <= byte <= 122 for byte in value)


def _kept(cases, results, wrong, right) -> bool:
    """Is each wrong result what an earlier call with one of the same arguments returned, and rightly?"""
    good = [result == right(*case) for case, result in zip(cases, results)]
    for k in range(wrong, len(cases)):
        earlier = (j for j in range(k) if good[j] and results[j] == results[k])
        if not good[k] and not any(a == b for j in earlier for a, b in zip(cases[j], cases[k])):
            return False
    return True


def draw_letters(rng, n):
    """n different single bytes: letters that are easy to read, or any bytes but those that print as a gap."""
    some = range(97, 123) if rng.random() < 0.5 else [*range(33, 127), *range(128, 256)]
    return [bytes([b]) for b in rng.choice(some, n, replace=False)]


def row(word) -> str:
    """ "a bc d": the tokens of a word."""
    return " ".join(
        part.decode("utf-8", "backslashreplace") if isinstance(part, bytes) else repr(part) for part in word
    )
