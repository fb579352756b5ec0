"""Outliers: the z-score of llm.c's detector, and skipped updates."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from llmc.config import PRESETS, GPT2Config
from llmc.tests.tiny_corpus import write_corpus
from llmc.training import Trainer, TrainSettings, train
from llmc.training.console import step_line
from llmc.training.outliers import WINDOW, OutlierDetector
from llmc.training.report import RunFacts, StepReport

QUIET = [1.0, 1.1] * (WINDOW // 2)  # mean 1.05, standard deviation 0.05


def test_the_z_score_is_that_of_the_newest_among_128():
    values = np.random.default_rng(0).normal(3.0, 0.5, 300)  # (300,)
    detector = OutlierDetector()
    for n, value in enumerate(values, start=1):
        detector.add(value)
        window = values[max(0, n - WINDOW) : n]  # (≤ 128,)
        expected = None if n < WINDOW else pytest.approx((value - window.mean()) / window.std())
        assert detector.z == expected


def test_it_never_exceeds_the_root_of_127_and_is_zero_among_equals():
    detector = OutlierDetector(values=[2.0] * WINDOW)
    assert not detector.add(2.0) and detector.z == 0.0
    detector.add(1e6)
    assert detector.z == pytest.approx(sqrt(WINDOW - 1), rel=1e-4)


@pytest.mark.parametrize("damaged", [1e300, float("inf"), float("nan")])
def test_values_from_a_damaged_file_are_forgotten(damaged):
    detector = OutlierDetector(3.0, [*QUIET, damaged])
    assert not any([detector.add(value) for value in QUIET]) and detector.add(2.0)


@pytest.mark.parametrize(
    "limit, value, outlier", [(3.0, 1.5, True), (0.0, 1.5, False), (3.0, 1.1, False), (3.0, 0.1, False)]
)
def test_only_above_the_limit(limit, value, outlier):
    assert OutlierDetector(limit, QUIET).add(value) is outlier


@pytest.fixture
def settings(tmp_path, monkeypatch):
    write_corpus(tmp_path / "data")
    monkeypatch.setitem(PRESETS, "nano", GPT2Config(maxT=16, L=1, NH=2, C=16))
    run = dict(preset="nano", data=str(tmp_path / "data"), batch_size=2, sequence_length=16, steps=4, val_batches=1)
    return TrainSettings(**run, warmup=0)


def fill(trainer, losses, norms):
    """Make these the last 128 of each."""
    trainer.loss_detector.values.extend(losses)
    trainer.norm_detector.values.extend(norms)


def state_of(trainer):
    """Copies of everything that an update changes."""
    m = trainer.model
    return [m.t, *(np.copy(x) for views in (m.params, m.m, m.v) for x in views.values())]


@pytest.mark.parametrize("kind", ["loss", "norm"])
def test_an_outlier_makes_a_step_without_an_update(settings, kind):
    trainer = Trainer(replace(settings, **{f"skip_{kind}_z": 3.0}))
    fill(trainer, QUIET, QUIET)  # a loss of 5.5 and a norm of 9 are far above
    before, batches = state_of(trainer), trainer.train_loader.state()
    loss, lr, norm = trainer.train_step()
    assert trainer.skipped.startswith(f"{kind} z-score of ") and trainer.step == 1
    assert all(np.array_equal(a, b) for a, b in zip(before, state_of(trainer), strict=True))
    assert trainer.train_loader.state() != batches
    fill(trainer, [loss] * WINDOW, [2 * norm] * WINDOW)
    trainer.train_step()
    assert trainer.skipped is None and trainer.model.t == 1 and trainer.step == 2


def test_nothing_is_skipped_unless_asked_for(settings):
    trainer = Trainer(settings)
    fill(trainer, QUIET, QUIET)
    trainer.train_step()
    assert trainer.skipped is None and trainer.loss_detector.z > 11 and trainer.model.t == 1


def test_a_run_reports_an_outlier_and_continues(settings, tmp_path):
    """Among 128 steps with almost no learning rate, some lie half a standard deviation above the mean."""
    reports = []
    quiet = replace(settings, steps=140, learning_rate=1e-7, skip_loss_z=0.5, val_every=1000)
    result = train(quiet, on_step=reports.append, save=False)
    skipped = [report for report in reports if report.skipped]
    assert skipped and result.model.t == 140 - len(skipped) and len(result.losses) == 140
    assert all(report.loss_z > 0.5 and report.step > WINDOW - 1 for report in skipped)


def test_the_console_line_is_llmcs():
    run = RunFacts(
        settings=TrainSettings(steps=2000), config=None, baselines={}, bytes_per_token=4.0, train_tokens=1, val_tokens=1
    )
    report = StepReport(
        step=130,
        run=run,
        history={},
        ms=60.0,
        tokens_per_second=17066.7,
        seconds_left=95.0,
        last=False,
        loss=3.5,
        lr=4e-3,
        norm=1.25,
    )
    tail = "lr 4.00e-03 | 60.00 ms | 17067 tok/s | 1:35 left"
    assert step_line(report) == f"step  130/2000 | loss 3.500000 | norm 1.2500 | {tail}"
    outlier = replace(report, loss_z=5.307, norm_z=-0.25, skipped="loss z-score of 5.31")
    first, second = step_line(outlier).split("\n")
    assert first == f"step  130/2000 | loss 3.500000 (+5.31z) | norm 1.2500 (-0.25z) | {tail}"
    assert second == "skipping update due to loss z-score of 5.31"


@pytest.mark.parametrize("clip", [0.0, 0.05])
def test_on_cuda_steps_that_wait_and_steps_that_do_not_have_the_same_bits(settings, clip):
    """Only with a limit does the update depend on the loss and the norm, so that it has to wait for them."""
    runs = [replace(settings, backend="cuda", clip=clip, skip_loss_z=z) for z in (0.0, 1e9)]
    results = [train(run, quiet=True, save=False) for run in runs]
    assert results[0].history["train"] == results[1].history["train"]
    weights = [result.model.backend.to_numpy(result.model.params_flat) for result in results]
    np.testing.assert_array_equal(*weights)
