"""Sentences that rest on one more call: tiny numbers, lost digits, copies; and repairs that are not to be told."""

import ast
import os

import numpy as np
import pytest

from llmc.course import check, compare
from llmc.course.old.checks import digits, small_numbers
from llmc.course.old.checks.copies import written_to_a_copy
from llmc.course.old.checks.explain import WrongAnswer
from llmc.course.old.checks.silence import silent_libraries
from llmc.course.old.checks.text import never_read
from llmc.course.old.kernel_checks.repairs import repairs
from llmc.course.old.kernel_checks.solutions import source_of
from llmc.course.old.kernel_checks.switched import changed
from llmc.course.old.mutants import beside_ours
from llmc.course.old.mutants.replay import Replay
from llmc.course.old.mutants.solution import Solution

pytestmark = pytest.mark.usefixtures("not_recorded")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 30))


def solution(text, exercise):
    return Solution(exercise, ast.parse(text), {"np": np, "__builtins__": __builtins__})


def called(function, *arguments):
    replay = Replay.of(arguments, {})
    replay.outputs = replay.run(function)
    replay.buffers = [False] * len(arguments)
    return replay


def logarithm(p):
    return np.log(p + 1e-4)


def logarithm_at_least(p):
    return np.log(np.maximum(p, 1e-9))


def of_the_square(p):
    return np.log(p**2 + 1e-9)


PLAIN = solution("def logarithm(p):\n    return np.log(p)", "logarithm")


def test_a_tiny_number_is_named_where_it_counts():
    p = np.array([1e-5, 0.5])
    (told,) = small_numbers.counted(logarithm, PLAIN, called(logarithm, p))
    assert told == "The result changes with the `0.0001` in `p + 0.0001`: our solution has none."
    assert not small_numbers.counted(logarithm_at_least, PLAIN, called(logarithm_at_least, p))  # p is never so small
    (told,) = small_numbers.counted(logarithm_at_least, PLAIN, called(logarithm_at_least, 0 * p))
    assert "`1e-09` in `np.maximum(p, 1e-09)`" in told
    with_one = solution("def logarithm(p):\n    return np.log(p + 1e-6)", "logarithm")
    assert not small_numbers.counted(logarithm, with_one, called(logarithm, p))


def test_a_tiny_number_is_not_named_where_another_mistake_is_larger():
    p = np.array([0.1, 0.5])
    squared = solution("def logarithm(p):\n    return np.log(p * p)", "logarithm")
    assert not small_numbers.counted(logarithm, squared, called(logarithm, p))
    given = Solution("logarithm", ast.parse("def logarithm(p):\n    return twice(p) / 2"), {"twice": of_the_square})
    assert not small_numbers.counted(logarithm, given, called(logarithm, p / 1000))


def one_pass(x):
    return (x * x).mean(axis=1) - x.mean(axis=1) ** 2


def one_pass_in_place(x):
    mean, squares = x.mean(axis=1), (x * x).mean(axis=1)
    squares -= mean * mean
    centred = x - mean[:, None]
    squares += 0 * centred[:, 0]
    return squares


def half(x):
    return x.var(axis=1) / 2


TWO_PASSES = solution("def one_pass(x):\n    return x.var(axis=1)", "one_pass")
IN_PLACE = solution("def one_pass_in_place(x):\n    return x.var(axis=1)", "one_pass_in_place")


def test_digits_that_float32_loses():
    far = (X + 3000).astype(np.float32)
    told = digits.lost("var", one_pass, TWO_PASSES, called(one_pass, far), 0)
    assert told.startswith("With float64 arrays your function gives the right var: float32 loses the digits")
    assert "in `(x * x).mean(axis=1) - x.mean(axis=1) ** 2`, a difference" in told
    told = digits.lost("var", one_pass_in_place, IN_PLACE, called(one_pass_in_place, far), 0)
    assert "in `squares -= mean * mean`, a difference" in told  # and not in `x - mean`
    assert digits.lost("var", half, TWO_PASSES, called(half, far), 0) is None
    assert digits.lost("var", one_pass, TWO_PASSES, called(one_pass, X.astype(np.float32)), 0) is None  # right
    assert digits.lost("var", one_pass, TWO_PASSES, called(one_pass, X), 0) is None  # float64 already


