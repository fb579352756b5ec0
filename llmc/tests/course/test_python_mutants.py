"""Mutants of Python: the mistakes that are made, their words, and that the tree is whole again afterwards."""

import ast
import linecache
import time
from contextlib import closing

import numpy as np
import pytest

from llmc.course.old.mutants import missing, moved
from llmc.course.old.mutants.learners import learners
from llmc.course.old.mutants.python_source import mutants, pairs
from llmc.course.old.mutants.search import changes_of_theirs
from llmc.course.old.mutants.solution import Solution, dumped, given_beside
from llmc.course.old.mutants.stoppable import TooLong, stoppable, ticking

GIVEN = "def twice(x):\n    return x + x"


def made(source, of=mutants):
    """{words: the changed source}"""
    tree = ast.parse(source)
    return {words: ast.unparse(tree) for words in of(tree)}


def returned(expression, parameters="a, b, c, x"):
    """{words: what is returned instead of the expression}"""
    changed = made(f"def f({parameters}):\n    return {expression}")
    return {words: text.rpartition("return ")[2] for words, text in changed.items()}


@pytest.mark.parametrize(
    "expression, words, instead",
    [
        ("a - b", "without the term `b`", "a"),
        ("a - b", "without the term `a`", "-b"),
        ("a - b", "with + in place of - before `b`", "a + b"),
        ("a * b", "without the factor `a`", "b"),
        ("a / b", "without the division by `b`", "a"),
        ("a @ b", "with `b` transposed in `a @ b`", "a @ b.swapaxes(-1, -2)"),
        ("a ** b", "without the exponent `b` of `a`", "a"),
        ("(a - b) * c", "with `c` applied to `b` alone in `(a - b) * c`", "a - b * c"),
        ("a * b + c", "with `(b + c) * a` in place of `a * b + c`", "(b + c) * a"),
        ("f(a + b)", "with `b` outside of the brackets of `f(a + b)`", "f(a) + b"),
        ("x.mean(axis=-1)", "with sum in place of mean in `x.mean(axis=-1)`", "x.sum(axis=-1)"),
        ("x.mean(axis=-1)", "with axis -2 in place of axis -1 in `x.mean(axis=-1)`", "x.mean(axis=-2)"),
        ("x.mean(axis=1)", "with n - 1 in place of n in `mean`", "x.sum(axis=1) / (x.shape[1] - 1)"),
        ("np.sum(x, axis=0)", "with the last entry of axis 0 alone in `np.sum(x, axis=0)`", "np.sum(x[-1:], axis=0)"),
        (
            "x.reshape(a, b)",
            'with order="F", where the first axis runs fastest, in `x.reshape(a, b)`',
            "x.reshape(a, b, order='F')",
        ),
        ("np.argsort(a)", "with 1 added to `np.argsort(a)`", "np.argsort(a) + 1"),
        ("np.nonzero(a)[0]", "with 1 subtracted from `np.nonzero(a)[0]`", "np.nonzero(a)[0] - 1"),
        ("np.where(a, b, c)", "with `c` in place of `np.where(a, b, c)`", "c"),
        ("not a", "with `a is None` in place of `not a`", "a is None"),
        ("a + b & c", "with `a + (b & c)` in place of `a + b & c`", "a + (b & c)"),
        ("a + (b >> c)", "with `a + b >> c` in place of `a + (b >> c)`", "a + b >> c"),
        ("np.sqrt(a)", "without sqrt in `np.sqrt(a)`", "a"),
        ("a if b < c else x", "with `b <= c` in place of `b < c`", "a if b <= c else x"),
        ("x[1:]", "without the beginning of the slice `1:` in `x[1:]`", "x[:]"),
        ("x[:a]", "with the last `a` in place of the first in `x[:a]`", "x[-a:]"),
        ("x[:, :-1]", "with `x[:, 1:]` in place of `x[:, :-1]`", "x[:, 1:]"),
        ("x[:, :-1]", "with `x[1:, :-1]` in place of `x[:, :-1]`", "x[1:, :-1]"),
        ("x['a'] - x['b']", "with `x['b']` in place of `x['a']` in `x['a'] - x['b']`", "x['b'] - x['b']"),
        ("x[a]", "with the index `a + 1` in place of `a` in `x[a]`", "x[a + 1]"),
        ("a + c", "with `b` in place of `c`", "a + b"),
        ("a", "with `a` times `b`", "a * b"),
        ("(a, b)", "with `a` and `b` in the other order", "(b, a)"),
    ],
)
def test_expressions(expression, words, instead):
    found = returned(expression)
    matching = [text for told, text in found.items() if told.startswith(words.partition(" in `")[0])]
    assert instead in matching, found
    assert words in found or len(words) > 40


