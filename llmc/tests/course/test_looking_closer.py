"""What a failing check finds out by more calls: lines that did not run, formulas of counts, the smallest wrong call."""

import numpy as np
import pytest

from llmc.course.old.checks.containers import Containers
from llmc.course.old.checks.contrast import told_apart
from llmc.course.old.checks.explain import WrongAnswer
from llmc.course.old.checks.overwritten import remains
from llmc.course.old.checks.polynomials import compared, formula, written
from llmc.course.old.checks.smallest import in_common, smallest
from llmc.course.old.checks.unreached import single_turns, watch, why_unwritten
from llmc.course.old.checks.weights import weights
from llmc.course.old.mutants.replay import Replay


def leaves_early(out, x):
    if x.size < 9:
        return
    for row in range(len(x)):
        out[row] = x[row]


def whole_blocks(out, x):
    for block in range(len(x) // 4):
        out[4 * block : 4 * block + 4] = x[4 * block : 4 * block + 4]


def writes_through_a_view(out, x):
    flat = out.reshape(-1)
    flat[:] = x.ravel()


def why(function, *arguments):
    return why_unwritten(watch(function, Replay(arguments, {})), "out")


def test_the_line_that_kept_an_output_from_being_written_is_named():
    small = np.zeros((2, 3))
    told = why(leaves_early, small, small)
    assert "`return`, inside of `if x.size < 9`, ended your function, so line" in told
    assert "`out[row] = x[row]`, which writes `out`, never ran." in told
    assert "the loop `for block in range(len(x) // 4)`" in why(whole_blocks, small, small)


def test_nothing_is_said_where_a_writing_line_ran():
    assert why(writes_through_a_view, np.zeros((2, 3)), np.ones((2, 3))) is None
    assert why(leaves_early, np.zeros((4, 3)), np.ones((4, 3))) is None


def first_of(x):
    for number in x:
        if number > 0:
            return True
        else:
            return False


def any_of(x):
    for number in x:
        if number > 0:
            return True
    return False


def test_a_loop_that_never_makes_a_second_turn():
    assert len(single_turns(first_of)) == 1 and not single_turns(any_of)


class Copies:
    """As a Solution: what the function should be."""

    seconds = 1.0

    def function(self, deadline):
        return lambda out, x: np.copyto(out, x)


def clears_by_arithmetic(out, x):
    out *= 0
    out += x


@pytest.mark.parametrize("function, entries", [(clears_by_arithmetic, 6), (lambda out, x: np.copyto(out, x), 0)])
def test_nan_that_stays_in_an_output(function, entries):
    replay = Replay((np.ones((2, 3)), np.ones((2, 3))), {}, buffers=[True, False])
    assert remains(function, Copies(), replay, 0) == entries


def test_lists_and_the_arrays_in_them_stay_as_they_are():
    held = [np.zeros(3), np.zeros(2)]
    watched = Containers([("grads", held)], [])
    watched.inspect()
    held[1] = np.ones(2)
    with pytest.raises(WrongAnswer, match=r"your code changed `grads`"):
        watched.inspect()
    held[1] = buffer = np.zeros(2)
    watched = Containers([("grads", held)], [buffer])
    buffer += 1
    watched.inspect()
    held[0] += 1
    with pytest.raises(WrongAnswer, match=r"An input was written to: your code changed `grads\[0\]`"):
        watched.inspect()


def test_formulas_are_found_by_calls():
    right = lambda n, m: 3 * n * m + 2 * n  # noqa: E731
    assert written(formula(right, ("n", "m"), 2)) == "3·n·m + 2·n"
    assert formula(lambda n, m: n // 2 + m, ("n", "m"), 2) is None
    assert formula(lambda n, m: n // 64 + m, ("n", "m"), 2) is None  # though it is m for small n
    told = compared("the count", lambda n, m: 2 * n * m - m, right, ("n", "m"), 2)
    assert told.endswith("2·n·m − m, as more calls show, and should be 3·n·m + 2·n: n·m + 2·n + m is missing")


def test_weights_need_more_numbers_than_parts():
    a, b = np.random.default_rng(0).normal(size=(2, 8))
    assert np.allclose(weights(2 * a - b, [a, b]), [2, -1])
    assert weights(a * b, [a, b]) is None and weights(a[:4], [a[:4], b[:4]]) is None


def test_the_smallest_wrong_call_and_what_wrong_calls_share():
    wrong, right = lambda word: word.count("a") > 1, lambda word: False
    shrunk = lambda case: [(case[0][:k] + case[0][k + 1 :],) for k in range(len(case[0]))]  # noqa: E731
    assert smallest(wrong, right, [("banana",)], shrunk) == (("aa",), True)
    words = ["", "a", "ba", "bb", "aa", "aba", "abba", "aab", "aaa", "b", "bbb"]
    properties = {"that are long": lambda word: len(word) > 2, "with two a": lambda word: word.count("a") > 1}
    told = in_common(wrong, right, [(word,) for word in words], properties)
    assert told == "Of 11 small calls, those with two a went wrong (all 5), and the other 6 were right."
    assert in_common(wrong, right, [(word,) for word in words], {"of any kind": lambda word: True}) is None


def test_one_thing_at_a_time():
    by_value = {(value, place): value != "nan" for value in ("inf", "nan") for place in ("a", "b")}
    assert told_apart(by_value, "noticed") == "inf is noticed, and nan is not"
    by_place = {(value, place): place == "a" for value in ("inf", "nan") for place in ("a", "b")}
    assert told_apart(by_place, "noticed") == "in a inf or nan is noticed, and in b it is not"
    assert told_apart(dict.fromkeys(by_value, False), "noticed") is None
