"""Which small change of the solution gives a learner's wrong numbers? The evidence is the numbers, not the code.

The failing call is made again with every mutant of the solution; one whose error is the learner's error, number by
number, names the mistake, however the learner wrote it. Where none does, the learner's own function is changed in the
same ways: one change may make it right, or give what a mutant of the solution gives, which shows the place.
"""

import io
import warnings
from contextlib import contextmanager, redirect_stdout

import numpy as np

from llmc.course.old.mutants.fitted import order_in
from llmc.course.old.mutants.learners import learners
from llmc.course.old.mutants.little_memory import little_memory
from llmc.course.old.mutants.picked import where
from llmc.course.old.mutants.search import Found, Search
from llmc.course.old.mutants.solution import Solution
from llmc.course.own_names import learners_names


def recognised(solution, function, replays, got, expected, start=0.0, rehearsed=lambda solution: []) -> Found | None:
    """What explains a wrong array; None if nothing fits.

    solution: a Solution, or what a kernel check has in its place; None if there is none. function: the learner's.
    replays: the check's last calls of it. got: its array as the check compared it. expected: what it should be,
    without start, which it was to be added to; all of one shape. rehearsed: makes calls of the solution's
    function on other numbers, to tell a change that mends everything from one that mends these calls by chance.
    """
    with _quietly():
        search = _search(solution, replays, got, expected, start, rehearsed)
        return search.explanation(function) if search else None


def order_of_error(solution, function, replays, got, expected, start=0.0) -> tuple[str, int] | None:
    """(a small number of the learner's function, the order of the error in it): see `fitted.order_in`; or None."""
    if not isinstance(solution, Solution):
        return None
    with _quietly():
        search = _search(solution, replays, got, expected, start, lambda solution: [])
        with learners_names():
            answer = learners(function) if search else None
        return order_in(search, answer) if answer else None


@contextmanager
def _quietly():
    with warnings.catch_warnings(), np.errstate(all="ignore"), redirect_stdout(io.StringIO()), little_memory():
        warnings.simplefilter("ignore")
        yield


def _search(solution, replays, got, expected, start, rehearsed) -> Search | None:
    """For the call that made the array; None if none of them did."""
    if solution is None or np.shape(got) != np.shape(expected):
        return None
    for replay in reversed(replays):
        pick = where(replay, solution, got, expected, start)
        if pick is not None:
            wrong, right = np.asarray(got, np.float64), np.asarray(expected + start, np.float64)
            return Search(solution, replays, replay, pick, wrong, right, rehearsed)
    return None
