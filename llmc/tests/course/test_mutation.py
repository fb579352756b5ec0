"""Edits of solutions and of answers: how they are made, what they find, and what is never said."""

import ast
import re
import tokenize
from pathlib import Path

import numpy as np
import pytest

from llmc.course import WrongAnswer, check
from llmc.course.checks import search
from llmc.course.checks.exercise import EXERCISES, Exercise
from llmc.course.checks.rerun import little_memory
from llmc.course.kernel_checks.check import kernel_check
from llmc.course.mutation import c_edits, named, program
from llmc.course.mutation.program import TooLong, edited, plain, program_in
from llmc.course.mutation.python_edits import edits
from llmc.course.mutation.schemata import Schemata, with_edit

SCALE = """
def scale(x, w, eps=1e-3):
    ### BEGIN SOLUTION
    mean = x.mean(axis=-1, keepdims=True)  # (N, 1)
    out = (x - mean) * w + eps  # (N, C)
    return out
    ### END SOLUTION
"""
KERNEL = r"""
extern "C" __global__ void twice(float* out, const float* x, int n)
{
    // ### BEGIN SOLUTION
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2.0f * x[i];
    // ### END SOLUTION
}
"""
TABLE = r"""
    without the mean | (x - mean) => x
    [3 · The mean] with w and eps swapped | * w + eps => * eps + w
    = x alone | out = … => out = x
    with the mean over axis 0
        | x.mean(axis=-1, keepdims=True) => x.mean(axis=0)
"""


@pytest.fixture
def scale(monkeypatch):
    """An exercise of which the solution is SCALE."""
    names = {"np": np, program.TICK: lambda: None}
    solution = program_in(SCALE, "scale", names)
    monkeypatch.setattr(search, "solution_of", lambda name: solution)
    monkeypatch.setattr(search, "solution_source", lambda name: (SCALE, names))
    reference = lambda x, w, eps=1e-3: (x - x.mean(axis=-1, keepdims=True)) * w + eps  # noqa: E731
    cases = lambda c: ((c.random(4, C), c.random(C)) for C in (5, 7, 5))  # noqa: E731
    monkeypatch.setitem(EXERCISES, "scale", None)  # which is put back afterwards
    return Exercise("scale", "99", reference, returns="out", cases=cases, look="2 · Scale", mistakes=TABLE)


def refused(text) -> str:
    """What the check of `scale` says of that answer."""
    cell = "with check('scale') as c:\n    for x, w in c.cases():\n        c.compare(scale, x, w)"
    file = "<answer>"
    names = {"check": check, "hint": None, "np": np}
    program.linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), names)
    with pytest.raises(WrongAnswer) as caught:
        exec(cell, names)
    return str(caught.value)


CENTRED = "x - x.mean(-1, keepdims=True)"


def answer(*lines) -> str:
    return "\n".join(["def scale(x, w, eps=1e-3):", *(f"    {line}" for line in lines)])


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["return x * w + eps"], "✗ scale: out equals the reference without the mean.\n→ Where to look: lesson 99"),
        ([f"return ({CENTRED}) * eps + w"], 'with w and eps swapped.\n→ Where to look: lesson 99, section "3 ·'),
        (["return x.copy()"], "out equals x alone."),
        ([f"return ({CENTRED}) / w + eps"], "our solution gives with `(x - mean) / w` in"),
        ([f"c = {CENTRED}", "return c * abs(w) + eps"], "passes this whole check"),
        (["return (x - x.mean(-1)) * w + eps"], "your code stopped with ValueError"),
    ],
    ids=["named", "place", "equals", "generated", "repair", "exception"],
)
def test_a_wrong_answer_gets_the_right_explainer(scale, lines, says):
    assert says in refused(answer(*lines))


def test_a_repair_names_the_line_of_the_cell_and_needs_all_draws(scale):
    lines = ["out = np.zeros_like(x)", "for k in range(1, len(x)):", "    out[k] = (x[k] - x[k].mean()) * w + eps"]
    told = refused(answer(*lines, "return out"))
    assert "Your function passes this whole check with `range(0, len(x))`" in told and "in line 3" in told


