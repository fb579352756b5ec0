"""Known mistakes that give the same numbers, told apart by the text of the learner's function."""

import numpy as np
import pytest

from llmc.course import check, compare
from llmc.course.learner import journal
from llmc.course.old.checks.explain import WrongAnswer

TINY = 1e-12
EPS = {
    "1 / root without eps": lambda x: 1 / np.sqrt(x),
    "1 / root with 1e-12 in place of 1e-5": lambda x: 1 / np.sqrt(x + 1e-12),
    "1 / root with 1e-13 in place of 1e-5": lambda x: 1 / np.sqrt(x + 1e-13),
    "1 / root, to which the eps is added": lambda x: 1 / np.sqrt(x) + 1e-13,
}
LEAST = {
    "the logarithm with 1e-12 added to x": lambda x: np.log(x + 1e-12),
    "the logarithm of at least 1e-12": lambda x: np.log(np.maximum(x, 1e-12)),
}


@pytest.fixture(autouse=True)
def not_recorded():
    was = journal.recording(False)
    yield
    journal.recording(was)


BOUNDS = {
    "half of x": lambda x: x / 2,
    "half of x where its mean is above 1, not where it is above 2": lambda x: x / 2,
}


def without(x):
    return 1 / np.sqrt(x)


def with_a_global(x):
    return 1 / np.sqrt(x + TINY)


def computed(x):
    return 1 / np.sqrt(x + 10.0**-12)


def added(x):
    return np.log(x + 1e-12)


def at_least(x):
    return np.log(np.maximum(x, 1e-12))


def half(x):
    return x / 2


def half_above_one(x):
    return x / 2 if x.mean() > 1.0 else x


def by_name(x):
    eps = 1e-12
    return np.log(x + eps)


@pytest.mark.parametrize(
    ("function", "known", "named"),
    [
        (without, EPS, [0]),
        (with_a_global, EPS, [1, 3]),
        (computed, EPS, [0, 1]),  # of four, the first two
        (added, LEAST, [0]),
        (at_least, LEAST, [1]),
        (by_name, LEAST, [0, 1]),
        (half, BOUNDS, [0]),
        (half_above_one, BOUNDS, [0, 1]),
    ],
)
def test_text_tells_known_mistakes_apart(function, known, named):
    x = np.float64([0.5, 0.7, 2.0])  # (3,)
    right = 1 / np.sqrt(x + 0.3) if known is EPS else np.zeros(3)  # (3,)
    with pytest.raises(WrongAnswer) as refused, check("a_root") as c:
        compare("the root", c.call(function, x), right, known={words: make(x) for words, make in known.items()})
    assert [k for k, words in enumerate(known) if words in refused.value.message] == named
