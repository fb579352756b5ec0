"""A change that explains one call must hold in the check's other calls, too."""

import numpy as np
import pytest

from llmc.course.old.mutants.elsewhere import Elsewhere
from llmc.course.old.mutants.picked import Pick
from llmc.course.old.mutants.replay import Replay


def doubled(x):
    return 2 * x


@pytest.fixture
def elsewhere():
    def made(afresh=()):
        """Calls on 1, 2, 3 and on 4, 5, 6, which fails; afresh: numbers of calls that the check has not made."""
        replays = [Replay((np.arange(first, first + 3.0),), {}, [np.zeros(3), np.zeros(3)]) for first in (1, 4)]
        fresh = [Replay((np.array(numbers),), {}) for numbers in afresh]
        pick = Pick(0, (3,), np.arange(3))
        return Elsewhere(replays, replays[1], pick, doubled, doubled, rehearsed=lambda whole: fresh)

    return made


def meet(elsewhere, ours, yours):
    return elsewhere.meet(lambda: ours, lambda: yours)


def test_two_changes_that_give_the_same_everywhere_meet(elsewhere):
    assert meet(elsewhere(), lambda x: x + x, lambda x: x * 2)
    assert meet(elsewhere([[7.0, 8.0, 9.0]]), lambda x: 0 * x, lambda x: x - x)


def test_two_changes_that_differ_in_another_call_do_not_meet(elsewhere):
    assert not meet(elsewhere(), lambda x: x + 4, lambda x: x + x[0])


def test_two_changes_that_differ_on_fresh_numbers_do_not_meet(elsewhere):
    ours, yours = (lambda x: x + 3), (lambda x: x + x.min().clip(3, 9) * (x[0] > 6) + 3 * (x[0] <= 6))
    assert meet(elsewhere(), ours, yours) and not meet(elsewhere([[7.0, 8.0, 9.0]]), ours, yours)


def test_a_change_that_stops_in_another_call_does_not_meet(elsewhere):
    def stops(x):
        if x[0] < 4:
            raise ValueError
        return x

    assert not meet(elsewhere(), lambda x: x, stops)
