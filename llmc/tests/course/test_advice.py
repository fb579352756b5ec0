"""What a message says rests on what the run has shown: numbers, source, other calls."""

from pathlib import Path

import numpy as np
import pytest

from llmc.course import check, compare
from llmc.course.lessons import layernorm as lesson
from llmc.course.old.checks.copies import written_to_a_copy
from llmc.course.old.checks.explain import WrongAnswer
from llmc.course.old.checks.python_loops import in_python
from llmc.course.old.checks.text import lines_that_make
from llmc.course.old.mutants.learners import learners
from llmc.course.old.mutants.replay import Replay
from llmc.course.old.mutants.traced import Trace

pytestmark = pytest.mark.usefixtures("not_recorded")

ROOT = Path(__file__).resolve().parents[3]
RNG = np.random.default_rng(0)
A = RNG.normal(size=(3, 4, 5))
NEW = "x goes from -300 to 300"


def message(got, expected, **options):
    with pytest.raises(WrongAnswer) as caught:
        compare("out", got, expected, **options)
    return str(caught.value)


def test_what_is_new_in_a_call_is_said_where_nothing_is_found():
    fact = f"The calls before this one were right; what is new here: {NEW}."
    assert fact in message(A + RNG.normal(size=A.shape), A, new=NEW)
    assert fact in message(A, 2 * A + 1, before=A, new=NEW)  # never written
    assert fact in message(np.where(A > 0, np.nan, A), A, new=NEW)
    assert fact not in message(A**2, A, known={"the square": A**2}, new=NEW)
    assert "calls before" not in message(A**2, A)


def test_what_a_buffer_held_was_multiplied_too():
    held, factor = RNG.uniform(1, 2, A.shape), RNG.uniform(2, 3, (3, 4, 1))
    told = message(held * factor + A, A, added_to=held)
    assert "what out held was multiplied by another number in each row" in told
    assert "was multiplied by 0.5, and must stay as it is: multiply only what you add" in message(
        held / 2 + A, A, added_to=held
    )
    kept = np.array([1, 0, 1, 1])[:, None]  # one row of each four was overwritten
    assert "multiplied" not in message(kept * held + A, A, added_to=held)
    assert "multiplied" not in message(held + 1.1 * A + 0.3, A, added_to=held)


def test_a_known_mistake_that_makes_nan_is_named():
    lost = np.where(A > 1, np.nan, A)
    told = message(lost, A, known={"the reference without eps": lost, "another": np.where(A > 0, np.nan, A)})
    assert told.startswith("out equals the reference without eps.\nout has ")
    two = {"the reference without eps": lost, "the reference twice": lost}
    assert "without eps" not in message(lost, A, known=two)  # which of them is it?
    assert "another" not in message(lost, A, known={"another": np.where(A > 0, np.nan, A)})


def test_wrong_entries_that_are_zero():
    got = A.copy()
    got[:, 2:] = 0
    assert "Each wrong entry is 0." in message(got, A)


def test_each_wrong_entry_means_all_of_them():
    got = A.copy()
    got[0, 0, :3] += 1
    got[2, 1, 4] += 1
    assert "Each wrong entry is the right one plus 1." in message(got, A)
    got[2, 1, 4] -= 2
    assert "Each wrong entry" not in message(got, A)


def test_shapes_with_their_axes_in_another_order():
    assert "Its axes 0 and 1 are exchanged: `.swapaxes(0, 1)` is missing" in message(A.swapaxes(0, 1), A)
    assert "Every position was paired with every other." in message(np.zeros((5, 5)), np.ones(5))


def by_one_bracket_too_many(flat, tokens):
    flat[np.arange(5)][:, tokens] = 1


def by_flattening(out, x):
    out.flatten()[:] = x


def by_a_mask(out, x):
    out[x > 0][0] = 1


def by_an_array_of_indices(params, lr):
    for a in range(0, len(params), 4):
        i = np.arange(a, min(a + 4, len(params)))
        p, rate = params[i], lr
        p -= rate


def with_a_copy_that_is_stored(params, lr):
    i = np.flatnonzero(params)
    p = params[i]
    p -= lr
    params[i] = p


def by_a_slice_laid_out_anew(out, x):
    flat = out[:, :2].ravel()
    flat[...] = x
    out[:, 2:] = 0


def by_rows_of_ids(out, x, ids):
    for row in ids:
        picked = out[row]
        picked += x


def in_a_view(out, x):
    flat = out[:2].ravel()
    flat[...] = x


def with_a_copy_that_is_read(out, x):
    flat = out[:, :2].ravel()
    flat += x
    out[:, 0] = flat.sum()


def traced(function, *arguments):
    return Trace.of(learners(function), Replay.of(arguments, {}))


def test_copies_that_only_a_call_shows():
    out, ids = np.zeros((3, 4)), np.array([[0, 2]])
    trace = traced(by_a_slice_laid_out_anew, out, 1.0)
    assert "`out[:, :2].ravel()` makes a new array" in written_to_a_copy(by_a_slice_laid_out_anew, trace)
    assert "`out[row]` makes a new" in written_to_a_copy(by_rows_of_ids, traced(by_rows_of_ids, out, 1.0, ids))
    for right in (in_a_view, with_a_copy_that_is_read):
        assert written_to_a_copy(right, traced(right, out, 1.0)) is None


