"""`check`, `compare` and `gradient_check`: what they accept and what they say."""

import re
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest

from llmc.backends.reference import gelu_forward
from llmc.course import WrongAnswer, check, compare, gradient_check
from llmc.course.exercises import catalog, layout

pytestmark = pytest.mark.usefixtures("not_recorded")

RNG = np.random.default_rng(0)
A = RNG.normal(3, 2, (3, 4))
SQUARE = RNG.normal(size=(4, 4))
HEADS = RNG.normal(0, 1, (2, 3, 4, 5))  # (B, NH, T, hs)


def message(got, expected=A, **options):
    with pytest.raises(WrongAnswer) as caught:
        compare("dx", got, expected, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("got", "expected", "options"),
    [
        (A * (1 + 1e-9), A, {}),
        (A + 1.0, np.ones_like(A), {"added_to": A}),
        (1.5, np.float64(1.5), {}),
        (np.array([1.0, -np.inf]), np.array([1.0, -np.inf]), {}),
    ],
)
def test_right_passes(got, expected, options):
    compare("dx", got, expected, **options)


@pytest.mark.parametrize(
    ("got", "says"),
    [
        (None, "dx is None"),
        ([1, 2], "should be a NumPy array, but is a list of 2"),
        (A[..., None], "the last axis has length 1; drop it with [..., 0]."),
        (A[:, None], "an axis of length 1 is superfluous or out of place"),
        (A.T, "its axes are in a different order, and `.transpose(1, 0)` makes it right"),
        (A.reshape(6, 2), "the numbers are right; reshape them"),
        (A[None] * np.ones((2, 1, 1)), "it still has to be averaged over its axis 0, of length 2."),
        (A[None] * [[[3.0]], [[-2.0]]], "it still has to be summed over its axis 0, of length 2."),
        (A.sum(0), "axis 0 of what is expected is missing: your result is the sum over it."),
        (A[0], "axis 0 of what is expected is missing: your result is what belongs at its index 0."),
        (np.zeros((3, 4, 3, 4)), "it has one value for each index of axes 0 and 1"),
        (A[:2], "expected (3, 4)."),
        (A.astype(np.float32), "dtype float32, expected float64"),
        (np.where(A > 3, np.nan, A), "7 of 12 entries are NaN, the first at [0, 0]."),
        (-A, "wrong sign"),
        (A * 0.1234, "0.1234 times"),
        (A * 1.00009, "wrong values"),
        (np.zeros_like(A), "all zeros"),
        (A + 5.0, "off by the same amount everywhere"),
        (np.where(np.arange(12).reshape(3, 4) == 6, 77.0, A), "1 of 12 entries is wrong:"),
    ],
)
def test_a_mistake_is_named(got, says):
    assert says in message(got)


@pytest.mark.parametrize(
    ("got", "expected", "says"),
    [
        (SQUARE.T, SQUARE, "axes 0 and 1 are swapped"),
        (HEADS, HEADS.transpose(0, 2, 1, 3).reshape(2, 4, 15), "`.transpose(0, 2, 1, 3).reshape(2, 4, 15)` makes it"),
        (np.array([1.0, -1e9]), np.array([1.0, -np.inf]), "1 of 2 entries"),
        (np.float64(3.0), np.float64(2.0), "expected 2, got 3 "),
    ],
)
def test_a_mistake_that_depends_on_what_is_expected_is_named(got, expected, says):
    assert says in message(got, expected)


OLD = RNG.normal(size=(3, 4))  # what is in a buffer before the call


@pytest.mark.parametrize(
    ("got", "options", "says"),
    [
        (A, {"added_to": OLD}, "overwritten instead of accumulated"),
        (OLD, {"added_to": OLD}, "never written"),
        (OLD + 2 * A, {"added_to": OLD}, "what was added to dx is 2 times"),
        (OLD + A**2, {"added_to": OLD, "known": {"the square": A**2}}, "what was added to dx equals the square."),
        (OLD + A, {"before": OLD}, "accumulated where it should be overwritten"),
        (np.vstack([A[:2], OLD[2:]]), {"before": OLD}, "part of dx is as it was before the call: 4 of 12"),
    ],
)
def test_what_went_wrong_with_a_buffer_is_named(got, options, says):
    assert says in message(got, **options)


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


@pytest.mark.parametrize(
    ("function", "gradient", "dout", "says"),
    [
        (lambda x: (x, x), A, None, "returned 2 values"),
        (f, A[0], None, "has the shape of its variable"),
        (f, A, A[0], "must be the same"),
        (f, A * np.nan, None, "wrong values|NaN"),
        (f, -df(A), None, "wrong sign"),
    ],
)
def test_gradient_check_explains_what_is_wrong(function, gradient, dout, says):
    with pytest.raises(WrongAnswer, match=says):
        gradient_check(function, A, gradient, dout=dout)


