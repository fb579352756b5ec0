"""On "cuda" the loop launches a step before it reads what came of the one before: the same numbers, only later.

How runs end, and that they go on bit for bit, is in test_loop.py and test_resume.py, on this backend too.
"""

import signal

import numpy as np
import pytest

from llmc import cuda
from llmc.checkpoints.folder import checkpoints
from llmc.tests.tiny_corpus import write_corpus
from llmc.training import Trainer, TrainSettings, loop, train


@pytest.fixture
def settings(tmp_path):
    """Makes TrainSettings for a run of half a second in tmp_path."""
    write_corpus(tmp_path / "data")
    small = dict(batch_size=2, sequence_length=16, steps=6, warmup=2, val_every=3, sample_tokens=8, backend="cuda")
    return lambda **changes: TrainSettings(
        **{**small, "data": str(tmp_path / "data"), "out": str(tmp_path / "run"), **changes}
    )


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, "b0 b1 e0 b2 e1 e2 b3 b4 e3 b5 e4 e5"),  # after the third, validation needs the weights
        (dict(val_every=5, checkpoint_every=4), "b0 b1 e0 b2 e1 b3 e2 e3 b4 e4 b5 e5"),
        (dict(skip_loss_z=3.0), "b0 e0 b1 e1 b2 e2 b3 e3 b4 e4 b5 e5"),
        (dict(precision="fp16"), "b0 e0 b1 e1 b2 e2 b3 e3 b4 e4 b5 e5"),
        (dict(backend="cpu"), "b0 e0 b1 e1 b2 e2 b3 e3 b4 e4 b5 e5"),
    ],
)
def test_a_step_begins_before_the_one_before_it_is_read(settings, monkeypatch, changes, expected):
    class Noting(Trainer):
        def begin_step(self, stop=None):
            events.append(f"b{self.step + self.begun}")
            super().begin_step(stop)

        def end_step(self):
            events.append(f"e{self.step}")
            return super().end_step()

    events = []
    monkeypatch.setattr(loop, "Trainer", Noting)
    result = train(settings(**changes), quiet=True, save=False)
    assert " ".join(events) == expected
    at_once = Trainer(settings(**changes))
    rows = [(step, *at_once.train_step(lambda: False)) for step in range(6)]
    assert result.history["train"] == rows
    assert np.array_equal(*(cuda.asnumpy(model.params_flat) for model in (result.model, at_once.model)))


def test_a_signal_ends_a_run_after_the_step_that_has_begun(settings, tmp_path):
    reports = []

    def interrupt(report):
        reports.append((report.step, report.last))
        if report.step == 1:
            signal.raise_signal(signal.SIGINT)

    result = train(settings(backend="cuda"), on_step=interrupt)
    assert result.interrupted and result.steps == len(result.losses) == 2
    assert reports == [(0, False), (1, False), (2, True)] and checkpoints(tmp_path / "run") == [2]


@pytest.mark.parametrize("changes", [{}, *({"precision": p} for p in ("tf32", "bf16", "fp16")), {"skip_norm_z": 3.0}])
def test_nothing_waits_while_a_step_is_launched(settings, monkeypatch, changes):
    trainer = Trainer(settings(**changes, total_batch_size=64))
    expected = [trainer.train_step() for _ in range(3)]
    trainer = Trainer(settings(**changes, total_batch_size=64))
    first = trainer.train_step()  # chooses and compiles
    launching, later = True, cuda.asnumpy_later

    def waits(*arguments):
        assert not launching
        return cuda.asnumpy(*arguments)

    def read_later(array):
        read = later(array)
        return lambda: waits(read())

    backend, norm = trainer.model.backend, trainer.model.backend.global_norm
    monkeypatch.setattr(backend, "to_numpy", waits)
    monkeypatch.setattr(backend, "later", read_later)
    monkeypatch.setattr(backend, "global_norm", lambda grads: float(waits(np.array(norm(grads)))))
    rows = [first]
    for _ in range(2):
        launching = True
        trainer.begin_step()
        launching = False
        rows.append(trainer.end_step())
    assert rows == expected