def step(w, g):
    w -= g


def with_a_copied_weight(w, g):
    total = g[0].copy()
    total += g[1]
    step(w.copy(), total)


def with_a_sum_that_is_used(w, g):
    total = g[0].copy()
    total += g[1]
    step(w[: len(w)], total)


def with_a_sum_that_is_lost(w, g):
    total = w.copy()
    total += g[1]


def with_a_copy_of_the_result(mean, out, x):
    mu = mean.flatten()
    mu[:] = x.mean(axis=1)
    np.subtract(x, mu[:, None], out=out)


def with_a_shape_for_the_copy(w, g):
    flat = w.flatten()
    flat -= g
    flat.reshape(w.shape)


def test_a_copy_is_lost_only_where_nothing_reads_it():
    told = written_to_a_copy(with_a_copied_weight, name="w")
    assert told == "`w.copy()` makes a new array: what `step` writes into it is lost."
    assert written_to_a_copy(with_a_sum_that_is_used, name="w") is None
    assert "`total += g[1]` writes into a copy" in written_to_a_copy(with_a_sum_that_is_lost, name="w")
    assert "`flat -= g` writes into a copy, which is lost" in written_to_a_copy(with_a_shape_for_the_copy, name="w")
    told = written_to_a_copy(with_a_copy_of_the_result, name="mean")
    assert told == "`mu[:] = x.mean(axis=1)` does not write to mean: `mean.flatten()` makes a new array."
    assert written_to_a_copy(with_a_copy_of_the_result, name="out") is None


def no_prompt(prompt, n):
    return [n]


def test_an_argument_that_is_never_read():
    ours = solution("def no_prompt(prompt, n):\n    return [prompt[-1] + n]", "no_prompt")
    assert list(never_read(no_prompt, ours, called(no_prompt, [3, 4], 2))) == ["Your function never reads `prompt`."]
    idle = solution("def no_prompt(prompt, n):\n    return [n]", "no_prompt")
    assert not list(never_read(no_prompt, idle, called(no_prompt, [3, 4], 2)))


@pytest.mark.parametrize(
    ("words", "believed"),
    [
        ("with 1 in place of 0.8 in `np.linspace(0.8, 1.6)`", False),
        ("with 0.5 in place of 0.8 in `rate * 0.8`", True),
        ("with 0 in place of 1 in `range(1, n)`", True),
    ],
)
def test_numbers_that_only_fit_a_check(words, believed):
    ours = solution("def f(x):\n    return 0.5 * x", "f")
    assert beside_ours.only_fits(ours, words) is not believed


@pytest.mark.parametrize(
    ("before", "after", "away"),
    [
        ("return list(reversed(x))", "return abs(x)", False),
        ("return x > 1", "return x >= 1", False),
        ("return a / w - b", "return (a - b) / w", False),
        ("return x", "return x.copy()", False),
        ("return x", "return list(reversed(x))", True),
        ("return x.sum()", "return x.mean()", True),
        ("return 2 * x", "return 2**x", True),
        ("return abs(x)", "return x", True),
        ("return x > 1", "return y > 1", True),  # a name of the learner's own
    ],
)
def test_changes_that_lead_away_from_our_solution(before, after, away):
    ours = solution("def f(x):\n    return abs(x) * 2 >= 1", "f")
    lines, now = (["def f(x):", f"    {each}"] for each in (before, after))
    assert beside_ours.leads_away(ours, lines, now) is away


@pytest.mark.parametrize(
    ("words", "before", "after", "lucky"),
    [
        ("with mean in place of sum", "return x.sum()", "return x.mean()", True),
        ("with sum in place of mean", "return x.mean()", "return x.sum()", False),  # right where a mean was wrong
        ("with the sign of `x.reshape(-1)` changed", "return x.reshape(-1)", "return -x.reshape(-1)", True),
        ("without the factor `t`", "return x * (1 - t * t)", "return x * (1 - t)", True),
        ("with max in place of min", "return min(x, 0)", "return max(x, 0)", False),  # which is ours
    ],
)
def test_changes_that_make_up_for_a_mistake_elsewhere(words, before, after, lucky):
    ours = solution("def f(x):\n    t = max(x, 0)\n    return x.sum() * t * t", "f")
    lines, now = (["def f(x):", f"    {each}"] for each in (before, after))
    assert beside_ours.makes_up(ours, words, lines, now) is lucky


