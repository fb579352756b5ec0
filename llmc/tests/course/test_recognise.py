"""Wrong numbers are traced to a change of the solution, however the learner's code is written."""

import ast
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from llmc.course import check, compare
from llmc.course.learner import journal
from llmc.course.lessons import layernorm as lesson
from llmc.course.old.checks.explain import WrongAnswer
from llmc.course.old.mutants import search
from llmc.course.old.mutants.arrays import arrays, changed
from llmc.course.old.mutants.learners import learners

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.skipif(not (ROOT / "solutions").is_dir(), reason="needs a checkout with the solutions")


@pytest.fixture(autouse=True)
def not_recorded():
    was = journal.recording(False)
    yield
    journal.recording(was)


def backward(dout, x, w, mean, rstd, means=None, last=1.0):
    """Row by row, unlike the solution; means: whose mean is taken where that of dnorm belongs."""
    dx, dw, db = np.empty_like(x), np.zeros_like(w), np.zeros_like(w)
    for at in np.ndindex(x.shape[:2]):
        norm = (x[at] - mean[at]) * rstd[at]
        dnorm = dout[at] * w
        first = (dnorm if means is None else means(dout[at], norm)).mean()
        dx[at] = rstd[at] * (dnorm - first - last * norm * np.dot(dnorm, norm) / len(norm))
        dw += dout[at] * norm
        db += dout[at]
    return dx, dw, db


def said(function, dtype=np.float64):
    """The message of a check that knows no mistake by name."""
    with pytest.raises(WrongAnswer) as caught, check("layernorm_backward") as c:
        x, w, b, dout = (c.random(*s, dtype=dtype) for s in [(3, 5, 7), (7,), (7,), (3, 5, 7)])
        out, mean, rstd = lesson.forward(x, w, b)
        results = c.call(function, dout, x, w, mean, rstd)
        for name, got, expected in zip(("dx", "dw", "db"), results, lesson.backward(dout, x, w)):
            compare(name, got, expected.astype(dtype))
    return str(caught.value)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_mistake_in_another_style(dtype):
    told = said(lambda *args: backward(*args, means=lambda dout, norm: dout), dtype)
    assert "dx has the values that our solution gives with `dout` in place of `dnorm` in" in told


def test_two_mistakes_at_once():
    told = said(lambda *args: backward(*args, means=lambda dout, norm: 0 * dout, last=-1.0))
    assert "our solution gives without the term `through_mean`" in told and " and with + in place of -" in told


def test_nothing_is_claimed_about_other_numbers():
    told = said(lambda *args: backward(*args, last=1.01))
    assert "our solution" not in told and "dx has wrong values" in told


def test_a_result_that_was_written_to_a_buffer():
    def accumulate(dx, dw, db, dout, x, w, mean, rstd):
        for buffer, added in zip((dx, dw, db), backward(dout, x, w, mean, rstd, means=lambda dout, norm: dout)):
            buffer += added

    with pytest.raises(WrongAnswer) as caught, check("layernorm_backward_accumulate") as c:
        x, w, b, dout = c.random(3, 5, 7), c.random(7), c.random(7), c.random(3, 5, 7)
        dx, dw, db = c.buffer(3, 5, 7), c.buffer(7), c.buffer(7)
        dx0 = dx.copy()
        out, mean, rstd = lesson.forward(x, w, b)
        c.call(accumulate, dx, dw, db, dout, x, w, mean, rstd)
        compare("dx", dx, lesson.backward(dout, x, w).dx, added_to=dx0)
    assert "Your function gives the right dx with `dnorm`" in str(caught.value)


def test_a_part_of_a_result():
    with pytest.raises(WrongAnswer) as caught, check("layernorm_backward") as c:
        x, w, b, dout = c.random(3, 5, 7), c.random(7), c.random(7), c.random(3, 5, 7)
        out, mean, rstd = lesson.forward(x, w, b)
        dx, dw, db = c.call(lambda *args: backward(*args, last=0.0), dout, x, w, mean, rstd)
        compare("the second half of dx", dx[..., 3:], lesson.backward(dout, x, w).dx[..., 3:])
    assert "our solution gives without the term `through_rstd`" in str(caught.value)


