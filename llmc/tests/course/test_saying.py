"""The changes that say the most, and what a message says without a change: leftovers, overlaps, the largest arrays."""

import ast
import linecache
import math

import numpy as np
import pytest
from numba import get_num_threads

from llmc.course.old.checks.beside import digits_apart, first_difference
from llmc.course.old.checks.influence import influences
from llmc.course.old.checks.largest import largest_arrays
from llmc.course.old.checks.left_over import left_over, with_threads
from llmc.course.old.checks.period import said_of_overlap
from llmc.course.old.mutants.learners import learners
from llmc.course.old.mutants.outdated import from_0
from llmc.course.old.mutants.replay import Replay
from llmc.course.old.mutants.search import quick
from llmc.course.races.overlap import shared_index

CASES = {  # a text that one of the changes makes of the answer
    "s = s * f + x": "for x in xs:\n    s = s + x\n    t = t * f + x\nreturn s, t",
    "s = s * f + y": "for y in xs:\n    s += y\n    t = f * t + y\nreturn s, t",
    "n += x\n    for x in xs:\n        y = x / n": "for x in xs:\n    n += x\n    y = x / n\nreturn y",
    "s = xs[0] * f": "s = xs[0]\nfor k in range(1, 4):\n    s += xs[k] * f\nreturn s",
    "return (x - m) * d": "d = x - m\nm = m + d / 2\nreturn d * d",
    "m = m + n\n    d = x - m": "d = x - m\nm = m + n\nreturn d * d",
    "xs[1] = n\n    for k in x:": "for k in x:\n    s += xs[k]\ny = 2\nxs[1] = n\nreturn s",
    "return __from_0__(xs, i - 1)": "return xs[i - 1]",
    "range(-(-n // f))": "for k in range(n // f):\n    s += k\nreturn s",
    "xs[1] = t + m\n    xs[2] = s + n": "xs[1] = s + m\nxs[2] = t + n",
    "xs[1] = n\n    xs[2] = m": "xs[1] = m\nxs[2] = n",
    "x[k] = y[2]\n        x[k + 1] = y[1]": "for k in xs:\n    x[k] = y[1]\n    x[k + 1] = y[2]",
    "xs[i + f] = s + m[i + f]": "xs[i + f] = s + m[i]",
    "xs[i] += n": "for s in x:\n    xs[i] -= n\nfor t in x:\n    xs[i] += 1",
    "xs[i] -= n\n        x.add(i)": "for s in m:\n    xs[i] += n\n    x.add(i)\nfor t in m:\n    xs[i] -= n",
    "f(xs[n:], x[n:])": "f(xs[n + 1:], x[n + 1:])",
    "-np.inf": "return np.where(x, xs, -1e9)",
    "-1e+30": "return xs - 1 + t * -1e4",
}


@pytest.mark.parametrize("wanted", CASES)
def test_change_is_made_and_taken_back(wanted):
    lines = "".join(f"    {line}\n" for line in CASES[wanted].splitlines())
    tree = ast.parse(f"def answer(xs, x, n, m, i, f, s, t):\n{lines}")
    before, texts = ast.unparse(tree), []
    for words in quick(tree, None):
        assert words.startswith("with ")
        texts.append(ast.unparse(tree))
    assert any(wanted in text for text in texts), texts
    assert ast.unparse(tree) == before


def test_index_before_the_first_gives_nothing():
    sums = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert from_0(sums, np.array([1, -1])).tolist() == [[3, 4], [0, 0]] and from_0(sums[0], -1) == 0
    assert sums.tolist() == [[1, 2], [3, 4]]


def answer_of(text):
    """The function of that text, as if typed into a cell."""
    name = f"<saying {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names = {"np": np, "math": math, "get_num_threads": get_num_threads, "__name__": "__main__"}
    exec(compile(text, name, "exec"), names)
    return names["answer"]


def test_what_a_quotient_leaves_over_is_told_only_where_just_that_is_wrong():
    text = "def answer(x):\n    n = len(x) // 4\n    for k in range(4):\n        x[k * n : k * n + n] = 1\n"
    answer, replay = learners(answer_of(text)), Replay.of((np.zeros((10, 3)),), {})
    wrong = np.zeros((10, 3), bool)
    wrong[8:] = True
    said = left_over(answer, replay, wrong)
    assert said == "`len(x) // 4` is 2, rounded down: the last 2 are left over, of 10 = 4 · 2 + 2"
    wrong[0] = True
    assert left_over(answer, replay, wrong) is None


def test_overlap_is_told_only_where_all_of_it_is_done_twice():
    right, wrong = np.arange(1.0, 41), np.zeros(40, bool)
    wrong[5:12] = True
    assert said_of_overlap(np.where(wrong, 2 * right, right), right, 2 * right, wrong) == [
        "Entries 5 to 11 hold what two such calls make of them: they are done twice."
    ]
    wrong[30:33] = True
    assert said_of_overlap(np.where(wrong, 2 * right, right), right, 2 * right, wrong) == [
        "Entries 5 to 11 and 30 to 32 hold what two such calls make of them: they are done twice."
    ]
    assert not said_of_overlap(np.where(wrong, 3 * right, right), right, 2 * right, wrong)


