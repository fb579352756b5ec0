"""Functions that return nothing, and numbers that begin too near: what the message says."""

import ast

import numpy as np
import pytest

from llmc.course import check, compare
from llmc.course.old.checks.explain import WrongAnswer
from llmc.course.old.checks.nothing import why_nothing
from llmc.course.old.mutants import bounds, calls
from llmc.course.old.mutants.places import places


def updated(settings):
    return settings.update(rate=1)


def shuffled(rng, order):
    return rng.shuffle(order)


def silent(x):
    def inner():
        return x

    inner()


def some(x):
    return x if x else None


@pytest.mark.parametrize(
    "function, says",
    [
        (
            updated,
            ["`update` changes `settings` itself and returns None: write `settings.update(rate=1)` on a line of"],
        ),
        (shuffled, ["`shuffle` changes `order` itself and returns None"]),
        (silent, ["It has no `return`."]),
        (some, []),
        (None, []),
    ],
)
def test_why_nothing_was_returned(function, says):
    told = why_nothing(function, "✗ f: nothing was returned")
    assert len(told) == len(says) and all(words in each for words, each in zip(says, told))
    assert why_nothing(function, "✗ f: out has wrong values.") == []


def test_the_check_says_it():
    with pytest.raises(
        WrongAnswer, match="(?s)nothing was returned for it.*`sort` changes `x` itself and returns None"
    ):
        with check("sorted_copy") as c:
            compare("x", c.call(lambda_free_sort, c.random(5)), np.zeros(5))


def lambda_free_sort(x):
    x = x.copy()
    return x.sort()


@pytest.mark.parametrize(
    "line, extreme",
    [
        ("if b < least: least = b", "np.inf"),
        ("if least >= b: least = b", "np.inf"),
        ("if b > least: least = b", "-np.inf"),
    ],
)
def test_the_least_so_far_begins_at_infinity(line, extreme):
    function = ast.parse(
        f"def f(x):\n    least = 1.0\n    other = 2.0\n    for b in x:\n        {line}\n    return least"
    ).body[0]
    told = [words for _, words, _ in bounds.changed(function)]
    assert told == [f"with `{extreme}` in place of `1.0`"]


def test_what_is_changed_in_place_is_tried_as_a_line_of_its_own():
    function = ast.parse("def f(x):\n    x = x.copy()\n    return x.sort()").body[0]
    (place,) = [p for p in places(function) if ast.unparse(p.node) == "x.sort()"]
    (_, words, new), *others = calls.call(place)
    assert words == "with `x.sort()` on a line in front and `x` here: sort returns None" and not others
    place.hang(new)
    names = {}
    exec(ast.unparse(function), names)
    assert list(names["f"](np.array([2, 1]))) == [1, 2]


def test_a_line_that_only_changes_something_stays_as_it_is():
    function = ast.parse("def f(x):\n    x.sort()\n    return x").body[0]
    (place,) = [p for p in places(function) if ast.unparse(p.node) == "x.sort()"]
    assert not any("returns None" in words for _, words, _ in calls.call(place))
