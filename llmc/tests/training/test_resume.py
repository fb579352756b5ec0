"""A run that stopped continues as if it had not: the same batches, losses, weights and log, bit for bit."""

import json
import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from llmc.backends import BACKENDS
from llmc.checkpoints import load_model, write_model
from llmc.checkpoints.folder import checkpoints, load_checkpoint, newest_model, save_checkpoint
from llmc.config import PRESETS, GPT2Config
from llmc.data import read_tokens, write_tokens
from llmc.data.tokenizer import END_OF_TEXT, make_encoding, write_tokenizer
from llmc.errors import UserError
from llmc.model import GPT2
from llmc.tests.tiny_corpus import V, write_corpus
from llmc.training import Trainer, TrainResult, TrainSettings, read_log, resume, train
from llmc.training.find_models import find_model, find_run
from llmc.training.log import LogWriter
from llmc.training.settings_file import read_settings

WAYS = {  # (settings, the step to stop at)
    "shuffled": (dict(steps=8), 5),
    "in order": (dict(steps=8, order="files"), 5),
    "accumulated": (dict(steps=8, total_batch_size=96), 3),  # ends in the middle of a step, which is made again
    "epoch border, shuffled": (dict(steps=34, val_every=10, batch_size=8), 14),  # 15 batches an epoch
    "epoch border, in order": (dict(steps=34, val_every=10, batch_size=8, order="files"), 30),
    "epoch border, llm.c's order": (dict(steps=34, val_every=10, batch_size=8, order="llm.c"), 30),
    "outliers": (dict(steps=150, val_every=50, skip_loss_z=0.5, skip_norm_z=1.0, learning_rate=1e-7), 140),
    "window not full": (dict(steps=150, val_every=50, skip_loss_z=0.5), 100),
    "stopped where it validates": (dict(steps=8), 3),
    "bf16": (dict(steps=8, precision="bf16"), 5),
    "bf16 without master weights": (dict(steps=8, precision="bf16", master_weights=False, backend="numpy"), 5),
    "fp16": (dict(steps=8, precision="fp16"), 5),
    "tf32": (dict(steps=8, precision="tf32", backend="cuda"), 5),
    "bf16 on cuda": (dict(steps=8, precision="bf16", backend="cuda"), 5),
    "fp16 on cuda": (dict(steps=8, precision="fp16", backend="cuda"), 5),
}


