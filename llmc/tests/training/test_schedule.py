"""The learning rate over a run, at the points where a formula is easily wrong."""

from math import cos, pi, sqrt

import pytest

from llmc.errors import UserError
from llmc.training import learning_rate
from llmc.training.schedule import KINDS

MAX = 6e-4


@pytest.mark.parametrize("kind", KINDS)
def test_warmup_rises_linearly_and_reaches_the_maximum(kind):
    rates = [learning_rate(step, MAX, 5, 100, 0.1, kind) for step in range(6)]
    assert rates[:5] == pytest.approx([MAX / 5, MAX * 2 / 5, MAX * 3 / 5, MAX * 4 / 5, MAX])
    assert rates[5] == pytest.approx(MAX)


@pytest.mark.parametrize(
    "kind, middle",
    [
        ("cosine", 0.1 + 0.9 * 0.5 * (1 + cos(pi * 45 / 95))),
        ("linear", 0.1 + 0.9 * (1 - 45 / 95)),
        ("constant", 1.0),
        ("wsd", 1.0),
    ],
)
def test_middle_of_the_curve(kind, middle):
    assert learning_rate(50, MAX, 5, 100, 0.1, kind) == pytest.approx(MAX * middle)


def test_wsd_decays_with_the_root_in_the_last_fifth():
    assert learning_rate(80, MAX, 5, 100, 0.0, "wsd") == pytest.approx(MAX)
    assert learning_rate(85, MAX, 5, 100, 0.2, "wsd") == pytest.approx(MAX * (0.2 + 0.8 * (1 - sqrt(0.25))))


@pytest.mark.parametrize("kind", ["cosine", "linear", "wsd"])
@pytest.mark.parametrize("final", [0.0, 0.1])
def test_ends_at_the_final_fraction_and_stays_there(kind, final):
    assert learning_rate(100, MAX, 5, 100, final, kind) == pytest.approx(MAX * final, abs=1e-12)
    assert learning_rate(1000, MAX, 5, 100, final, kind) == pytest.approx(MAX * final, abs=1e-12)


def test_no_warmup_starts_at_the_maximum():
    assert learning_rate(0, MAX, 0, 10) == pytest.approx(MAX)


def test_warmup_as_long_as_the_run_divides_nothing_by_zero():
    assert learning_rate(9, MAX, 10, 10) == pytest.approx(MAX)
    assert learning_rate(10, MAX, 10, 10) == 0.0


def test_unknown_kind_names_the_known_ones():
    with pytest.raises(UserError, match="cosine, linear, constant, wsd"):
        learning_rate(0, MAX, 0, 10, kind="step")