@pytest.mark.parametrize(
    "lines, words, instead",
    [
        ("x += a", "with = in place of += in `x += a`", "x = a"),
        ("x *= a\n    x += b", "without the line `x *= a`", "x += b"),
        ("x *= a\n    x += b", "with the lines `x *= a` and `x += b` in the other order", "x += b\n    x *= a"),
        ("if a < b:\n        x += a", "without the lines of `if a < b:`", "pass"),
        ("if a < b:\n        x += a", "without the condition `a < b`", "if True:\n        x += a"),
        ("for i in range(a):\n        x += i", "from 1 on in `range(a)`", "for i in range(1, a):\n        x += i"),
    ],
)
def test_lines(lines, words, instead):
    assert made(f"def f(x, a, b):\n    {lines}")[words].endswith(f"    {instead}")


SUMS = """def f(x, a, b):
    for n in range(len(x)):
        top, total = x[n, 0], 0
        for c in range(len(a)):
            total += x[n, c] * a[c] + b[c]
        x[n] = total - top"""


def test_sums_that_begin_in_another_place():
    found = made(SUMS)
    lines = found["with `total = 0` before the loop over `n`, so that it is never set back"].splitlines()
    assert lines[1:4] == ["    total = 0", "    for n in range(len(x)):", "        top, = (x[n, 0],)"]
    lines = found["with `total = 0` inside the loop over `c`, so that every turn begins again"].splitlines()
    assert lines[2:5] == ["        top, = (x[n, 0],)", "        for c in range(len(a)):", "            total = 0"]
    assert not any("`top = x[n, 0]`" in words for words in found)  # it belongs to one turn, and does not change in it


TURNS = """def f(x, a, b, out):
    for i in range(len(x)):
        out += x[i] - a
        if b is not None:
            out -= b
        t = x[i] * a
    out[0] += t"""


def test_what_belongs_behind_a_loop_or_into_it():
    found = made(TURNS)
    lines = found["with `out -= a` once behind the loop over `i`, not in every turn"].splitlines()
    assert lines[2] == "        out += x[i]" and lines[6] == "    out -= a"
    lines = found["with `out -= b` once behind the loop over `i`, not in every turn"].splitlines()
    assert lines[4] == "            pass" and lines[6:8] == ["    if b is not None:", "        out -= b"]
    lines = found["with `out[0] += t` in every turn of the loop over `i`, not once behind it"].splitlines()
    assert lines[-1] == "        out[0] += t"
    assert sum("the loop over `i`, not" in words for words in found) == 3  # nothing that a turn changes


def test_an_index_that_hides_an_argument():
    found = made("def f(x, b):\n    for b in range(len(x)):\n        x[b, 0] = x[g(b)] + b")
    told = [words for words in found if "hides the argument `b`" in words]
    assert told == ["with another name for the loop's index `b`, which hides the argument `b`"]
    tree = ast.parse("def f(x, b):\n    for b in range(len(x)):\n        x[b, 0] = x[g(b)] + b")
    texts = [ast.unparse(tree) for words in mutants(tree) if words in told]
    assert [text.splitlines()[2].strip() for text in texts] == ["x[b_, 0] = x[g(b_)] + b", "x[b_, 0] = x[g(b_)] + b_"]


def test_the_index_of_another_loop_in_all_vectors_of_a_line():
    found = made(SUMS)
    assert "total += x[n, c] * a[n] + b[n]" in found["with the index `n` in place of `c` in each of `a[c]`, `b[c]`"]


def test_one_mistake_in_every_place():
    found = returned("x.mean(0) - a * x.mean(1)")
    assert found["with sum in place of mean, everywhere"] == "x.sum(0) - a * x.sum(1)"


def test_a_name_that_is_read_elsewhere_is_not_exchanged_everywhere():
    words = [each for each in made("def f(a, b):\n    g = lambda: a\n    return a + b * a") if "everywhere" in each]
    assert "with `b` in place of `a`, everywhere" not in words
    assert "with `b` in place of `a`, everywhere" in returned("a + c * a", "a, b, c")


def test_a_name_is_quoted_where_it_stands_once():
    words = list(returned("a if sick(a) else b", "a, b"))
    assert "with `b` in place of `a` in `sick(a)`" in words


