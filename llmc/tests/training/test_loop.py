"""The training loop: it learns, is reproducible bit for bit, writes whole files, and ends cleanly however it ends."""

import errno
import os
import signal
import sys
import threading

import numpy as np
import pytest

from llmc import cuda
from llmc.checkpoints import folder as checkpoint_folder
from llmc.checkpoints import read_model
from llmc.checkpoints.folder import checkpoints, newest_model
from llmc.data.loader import ShuffledLoader
from llmc.data.tokenizer import read_tokenizer
from llmc.errors import UserError
from llmc.tests.tiny_corpus import V, write_corpus
from llmc.training import Trainer, TrainSettings, loop, read_log, resume, stop_request, train
from llmc.training.ends import RunDiverged
from llmc.training.find_models import find_run
from llmc.training.report import PAUSE, STOP
from llmc.training.stop_request import StopRequest
from llmc.training.trainer import Diverged

RUN = {"loss.png", "main.log", "model.bin", "sample.txt", "settings.json", "tokenizer.bin"}
CHECKPOINT = ("model_{:08d}.bin", "state_{:08d}_00000.bin", "DONE_{:08d}")


@pytest.fixture
def settings(tmp_path):
    """Makes TrainSettings for a run of half a second in tmp_path."""
    write_corpus(tmp_path / "data")
    small = dict(batch_size=2, sequence_length=16, steps=6, warmup=2, val_every=3, sample_tokens=8)
    return lambda **changes: TrainSettings(
        **{**small, "data": str(tmp_path / "data"), "out": str(tmp_path / "run"), **changes}
    )


def files(folder):
    """Names in a folder."""
    return {path.name for path in folder.iterdir()}


def checkpoint(step):
    """Names of the files of a checkpoint."""
    return {name.format(step) for name in CHECKPOINT}


def test_a_run_learns_and_leaves_its_folder(settings, tmp_path):
    result = train(settings(steps=30), quiet=True)
    assert result.losses[0] == pytest.approx(np.log(V), abs=0.3)
    assert result.val[-1][1] < result.val[0][1] - 1
    assert result.bits_per_byte == pytest.approx(result.val[-1][1] / np.log(2), rel=1e-6)  # one byte a token
    assert result.steps == 30 and not result.interrupted
    assert files(tmp_path / "run") == RUN | checkpoint(30)
    assert (tmp_path / "run" / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "run" / "sample.txt").read_text(encoding="utf-8") == result.sample


def test_the_saved_model_and_tokenizer_are_those_of_the_run(settings, tmp_path):
    result = train(settings(), quiet=True)
    model, encoding = read_model(tmp_path / "run" / "model.bin"), read_tokenizer(tmp_path / "run" / "tokenizer.bin")
    assert np.array_equal(model.params_flat, result.model.params_flat)
    assert model.config == result.model.config and model.config.V == V == encoding.n_vocab


def test_the_log_is_the_history_rounded(settings, tmp_path):
    result = train(settings(), quiet=True)
    log = read_log(tmp_path / "run" / "main.log")
    assert [row[0] for row in log["train"]] == list(range(6)) and [row[0] for row in log["val"]] == [0, 3, 6]
    assert [row[1] for row in log["train"]] == pytest.approx(result.losses, abs=5e-5)


def test_equal_seeds_give_equal_losses_bit_for_bit(settings):
    first, again = (train(settings(), quiet=True, save=False) for _ in range(2))
    other = train(settings(seed=7), quiet=True, save=False)
    assert first.losses == again.losses and first.val == again.val
    assert np.array_equal(first.model.params_flat, again.model.params_flat)
    assert first.losses != other.losses


def test_validation_and_samples_change_nothing(settings):
    """Looking more often must not change what is learned."""
    often = train(settings(val_every=1, sample_every=2), quiet=True, save=False)
    assert often.losses == train(settings(), quiet=True, save=False).losses


def test_without_saving_there_is_no_file(settings, tmp_path):
    before = files(tmp_path)
    assert train(settings(), quiet=True, save=False).run_dir is None
    assert files(tmp_path) == before


def test_reports_reach_the_listener_and_nothing_is_printed(settings, capfd):
    class Listener(list):
        __call__ = list.append
        closed = 0

        def close(self):
            self.closed += 1

    seen = Listener()
    train(settings(sample_every=3), on_step=seen, save=False)
    assert [r.step for r in seen] == list(range(7)) and [r.last for r in seen] == [False] * 6 + [True]
    assert [r.step for r in seen if r.val is not None] == [0, 3, 6] and [r.step for r in seen if r.sample] == [3, 6]
    assert seen.closed == 1
    assert capfd.readouterr() == ("", "")


