"""Lesson 07's references against central differences, and its known mistakes: each is wrong, and unlike the others."""

import json
from pathlib import Path

import numpy as np
import pytest

from llmc.config import PRESETS
from llmc.course import awkward, gradient_check
from llmc.course.lessons.gpt2_model import block, block_mistakes, counting, places, tied
from llmc.course.old.checks.signatures import same

ROOT = Path(__file__).resolve().parents[3]
RNG = np.random.default_rng(5)
B, T, C, NH = 2, 4, 6, 3
X, DOUT = awkward(RNG, B, T, C), awkward(RNG, B, T, C)
P = block.weights(lambda *shape: awkward(RNG, *shape), C)


def test_block_backward_is_the_derivative_of_block_forward():
    dx, g = block.block_backward(DOUT, X, P, NH)
    gradient_check(lambda x: block.block_forward(x, P, NH)[0], X, dx, DOUT, report=False)
    for name in block.PARTS:
        varied = lambda value, name=name: block.block_forward(X, P | {name: value}, NH)[0]  # noqa: E731
        gradient_check(varied, P[name], g[name], DOUT, report=False, name=name)


@pytest.mark.parametrize("switch", block_mistakes.FORWARD_SWITCHES)
def test_a_forward_switch_changes_the_block(switch):
    assert not same(block.block_forward(X, P, NH)[0], block.block_forward(X, P, NH, switch)[0])


@pytest.mark.parametrize("switch", block_mistakes.BACKWARD_SWITCHES)
def test_a_backward_switch_changes_a_gradient(switch):
    dx, g = block.block_backward(DOUT, X, P, NH)
    wrong, h = block.block_backward(DOUT, X, P, NH, switch)
    assert not same(dx, wrong) or any(not same(g[name], h[name]) for name in g)


def test_no_two_backward_switches_look_alike():
    runs = [block.block_backward(DOUT, X, P, NH, switch) for switch in block_mistakes.BACKWARD_SWITCHES]
    flat = [np.concatenate([dx.ravel(), *(g[name].ravel() for name in block.PARTS)]) for dx, g in runs]
    assert all(not same(one, other) for i, one in enumerate(flat) for other in flat[:i])


def test_tied_mistakes_are_wrong_and_unlike_each_other():
    dlogits, lnf, dencoded = awkward(RNG, B, T, 7), awkward(RNG, B, T, C), awkward(RNG, B, T, C)
    tokens = np.array([[0, 6, 6, 2], [1, 2, 0, 6]])
    arrays = [tied.tied_gradient(dlogits, lnf, dencoded, tokens)]
    arrays += [array for array, _ in tied.tied_mistakes(dlogits, lnf, dencoded, tokens).values()]
    assert all(not same(one, other) for i, one in enumerate(arrays) for other in arrays[:i])


@pytest.mark.parametrize("name", ["d12", "d24", "d36", "d48"])
def test_the_count_is_the_config_s(name):
    c = PRESETS[name]
    assert counting.count(c.maxT, c.V, c.L, c.C) == c.num_parameters
    assert counting.explain_count(c.num_parameters, c.maxT, c.V, c.L, c.C) is None
    assert "too many" in counting.explain_count(c.num_parameters + 1, c.maxT, c.V, c.L, c.C)


def test_where_to_look_exists():
    cells = json.loads((ROOT / "notebooks" / "07_gpt2_model.ipynb").read_text(encoding="utf-8"))["cells"]
    headings = [line for c in cells if c["cell_type"] == "markdown" for line in "".join(c["source"]).splitlines()]
    for place in (places.BLOCK, places.COUNT, places.FRESH, places.INIT, places.FORK, places.CHAIN, places.TIED):
        title = place.split('"')[1]
        assert any(line.startswith("### " + title) for line in headings), title
