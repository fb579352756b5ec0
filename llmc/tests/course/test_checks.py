"""`check`, `compare` and `gradient_check`: what they accept and what they say."""

import re
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest

from llmc.course import WrongAnswer, check, compare, gradient_check, guarded
from llmc.course.checks.check import say
from llmc.course.exercises import catalog, layout

pytestmark = pytest.mark.usefixtures("not_recorded")

RNG = np.random.default_rng(0)
A = RNG.normal(3, 2, (3, 4))


def message(got, expected=A, **options):
    with pytest.raises(WrongAnswer) as caught:
        compare("dx", got, expected, **options)
    return str(caught.value)


def test_right_passes():
    compare("dx", A.copy(), A)
    compare("dx", A * (1 + 1e-9), A)
    compare("dx", A + 1.0, np.ones_like(A), added_to=A)
    compare("loss", 1.5, np.float64(1.5))


@pytest.mark.parametrize(
    ("got", "says"),
    [
        (None, "dx is None"),
        ([1, 2], "should be a NumPy array, but is a list of 2"),
        (A[..., None], "the last axis has length 1 and is too much, [..., 0]."),
        (A.T, "its axes are in another order, and `.transpose(1, 0)` makes it right"),
        (A[None] * np.ones((2, 1, 1)), "the mean over axis 0 is missing."),
        (A[None] * [[[3.0]], [[-2.0]]], "the sum over axis 0 is missing."),
        (A.sum(0), "axis 0 of what is expected is missing: what came is the sum over it."),
        (A[0], "axis 0 of what is expected is missing: what came is what belongs at its index 0."),
        (A.astype(np.float32), "dtype float32, expected float64"),
        (np.where(A > 3, np.nan, A), "7 of 12 entries are NaN, the first at [0, 0]."),
        (-A, "wrong sign"),
        (A / 4, "1/4 times"),
        (2 * A, "2 times"),
        (A * 0.1234, "0.1234 times"),
        (np.zeros_like(A), "all zeros"),
        (A + 5.0, "off by the same amount everywhere"),
    ],
)
def test_generic_mistakes(got, says):
    assert says in message(got)


def test_wrong_entries_are_listed():
    got = A.copy()
    got[1, 2] = 77.0
    told = message(got)
    assert "1 of 12 entries are wrong." in told
    assert "[1, 2]" in told and "77" in told and f"{A[1, 2]:.7g}" in told


def test_buffers():
    before, gradient = RNG.normal(size=(3, 4)), A
    assert "overwritten instead of accumulated" in message(gradient, added_to=before)
    assert "never written" in message(before, added_to=before)
    assert "what was added to dx is 2 times" in message(before + 2 * gradient, added_to=before)
    known = {"the square": gradient**2}
    assert message(before + gradient**2, added_to=before, known=known).startswith(
        "what was added to dx equals the square."
    )
    assert "set to zero" in message(0 * before, added_to=before)
    assert "accumulated where it should be overwritten" in message(before + gradient, before=before)
    half = gradient.copy()
    half[2] = before[2]
    assert "part of dx is as it was before the call: 4 of 12" in message(half, before=before)


def test_square_transposed():
    square = RNG.normal(size=(4, 4))
    assert "axes 0 and 1 are swapped" in message(square.T, square)


def f(x):
    return np.sin(x) * x


def df(x):
    return np.cos(x) * x + np.sin(x)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4])
def test_gradient_check_follows_the_scale_of_x(scale):
    x, dout = RNG.normal(size=(5, 3)) * scale, RNG.normal(size=(5, 3))
    assert gradient_check(lambda x: (x / scale) ** 3, x, dout * 3 * (x / scale) ** 2 / scale, dout, report=False) < 1e-8


def test_gradient_check_subset_and_report(capsys):
    x = RNG.normal(size=1000)
    assert gradient_check(f, x, df(x)) < 1e-8
    assert "400 elements" in capsys.readouterr().out
    with pytest.raises(WrongAnswer, match="wrong sign"):
        gradient_check(f, x, -df(x))


def test_gradient_check_explains_misuse():
    x = RNG.normal(size=(2, 3))
    with pytest.raises(WrongAnswer, match="returned 2 values"):
        gradient_check(lambda x: (x, x), x, x)
    with pytest.raises(WrongAnswer, match="has the shape of its variable"):
        gradient_check(f, x, x[0])
    with pytest.raises(WrongAnswer, match="must be the same"):
        gradient_check(f, x, x, dout=x[0])
    with pytest.raises(WrongAnswer, match="wrong values|NaN"):
        gradient_check(f, x, x * np.nan)