class Blank:
    """A figure with nothing in it."""

    @staticmethod
    def savefig(file, format):
        file.write(b"")


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Makes TrainSettings for a short run of a very small model in tmp_path / out.

    The two things that take most of the time of such a run, and that no test here looks at, are left out: the loss
    curve is blank, and nothing waits for the disk (which matters only when a machine loses power).
    """
    monkeypatch.setitem(PRESETS, "nano", GPT2Config(maxT=16, L=1, NH=2, C=16))
    monkeypatch.setattr(TrainResult, "plot", lambda self: Blank)
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    write_corpus(tmp_path / "data")
    small = dict(preset="nano", batch_size=2, sequence_length=16, warmup=2, val_every=3, val_batches=2, sample_tokens=4)
    return lambda out, **changes: TrainSettings(
        **{**small, "data": str(tmp_path / "data"), "out": str(tmp_path / out), "steps": 8, **changes}
    )


def interrupt_at(step):
    """A listener that presses Ctrl-C one step earlier, because a step of one batch is always finished."""
    return lambda report: report.step == step - 1 and signal.raise_signal(signal.SIGINT)


def stopped(settings, at):
    """The result of a run that Ctrl-C ended after step `at`."""
    return train(settings, on_step=interrupt_at(at))


class Killed(Exception):
    """Raised by a listener in place of a kill: nothing is saved after it."""


def killed(settings, at):
    """Train until step `at`, then leave everything as it is."""

    def kill(report):
        if report.step == at:
            raise Killed

    with pytest.raises(Killed):
        train(settings, on_step=kill)


@pytest.mark.parametrize("way", WAYS)
def test_n_steps_then_m_equal_n_plus_m(settings, tmp_path, way):
    changes, at = WAYS[way]
    whole = train(settings("whole", **changes), quiet=True)
    first = stopped(settings("parts", **changes), at)
    at -= way == "accumulated"
    assert first.interrupted and first.steps == at
    rest = resume(tmp_path / "parts", quiet=True)
    assert not rest.interrupted and rest.steps == whole.steps and rest.run.resumed_at == at
    assert first.losses + rest.losses[at:] == whole.losses
    assert rest.val[-1] == whole.val[-1] and [row[0] for row in rest.val] == [row[0] for row in whole.val]
    assert (tmp_path / "parts" / "main.log").read_bytes() == (tmp_path / "whole" / "main.log").read_bytes()
    for name in (f"model_{whole.steps:08d}.bin", f"state_{whole.steps:08d}_00000.bin", "model.bin"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("order", ["random", "files", "llm.c"])
def test_across_shards_and_epochs(settings, tmp_path, order, backend):
    """Three files of 5, 3 and 4 batches; the run stops inside a file, after a file, after an epoch."""
    corpus = tmp_path / "data"
    (corpus / "train.bin").rename(corpus / "text")
    tokens = read_tokens(corpus / "text")  # (2041,)
    for number, size in enumerate((161, 97, 130)):
        write_tokens(corpus / f"x_train_{number:06d}.bin", tokens[500 * number : 500 * number + size])
    same = dict(steps=26, order=order, val_every=100, val_batches=1, backend=backend)
    whole = train(settings("whole", **same), quiet=True)
    stopped(settings("parts", **same), 3)
    for at in (5, 6, 8, 12, 13, 17, 24):
        result = resume(tmp_path / "parts", on_step=interrupt_at(at))
        assert result.steps == at
    rest = resume(tmp_path / "parts", quiet=True)
    assert (tmp_path / "parts" / "main.log").read_bytes() == (tmp_path / "whole" / "main.log").read_bytes()
    assert np.array_equal(rest.model.params_flat, whole.model.params_flat)


def test_llmcs_order_is_drawn_for_a_number_of_ranks(settings):
    trainer = Trainer(settings("run", steps=8, order="llm.c"))
    trainer.train_step()
    again = Trainer(trainer.settings, model=trainer.model, state=trainer.state())
    assert again.train_loader.state() == trainer.train_loader.state()
    with pytest.raises(UserError, match="drawn for 2 ranks; continue with that number"):
        Trainer(trainer.settings, model=trainer.model, state=replace(trainer.state(), ranks=2))


def test_that_run_skipped_outliers_before_and_after_the_stop(settings):
    changes, at = WAYS["outliers"]
    seen = []
    train(settings("run", **changes), on_step=seen.append, save=False)
    skipped = [report.step for report in seen if report.skipped]
    assert min(skipped) <= at < max(skipped)


def test_stopped_again_and_again(settings, tmp_path):
    whole = train(settings("whole"), quiet=True)
    stopped(settings("parts"), 2)
    for at in (4, 5, 7):
        result = resume(tmp_path / "parts", on_step=interrupt_at(at))
        assert result.interrupted and result.steps == at
    rest = resume(tmp_path / "parts", quiet=True)
    assert np.array_equal(rest.model.params_flat, whole.model.params_flat)
    assert read_log(tmp_path / "parts" / "main.log") == read_log(tmp_path / "whole" / "main.log")


def test_a_killed_run_repeats_the_steps_after_its_checkpoint(settings, tmp_path):
    whole = train(settings("whole"), quiet=True)
    killed(settings("parts", checkpoint_every=2), at=7)
    assert find_run(tmp_path / "parts") == tmp_path / "parts"  # can be sampled from
    seen = []
    rest = resume(tmp_path / "parts", on_step=seen.append)
    assert seen[0].step == rest.run.resumed_at == 6 and seen[0].loss is None and seen[1].step == 7
    assert rest.losses[6:] == whole.losses[6:] and len(rest.losses) == 8
    assert np.array_equal(rest.model.params_flat, whole.model.params_flat)
    lines = (tmp_path / "parts" / "main.log").read_text()
    assert lines.count("s:6 trl") == 2 and read_log(tmp_path / "parts" / "main.log") == read_log(
        tmp_path / "whole" / "main.log"
    )


def test_more_steps_than_were_planned(settings, tmp_path):
    constant = dict(schedule="constant", warmup=0)
    whole = train(settings("whole", **constant), quiet=True)
    train(settings("parts", steps=5, **constant), quiet=True)
    with pytest.raises(UserError, match="has completed all of its 5 steps.*--steps"):
        resume(tmp_path / "parts", quiet=True)
    rest = resume(tmp_path / "parts", quiet=True, steps=8)
    assert rest.losses[5:] == whole.losses[5:] and read_settings(tmp_path / "parts").steps == 8


def test_a_run_folder_may_move(settings, tmp_path):
    whole = train(settings("whole"), quiet=True)
    stopped(settings("parts"), 4)
    (tmp_path / "parts").rename(tmp_path / "moved")
    rest = resume(tmp_path / "moved", quiet=True)
    assert np.array_equal(rest.model.params_flat, whole.model.params_flat) and rest.run_dir == tmp_path / "moved"


@pytest.mark.parametrize("finished", [False, True])
def test_a_continued_run_keeps_what_it_left_until_it_ends_again(settings, tmp_path, finished):
    """Of a run that Ctrl-C ended, and of one that had made all of its steps and gets more. keep is 2."""
    names = ("model.bin", "sample.txt", "loss.png")

    def kill(report):
        assert [(tmp_path / "run" / name).read_bytes() for name in names] == before
        if report.step == 7:
            raise Killed

    if finished:
        train(settings("run", checkpoint_every=2, steps=3), quiet=True)
    else:
        stopped(settings("run", checkpoint_every=2), 3)
    assert newest_model(tmp_path / "run").name == "model.bin"
    before = [(tmp_path / "run" / name).read_bytes() for name in names]
    with pytest.raises(Killed):
        resume(tmp_path / "run", on_step=kill, steps=8)
    assert find_model(tmp_path / "run").name == "model_00000006.bin" and checkpoints(tmp_path / "run") == [4, 6]
    os.utime(tmp_path / "run" / "model.bin", (2e9, 2e9))  # the clock went back since then
    assert find_model(tmp_path / "run").name == "model_00000006.bin"
    load_model(tmp_path / "run" / "model.bin")  # it can be used, though the checkpoint that it came from is gone
    resume(tmp_path / "run", quiet=True)
    assert newest_model(tmp_path / "run").name == "model.bin" and not list((tmp_path / "run").glob(".*"))
    assert not before == [(tmp_path / "run" / name).read_bytes() for name in names]
    assert (tmp_path / "run" / "model.bin").samefile(tmp_path / "run" / "model_00000008.bin")


@pytest.mark.parametrize("keep, kept", [(0, [2, 4, 6, 8]), (1, [8]), (3, [4, 6, 8])])
def test_keep_is_the_number_of_checkpoints_that_stay(settings, tmp_path, keep, kept):
    train(settings("run", checkpoint_every=2, keep=keep), quiet=True)
    assert checkpoints(tmp_path / "run") == kept


def test_settings_are_kept_for_others_to_read(settings, tmp_path):
    train(settings("run"), quiet=True)
    kept = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert kept["sequence_length"] == 16 and kept["data"] == str(tmp_path / "data") and "out" not in kept


# ------------------------------------------------------------------------------------------------------ fine-tuning


def test_fine_tuning_starts_where_the_model_ended(settings, tmp_path):
    first = train(settings("first"), quiet=True)
    for model in (tmp_path / "first", tmp_path / "first" / "model_00000008.bin"):
        second = train(settings("second", model=str(model), preset="d12"), quiet=True, save=False)
        assert second.val[0][1] == first.val[-1][1] and second.losses[-1] < first.losses[0]
        assert second.model.config == first.model.config


def test_a_model_and_data_of_different_vocabularies_are_refused(settings, tmp_path):
    write_model(tmp_path / "model.bin", GPT2(GPT2Config(maxT=16, V=300, L=1, NH=1, C=8)))
    with pytest.raises(UserError, match="300 and 257.*model's own tokenizer"):
        train(settings("run", model=str(tmp_path / "model.bin")), quiet=True)
    train(settings("first"), quiet=True)
    other = [bytes([b]) for b in reversed(range(256))] + [END_OF_TEXT.encode()]
    write_tokenizer(tmp_path / "data" / "tokenizer.bin", make_encoding(other, V - 1))
    with pytest.raises(UserError, match="different vocabularies of 257"):
        train(settings("run", model=str(tmp_path / "first")), quiet=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("backend", BACKENDS)
def test_recompute_is_remembered_and_may_change_without_a_trace(settings, tmp_path, backend):
    whole = train(settings("whole", steps=8, backend=backend, recompute=0), quiet=True)
    stopped(settings("run", steps=8, backend=backend, recompute=2), 4)
    assert read_settings(tmp_path / "run").recompute == 2
    again = resume(tmp_path / "run", quiet=True, recompute=1)
    assert again.model.recompute == read_settings(tmp_path / "run").recompute == 1
    assert again.model.params_flat.tobytes() == whole.model.params_flat.tobytes()


# ---------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "changes",
    [
        dict(batch_size=4),
        dict(sequence_length=8),
        dict(preset="d12"),
        dict(seed=1),
        dict(order="files"),
        dict(precision="bf16"),
    ],
)
def test_what_cannot_change_within_a_run(settings, tmp_path, changes):
    stopped(settings("run"), 4)
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(UserError, match=f"cannot change its {next(iter(changes)).replace('_', ' ')} from .*--model"):
        resume(tmp_path / "run", quiet=True, **changes)
    with pytest.raises(UserError, match="stays in its own folder"):
        resume(tmp_path / "run", quiet=True, out=str(tmp_path / "other"))
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}


def test_an_unknown_setting_is_a_type_error(settings, tmp_path):
    stopped(settings("run"), 4)
    with pytest.raises(TypeError, match="spets"):
        resume(tmp_path / "run", quiet=True, spets=9)


def test_two_processes_never_train_one_run(settings, tmp_path):
    stopped(settings("run"), 4)
    other = LogWriter(tmp_path / "run" / "main.log")
    with pytest.raises(UserError, match="another process"):
        resume(tmp_path / "run", quiet=True)
    other.close()
    assert resume(tmp_path / "run", quiet=True).steps == 8


@pytest.mark.parametrize(
    "name, harm, words",
    [
        ("settings.json", b"{", "not JSON"),
        ("settings.json", b'{"speed": 9}', "does not hold the settings of a run"),
        ("settings.json", b'{"steps": -1}', "steps must be"),
        ("settings.json", None, "does not exist; start a new run"),
        (
            "state_00000004_00000.bin",
            b"",
            "state_00000004_00000.bin has changed since it was saved; there is no earlier",
        ),
        (
            "model_00000004.bin",
            b"",
            "model_00000004.bin has changed since it was saved; there is no earlier checkpoint",
        ),
        ("DONE_00000004", None, "no checkpoint"),
        ("main.log", b"hello\n", "line 1"),
    ],
)
def test_a_damaged_run_is_one_sentence(settings, tmp_path, name, harm, words):
    stopped(settings("run"), 4)
    path = tmp_path / "run" / name
    path.unlink() if harm is None else path.write_bytes(harm)
    with pytest.raises(UserError, match=words):
        resume(tmp_path / "run", quiet=True)


def test_a_checkpoint_without_its_last_losses_starts_a_new_window(settings, tmp_path):
    """llm.c writes such checkpoints."""
    whole = train(settings("whole"), quiet=True)
    stopped(settings("run"), 4)
    model, state = load_checkpoint(tmp_path / "run", 4)
    save_checkpoint(tmp_path / "run", model, replace(state, losses=(), norms=()))
    assert resume(tmp_path / "run", quiet=True).losses[4:] == whole.losses[4:]


def test_no_run_to_resume(tmp_path, monkeypatch):
    monkeypatch.setattr("llmc.training.find_models.runs_home", lambda: tmp_path / "runs")
    with pytest.raises(UserError, match="no trained model"):
        resume(quiet=True)
    with pytest.raises(UserError, match="there is no run"):
        resume("lost", quiet=True)