def test_two_mistakes_together():
    found = made("def f(a, b, c):\n    return (a + b) * c", pairs)
    assert "    return a" in " ".join(found.values())
    assert any(" and " in words for words in found)


def test_names_that_have_no_value_yet_are_not_taken():
    found = made("def f(a):\n    b = a + 1\n    c = b\n    return c")
    assert not any("`c` in place of `a`" in words for words in found)


def test_the_tree_is_whole_again():
    tree = ast.parse("def f(x, w):\n    y = x * w\n    for i in range(3):\n        y += x[i]\n    return y.sum(axis=0)")
    before = ast.dump(tree)
    changed = {ast.dump(tree) for _ in mutants(tree)}
    assert len(changed) > 50 and before not in changed
    assert ast.dump(tree) == before
    with closing(mutants(tree)) as found:
        next(found)
        assert ast.dump(tree) != before
    assert ast.dump(tree) == before


def test_every_mutant_can_be_compiled():
    tree = ast.parse(
        "def f(x, w):\n    a, b = x.shape\n    y = [w @ r for r in x if r]\n    return y[1:a] if a else -b"
    )
    for words in mutants(tree):
        compile(tree, words, "exec")


def test_a_loop_without_end_is_stopped():
    import time

    code = compile(stoppable(ast.parse("while True:\n    pass")), "<endless>", "exec")
    with pytest.raises(TooLong):
        exec(code, ticking(time.thread_time() + 0.05))


def test_a_comprehension_that_would_hardly_end_is_not_begun():
    text = "def f(n):\n    return [k for k in range(n)]"
    function = Solution("f", stoppable(ast.parse(text)), {}).function(time.thread_time() + 1)
    assert len(function(1000)) == 1000
    with pytest.raises(TooLong):
        function(10**12)


def test_one_off_comes_before_a_call_left_out():
    words = list(returned("np.flatnonzero(np.diff(a))"))
    one_off = words.index("with 1 added to `np.flatnonzero(np.diff(a))`")
    assert one_off < words.index("without diff in `np.diff(a)`")


def test_what_no_deadline_reaches_is_not_tried():
    """A power of two large integers, a list inside of itself and many axes take for ever in a single operation."""

    def f(n):
        rows = []
        for k in n:
            rows.append(k)
        return rows, n**0.5, np.zeros(n.shape)

    answer = learners(f)
    with closing(changes_of_theirs(answer.tree, answer.more, (missing, moved))) as changes:
        tried = [ast.unparse(answer.tree) for _ in changes]
    assert len(tried) > 20
    assert not any("n ** n" in text or "rows.append(rows)" in text or "n.shape *" in text for text in tried)


IMPORTS = """
def answer(x):
    import math
    from concurrent.futures import ThreadPoolExecutor as Pool

    out = [0.0] * len(x)

    def work(k):
        out[k] = math.sqrt(x[k]) + 1

    with Pool(2) as pool:
        list(pool.map(work, range(len(x))))
    return out
"""


def test_imports_inside_of_a_function_are_its_own():
    program = learners(_typed(IMPORTS))
    assert program.function(time.thread_time() + 5)([4.0]) == [3.0] and "import" not in ast.unparse(program.tree)
    for line in ("import os", "from os import remove", "import numpy.random", "import io, os"):
        assert learners(_typed(IMPORTS.replace("import math", line, 1))) is None, line


def _typed(code):
    """The function `answer` as if a cell had defined it."""
    linecache.cache["<typed>"] = (len(code), None, code.splitlines(True), "<typed>")
    names = {}
    exec(compile(code, "<typed>", "exec"), names)
    return names["answer"]


def test_what_a_notebook_gives_is_not_changed():
    given, names = given_beside("block_backward"), {"__name__": "__main__", "np": np}
    text = f"{GIVEN}\n\n\ndef block_backward(x):\n    return twice(x) + own(x)\n\n\ndef own(x):\n    return x - 1\n"
    assert len(given) > 3
    linecache.cache["<a cell>"] = (len(text), None, text.splitlines(keepends=True), "<a cell>")
    exec(compile(text, "<a cell>", "exec"), names)
    assert [each.name for each in learners(names["block_backward"]).tree.body] == ["own", "twice", "block_backward"]
    with pytest.MonkeyPatch.context() as patch:
        given = frozenset({dumped(ast.parse(GIVEN).body[0])})
        patch.setattr("llmc.course.old.mutants.learners.given_beside", lambda exercise: given)
        assert [each.name for each in learners(names["block_backward"]).tree.body] == ["own", "block_backward"]
