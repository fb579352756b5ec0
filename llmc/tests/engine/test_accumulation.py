"""Gradient accumulation: several small batches take the step that one large batch would have taken."""

import numpy as np
import pytest

from llmc.backends import BACKENDS
from llmc.config import PRESETS, GPT2Config
from llmc.tests.tiny_corpus import write_corpus
from llmc.training import Trainer, TrainSettings, train

T, TOGETHER = 16, 8  # tokens per sequence, sequences per step


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """A function that makes TrainSettings with eight sequences per step, B of them at a time, in the file's order."""
    write_corpus(tmp_path / "data")
    monkeypatch.setitem(PRESETS, "nano", GPT2Config(maxT=T, L=2, NH=2, C=32))
    run = dict(preset="nano", data=str(tmp_path / "data"), order="files", steps=5, warmup=0, val_batches=1)
    step = dict(sequence_length=T, total_batch_size=TOGETHER * T)
    return lambda B, **changes: TrainSettings(**{**run, **step, "batch_size": B, **changes})


def largest_difference(a, b):
    """Of two lists of arrays: the largest |a - b| of a pair, relative to its largest |b|."""
    return max(np.abs(x - y).max() / np.abs(y).max() for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("B", [1, 2, 4])
def test_gradients_and_loss_are_those_of_the_large_batch(settings, B, backend):
    trainers = [Trainer(settings(b, backend=backend)) for b in (B, TOGETHER)]
    losses = [np.mean([loss() for loss in trainer._accumulate()]) for trainer in trainers]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    gradients = [list(trainer.model.grads.values()) for trainer in trainers]
    assert largest_difference(*gradients) < 1e-6


def test_a_run_is_that_of_the_large_batch(settings):
    small, large = (train(settings(B), quiet=True, save=False) for B in (2, TOGETHER))
    assert small.losses == pytest.approx(large.losses, rel=1e-5)
    norms = [[row[3] for row in result.history["train"]] for result in (small, large)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-4)


def test_the_loss_is_the_mean_of_the_small_ones(settings):
    trainer = Trainer(settings(2))
    batches = Trainer(settings(2)).train_loader
    losses = [trainer.model.loss(*batches.next_batch()) for _ in range(4)]
    assert trainer.train_step()[0] == pytest.approx(np.mean(losses), rel=1e-7)


def test_every_token_is_seen_once(settings):
    trainer, batches = Trainer(settings(2)), Trainer(settings(2)).train_loader
    for _ in range(3):
        trainer.train_step()
    for _ in range(3 * 4):
        batches.next_batch()
    assert trainer.train_loader.state() == batches.state() == trainer.state().loader


def test_memory_is_that_of_the_small_batch(settings):
    trainer = Trainer(settings(2))
    trainer.train_step()
    alone = Trainer(settings(2, total_batch_size=None))
    for buffer in ("_acts", "_dacts", "grads"):
        assert getattr(trainer.model, buffer).flat.size == getattr(alone.model, buffer).flat.size


def test_speed_counts_all_tokens(settings):
    reports = []
    result = train(settings(1), on_step=reports.append, save=False)
    assert reports[1].tokens_per_second == pytest.approx(TOGETHER * T / (reports[1].ms / 1e3))
    seconds = sum(report.ms for report in reports[1:]) / 1e3
    assert result.tokens_per_second == pytest.approx(5 * TOGETHER * T / seconds)
