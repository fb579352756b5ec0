"""The change of a learner's function with which the whole check passes."""

import ast
import linecache
import time

import numpy as np
import pytest

from llmc.course import check, compare
from llmc.course.old.checks import remedy, timing
from llmc.course.old.checks.explain import WrongAnswer

ROWS = """
with check("answer") as c:
    for n in (4, 7):
        x = c.random(3, n)
        out = c.call(answer, x)
        compare("out", out, x - x.mean(axis=1, keepdims=True))
"""
TWICE = """
with check("answer") as c:
    assert c.call(answer, [3, 1, 2]) == [1, 2, 3], "sorted, please"
    assert c.call(answer, [5, 4]) == [4, 5], "sorted, please"
"""
FASTER = """
with check("answer") as c:
    x = c.random(3, 4)
    compare("out", c.call(answer, x), 2 * x)
    faster(c, lambda: None, lambda: answer(x), 1.0, look="nowhere")
"""


@pytest.fixture(autouse=True)
def at_leisure(not_recorded):
    with remedy.searching(remedy.LEISURE):
        yield


def said(cell, text, **more) -> str:
    """The message for an answer with this text, as if typed into a cell."""
    name = f"<answer {time.perf_counter_ns()}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names = {"__name__": "__main__", "np": np, "check": check, "compare": compare, **more}
    exec(compile(text, name, "exec"), names)
    with pytest.raises(WrongAnswer) as caught:
        exec(compile(cell, "<cell>", "exec"), names)
    return str(caught.value)


def test_the_change_is_named_behind_the_first_line():
    message = said(ROWS, "def answer(x):\n    return x - x.mean(axis=0, keepdims=True)\n")
    assert message.splitlines()[1].startswith(
        "Your function passes this whole check with axis 1 in place of axis 0 in "
    )


def test_what_is_no_array_is_mended_too():
    message = said(TWICE, "def answer(numbers):\n    return sorted(numbers)[::-1]\n")
    assert "sorted, please\nYour function passes this whole check" in message


def test_an_input_that_was_changed_gets_a_copy():
    message = said(TWICE, "def answer(numbers):\n    numbers.sort()\n    return numbers\n")
    assert "with `numbers = numbers.copy()` as the first line of answer." in message


def test_a_function_that_keeps_something_is_right_when_it_is_defined_anew():
    text = "def answer(numbers, all_of_them=[]):\n    all_of_them += numbers\n    return sorted(all_of_them)\n"
    message = said(TWICE, text)
    assert "Defined anew before each of its calls, your function passes this whole check" in message
    assert "in its default argument `all_of_them`" in message


def test_a_change_that_passes_one_draw_alone_is_not_named():
    text = "def answer(x):\n    return x - 0.25\n"  # no number suits two draws
    assert "passes" not in said(ROWS, text)


def test_speed_is_not_asked_of_a_changed_function():
    message = said(FASTER, "def answer(x):\n    return x * 3\n", faster=timing.faster)
    assert "passes all of this check that comes before its speed is measured with 2 in place of 3" in message


def test_nothing_is_looked_for_without_time():
    with remedy.searching(0):
        assert "passes" not in said(ROWS, "def answer(x):\n    return x - x.mean(axis=0, keepdims=True)\n")


@pytest.mark.parametrize(
    "change, stays", [("axis 1 in place of axis 0", True), ("sum in place of mean", False), ("7 in place of 3", False)]
)
def test_a_change_that_mends_one_call_alone_is_not_named(monkeypatch, change, stays):
    sentence = f"Your function gives the right out with {change} in `x.mean(axis=0, keepdims=True)`."
    monkeypatch.setattr(
        "llmc.course.old.checks.check.explain_error", lambda *given: f"✗ out is wrong.\n{sentence}\nMore."
    )
    message = said(ROWS, "def answer(x):\n    return x - x.mean(axis=0, keepdims=True)\n")
    assert (sentence in message) == stays and "\nMore." in message
    assert ("passes this whole check with axis 1 in place of axis 0" in message) != stays


def test_an_order_that_leaves_another_array_wrong_is_not_named(monkeypatch):
    cell = """
with check("answer") as c:
    x = c.random(3)
    first, second = c.call(answer, x)
    compare("first", first, x + 1)
    compare("second", second, x + {})
"""
    text = "def answer(x):\n    total = x.copy()\n    first = total.copy()\n    total += 1\n    return first, total\n"
    order = "with the lines `first = total.copy()` and `total += 1` in the other order."
    sentence = f"Your function gives the right first {order}"
    monkeypatch.setattr("llmc.course.old.checks.check.explain_error", lambda *given: f"✗ wrong.\n{sentence}\nMore.")
    assert sentence not in said(cell.format(5), text)
    assert sentence in said(cell.format(1), text)  # all is right with it