def with_tanh(dout, x, w, mean, rstd):
    norm, dnorm = (x - mean[..., None]) * rstd[..., None], dout * w
    through_rstd = np.tanh(norm) * (dnorm * norm).mean(axis=-1, keepdims=True)
    dx = rstd[..., None] * (dnorm - dnorm.mean(axis=-1, keepdims=True) - through_rstd)
    return dx, (dout * norm).sum(axis=(0, 1)), dout.sum(axis=(0, 1))


def test_the_change_that_mends_the_learners_own_function():
    told = said(with_tanh)
    assert "dx has wrong values.\nYour function gives the right dx without tanh in `np.tanh(norm)`." in told


def spoils(dout, x, w, mean, rstd):
    """One change of `squares` mends dx and spoils dw, another mends dx alone."""
    norm, dnorm = (x - mean[..., None]) * rstd[..., None], dout * w
    squares = np.sinh(norm)
    dw = (dout * np.arcsinh(squares)).sum(axis=(0, 1))
    through_rstd = squares * (dnorm * norm).mean(axis=-1, keepdims=True)
    return (
        rstd[..., None] * (dnorm - dnorm.mean(axis=-1, keepdims=True) - through_rstd),
        dw,
        dout.sum(axis=(0, 1)),
    )


def test_a_change_that_spoils_another_result_is_no_cure():
    told = said(spoils)
    assert "Your function gives the right dx with `norm` in place of `squares` in `squares * " in told


def with_the_spread(dout, x, w, mean, rstd):
    norm, dnorm = (x - mean[..., None]) * rstd[..., None], dout * w
    dx = rstd[..., None] * (dnorm - dnorm.mean(axis=-1, keepdims=True) - norm * dnorm.std(axis=-1, keepdims=True))
    return dx, (dout * norm).sum(axis=(0, 1)), dout.sum(axis=(0, 1))


def test_a_wrong_piece_is_placed_opposite_to_the_right_one():
    told = said(with_the_spread)
    term = "the term `norm * dnorm.std(axis=-1, keepdims=True)`", "Our solution has the term `through_rstd` in"
    factor = "the factor `dnorm.std(axis=-1, keepdims=True)`", "Our solution has the factor `(dnorm * norm).mean("
    pairs = ((f"The mistake is in {yours}", f"all else is right. {ours}") for yours, ours in (term, factor))
    assert any(yours in told and ours in told for yours, ours in pairs)


def stream(dout, x, w, both):
    """`residual_stream_backward` with both(d, slope, w) for what a block passes on."""
    d = [dout]
    for k in reversed(range(len(x))):
        h = np.tanh(x[k] @ w[k].T)
        d.insert(0, both(d[0], 1 - h * h, w[k]))
    return np.array(d)


def of_the_stream(function):
    """The message about it of a check that knows no mistake by name."""
    with pytest.raises(WrongAnswer) as caught, check("residual_stream_backward") as c:
        dout, x, w = c.random(5, 3), c.random(4, 5, 3), c.random(4, 3, 3)
        d = c.call(function, dout, x, w)
        compare("d", d, stream(dout, x, w, lambda d, slope, w: d + (d * slope) @ w))
    return str(caught.value)


def test_a_bracket_that_spans_too_much():
    told = of_the_stream(lambda *args: stream(*args, lambda d, slope, w: (d + d * slope) @ w))
    assert "that our solution gives with `(d[k + 1] + dh) @ w[k]` in place of `d[k + 1] + dh @ w[k]`." in told


