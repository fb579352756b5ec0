"""Which small change of the solution gives a learner's wrong numbers? The evidence is the numbers, not the code.

The failing call is made again with every mutant of the solution; one whose error is the learner's error, number by
number, names the mistake, however the learner wrote it. Where none does, the learner's own function is changed in the
same ways: one change may make it right, or give what a mutant of the solution gives, which shows the place.
"""

import io
import warnings
from contextlib import redirect_stdout

import numpy as np

from llmc.course.mutants.picked import where
from llmc.course.mutants.search import Found, Search


def recognised(solution, function, replays, got, expected, start=0.0, rehearsed=lambda solution: []) -> Found | None:
    """What explains a wrong array; None if nothing fits.

    solution: a Solution, or what a kernel check has in its place; None if there is none. function: the learner's.
    replays: the check's last calls of it. got: its array as the check compared it. expected: what it should be,
    without start, which it was to be added to; all of one shape. rehearsed: makes calls of the solution's
    function on other numbers, to tell a change that mends everything from one that mends these calls by chance.
    """
    if solution is None or np.shape(got) != np.shape(expected):
        return None
    with warnings.catch_warnings(), np.errstate(all="ignore"), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        for replay in reversed(replays):
            pick = where(replay, solution, got, expected, start)
            if pick is not None:
                wrong, right = np.asarray(got, np.float64), np.asarray(expected + start, np.float64)
                return Search(solution, replays, replay, pick, wrong, right, rehearsed).explanation(function)
    return None