def test_a_count_is_mended_only_where_one_line_does_it():
    cell = """
with check("answer") as c:
    n = c.call(answer, 3)
    assert n == 12, f"{n} is 1 too much, as more calls show"
"""
    two_lines = "def answer(n):\n    a = n + 1\n    b = 3 * n + n - n\n    return a + b - 0\n"
    assert "passes" not in said(cell, two_lines)
    assert "without the term `1`" in said(cell, "def answer(n):\n    return n * (3 + 1) + 1\n")


def test_a_number_that_makes_up_for_a_known_mistake_is_not_named():
    cell = """
with check("answer") as c:
    n = c.call(answer, 3)
    assert n == 9 * 3, f"{n} equals 8 · n: the variance takes 3"
"""
    counted = "def answer(n):\n    each = 0\n    each += 2\n    each += {}\n    each += 4\n    return each * n\n"
    assert "passes" not in said(cell, counted.format(2))


def test_a_loop_that_only_stands_still_is_no_remedy(monkeypatch):
    cell = """
with check("answer") as c:
    assert c.call(answer, [3, 4]) == 3, "the first, please"
"""

    def stopped(tree, *more):
        (loop,) = (node for node in ast.walk(tree) if isinstance(node, ast.For))
        was, loop.iter = loop.iter, ast.copy_location(ast.List([], ast.Load()), loop.iter)
        yield "with no turn of the loop"
        loop.iter = was

    text = "def answer(x):\n    first = x[0]\n    for each in x[1:]:\n        first += each\n    return first\n"
    monkeypatch.setattr(remedy, "changes_of_theirs", stopped)
    assert "passes" not in said(cell, text)
    monkeypatch.setattr(remedy, "stands_still", lambda *given: False)
    assert "passes this whole check with no turn" in said(cell, text)


@pytest.mark.parametrize(("name", "stays"), [("peak", False), ("x", True), ("ours", True)])
def test_a_coincidence_gives_way_to_a_repair_of_something_else(monkeypatch, name, stays):
    cell = """
with check("answer") as c:
    for x, y in ((3.0, 5.0), (2.0, 7.0)):
        assert c.call(answer, x, y, 9.0) == x * y
"""
    numbers = (
        f"✗ answer: out has the values that our solution gives without the division by `{name}` in `x / {name}`.\n"
    )
    monkeypatch.setattr("llmc.course.old.checks.check.explain_error", lambda *given: f"{numbers}More.")
    message = said(cell, "def answer(x, y, peak):\n    return x * x\n")
    assert ("without the division" in message) == stays and "\nMore." in message
    assert "✗ answer: out has " in message and "passes this whole check with `y` in place of `x`" in message


def test_what_does_not_end_costs_no_more_than_its_share():
    text = "def answer(numbers):\n    n = 0\n    while n < 1:\n        n += 1\n    return numbers\n"
    with remedy.searching(2.0):
        begin = time.thread_time()
        said(TWICE, text)
    assert time.thread_time() - begin < 5


HALVES = """
with check("answer") as c:
    for x in (c.random(9), c.random(4)):
        compare("out", c.call(answer, x), x / (1 + np.exp(-2 * x)))
"""


@pytest.mark.parametrize(
    ("name", "told"),
    [("sigmoid", "with `sigmoid(2 * x)` in"), ("rise", "factor `0.5` in `np.tanh(0.5 * a)`, or with `rise(2 * x)` in")],
)
def test_a_factor_in_a_helper_is_looked_for_at_its_call(name, told):
    helper = f"def {name}(a):\n    return 0.5 + 0.5 * np.tanh(0.5 * a)\n"
    assert told in said(HALVES, f"{helper}def answer(x):\n    return x * {name}(x)\n")


@pytest.mark.parametrize(("first_line", "stays"), [("take the small ones", False), ("expected 1, got 2", True)])
def test_a_condition_is_turned_around_only_where_nothing_else_is_said(first_line, stays):
    cell = f"""
with check("answer") as c:
    assert c.call(answer, 3) == 3, "{first_line}"
    assert c.call(answer, 5) == 0, "{first_line}"
"""
    text = "def answer(n):\n    if n > 4:\n        return n\n    return 0\n"
    assert ("passes this whole check with `n < 4`" in said(cell, text)) == stays