def too_much_in_the_brackets(dout, x, w):
    d = np.empty((len(x) + 1, *dout.shape))
    d[-1] = dout
    for k in reversed(range(len(x))):
        h = np.tanh(x[k] @ w[k].T)
        both = d[k + 1] + d[k + 1] * (1 - h * h)
        d[k] = both @ w[k]
    return d


def test_no_piece_is_blamed_that_another_may_stand_for(monkeypatch):
    monkeypatch.setattr("llmc.course.old.mutants.brackets._brackets", lambda term: ())  # as if we knew no such change
    with search.hurried(20):  # far more time than usual: the machine may do other things, too
        told = of_the_stream(too_much_in_the_brackets)
    assert "the term `1`" not in told
    assert (
        "The mistake is in the term `d[k + 1]`, in the line `both = d[k + 1] + d[k + 1] * (1 - h * h)`, in its" in told
    )
    assert "all else is right. Our solution has the same term, but in another place, or with other numbers in" in told


CELL = """
with check("layernorm_backward") as c:
    for spread in (1.0, 30.0):
        x, w, dout = spread * c.random(3, 5, 7), c.random(7), c.random(3, 5, 7)
        out, mean, rstd = lesson.forward(x, w, c.random(7))
        dx, dw, db = c.call(layernorm_backward, dout, x, w, mean, rstd)
        compare("dx", dx, lesson.backward(dout, x, w).dx)
"""


def said_by_the_cell(function, of=check):
    """The message of the cell of a check, which can run again."""
    names = {"check": of, "compare": compare, "lesson": lesson, "layernorm_backward": function}
    with pytest.raises(WrongAnswer) as caught:
        exec(compile(CELL, "<cell>", "exec"), names)
    return str(caught.value)


def right_by_chance(dout, x, w, mean, rstd):
    """`with_tanh` for rows of little spread, and twice that for others, which only further calls have."""
    norm, dnorm = (x - mean[..., None]) * rstd[..., None], dout * w
    through_rstd = np.tanh(norm) * (dnorm * norm).mean(axis=-1, keepdims=True)
    dx = rstd[..., None] * (dnorm - dnorm.mean(axis=-1, keepdims=True) - through_rstd)
    if rstd.max() > 0.2:
        return dx, (dout * norm).sum(axis=(0, 1)), dout.sum(axis=(0, 1))
    return 2 * dx, (dout * norm).sum(axis=(0, 1)), dout.sum(axis=(0, 1))


def test_a_change_must_mend_calls_on_other_numbers_too():
    assert "Your function gives the right dx without tanh" in said_by_the_cell(with_tanh)
    assert "without tanh" in said(right_by_chance)
    assert "without tanh" not in said_by_the_cell(right_by_chance)


def test_the_cell_runs_again_in_silence(capsys):
    names = []

    class Loud(check):
        def __init__(self, name):
            names.append(name)
            super().__init__(name)

    said_by_the_cell(with_tanh, Loud)
    assert len(names) == 2 and capsys.readouterr().out == ""


def test_a_search_ends(monkeypatch):
    monkeypatch.setattr(search, "SECONDS", 0.0)
    assert "solution" not in said(with_tanh)


def test_one_sequence_for_all():
    told = said(lambda dout, *others: backward(np.repeat(dout[:1], 3, axis=0), *others))
    assert "with index 0 of axis 0 of `dout` in place of every other" in told


def test_printing_is_done_once(capsys):
    said(prints)
    assert capsys.readouterr().out.count("here") == 1


def prints(dout, x, w, mean, rstd):
    print("here")
    return with_tanh(dout, x, w, mean, rstd)


def writes(x):
    np.save("x.npy", x)
    return x


def calls(x):
    return writes(x)


def imports(x):
    import os

    return os.listdir(x)


def opens(x):
    return open(x)


def finds_a_path(x):
    return Path(x)


@pytest.mark.parametrize("function", [writes, calls, imports, opens, finds_a_path, np.sin, len])
def test_a_function_that_does_more_than_compute_is_not_changed(function):
    assert learners(function) is None


