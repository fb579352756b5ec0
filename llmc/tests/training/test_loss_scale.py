"""The loss scale of float16: it halves when gradients overflow, says so, and is part of a run's state."""

import numpy as np
import pytest

from llmc.checkpoints.optimizer_state import MOST_DOUBLED
from llmc.config import PRESETS, GPT2Config
from llmc.tests.tiny_corpus import write_corpus
from llmc.training import TrainSettings, resume, train
from llmc.training.loop import RunDiverged
from llmc.training.loss_scale import GROW_AFTER, LossScale


def test_it_halves_at_once_and_doubles_after_many_good_steps():
    scale = LossScale()
    assert scale.value == 65536
    scale.overflow()
    assert (scale.value, scale.good_steps) == (32768, 0)
    for _ in range(GROW_AFTER - 1):
        scale.good_step()
    assert (scale.value, scale.good_steps) == (32768, GROW_AFTER - 1)
    scale.good_step()
    assert (scale.value, scale.good_steps) == (65536, 0)


def test_it_stays_between_one_and_the_largest():
    scale = LossScale(1)
    for _ in range(3):
        scale.overflow()
    assert scale.value == 1 and scale.is_smallest
    scale = LossScale(MOST_DOUBLED, GROW_AFTER - 1)
    scale.good_step()
    assert (scale.log2, scale.good_steps) == (MOST_DOUBLED, 0)


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Makes TrainSettings for a short run in float16 that begins with a scale which is far too large."""
    monkeypatch.setitem(PRESETS, "nano", GPT2Config(maxT=16, L=1, NH=2, C=16))
    monkeypatch.setattr(LossScale.__init__, "__defaults__", (24, 0))
    write_corpus(tmp_path / "data")
    small = dict(
        preset="nano", batch_size=2, sequence_length=16, warmup=2, val_every=50, val_batches=1, sample_tokens=4
    )
    return lambda **changes: TrainSettings(
        **{**small, "data": str(tmp_path / "data"), "out": str(tmp_path / "run"), "precision": "fp16", **changes}
    )


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_steps_whose_gradients_overflow_make_no_update_and_say_why(settings, tmp_path, backend):
    seen = []
    result = train(settings(steps=12, backend=backend), on_step=seen.append)
    skipped = [report for report in seen if report.skipped]
    assert 1 <= len(skipped) < 12 and seen[-1].skipped is None
    scale = 2.0 ** (24 - len(skipped))
    assert skipped[-1].skipped == f"gradients that overflow float16; the loss scale is {scale:,.0f} now"
    assert result.model.loss_scale == scale and result.model.t == 12 - len(skipped)
    assert np.isfinite(result.losses).all() and np.isfinite(result.model.params_flat).all()
    assert " norm:inf" in (tmp_path / "run" / "main.log").read_text()
    again = resume(tmp_path / "run", steps=13, quiet=True)  # with the scale that it had, not the first one
    assert again.model.loss_scale == scale


def test_gradients_that_overflow_at_the_smallest_scale_end_the_run(settings, monkeypatch):
    monkeypatch.setattr(LossScale.__init__, "__defaults__", (0, 0))
    monkeypatch.setattr("llmc.model.GPT2.global_norm", lambda model: float("inf"))
    with pytest.raises(RunDiverged, match="gradient norm is inf at step 1"):
        train(settings(steps=4), quiet=True)