def test_largest_arrays_are_named_where_memory_is_the_matter():
    function = answer_of("def answer(x):\n    table = x[:, None] * x\n    table += 1\n    return table.sum(axis=1)\n")
    calls = [Replay.of((np.ones(8),), {})]
    (said,) = largest_arrays(function, calls, "right, but your temporaries take 112% of the table")
    assert said == "The largest arrays that it makes, in a smaller call: `x[:, None] * x` (8, 8) float64."
    assert not largest_arrays(function, calls, "out has wrong values")


def test_pool_of_threads_runs_again_one_task_after_the_other():
    text = (
        "from concurrent.futures import ThreadPoolExecutor\n\n\n"
        "def answer(x):\n    with ThreadPoolExecutor(2) as pool:\n        a = pool.submit(sum, x)\n"
        "        return a.result() + sum(pool.map(abs, x))\n"
    )
    assert learners(answer_of(text)).function(np.inf)([1, -2]) == 2


@pytest.mark.parametrize(
    "mine, words",
    [
        (lambda x, w: w * (x - x.mean()), "changes with `x` at indices 1 and 2 of axis 0, and should not"),
        (lambda x, w: x - x.mean(axis=1, keepdims=True), "should change with `w` at index 1 of axis 0, and does not"),
        (lambda x, w: 2 * w * (x - x.mean(axis=1, keepdims=True)), None),  # the right numbers, otherwise used
    ],
)
def test_inputs_are_named_that_a_number_wrongly_depends_on(mine, words):
    x, w = np.random.default_rng(0).random((3, 4)), np.arange(1.0, 5)
    call = Replay.of((x, w), {})
    assert influences(mine, lambda x, w: w * (x - x.mean(axis=1, keepdims=True)), call, 0, 1) == words


def test_a_number_that_only_small_changes_leave_as_it_is_depends_on_its_input():
    """Behind a limit that clips, or in a softmax whose shares are 0 and 1."""
    x, every = np.array([[900.0, 2000.0, -8.0], [0.0, 3.0, 1.0]]), lambda x: x.sum(axis=1)
    share = lambda x: np.exp(x - x.max(axis=1, keepdims=True)) @ [1.0, 2.0, 3.0]  # noqa: E731
    for mine, ours in [(lambda x: np.clip(x, -80, 80).sum(axis=1), every), (every, share)]:
        assert influences(mine, ours, Replay.of((x,), {}), 0, 0) is None


@pytest.mark.parametrize("share", ["n // parts", "int(n / parts)", "math.floor(n / parts)", "round(n / parts)"])
def test_a_share_that_is_rounded_down(share):
    text = "def answer(xs):\n    n, parts = len(xs), get_num_threads()\n    share = " + share
    text += "\n    out = np.zeros(n)\n    out[: share * parts] = xs[: share * parts]\n    return out\n"
    answer = with_threads(learners(answer_of(text)))
    for n, left in ((10, 1), (13, 1), (12, 0)):
        xs = np.arange(1.0, n + 1)
        out = answer.function(np.inf)(xs)
        said = left_over(answer, Replay((xs,), {}), out != xs)
        assert said == (
            f"`{share}` is {n // 3}, rounded down: the last one is left over, of {n} = 3 · {n // 3} + 1"
            if left
            else None
        )


def test_ranges_of_turns_that_overlap():
    def wrote(*ranges):
        return {turn: np.isin(np.arange(6), range(*each)) * np.ones((2, 1), bool) for turn, each in enumerate(ranges)}

    said = shared_index(wrote((0, 3), (2, 5), (4, 6)))
    assert (
        said == "Along axis 1, turn 0 writes 0 … 2 and turn 1 writes 2 … 4: index 2 should belong to one of them alone"
    )
    assert "indices 1 … 2 should" in shared_index(wrote((0, 3), (1, 6)))
    assert not shared_index(wrote((0, 3), (3, 6))) and not shared_index(wrote((0, 6), (0, 6)))
    assert not shared_index(wrote((0, 3), (0, 4))) and not shared_index(wrote((2, 5), (0, 3)))


def test_lists_beside_each_other_are_shown_where_they_differ():
    assert first_difference([0, 3, 7, 11, 15], range(0, 20, 4)) == ("0, 3, 7, 11, …", "0, 4, 8, 12, …")
    late = first_difference([0, 4, 8, 12, 15, 19, 23], range(0, 28, 4))
    assert late == ("…, 12, 15, 19, 23", "…, 12, 16, 20, 24")
    assert first_difference([0, 4, 8, 12, 16], range(0, 24, 4)) == ("…, 16", "…, 16, 20")


def test_numbers_beside_each_other_have_digits_that_tell_them_apart():
    assert digits_apart([(1.0, 2.0)]) == 7
    assert digits_apart([(1.0, 2.0), (1.0, 1 + 1e-8)]) == 10
    assert digits_apart([(1.0, 1 + 2**-52), (0.0, 0.0)], 4) == 17