def test_swapped_axes_of_a_layout():
    with pytest.raises(WrongAnswer, match=r"axes 0 and 1 were swapped, \(30, 4\) in place of \(4, 30\)|transposed"):
        compare("out", X.T.reshape(X.shape), X)
    three = RNG.normal(size=(2, 3, 5))
    with pytest.raises(WrongAnswer, match=r"axes 1 and 2 were swapped, \(2, 5, 3\) in place of \(2, 3, 5\)"):
        compare("out", three.swapaxes(1, 2).reshape(three.shape), three)


def test_compiled_libraries_are_silent_and_python_speaks_again(capfd):
    print("before")
    with silent_libraries():
        os.write(1, b"from C")
        os.write(2, b"from C")
    print("after")
    assert capfd.readouterr() == ("before\nafter\n", "")


LOOPS = """extern "C" __global__ void f(float* out, const float* x, int C)
{
    int lane = threadIdx.x % 32;
    float total = 0.0f;
    for (int c = lane * 8; c < C; c += 256) total += x[c];
    for (int c = lane; c < C; c += 256) total += x[c];
    for (int k = 0; k < 3; k++) total += k;
    out[lane] = total;
}
"""


def test_loops_over_one_variable_are_made_alike():
    texts = [changed(LOOPS, each) for each in repairs(LOOPS)]
    assert any(
        "int c = lane * 8; c < C; c += 256) total += x[c];\n    for (int c = lane * 8;" in each for each in texts
    )
    assert not any("int k = lane" in each or "c = 0;" in each for each in texts if "k < 3; k++" in each)


def test_the_solution_in_c():
    source = source_of("layernorm_bf16")
    assert source is None or "void layernorm_bf16(" in source  # none without the solutions
    assert source_of("layernorm_forward") is None  # a Python function


def test_a_message_says_who_is_ignored():
    names = {"check": check, "no_prompt": no_prompt}
    cell = 'with check("no_such_exercise") as c:\n    assert c.call(no_prompt, [1], 2) == [3], "wrong"\n'
    with pytest.raises(WrongAnswer) as caught:
        exec(compile(cell, "<cell>", "exec"), names)
    assert "never reads" not in str(caught.value)  # there is no solution to compare with


@pytest.mark.parametrize(
    ("old", "new", "turned"),
    [
        ("a = not x < y", "a = x < y", True),
        ("a = x < y", "a = x <= y", False),
        ("a = x < y", "a = x > y", True),
        ("a = x in y", "a = z in y", True),
        ("a = not any(x)", "a = not all(x)", False),
        ("if x: pass", "if x is not None: pass", False),
    ],
)
def test_a_condition_that_is_turned_around(old, new, turned):
    assert beside_ours.turns_a_condition(None, [old], [new], True) is turned


def test_a_condition_where_it_decides():
    lines = ["a = 1 if x < y else 2"], ["a = 1 if x > y else 2"]
    assert beside_ours.turns_a_condition(None, *lines, True)
    assert not beside_ours.turns_a_condition(None, *lines, False)


def test_a_line_that_leaves_its_loop_is_not_changed_itself():
    ours = Solution("f", ast.parse("def f(x):\n    np.add.at(x, 1, 2.0)"), {})
    lines = (
        ["for i in y:", "    z += i", "    np.add.at(x, 1, 2.0)"],
        ["for i in y:", "    z += i", "np.add.at(x, 1, 2.0)"],
    )
    assert not beside_ours.changes_a_right_line(ours, *lines)


def test_a_key_that_is_changed_on_one_side_alone():
    words = "with `run['loss']` in place of `run['val']` in `run['val'][-1]`"
    both, one = ([f"worse = run['{key}'][-1] - ok['val'][-1]"] for key in ("val", "loss"))
    assert beside_ours.breaks_a_pair(words, both, one)
    assert not beside_ours.breaks_a_pair(words, one, both)
    assert not beside_ours.breaks_a_pair(words, ["d = a['val'] - a['val']"], ["d = a['loss'] - a['val']"])