def with_a_running_sum(z, x):
    n, s = len(z), 0.0
    for each in z:
        s += np.exp(each - x)
    return np.log(s) / n


def test_lines_that_make_what_a_piece_is_made_of():
    told = lines_that_make(with_a_running_sum, "the term `np.log(s)` in `np.log(s) / n`")
    assert told == ["`s += np.exp(each - x)`"]
    assert lines_that_make(with_a_running_sum, "the factor `np.exp(x)`") == []
    assert lines_that_make(with_a_running_sum, "the line `np.log( … x)`") == []


def rightly(out, x):
    out.reshape(-1)[x > 0] = 1
    out[0][1] = 2
    out.T[:] += 1


def test_writes_into_copies():
    told = "writes into a copy, which is lost: `flat[np.arange(5)]` makes a new array."
    assert told in written_to_a_copy(by_one_bracket_too_many)
    assert "`out.flatten()` makes a new array" in written_to_a_copy(by_flattening)
    assert "`out[x > 0]` makes a new array" in written_to_a_copy(by_a_mask)
    assert "`p -= rate` writes into a copy, which is lost: `params[i]`" in written_to_a_copy(by_an_array_of_indices)
    assert written_to_a_copy(with_a_copy_that_is_stored) is None
    assert written_to_a_copy(rightly) is None and written_to_a_copy(np.add) is None


def by_turns(x):
    return np.vectorize(abs)(x)


def test_loops_that_numpy_hides():
    assert in_python(by_turns) and not in_python(rightly)


# ------------------------------------------------------------------------------- with our solution to compare with

needs_solutions = pytest.mark.skipif(not (ROOT / "solutions").is_dir(), reason="needs a checkout with the solutions")


def said(exercise, function, quiet=1.0):
    """The message of a check of lesson 01 that knows no mistake by name. quiet: what its first row is multiplied by."""
    with pytest.raises(WrongAnswer) as caught, np.errstate(all="ignore"), check(exercise) as c:
        x, w, b, dout = (c.random(*shape) for shape in [(3, 5, 7), (7,), (7,), (3, 5, 7)])
        x[0, 0] *= quiet
        out, mean, rstd = right = lesson.forward(x, w, b)
        if exercise == "layernorm_forward":
            names, results = right._fields, c.call(function, x, w, b)
        else:
            right = lesson.backward(dout, x, w)
            names, results = right._fields, c.call(function, dout, x, w, mean, rstd)
        for name, got, expected in zip(names, results, right):
            compare(name, got, expected)
    return str(caught.value)


def backward_in_another_order(dout, x, w, mean, rstd):
    norm, dnorm = (x - mean[..., None]) * rstd[..., None], dout * w
    dx = dnorm - dnorm.mean(-1, keepdims=True) - norm * (dnorm * norm).mean(-1, keepdims=True)
    return dx * rstd[..., None], dout.sum((0, 1)), (dout * norm).sum((0, 1))


def forward_without_eps(x, w, b, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True))
    return (x - mean) * rstd * w + b, mean[..., 0], rstd[..., 0]


def forward_with_one_array(x, w, b, eps=1e-5):
    out, mean = x.copy(), np.zeros(x.shape[:2])
    rstd = mean
    for at in np.ndindex(mean.shape):
        mean[at] = x[at].mean()
        out[at] = x[at] - mean[at]
        rstd[at] = 1 / np.sqrt((out[at] ** 2).mean() + eps)
        out[at] = out[at] * rstd[at] * w + b
    return out, mean, rstd


@needs_solutions
def test_one_array_with_two_names():
    assert "mean and rstd are one and the same array" in said("layernorm_forward", forward_with_one_array)


@needs_solutions
def test_results_in_another_order():
    told = said("layernorm_backward", backward_in_another_order)
    assert "dw holds what belongs in the third result." in told


@needs_solutions
def test_the_change_that_makes_the_same_nan():
    told = said("layernorm_forward", forward_without_eps, quiet=0.0)
    assert "becomes infinite, and `(x - mean) * rstd` makes NaN of that" in told
    assert "Our solution gives the same without the term `eps` in" in told


@needs_solutions
def test_other_results_of_another_call_are_not_told():
    def same(x, w, b, eps=1e-5):
        mean = x.mean(-1)
        rstd = 1 / np.sqrt(x.var(-1) + eps)
        many = 0.1 * np.sin(np.arange(rstd.size)).reshape(rstd.shape) * (rstd.size > 100)
        return (x - mean[..., None]) * rstd[..., None] * w + b, mean, rstd + many

    with pytest.raises(WrongAnswer) as caught, check("layernorm_forward") as c:
        for B in (2, 40):
            x, w, b = c.random(B, 40, 300), c.random(300), c.random(300)
            out, mean, rstd = c.call(same, x, w, b)
            compare("rstd", rstd, lesson.forward(x, w, b).rstd)
    assert "rstd has wrong values" in str(caught.value) and "right in the same call" not in str(caught.value)