def test_a_listener_can_pause_and_stop_the_run(settings):
    asked = []

    def steer(report):
        asked.append(report.step)
        if report.step == 2:
            return PAUSE if asked.count(2) < 3 else None
        return STOP if report.step == 4 else None

    result = train(settings(), on_step=steer)
    assert asked == [0, 1, 2, 2, 2, 3, 4, 4]  # the last report says that nothing comes after it
    assert result.interrupted and result.steps == 4 and result.run_dir is not None
    assert resume(result.run_dir, quiet=True).steps == 6


def test_a_signal_ends_a_pause(settings):
    def hold(report):
        if report.step == 2:
            signal.raise_signal(signal.SIGINT)
        return PAUSE if report.step == 2 else None

    assert train(settings(), on_step=hold, save=False).interrupted


def test_lines_on_the_console_are_llmcs(settings, capsys):
    train(settings())
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("step    6/6 | loss ") and "| norm " in line and "tok/s" in line for line in lines)
    assert any(line.startswith("val loss ") and line.endswith("bits per byte") for line in lines)


# ------------------------------------------------------------------------------------------------- how runs end


@pytest.mark.parametrize("number", StopRequest.SIGNALS)
def test_a_signal_ends_the_run_after_the_step_and_saves_it(settings, tmp_path, number):
    before = signal.getsignal(number)

    def interrupt(report):
        if report.step == 2:
            signal.raise_signal(number)
            signal.raise_signal(number)  # a second one within a second is an echo of the first

    result = train(settings(), on_step=interrupt)
    assert result.interrupted and result.steps == len(result.losses) in (2, 3)
    assert files(tmp_path / "run") == RUN | checkpoint(result.steps)
    assert np.array_equal(read_model(tmp_path / "run" / "model.bin").params_flat, result.model.params_flat)
    assert signal.getsignal(number) is before


def test_a_second_signal_ends_the_run_at_once_and_keeps_its_checkpoints(settings, tmp_path, monkeypatch):
    def interrupt(report):
        if report.step == 4:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(stop_request, "SAME_REQUEST", -1)
    with pytest.raises(KeyboardInterrupt, match="step 3 is saved; continue from it with"):
        train(settings(checkpoint_every=3), on_step=interrupt)
    assert checkpoints(tmp_path / "run") == [3] and not list((tmp_path / "run").glob("*.tmp"))
    assert resume(tmp_path / "run", quiet=True).steps == 6


def test_a_second_signal_during_the_last_sample(settings, tmp_path, monkeypatch):
    def interrupted(*args, **options):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("went on after the second signal")

    monkeypatch.setattr(stop_request, "SAME_REQUEST", -1)
    monkeypatch.setattr("llmc.training.trainer.generate", interrupted)
    with pytest.raises(KeyboardInterrupt, match="all 6 steps are saved"):
        train(settings(), quiet=True)
    assert checkpoints(tmp_path / "run") == [6]


@pytest.mark.parametrize("sample_every", [0, 3])
def test_a_signal_ends_a_long_sample(settings, monkeypatch, sample_every):
    def endless(*args, **options):
        signal.raise_signal(signal.SIGINT)
        while True:
            yield 0

    monkeypatch.setattr(stop_request, "SAME_REQUEST", 1000)
    monkeypatch.setattr(StopRequest.patience, "__defaults__", (0.05,))
    monkeypatch.setattr("llmc.training.trainer.generate", endless)
    result = train(settings(sample_every=sample_every), quiet=True)
    assert result.steps == (sample_every or 6) and result.interrupted == bool(sample_every) and result.sample


def test_a_result_that_cannot_be_written_is_told_with_what_is_saved(settings, tmp_path):
    def block(report):
        if report.step == 6:
            (tmp_path / "run" / "loss.png").mkdir()

    with pytest.raises(UserError, match="cannot write .*loss.png.*; all 6 steps are saved; to sample .* `.* sample "):
        train(settings(), on_step=block)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGHUP")
def test_nohup_is_respected(settings):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        result = train(settings(), on_step=lambda report: signal.raise_signal(signal.SIGHUP), save=False)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert not result.interrupted


