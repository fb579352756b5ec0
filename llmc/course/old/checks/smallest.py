"""The smallest call that a learner's function gets wrong, and what all the calls that it gets wrong have in common.

For functions of tokens and words, whose results are right or wrong as a whole. A wrong call is shrunk step by step
while it stays wrong: what is left shows the mistake. Then the function is tried on many small calls. Where a property
separates those that are right from those that are wrong, a sentence says so; it reports what came, and guesses nothing.
"""

import time
from copy import deepcopy

from llmc.course.old.checks.contrast import outcome

SECONDS = 2.0  # of processor time for either search
FEW = 4  # wrong calls; fewer of them may have something in common by chance
MOSTLY = 0.5  # of the calls with a property that are wrong, if the property is to be named
USUAL = 0.9  # of all calls that have it: such a property says nothing


def smallest(function, right, cases, shrunk):
    """(case, result): the smallest call that is still wrong, and what came; None if none of the cases is wrong now.

    cases: wrong ones, which are shrunk one after the other. shrunk(case): smaller ones to try, the smallest first.
    """
    end, best = time.thread_time() + SECONDS, None

    def wrong(case):
        got = outcome(function, *deepcopy(case))
        return None if isinstance(got, Exception) or got == right(*case) else (case, got)

    for found in map(wrong, cases):
        smaller = found
        while smaller:
            found = smaller
            tries = (wrong(case) for case in shrunk(found[0]) if time.thread_time() < end)
            smaller = next(filter(None, tries), None)
        if found and (best is None or len(repr(found[0])) < len(repr(best[0]))):
            best = found
        if time.thread_time() > end:
            break
    return best


def in_common(function, right, cases, properties) -> str | None:
    """A sentence about the property that all wrong calls have, and that most of the right ones lack; None without one.

    properties: {"in which a word occurs twice": function of a case}, words that go on from "calls".
    """
    end, wrong, good = time.thread_time() + SECONDS, [], []
    for case in cases:
        if time.thread_time() > end:
            break
        got = outcome(function, *deepcopy(case))
        if not isinstance(got, Exception):
            (good if got == right(*case) else wrong).append(case)
    if len(wrong) < FEW:
        return None
    also = {words: sum(map(has_it(has), good)) for words, has in properties.items() if all(map(has_it(has), wrong))}
    words = min(also, key=also.get, default=None)  # the first of those that fit equally well
    if words is None or also[words] > len(wrong) * (1 / MOSTLY - 1):
        return None
    if len(wrong) + also[words] > USUAL * (len(wrong) + len(good)):
        return None
    rate = f"{len(wrong)} of {len(wrong) + also[words]}" if also[words] else f"all {len(wrong)}"
    tried, others = len(wrong) + len(good), len(good) - also[words]
    return f"Of {tried} small calls, those {words} went wrong ({rate}), and the other {others} were right."


def has_it(has):
    """The same function of one case, a tuple."""
    return lambda case: has(*case)
