"""Changes that go around a mistake are not named; what stands in their place: the cause, by other evidence."""

import linecache
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from llmc.course.old.checks.between_threads import shared_by_threads
from llmc.course.old.checks.case import Case
from llmc.course.old.checks.curve import COARSE, said_of_curve
from llmc.course.old.checks.narrow import narrowed
from llmc.course.old.mutants.elsewhere import _largest
from llmc.course.old.mutants.idle import stands_still, turning
from llmc.course.old.mutants.learners import learners, useless_in
from llmc.course.old.mutants.python_source import mutants
from llmc.course.old.mutants.replay import Replay
from llmc.course.old.mutants.search import LUCKY
from llmc.course.old.mutants.solution import solution_of


def answer_of(text):
    """The function of that text, as if typed into a cell."""
    name = f"<around {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names = {"np": np, "ThreadPoolExecutor": ThreadPoolExecutor, "__name__": "__main__"}
    exec(compile(text, name, "exec"), names)
    return names["answer"]


def test_change_with_which_a_loop_makes_no_turn_is_seen():
    text = "def answer(x):\n    n = len(x) - len(x) % 2\n    for i in range(n):\n        x[i] += 1\n    return x\n"
    program = learners(answer_of(text))
    calls = [lambda function: function([1, 2, 3])]
    before, still = turning(program, calls), []
    for words in mutants(program.tree):
        still += [words] if stands_still(program, before, calls) else []
    assert "without the term `len(x)`" in still  # range(-1)
    assert before == {("answer", 3)} and not stands_still(program, before, calls)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("for k in range(n // m): pass\n    rest = n % m", "with `-(-n // m)` in place of `n // m` in `range(n // m)`"),
        ("w = n // m * m\n    for k in range(0, w, m): pass", "with `w` + 1 in `range(0, w, m)`"),
        (
            "w = m * (n // m)\n    for k in range(0, w, m): pass",
            "with `-(-n // m)` in place of `n // m` in `m * (n // m)`",
        ),
    ],
)
def test_blocks_are_counted_right_where_a_rest_follows(line, words):
    tree = learners(answer_of(f"def answer(n, m):\n    {line}\n    return n\n")).tree
    assert useless_in(tree).match(words)
    alone = learners(answer_of("def answer(n, m):\n    for k in range(n // m): pass\n    return n\n")).tree
    assert not useless_in(alone).match("with `-(-n // m)` in place of `n // m` in `range(n // m)`")


def test_where_a_loop_begins_is_no_lucky_number():
    assert LUCKY.match("with 0.2 in place of 0.1") and LUCKY.match("with 3 in place of 2 in `x ** 2`")
    assert not LUCKY.match("with 0 in place of 1, in the line `for c in range(1, C):`")


def test_numbers_of_a_call_with_nan_have_a_largest_one():
    assert _largest(np.array([1.0, np.nan, -3.0, np.inf])) == 3 and _largest(np.array([np.nan])) == 0


def test_constant_that_is_an_input_is_named():
    b, w = np.array([1.0, -2.0, 0.5, 3.0]), np.array([2.0, 3.0, 5.0, 7.0])
    right = np.arange(20.0).reshape(5, 4) + 1
    said = " ".join(narrowed(Case("out", right + 2 * b, right), inputs={"x": right, "b": b}))
    assert "That is 2 · `b`: it is added 2 times more than it should" in said
    assert "That is `b` with a minus" in " ".join(narrowed(Case("out", right - b, right), inputs={"b": b}))
    assert "multiplied by `w` once more" in " ".join(narrowed(Case("out", right * w, right), inputs={"w": w}))
    assert "That is" not in " ".join(narrowed(Case("out", right + b + 1, right), inputs={"b": b, "w": w}))


def test_approximation_is_told_from_a_wrong_formula():
    right = answer_of("def answer(x):\n    return x * np.tanh(x)\n")
    replay = Replay.of((np.linspace(-3, 3, 40),), {})
    replay.outputs = replay.run(right)
    coarse = "def answer(x):\n    u = np.clip(x, -3, 3)\n    return x * u * (27 + u * u) / (27 + 9 * u * u)\n"
    for text, is_coarse in ((coarse, True), ("def answer(x):\n    return 1.2 * x * np.tanh(x)\n", False)):
        assert (COARSE in " ".join(said_of_curve(answer_of(text), right, replay, 0))) == is_coarse
    ends = "def answer(x):\n    return np.where(x > 2, 2 * np.tanh(2.0), x * np.tanh(x))\n"
    assert "There it stays at 1.928" in " ".join(said_of_curve(answer_of(ends), right, replay, 0))


SHARED = """def answer(x):
    out, room = np.empty_like(x), np.empty(2)
    def work(k):
        t = room[:2]
        np.multiply(x[k : k + 2], 2, out=t)
        out[k : k + 2] = t
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(0, len(x), 2)))
    return out
"""


def test_array_that_all_threads_write_to_is_named():
    shared, own = answer_of(SHARED), answer_of(SHARED.replace("room[:2]", "np.empty(2)"))
    replay = Replay.of((np.arange(8.0),), {})
    assert "All threads write to `room`" in shared_by_threads(shared, (replay, 0), np.zeros(8))
    assert shared_by_threads(shared, (replay, 0), 2 * np.arange(8.0)) is None  # the same without threads
    assert shared_by_threads(own, None, np.zeros(8)) is None


def test_solution_runs_with_the_loops_of_the_cells_above_it():
    answer = solution_of("fast_train_bpe")
    words = [[b"a", b"b"], [b"a", b"b", b"c"]]
    assert answer.function(time.thread_time() + 2)(words, [2, 3], 1) == [b"ab"]
