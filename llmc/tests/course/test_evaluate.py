"""Lesson 24's exercises beside the package that they describe, its bill and the panel of it."""

import re
from pathlib import Path

import numpy as np
import pytest

from llmc.config import preset
from llmc.course.checks import check as check_cell
from llmc.course.lessons.evaluate import bill, exercises
from llmc.course.mutation.program import solution_of
from llmc.evaluation import bits_per_byte
from llmc.hellaswag import score
from llmc.model import GPT2

NOTEBOOKS = Path(__file__).resolve().parents[3] / "notebooks"


def test_bits_per_byte_are_those_of_the_package():
    for losses, targets, lengths in exercises.documents(check_cell.check("bits_per_byte")):
        loss, tokens = losses[targets >= 0].mean(dtype=np.float64), targets[targets >= 0]
        ours = solution_of("bits_per_byte").function()(losses, targets, lengths)
        assert np.isclose(ours, bits_per_byte(loss, tokens, lengths), rtol=1e-6)


def test_endings_are_scored_as_the_package_scores_them():
    model = GPT2(preset("tiny", V=40, maxT=16))
    model.init_weights(3)
    _, tokens, mask = next(exercises.questions(check_cell.check("score_endings")))
    logits = np.array(model.logits(tokens))[..., :40]  # (4, 8, 40)
    ours = solution_of("score_endings").function()(logits, tokens, mask)
    assert np.allclose(ours, score(model, tokens, mask), rtol=1e-5)


def test_plans_use_the_models_own_counts():
    assert exercises.WEIGHTS[11] == preset("d12").num_parameters_padded
    assert exercises.TOKEN_FLOPS[11] == preset("d12").flops_per_token(1024)
    losses, tokens = exercises.plans(offer := exercises.Offer(5.0, 3.0, 4e14))
    assert np.allclose(solution_of("plan_run").function()(*offer), (losses.argmin() + 1, tokens[losses.argmin()]))


@pytest.mark.skipif(not NOTEBOOKS.is_dir(), reason="needs a checkout")
def test_a_bill_is_operations_over_speed_and_the_panel_shows_it(monkeypatch):
    pytest.importorskip("ipywidgets")
    monkeypatch.chdir(NOTEBOOKS)
    (mfu, slower), size = bill.measured(), bill.SIZES["GPT-2 124M"]
    one, two, many = (bill.bill(size, gpus, 3.0, mfu, slower) for gpus in (1, 2, 64))
    assert 0.4 < mfu < 0.5 and 1 < slower < 1.1 and 1.97 < one.hours / two.hours < 1.99
    assert np.isclose(one.hours * 3600 * mfu * bill.PEAK, one.flops) and np.isclose(one.dollars, 3 * one.hours)
    assert one.hours / many.hours < 64 and many.dollars > one.dollars
    panel = bill.Panel("GPT-2 124M", 8, 3.0)
    costs = []
    for panel.price.value in (4.0, 8.0):
        costs.append(float(re.search(r"[$]([\d,]+)", panel.text.value)[1].replace(",", "")))
    assert abs(costs[1] - 2 * costs[0]) <= 1 and "9.9 billion tokens" in panel.text.value
    panel.ratio.index, panel.size.value, panel.gpus.value = 1, "GPT-3 175B", 64
    assert "does not fit" in panel.text.value