def test_a_listener_that_cannot_write_does_not_cost_the_run(settings, tmp_path):
    def full(report):
        full.calls += 1
        raise OSError(errno.ENOSPC, "No space left on device")

    full.calls = 0
    assert train(settings(), on_step=full).steps == 6 and full.calls == 1
    assert files(tmp_path / "run") == RUN | checkpoint(6)


def test_a_signal_during_saving_changes_nothing(settings, tmp_path, monkeypatch):
    def write_interrupted(path, model):
        signal.raise_signal(signal.SIGINT)
        write(path, model)

    write = checkpoint_folder.write_model
    monkeypatch.setattr(checkpoint_folder, "write_model", write_interrupted)
    result = train(settings(val_every=100), quiet=True)
    assert not result.interrupted and files(tmp_path / "run") == RUN | checkpoint(6)


def test_a_signal_before_the_first_step_leaves_nothing(settings, tmp_path):
    result = train(settings(), on_step=lambda report: signal.raise_signal(signal.SIGINT))
    assert result.interrupted and result.steps <= 1
    assert (tmp_path / "run").exists() == (result.steps == 1)


def test_a_signal_during_validation_does_not_wait_for_its_end(settings, monkeypatch):
    from llmc.training import trainer

    def losses(*args):
        yield 1.0
        signal.raise_signal(signal.SIGINT)
        yield 1.0
        raise AssertionError("went on after the signal")

    monkeypatch.setattr(trainer, "batch_losses", losses)
    result = train(settings(val_batches=3), quiet=True)
    assert result.interrupted and result.steps == 0 and result.run_dir is None and result.bits_per_byte is None


def test_runs_in_a_thread_too(settings):
    results = []
    thread = threading.Thread(target=lambda: results.append(train(settings(), quiet=True, save=False)))
    thread.start()
    thread.join()
    assert results[0].steps == 6


def test_a_closed_pipe_ends_the_run_saved(settings, tmp_path):
    def closed(report):
        if report.step >= 2:
            raise BrokenPipeError

    assert train(settings(), on_step=closed).interrupted
    assert files(tmp_path / "run") >= RUN


def poisoned(at):
    """A Trainer whose weights are NaN after step `at`."""

    class Poisoned(Trainer):
        def begin_step(self, stop):
            if self.step + self.begun == at:
                self.model.params["lnfw"][...] = np.nan
            super().begin_step(stop)

        def end_step(self):
            found = super().end_step()
            if self.step == at == self.settings.steps:
                self.model.params["lnfw"][...] = np.nan
            return found

    return Poisoned


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_divergence_leaves_the_log_and_the_last_good_checkpoint(settings, tmp_path, monkeypatch, backend):
    monkeypatch.setattr(loop, "Trainer", poisoned(at=4))
    with pytest.raises(RunDiverged, match="step 3 is saved.*--resume .*run --learning-rate 0.002`") as caught:
        train(settings(checkpoint_every=3, backend=backend), quiet=True)
    assert caught.value.reason == "the loss is nan at step 5" and str(caught.value).startswith(caught.value.reason)
    assert files(tmp_path / "run") == {"main.log", "tokenizer.bin", "settings.json", *checkpoint(3)}
    assert np.isfinite(read_model(newest_model(tmp_path / "run")).params_flat).all()
    assert len(read_log(tmp_path / "run" / "main.log")["train"]) == 4
    monkeypatch.undo()
    result = resume(tmp_path / "run", quiet=True, learning_rate=0.002)
    assert result.steps == 6 and np.isfinite(result.losses).all() and result.run.settings.learning_rate == 0.002


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_a_long_first_step_is_explained_where_kernels_are_compiled(settings, backend, capsys, monkeypatch):
    monkeypatch.setattr(loop, "LONG", 0)
    train(settings(backend=backend, steps=1), save=False)
    assert (loop.COMPILING in capsys.readouterr().out) == (backend == "cuda")


def test_weights_that_are_not_finite_are_never_saved(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "Trainer", poisoned(at=6))  # the last step, after which no loss would show it
    with pytest.raises(RunDiverged, match="norm of the weights is nan after step 6.*lower the learning rate"):
        train(settings(), quiet=True)
    assert files(tmp_path / "run") == {"main.log"}


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_an_infinite_gradient_never_reaches_the_parameters(settings, backend):
    trainer = Trainer(settings(backend=backend))
    to_numpy = trainer.model.backend.to_numpy
    before = to_numpy(trainer.model.params_flat.copy())
    trainer.model.backward = lambda **how: trainer.model.grads_flat.fill(np.inf)
    with np.errstate(all="ignore"), pytest.raises(Diverged, match="gradient norm"):
        trainer.train_step()
    assert np.array_equal(to_numpy(trainer.model.params_flat), before) and trainer.step == 0


