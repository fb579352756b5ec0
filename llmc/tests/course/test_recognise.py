"""Wrong numbers are traced to a change of the solution, however the learner's code is written."""

from pathlib import Path

import numpy as np
import pytest

from llmc.course import check, compare
from llmc.course.checks.explain import WrongAnswer
from llmc.course.learner import journal
from llmc.course.lessons import layernorm as lesson

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
    assert "with `dout` in place of `dnorm`" in str(caught.value)


def test_a_part_of_a_result():
    with pytest.raises(WrongAnswer) as caught, check("layernorm_backward") as c:
        x, w, b, dout = c.random(3, 5, 7), c.random(7), c.random(7), c.random(3, 5, 7)
        out, mean, rstd = lesson.forward(x, w, b)
        dx, dw, db = c.call(lambda *args: backward(*args, last=0.0), dout, x, w, mean, rstd)
        compare("the second half of dx", dx[..., 3:], lesson.backward(dout, x, w).dx[..., 3:])
    assert "our solution gives without the term `through_rstd`" in str(caught.value)