def test_two_lines_that_would_do_are_both_said(scale, monkeypatch):
    monkeypatch.setattr("llmc.course.checks.check._seed", 2)  # on some draws the factor is said first
    told = refused(answer(f"a = 2 * ({CENTRED})", "b = 2 * a", "return b * w / 2 + eps"))
    assert "in line 2, or with `a` in place of `2 * a`, in line 3." in told and "has the values" not in told


def test_what_is_kept_between_calls_is_found(scale):
    told = refused("memory = []\n" + answer("memory.append(1)", f"return ({CENTRED}) * w + eps * len(memory)"))
    assert "its first call would be right: it keeps something from one call to the next" in told


def test_the_table_is_read():
    first, second, third, fourth = named.mistakes(TABLE)
    assert first == ("without the mean", "", (("(x - mean)", "x"),)) and first.made == "the reference without the mean"
    assert second.place == "3 · The mean" and third.made == "x alone"
    assert "out = x\n" in named.applied(SCALE, third) and "x.mean(axis=0)  #" in named.applied(SCALE, fourth)


def test_edits_leave_the_tree_whole_and_differ():
    tree = plain(ast.parse(SCALE))
    before, seen = ast.unparse(tree), set()
    for edit in edits(tree.body):
        with edited(edit.changes):
            seen.add(ast.unparse(tree))
        assert ast.unparse(tree) == before and edit.words and edit.line >= 2
    assert before not in seen and len(seen) > 60


def test_loops_of_edited_functions_end():
    endless = program_in("def f(x):\n    while x:\n        x = x\n", "f", {})
    with pytest.raises(TooLong):
        endless.function()(1)


def test_an_array_that_is_far_too_large_is_refused_inside_alone():
    with little_memory(), pytest.raises(MemoryError):
        np.ones(1 << 36)


def test_all_edits_of_a_kernel_compile_into_one_text():
    made = c_edits.edits(KERNEL)
    schemata = Schemata(KERNEL, "twice", made)
    assert len(schemata.alive) > 0.8 * len(made)
    texts = {k: with_edit(KERNEL, made[k]) for k in schemata.alive}
    other = next(k for k, text in texts.items() if "2.0f * x[i]" not in text and "x[i]" in text)
    out, x, n = np.zeros(39, np.float32), np.arange(1, 40, dtype=np.float32), 39
    schemata.launch(other, (2, 1, 1), (32, 1, 1), (out, x, n), (0,))
    assert not np.array_equal(out, 2 * x)


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (("2.0f * x[i]", "x[i] + 2.0f * x[i]"), "out equals the reference three times."),
        (("i < n", "i < n - 1"), "Your kernel passes this whole check with `n` in place of `n - 1`"),
        (("i < n", "i < n - 1"), "never written. Nothing writes out[32]"),
        (("2.0f", "2.5f"), "out is 1.25 times what it should be, everywhere"),
    ],
)
def test_a_wrong_kernel_gets_the_right_explainer(monkeypatch, edit, says):
    from llmc.course.kernel_checks import search as kernels

    monkeypatch.setattr(kernels, "source_of", lambda name: KERNEL)
    monkeypatch.setattr(kernels, "solution_source", lambda name: (f'twice = r"""{KERNEL}"""', {}))
    monkeypatch.setitem(EXERCISES, "twice", None)  # which is taken away afterwards
    Exercise("twice", "99", lambda out, x, n: 2 * x, writes="out", mistakes="three times | 2.0f => 3.0f")
    cell = "with kernel_check('twice') as c:\n    for n in (33, 40):\n        out, x = c.output(n), c.random(n)\n"
    cell += "        c.compare(twice, 2, 32, (out, x, n))"
    with pytest.raises(WrongAnswer) as caught:
        exec(cell, {"kernel_check": kernel_check, "hint": None, "twice": KERNEL.replace(*edit)})
    assert says in str(caught.value)


def test_no_code_reads_its_own_sentences():
    """Code decides on values. Regular expressions may look at source text, never at a message."""
    course = Path(program.__file__).parents[1]
    for room in ("checks", "mutation", "kernel_checks"):
        for file in (course / room).rglob("*.py"):
            with file.open("rb") as lines:
                code = [t.string for t in tokenize.tokenize(lines.readline) if t.type in (tokenize.NAME, tokenize.OP)]
            read = re.findall(r" in (?:\w+ \. )?(?:sentence|message|words) (?![(.])", " ".join(code))
            assert not read, f"{file.name}: {read}"