def stub(x):
    raise NotImplementedError


def test_stub_is_not_done_yet(capsys):
    with check("f") as c:
        c.call(stub, c.random(2, 3))
    assert capsys.readouterr().out.startswith("not done yet: f.")


def test_right_answer(capsys):
    with check("f") as c:
        x = c.random(2, 3)
        compare("y", c.call(f, x), f(x))
    assert capsys.readouterr().out == "✓ f is right.\n"


def run(function, *arguments):
    with pytest.raises(WrongAnswer) as caught:
        with check("f") as c:
            c.call(function, *arguments)
    assert caught.value.__suppress_context__
    return str(caught.value)


def bad_shapes(x, w):
    y = x * 2
    return y + w


def test_own_errors_show_own_line():
    told = run(bad_shapes, np.ones((2, 3)), np.ones(2))
    assert "your code stopped with ValueError" in told and "in bad_shapes, line" in told
    assert "return y + w" in told and "with y (2, 3), w (2,)" in told
    assert "The call was bad_shapes(x (2, 3) float64, w (2,) float64)." in told
    assert "llmc/course" not in told


def test_wrong_number_of_arguments():
    assert "TypeError" in run(bad_shapes, np.ones(2))


def test_inputs_are_read_only_and_buffers_are_guarded():
    def writes(x):
        x += 1

    def unlocks(x):
        x.flags.writeable = True

    def overruns(y):
        np.lib.stride_tricks.as_strided(y, (4,), y.strides)[3] = 1.0

    assert "Inputs must stay as they are" in run(writes, np.ones(3))
    assert "ValueError" in run(unlocks, np.ones(3))
    with pytest.raises(WrongAnswer, match="1 elements after it"):
        with check("f") as c:
            c.call(overruns, c.buffer(3))
    buffer = guarded(np.ones((2, 2), np.float32))
    assert buffer.written_outside() == (0, 0)
    buffer.whole[0] = 0
    assert buffer.written_outside() == (1, 0)


def test_results_of_earlier_calls_must_not_change():
    shared = np.zeros(3)

    def reuses(x):
        shared[:] = x
        return shared

    with pytest.raises(WrongAnswer, match="make a new array in every call"):
        with check("f") as c:
            c.call(reuses, c.random(3))
            c.call(reuses, c.random(3))


def test_llmc_is_out_of_reach():
    from llmc.backends.reference import gelu_forward

    def borrowed(x):
        gelu_forward(x.copy(), x)

    assert "your code uses llmc.backends.reference.gelu_forward" in run(borrowed, np.ones(3))
    assert sys.getprofile() is None

    def given(x):
        """A function of the notebook's."""
        gelu_forward(x.copy(), x)

    def searches(x):
        given(x.copy())
        return x

    def cheats(x):
        given(x.copy())
        gelu_forward(x.copy(), x)

    for answer, allowed in ((searches, True), (cheats, False)):
        with nullcontext() if allowed else pytest.raises(WrongAnswer, match="your code uses"), check("f") as c:
            c.may_call(given)
            c.call(answer, np.ones(3))


def test_cell_variables_are_out_of_reach():
    cell = {"check": check, "leans": None}
    exec("def leans(x):\n    return x + hidden_", cell)
    with pytest.raises(WrongAnswer, match="`hidden_` is a variable of the check cell"):
        exec("hidden_ = 3\nwith check('f') as c:\n    c.call(leans, c.random(2))", cell)
    assert cell["hidden_"] == 3


def cells(*sources):
    """Run these as cells of one notebook; returns its variables."""
    variables = {"check": check, "hint": None, "np": np}
    for source in sources:
        exec(source, variables)
    return variables


def test_a_learner_keeps_variables_that_the_check_cell_assigns_too():
    mine = "B, size, calls = 4, 'mine', 0\ndef f(x):\n    global calls\n    calls += 1\n    return (B, size, calls, x)"
    ask = "with check('f') as c:\n    B, T, calls = 8, 9, 10\n    for size in (1, 2):\n        last = c.call(f, B)"
    variables = cells(mine, ask)
    assert variables["last"] == (4, "mine", 2, 8) and variables["T"] == 9
    assert (variables["B"], variables["size"], variables["calls"]) == (4, "mine", 2)
    exec("del B, size", variables)
    with pytest.raises(WrongAnswer, match="`B` is a variable of the check cell"):
        exec(ask, variables)
    exec(ask.replace("c.call(f, B)", "0") + "\nB = 5", variables)
    exec("size = 'again'\nB = 6", variables)  # a cell of the learner's, after the check left a B
    exec(ask, variables)
    assert variables["last"][:2] == (6, "again") == (variables["B"], variables["size"])


