"""Lesson 07's references against central differences, and its known mistakes: each is wrong, and unlike the others."""

import json
from pathlib import Path

import numpy as np
import pytest

from llmc.config import PRESETS
from llmc.course import awkward, gradient_check
from llmc.course.checks.signatures import same
from llmc.course.lessons.gpt2_model import references as lesson

ROOT = Path(__file__).resolve().parents[3]
RNG = np.random.default_rng(5)
B, T, C, NH = 2, 4, 6, 3
X, DOUT = awkward(RNG, B, T, C), awkward(RNG, B, T, C)
P = lesson.weights(lambda *shape: awkward(RNG, *shape), C)


def test_block_backward_is_the_derivative_of_block_forward():
    dx, g = lesson.block_backward(DOUT, X, P, NH)
    gradient_check(lambda x: lesson.block_forward(x, P, NH)[0], X, dx, DOUT, report=False)
    for name in lesson.PARTS:
        varied = lambda value, name=name: lesson.block_forward(X, P | {name: value}, NH)[0]  # noqa: E731
        gradient_check(varied, P[name], g[name], DOUT, report=False, name=name)


@pytest.mark.parametrize("switch", lesson.FORWARD_SWITCHES)
def test_a_forward_switch_changes_the_block(switch):
    assert not same(lesson.block_forward(X, P, NH)[0], lesson.block_forward(X, P, NH, switch)[0])


@pytest.mark.parametrize("switch", lesson.BACKWARD_SWITCHES)
def test_a_backward_switch_changes_a_gradient(switch):
    dx, g = lesson.block_backward(DOUT, X, P, NH)
    wrong, h = lesson.block_backward(DOUT, X, P, NH, switch)
    assert not same(dx, wrong) or any(not same(g[name], h[name]) for name in g)


def test_no_two_backward_switches_look_alike():
    runs = [lesson.block_backward(DOUT, X, P, NH, switch) for switch in lesson.BACKWARD_SWITCHES]
    flat = [np.concatenate([dx.ravel(), *(g[name].ravel() for name in lesson.PARTS)]) for dx, g in runs]
    assert all(not same(one, other) for i, one in enumerate(flat) for other in flat[:i])


def test_tied_mistakes_are_wrong_and_unlike_each_other():
    dlogits, lnf, dencoded = awkward(RNG, B, T, 7), awkward(RNG, B, T, C), awkward(RNG, B, T, C)
    tokens = np.array([[0, 6, 6, 2], [1, 2, 0, 6]])
    arrays = [lesson.tied_gradient(dlogits, lnf, dencoded, tokens)]
    arrays += [array for array, _ in lesson.tied_mistakes(dlogits, lnf, dencoded, tokens).values()]
    assert all(not same(one, other) for i, one in enumerate(arrays) for other in arrays[:i])


@pytest.mark.parametrize("name", ["d12", "d24", "d36", "d48"])
def test_the_count_is_the_config_s(name):
    c = PRESETS[name]
    assert lesson.count(c.maxT, c.V, c.L, c.C) == c.num_parameters
    assert lesson.explain_count(c.num_parameters, c.maxT, c.V, c.L, c.C) is None
    assert "too many" in lesson.explain_count(c.num_parameters + 1, c.maxT, c.V, c.L, c.C)


def test_where_to_look_exists():
    cells = json.loads((ROOT / "notebooks" / "07_gpt2_model.ipynb").read_text(encoding="utf-8"))["cells"]
    headings = [line for c in cells if c["cell_type"] == "markdown" for line in "".join(c["source"]).splitlines()]
    for place in (lesson.BLOCK, lesson.COUNT, lesson.FRESH, lesson.INIT, lesson.FORK, lesson.CHAIN, lesson.TIED):
        title = place.split('"')[1]
        assert any(line.startswith("### " + title) for line in headings), title
