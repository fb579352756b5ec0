"""A known mistake that explains one array is named only if it explains the next ones, too."""

import numpy as np
import pytest

from llmc.course import check, compare
from llmc.course.learner import journal
from llmc.course.old.checks import second_draw
from llmc.course.old.checks.explain import WrongAnswer
from llmc.course.old.checks.kinds import same_kind

CELL = """
with check("mean_of") as c:
    for n in sizes:
        x = c.random(3, n)
        known = table or {"the sum divided by 4": x.sum(axis=1) / 4, "the sum": lambda: x.sum(axis=1)}
        known |= {"the sum divided by n - 1": x.sum(axis=1) / (n - 1)} if not table else {}
        compare(f"mean of {n}" if named else "mean", c.call(mean_of, x), x.mean(axis=1), known=known)
"""


@pytest.fixture(autouse=True)
def not_recorded():
    was = journal.recording(False)
    yield
    journal.recording(was)


def said(function, sizes, table=None, named=False) -> str:
    names = dict(check=check, compare=compare, mean_of=function, sizes=sizes, table=table, named=named)
    with pytest.raises(WrongAnswer) as caught:
        exec(compile(CELL, "<cell>", "exec"), names)
    return str(caught.value)


def too_large(x):
    return x.sum(axis=1) / (x.shape[1] - 1)


def test_a_mistake_that_fits_one_size_alone_is_not_named():
    assert "the sum divided by n - 1." in said(too_large, [5, 9])
    assert "divided by 4" not in said(too_large, [5, 9])


def test_what_nothing_contradicts_is_named():
    assert "the sum divided by 4; or the sum divided by n - 1 (these give the same" in said(too_large, [5])


def test_a_mistake_that_is_not_made_where_it_would_show_is_not_named():
    def of_five_alone(x):
        return too_large(x) if x.shape[1] == 5 else x.mean(axis=1)

    assert "equals" not in said(of_five_alone, [5, 9])


def test_one_table_for_several_arrays_contradicts_nothing():
    rng = np.random.default_rng(0)
    table = {"ones": np.ones(3)}
    assert "mean equals ones" in said(lambda x: np.ones(3) if rng.random() < 2 else x, [5, 9], table)


def test_outside_of_a_check_nothing_is_contradicted():
    assert second_draw.contradicted("y", ["anything"]) == set()
    assert not second_draw.noted("y", np.ones(2), np.ones(2), {}, 0.0)


def test_a_wrong_shape_is_told_by_what_it_lacks():
    with pytest.raises(WrongAnswer, match="Axis 1 of what is expected is missing"):
        same_kind("y", np.ones(3), np.ones((3, 5)), None)
    with pytest.raises(WrongAnswer, match=r"expected \(4,\)\.$"):
        same_kind("y", np.ones(3), np.ones(4), None)


TWO_ARRAYS = """
with check("two") as c:
    for n in (5, 9):
        x = c.random(3, n)
        first, second = c.call(two, x)
        compare("first", first, 2 * x, known={"no factor": x, "no factor anywhere": x})
        compare("second", second, 3 * x, known={"no factor": 3 * x, "no factor anywhere": x})
"""


@pytest.mark.parametrize(("factor", "told"), [(3, "no factor."), (1, "no factor anywhere."), (7, "no factor; or no")])
def test_another_array_tells_which_of_the_mistakes_it_is(factor, told):
    names = dict(check=check, compare=compare, two=lambda x: (x, factor * x))
    with pytest.raises(WrongAnswer, match=f"first equals {told}"):
        exec(compile(TWO_ARRAYS, "<cell>", "exec"), names)


def test_a_mistake_that_would_be_right_where_another_one_is_made_is_not_named():
    def of_five_alone(x):
        return too_large(x) if x.shape[1] == 5 else x.mean(axis=1)

    both = '{"the sum divided by n - 1": wrong} | ({"that of rows of 5 alone": wrong} if n == 5 else {})'
    cell = CELL.replace("known = table or {", f"wrong = x.sum(axis=1) / (n - 1)\n        known = {both} or {{")
    cell = cell.replace('known |= {"the sum divided by n - 1": x.sum(axis=1) / (n - 1)} if not table else {}', "")
    names = dict(check=check, compare=compare, sizes=[5, 9], named=False)
    for function, said in (
        (too_large, "equals the sum divided by n - 1."),
        (of_five_alone, "that of rows of 5 alone."),
    ):
        with pytest.raises(WrongAnswer) as caught:
            exec(compile(cell, "<cell>", "exec"), names | {"mean_of": function})
        assert said in str(caught.value)