def stub(x):
    raise NotImplementedError


@pytest.mark.parametrize(("answer", "says"), [(stub, "not done yet: f."), (f, "✓ f is right.\n")])
def test_a_stub_is_not_done_yet_and_a_right_answer_is_right(answer, says, capsys):
    with check("f") as c:
        x = c.random(2, 3)
        compare("y", c.call(answer, x), f(x))
    assert capsys.readouterr().out.startswith(says)


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


def writes(x):
    x += 1


def unlocks(x):
    x.flags.writeable = True


def borrows(x):
    gelu_forward(x.copy(), x)


def multiplies(x):
    return x @ np.ones((4, 3))


@pytest.mark.parametrize(
    ("function", "argument", "says"),
    [
        (writes, np.ones(3), "Inputs must stay as they are"),
        (unlocks, np.ones(3), "ValueError"),
        (borrows, np.ones(3), "your code uses llmc.backends.reference.gelu_forward"),
        (multiplies, np.ones((4, 3)), "last axis of "),
        (lambda: 1, np.ones(3), "your function cannot be called with these arguments"),
    ],
)
def test_what_an_answer_may_not_do(function, argument, says):
    assert says in run(function, argument)
    assert sys.getprofile() is None


def test_a_write_behind_a_buffer_is_told():
    with pytest.raises(WrongAnswer, match="1 elements after it"), check("f") as c:
        c.call(lambda y: np.lib.stride_tricks.as_strided(y, (4,)).__setitem__(3, 1.0), c.buffer(3))


def test_results_of_earlier_calls_must_not_change():
    shared = np.zeros(3)

    def reuses(x):
        shared[:] = x
        return shared

    with pytest.raises(WrongAnswer, match="make a new array in every call"), check("f") as c:
        c.call(reuses, c.random(3))
        c.call(reuses, c.random(3))


def test_llmc_is_in_reach_through_what_the_notebook_gives_alone():
    def given(x):
        gelu_forward(x.copy(), x)

    def cheats(x):
        given(x)
        gelu_forward(x.copy(), x)

    for answer, verdict in ((given, nullcontext()), (cheats, pytest.raises(WrongAnswer, match="your code uses"))):
        with verdict, check("f") as c:
            c.may_call(given)
            c.call(lambda x, answer=answer: answer(x), np.ones(3))


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


def test_code_that_cannot_take_read_only_arrays_gets_copies():
    import numba

    signature = "void(float64[::1], float64[::1])"

    @numba.njit(signature)
    def clears(y, x):
        y[0] += 1
        x[1] = 0

    for wrong, says in (
        (clears, r"in clears, line \d+:  x\[1\] = 0"),
        (lambda y, x: clears(y, x), r"your code changed `x` \(3,\) float64"),
    ):
        with pytest.raises(WrongAnswer, match=f"(?s){says}.*Inputs must stay as they are"), check("f") as c:
            x = c.random(3)
            kept = x.copy()
            try:
                c.call(wrong, c.buffer(3), x)
            finally:
                assert (x == kept).all()


def unknown(y, x):
    y[:] = not_there  # noqa: F821


def clears_input(y, x):
    x[0] = 1


@pytest.mark.parametrize(("kernel", "says"), [(unknown, "not_there"), (clears_input, "n input was written to")])
def test_what_numba_cannot_compile_is_explained(kernel, says):
    import numba

    with pytest.raises(WrongAnswer, match=says) as error, check("f") as c:
        c.call(numba.njit(kernel), c.buffer(3), c.random(3))
    assert len(str(error.value).splitlines()) <= 4


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ({"hint": None}, "Run the cell with your answer first"),
        ({}, "✗ f: run the set-up cell at the top first.*\n.*`not_there` is not defined"),
    ],
    ids=["answer cell", "set-up cell"],
)
def test_a_cell_that_was_not_run_is_asked_for(names, says):
    with pytest.raises(WrongAnswer, match=says):
        exec("with check('f') as c:\n    c.call(not_there, 1)", {"check": check, **names})


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
    link = re.search(r'<a href="../notebooks/01_layernorm.ipynb#cell-id=([\w-]+)">lesson 01, section &quot;2 ·', html)
    cells = {cell.id: cell.source for cell in catalog.cells_of(root / "notebooks" / "01_layernorm.ipynb")}
    assert "## 2 · Forward" in cells[link[1]] and html.endswith("</a>, or ask.</b></div></div>")


def test_import_is_light():
    heavy = {"IPython", "PIL", "matplotlib", "nbformat", "torch"}
    code = f"import sys, llmc.course.figures; print(*{heavy} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