def test_what_an_earlier_check_cell_left_is_out_of_reach_and_what_came_later_is_not():
    variables = cells("def f():\n    return left_", "with check('f') as c:\n    left_ = 3.5")
    with pytest.raises(WrongAnswer, match="`left_` is a variable of the check cell"):
        exec("with check('f') as c:\n    c.call(f)", variables)
    exec("left_ = 'mine'", variables)
    exec("with check('f') as c:\n    got = c.call(f)", variables)
    assert variables["got"] == variables["left_"] == "mine"


def test_a_check_cell_means_what_python_and_the_set_up_cell_mean():
    mine = "def sum(a, b):\n    return a + b\nnp = 'mine'\ndef layernorm_forward(x):\n    return sum(x, x), np"
    ask = "with check('layernorm_forward') as c:\n    got = c.call(layernorm_forward, sum([2])), np.arange(2)"
    variables = cells(mine, ask)
    assert variables["got"][0] == (4, "mine") and variables["got"][1].tolist() == [0, 1]
    assert variables["sum"](1, 2) == 3 and variables["np"] == "mine"


def test_timing_and_memory_see_the_learners_variables_too():
    mine = "n, seen = 3, []\ndef f(x):\n    seen.append((n, x))\n    return np.zeros(n * 1_000_000, np.uint8)"
    ask = """with check('f') as c:
    n, x = 7, 'given'
    def yours():
        return f(x)
    peak = peak_bytes(yours)
    race(yours, lambda: yours(), rounds=1)
    faster(c, yours, lambda: f(x), times=1e-9)"""
    variables = cells("from llmc.course import faster, race\nfrom llmc.course.measure import peak_bytes", mine, ask)
    assert set(variables["seen"]) == {(3, "given")} and 3_000_000 <= variables["peak"] < 3_300_000


SIGNATURE = "void(float64[::1], float64[::1])"


def test_code_that_cannot_take_read_only_arrays_gets_copies():
    import numba

    @numba.njit(SIGNATURE)
    def doubles(y, x):
        y += 2 * x

    @numba.njit(SIGNATURE)
    def clears(y, x):
        y += 2 * x
        x[1] = 0

    helper = numba.njit(SIGNATURE)(clears.py_func)

    def calls(y, x):
        helper(y, x)

    with check("f") as c:
        for _ in range(2):
            x, y = c.random(3), c.buffer(3)
            before = y.copy()
            c.call(doubles, y, x)
            compare("y", y, 2 * x, added_to=before)
    for wrong, says in (
        (clears, r"in clears, line \d+:  x\[1\] = 0"),
        (calls, r"your code changed `x` \(3,\) float64"),
    ):
        with pytest.raises(WrongAnswer, match=f"(?s){says}.*Inputs must stay as they are"), check("f") as c:
            x = c.random(3)
            kept = x.copy()
            try:
                c.call(wrong, c.buffer(3), x)
            finally:
                assert (x == kept).all()


def test_what_numba_cannot_compile_is_explained():
    import numba

    @numba.njit
    def unknown(y, x):
        y[:] = not_there  # noqa: F821

    @numba.njit
    def writes(y, x):
        x[0] = 1

    @numba.njit(parallel=True)
    def star(y, x):
        tables = np.zeros((3, *x.shape))
        y += tables[0]

    @numba.njit
    def stub(y, x):
        raise NotImplementedError

    for kernel, says in ((unknown, "not_there"), (writes, "n input was written to"), (star, "does not know this")):
        with pytest.raises(WrongAnswer, match=says) as error, check("f") as c:
            c.call(kernel, c.buffer(3), c.random(3))
        assert len(str(error.value).splitlines()) <= 4
    with check("f") as c:
        c.call(stub, c.buffer(3), c.random(3))


def test_a_wrong_signature_of_the_learner_is_named():
    with pytest.raises(WrongAnswer, match="your function cannot be called with these arguments: .*'w'"):
        with check("f") as c:
            c.call(lambda x: x, 1, w=2)


def test_answer_cell_not_run():
    with pytest.raises(WrongAnswer, match="Run the cell with your answer first"):
        exec("with check('f') as c:\n    c.call(not_there, 1)", {"check": check, "hint": None})