def test_a_full_disk_leaves_no_half_written_model(settings, tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left"):
        train(settings(), quiet=True)
    assert files(tmp_path / "run") == {"main.log"}


def test_a_disk_that_fills_up_keeps_the_last_checkpoint(settings, tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    def fill(report):
        if report.step == 5:
            monkeypatch.setattr(os, "fsync", full)

    reference = train(settings(out=str(tmp_path / "other")), quiet=True)
    with pytest.raises(UserError, match="No space left.*step 4 is saved; continue from it with `.*llmc train --resume"):
        train(settings(checkpoint_every=2), on_step=fill)
    monkeypatch.undo()
    assert checkpoints(tmp_path / "run") == [2, 4]
    assert np.array_equal(resume(tmp_path / "run", quiet=True).model.params_flat, reference.model.params_flat)


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_a_shard_that_disappears_ends_the_run_saved(settings, tmp_path, monkeypatch, backend):
    def gone(report):
        if report.step == (3 if backend == "cuda" else 4):  # on cuda, step 4 has begun by then
            monkeypatch.setattr(loader, "next_batch", refuse)

    def refuse(self):
        if calls:  # the first micro-batch of the step is there, the second is not
            raise UserError("train.bin is gone.")
        calls.append(self)
        return read(self)

    calls, loader = [], ShuffledLoader
    read = loader.next_batch
    run = dict(total_batch_size=64, backend=backend, val_every=5)
    reference = train(settings(**run, out=str(tmp_path / "other")), quiet=True)
    with pytest.raises(UserError, match="train.bin is gone; step 4 is saved"):
        train(settings(**run), on_step=gone)
    monkeypatch.undo()
    result = resume(tmp_path / "run", quiet=True)
    assert result.losses[4:] == reference.losses[4:]
    assert np.array_equal(*(cuda.asnumpy(each.model.params_flat) for each in (result, reference)))


# ---------------------------------------------------------------------------------------------------- run folders


def test_a_folder_with_something_in_it_is_refused_before_training(settings, tmp_path):
    train(settings(), quiet=True)
    before = (tmp_path / "run" / "model.bin").read_bytes()
    with pytest.raises(UserError, match="not empty"):
        train(settings(seed=1), quiet=True)
    assert (tmp_path / "run" / "model.bin").read_bytes() == before


def test_names_are_numbered_and_the_newest_is_found(settings, tmp_path, monkeypatch):
    for module in ("run_folder", "find_models"):
        monkeypatch.setattr(f"llmc.training.{module}.runs_home", lambda: tmp_path / "runs")
    folders = [train(settings(out=None, name="a"), quiet=True).run_dir for _ in range(3)]
    assert [f.name for f in folders] == ["a", "a-2", "a-3"]
    for age, folder in enumerate(folders):
        os.utime(folder / "model.bin", (1e9 - age, 1e9 - age))
    assert find_run() == folders[0] and find_run("a-2") == folders[1] and find_run(folders[2]) == folders[2]
    with pytest.raises(UserError, match="cannot be the name of a run"):
        train(settings(out=None, name="../b"), quiet=True)


def test_bad_data_leaves_no_folder(settings, tmp_path):
    with pytest.raises(UserError):
        train(settings(data=str(tmp_path / "nothing")), quiet=True)
    with pytest.raises(UserError, match="tokens"):
        train(settings(batch_size=500), quiet=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "name, value",
    [
        *[
            (name, bad)
            for name in ("steps", "batch_size", "sequence_length", "val_every")
            for bad in (0, -1, 1.5, True)
        ],
        *[("learning_rate", bad) for bad in (0, -1.0, float("nan"), float("inf"), "fast")],
        *[("warmup", -1), ("seed", -1), ("val_batches", 0), ("weight_decay", -0.1), ("clip", -1), ("schedule", "step")],
        *[("total_batch_size", bad) for bad in (0, 1000, 16 * 64 + 1)],
        *[("skip_loss_z", -1.0), ("skip_norm_z", float("nan")), ("keep", -1), ("checkpoint_every", 2.5)],
    ],
)
def test_settings_that_make_no_sense_are_refused(name, value):
    with pytest.raises(UserError, match=name.replace("_", " ")):
        TrainSettings(**{name: value})
