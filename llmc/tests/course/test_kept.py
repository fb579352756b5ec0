"""What a function keeps between calls, and inputs rounded to 16 bits, are traced by the numbers alone."""

from pathlib import Path

import numpy as np
import pytest

from llmc.course import check, compare
from llmc.course.learner import journal
from llmc.course.lessons import matmul as lesson
from llmc.course.old.checks import check as check_cell
from llmc.course.old.checks.explain import WrongAnswer

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.skipif(not (ROOT / "solutions").is_dir(), reason="needs a checkout with the solutions")


@pytest.fixture(autouse=True)
def same_numbers(monkeypatch):
    monkeypatch.setattr(check_cell, "_seed", 1)


def said(function):
    """The message after at most three calls on one shape with other numbers."""
    was = journal.recording(False)
    try:
        with pytest.raises(WrongAnswer) as caught, check("matmul_forward") as c:
            for _ in range(3):
                x, w, b = (c.random(*shape, dtype=np.float32) for shape in [(5, 7), (4, 7), (4,)])
                compare("out", c.call(function, x, w, b), lesson.forward(x, w, b), rtol=1e-6)
    finally:
        journal.recording(was)
    return str(caught.value).splitlines()[0]


def test_an_argument_of_an_earlier_call():
    held = {}

    def function(x, w, b):
        return np.einsum("ni,oi->no", x, held.setdefault(w.shape, w.copy())) + b

    assert "that our solution gives with `w` of an earlier call: what does your function keep" in said(function)


def test_a_sum_over_all_calls():
    total = np.zeros((5, 4), np.float32)

    def function(x, w, b):
        total[...] += np.einsum("ni,oi->no", x, w) + b
        return total.copy()

    assert "out grows by the right values whenever the same call is made again: what your function" in said(function)


def test_the_sum_with_the_call_before():
    last = [0.0]

    def function(x, w, b):
        now = np.einsum("ni,oi->no", x, w) + b
        last[:], before = [now], last[0]
        return now + before

    assert "gives plus those of the call before: what your function keeps" in said(function)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_rounded_inputs(name):
    import ml_dtypes

    dtype = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}[name]

    def function(x, w, b):
        x, w, b = (array.astype(dtype).astype(np.float32) for array in (x, w, b))
        return np.einsum("ni,oi->no", x, w) + b

    assert f"gives when `x`, `w` and `b` are rounded to {name}" in said(function)


def test_an_unrelated_mistake_is_not_put_down_to_memory():
    assert "earlier" not in said(lambda x, w, b: np.einsum("ni,oi->no", x * x, w) + b)
