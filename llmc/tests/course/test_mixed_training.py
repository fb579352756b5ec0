"""Lesson 20's runs with one part too low, its schedules, stored results and drawings."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from llmc.config import preset
from llmc.course.checks.messages.diagnosis import WrongAnswer
from llmc.course.exercises.layout import checkout
from llmc.course.lessons.mixed_training import bugs, drawings, lowered, recompute, results
from llmc.course.lessons.mixed_training.recompute import Layer
from llmc.model import GPT2, training_buffers


def test_each_part_loses_digits_and_nothing_else():
    right, model = lowered.train(steps=6)
    other, batches = GPT2(model.config, "numpy", "bf16"), lowered.Letters()
    other.init_weights(42)
    assert other.loss(*batches.next_batch()) == right[0]  # without a part it is llmc's
    for part in lowered.PARTS:
        assert 0 < np.abs(right - lowered.train([part], steps=6)[0]).max() < 0.05
    x, out = np.float32([1 + 2.0**-10, 1 + 2.0**-12, -3.0001]), np.zeros((1, 3, 1), np.float32)
    lowered.rounding_factors().matmul_forward(out, x.reshape(1, 3, 1), np.ones((1, 1), np.float32), None)
    assert out.ravel().tolist() == [1 + 2.0**-10, 1.0, -3.0]
    assert lowered.sum_in_bf16(np.ones((1000, 2), np.float32)).tolist() == [256, 256]


def test_stored_curves_are_those_of_the_runs_and_show_their_bugs():
    found = bugs.curves()
    with np.errstate(all="ignore"):
        for bug in (None, *bugs.BUGS):
            n = 4 if bug == "AdamW's v" else 8  # an ulp decides whether v is 0 and the update m / eps
            assert np.allclose(bugs.train(bug, shown=n), found[bug or "none"][0, :n], atol=2e-3, equal_nan=True)
    ends = {name: losses[:, -bugs.LAST :].mean(axis=1) for name, losses in found.items()}
    assert np.ptp(ends["none"]) < 0.005 and len(set(ends["none"])) > 1  # not equal, though
    assert all(not (np.abs(ends[bug] - ends["none"][0]) < 0.06).any() for bug in bugs.BUGS)


NET = [Layer("x", (), (), 10, 1.0), Layer("h", ("x",), ("x",), 40, 9.0), Layer("g", ("h",), ("h", "g"), 40, 2.0)]
ACTIONS = {"+": "make", "-": "drop", "*": "backward"}


def items(words):
    return [(ACTIONS[word[0]], word[1:]) for word in words.split()]


def test_a_schedule_is_played():
    assert recompute.play(NET, items("+x +h +g *g *h *x")) == (90, 12.0)
    early = items("+x +h -x +g *g -g +x *h *x")
    assert recompute.play(NET, early) == (recompute.memory_in_time(NET, early).max(), 13.0) == (80, 13.0)
    wrong = {"+x +h *g": "g has not been made yet", "-x": "it was never made", "*y": "not a pair: make, drop"}
    wrong |= {"+x +h +g -h *g": "dropped and not made again", "+x +h +g *g *h *x *x": "all layers have had theirs"}
    for words, told in wrong.items():
        with pytest.raises(WrongAnswer, match=told):
            recompute.play(NET, items(words))
    for net, limit in recompute.awkward_limits(np.random.default_rng(3), 20):
        assert recompute.play(net, recompute.greedy(net, limit)).peak <= limit


def test_results_drawings_and_the_panel(monkeypatch):
    stored = results.stored(checkout() / "notebooks" / results.MEASURED)
    assert all(0.2 < results.mfu(row, stored["about"]) < 1 for row in stored["race"])
    monkeypatch.setattr(results.cuda, "device", lambda: "emulator")  # a GPU would measure
    drawings.draw_lives(plt.subplots()[1], NET, items("+x +h +g *g *h *x"))
    B = drawings.largest_batch("d12", 2, 24)
    plans = [training_buffers(preset("d12"), "cuda", n, drawings.T, "bf16", recompute=2) for n in (B, B + 1)]
    fits, larger = (sum(buffer.nbytes for buffer in plan.values()) for plan in plans)
    assert fits <= 24e9 < larger and sum(drawings.memory("d12", 2, B).values()) == pytest.approx(fits / 1e9)
    plt.close("all")