_sums = np.zeros(4)
_first = {}


def never_cleared(x):
    _sums[:] += x
    return _sums.copy()


def by_chance(x):
    return x + np.random.default_rng().normal(size=x.shape)


def by_shape(x):
    return _first.setdefault(x.shape, x.copy()).copy()


@pytest.mark.parametrize(
    "function, words",
    [
        (never_cleared, "grows by the right values whenever the same call is made again"),
        (by_chance, "has other values when the same call is made again"),
        (by_shape, "is what an earlier call gave, for other numbers"),
    ],
)
def test_what_remains_between_calls(function, words):
    with pytest.raises(WrongAnswer) as caught, check("none") as c:
        for x in (c.random(4), c.random(4)):
            compare("y", c.call(function, x), x)
    assert f"y {words}" in str(caught.value)


def test_results_in_another_order():
    def swapped(*args):
        dx, dw, db = backward(*args)
        return dw, dx, db

    assert "belongs in the second result: are the results in another order?" in said(swapped)


@pytest.mark.parametrize("axis, number", [(3, 0), (0, 11)])
def test_no_change_of_an_array(axis, number):
    with pytest.raises((ValueError, TypeError)):
        changed(np.ones((2, 2), int), number, axis)


def test_the_tree_is_whole_after_changes_of_arrays():
    tree = ast.parse("def f(x, out):\n    y = x * x\n    out += y")
    before = ast.dump(tree)
    with closing(arrays(tree)) as found:
        words = [next(found) for _ in range(60)]
    assert ast.dump(tree) == before
    assert "with running sums along axis 0 of `x`" in words and "with axis 2 of `y` backwards" in [*arrays(tree)]
    assert not any("`out`" in each for each in arrays(tree))


def test_the_other_results_are_named():
    def three_mistakes(dout, x, w, mean, rstd):
        dx, dw, db = backward(dout, x, w, mean, rstd)
        return np.arctan(dx) * np.exp(x) + np.sinh(dout), np.arctan(dw) ** 3, db

    assert "dx has wrong values.\ndb is right in the same call; dw is wrong, too." in said(three_mistakes)


def renames(dx, dw, db, dout, x, w, mean, rstd):
    gx, gw, gb = backward(dout, x, w, mean, rstd)
    dx += gx
    dw = dw + gw
    db = db.reshape(-1)
    db += gb


def test_a_buffer_whose_name_is_given_to_another_array():
    with pytest.raises(WrongAnswer) as caught, check("layernorm_backward_accumulate") as c:
        x, w, b, dout = c.random(3, 5, 7), c.random(7), c.random(7), c.random(3, 5, 7)
        dx, dw, db = c.buffer(3, 5, 7), c.buffer(7), c.buffer(7)
        held = dw.copy(), db.copy()
        out, mean, rstd = lesson.forward(x, w, b)
        c.call(renames, dx, dw, db, dout, x, w, mean, rstd)
        compare("db", db, lesson.backward(dout, x, w).db, added_to=held[1])
        compare("dw", dw, lesson.backward(dout, x, w).dw, added_to=held[0])
    assert "`dw = dw + gw` gives the name `dw` to another array and leaves the caller's array alone" in str(
        caught.value
    )
    assert "with `dw += …`." in str(caught.value)


class Row:
    """What a learner may compute with, an object."""

    def __init__(self, row):
        self.row = row

    def total(self):
        return self.row.sum()


class Saves(Row):
    def total(self):
        return np.save("row", self.row)


def totals(x):
    return np.array([Row(row).total() for row in x])


def saves_totals(x):
    return np.array([Saves(row).total() for row in x])


def test_a_class_of_the_learners_is_changed_and_run_with_the_function():
    program, x = learners(totals), np.arange(6.0).reshape(2, 3)
    assert np.array_equal(program.function(np.inf)(x), x.sum(axis=1))
    assert "def total(self)" in ast.unparse(program.tree)
    assert learners(saves_totals) is None
