"""Draws without float64 and without sorting all are those of the definition."""

import numpy as np
import pytest

from llmc import quick_draw
from llmc.sampling import Random, choose, drawn, probabilities

SHAPES = {
    "like text": lambda r, V: 4 * r.standard_normal(V) - 0.5 * np.log1p(r.permutation(V)),
    "flat": lambda r, V: 500 + 1e-3 * r.standard_normal(V),
    "steep": lambda r, V: 30 * r.standard_normal(V),
    "ties": lambda r, V: np.round(2 * r.standard_normal(V)),
}
OPTIONS = [{}, {"temperature": 0.7}, {"temperature": 1e-3}, {"temperature": 1e5}, {"top_k": 50}, {"top_k": 1}]
OPTIONS += [{"top_p": 0.9}, {"top_p": 0.5}, {"top_k": 40, "top_p": 0.9, "temperature": 0.8}]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("V", [1, 5, 128, 1000, 9001])
def test_draws_are_those_of_the_definition(shape, V):
    z, random = SHAPES[shape](np.random.RandomState(V), V), Random(V)
    for numbers in (np.float32, np.float64):
        logits = z.astype(numbers)
        for given in OPTIONS:
            options = {"temperature": 1.0, "top_k": None, "top_p": None, **given}
            p = probabilities(logits, **options)
            for _ in range(60):
                coin = random.uniform()
                token = quick_draw.draw(logits, coin=coin, **options)
                assert token in (None, drawn(p, coin)), given


def test_few_draws_are_left_to_the_definition():
    """And those where the float32 numbers do not suffice are decided in float64."""
    z, random = SHAPES["like text"](np.random.RandomState(0), 50257).astype(np.float32), Random()
    for given in ({}, {"top_k": 50}, {"top_p": 0.9}):
        options = {"temperature": 1.0, "top_k": None, "top_p": None, **given}
        assert None not in [quick_draw.draw(z, coin=random.uniform(), **options) for _ in range(20)]


def test_a_coin_on_a_boundary_is_left_to_the_definition():
    z = np.zeros(4, np.float32)
    for coin in (0.0, 0.25, 0.5, 0.75):
        assert quick_draw.draw(z, 1.0, None, None, coin) is None
        assert drawn(probabilities(z), coin) == 4 * coin
    assert [quick_draw.draw(z, 1.0, None, None, coin) for coin in (0.1, 0.4, 0.6, 0.99)] == [0, 1, 2, 3]
    assert quick_draw.draw(z, 1.0, None, 0.5, 0.3) is None  # the share ends with a token


def test_the_bound_of_the_error_holds():
    """Sums of float32 next to those of float64, at exponents far from zero too."""
    z = (SHAPES["like text"](np.random.RandomState(1), 50257) - 3000).astype(np.float32)
    for temperature in (0.3, 1.0, 7.0):
        rounded, exact = (quick_draw._powers(z, temperature, numbers) for numbers in (np.float32, np.float64))
        sums, wanted = (np.cumsum(p.sum(axis=1), dtype=np.float64) for p in (rounded, exact))
        off = np.abs(sums / sums[-1] - wanted / wanted[-1]).max()
        assert 1e-12 < off < quick_draw._error(z.size)


def test_the_definition_decides_where_nobody_else_does(monkeypatch):
    z, found = np.random.RandomState(0).standard_normal(50).astype(np.float32), []
    for way in (quick_draw.draw, lambda *arguments: None):
        monkeypatch.setattr(quick_draw, "draw", way)
        random = Random()
        found.append([choose(z, 0.9, 20, random, 0.8) for _ in range(200)])
    assert found[0] == found[1] and len(set(found[0])) > 5