def test_after_a_restart_the_set_up_cell_comes_first():
    with pytest.raises(WrongAnswer, match="✗ f: run the set-up cell at the top first.*\n.*`not_there` is not defined"):
        exec("with check('f') as c:\n    c.call(not_there, 1)", {"check": check})


@pytest.mark.parametrize("sentence", ["a b " * 60, "x" * 100])
def test_printed_lines_fit_into_a_notebook(sentence, capsys):
    say(sentence)
    lines = capsys.readouterr().out.splitlines()
    assert " ".join(lines).strip() == sentence.strip() and all(len(line) <= 72 or " " not in line for line in lines)


def test_html_of_a_message():
    """Its first line in bold, without the name of the exercise; a section that does not exist is no link."""
    error = WrongAnswer("a < b", look='lesson 99, section "1 · No"', table=["    1  <2"], folded=["The call was f(x)."])
    html = error._repr_html_()
    assert "<b>a &lt; b.</b></div><div>→ Where to look: lesson 99, section &quot;1 · No&quot;.</div>" in html
    assert "✗" not in html and "white-space:pre-wrap" in html
    assert html.startswith('<div class="mathjax_ignore" ')  # what is between two dollars is no formula
    assert re.search(r'<div style="white-space:pre;[^"]*">\n    1  &lt;2</div>', html)  # a table keeps its columns
    assert html.endswith("<details><summary>The call</summary><div>The call was f(x).</div></details></div>")


def test_sections_are_links(monkeypatch):
    root = layout.checkout()
    if root is None:
        pytest.skip("needs a checkout: the sections are in its notebooks")
    monkeypatch.chdir(root / "exercises")
    html = WrongAnswer('wrong: see lesson 01, section "2 · Forward", or ask')._repr_html_()
    link = re.search(
        r'<a href="\.\./notebooks/01_layernorm\.ipynb#cell-id=([\w-]+)">lesson 01, section &quot;2 ·', html
    )
    cells = {cell.id: cell.source for cell in catalog.cells_of(root / "notebooks" / "01_layernorm.ipynb")}
    assert "## 2 · Forward" in cells[link[1]] and html.endswith("</a>, or ask.</b></div></div>")


def test_plain_asserts():
    with pytest.raises(WrongAnswer, match="✗ f: too slow"):
        with check("f"):
            raise AssertionError("too slow")


def test_keyboard_interrupt_goes_through():
    with pytest.raises(KeyboardInterrupt):
        with check("f"):
            raise KeyboardInterrupt


def test_message_without_traceback():
    lines = WrongAnswer("first\nsecond")._render_traceback_()
    assert lines == ["\x1b[1mfirst\x1b[0m", "second."]


def test_import_is_light():
    heavy = ("IPython", "matplotlib", "nbformat", "torch")
    code = f"import sys, llmc.course; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("got", "says"),
    [
        (A.reshape(6, 2), "the numbers are right, reshape them"),
        (A.T.reshape(6, 2), r"`.transpose\(1, 0\)`|expected"),
        (A[:, None], "an axis of length 1 is too much or out of place"),
        (np.zeros((3, 4, 3, 4)), "it has one value for each index of axes 0 and 1"),
        (A * 1.00009, "wrong values"),
        (A[:2], r"expected \(3, 4\)\.$"),
    ],
)
def test_shapes_and_near_misses(got, says):
    assert re.search(says, message(got))


def test_axes_that_must_be_moved_before_a_reshape():
    heads = RNG.normal(0, 1, (2, 3, 4, 5))  # (B, NH, T, hs)
    merged = heads.transpose(0, 2, 1, 3).reshape(2, 4, 15)
    assert "`.transpose(0, 2, 1, 3).reshape(2, 4, 15)` makes it right" in message(heads, merged)


def test_an_infinite_entry_must_be_infinite():
    expected = np.array([[1.0, -np.inf], [2.0, 3.0]])
    compare("scores", expected.copy(), expected)
    with pytest.raises(WrongAnswer, match="1 of 4 entries"):
        compare("scores", np.array([[1.0, -1e9], [2.0, 3.0]]), expected)


def test_a_single_number_is_told_as_one():
    with pytest.raises(WrongAnswer, match="expected 2, got 3 "):
        compare("loss", np.float64(3.0), np.float64(2.0))


def test_a_matrix_product_that_does_not_fit_is_explained():
    def multiply(a, b):
        return a @ b

    with pytest.raises(WrongAnswer, match="last axis of a must be as long"), check("toy") as c:
        c.call(multiply, np.ones((3, 4)), np.ones((3, 4)))
