"""A run whose files or data were changed is refused; one whose machine has changed goes on and says so; and a run
folder that disappears during training is written again.

LLMC_FLIPS=200 flips that many bits in the files of a run and its data, and prints how many were refused.
"""

import json
import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from llmc.backends import get_backend
from llmc.checkpoints.folder import checkpoints, load_checkpoint, load_model
from llmc.checkpoints.saved_files import read_record
from llmc.config import PRESETS, GPT2Config
from llmc.data import read_tokens, write_tokens
from llmc.errors import UserError
from llmc.files.digest import json_digest
from llmc.tests.tiny_corpus import TEXT, write_corpus
from llmc.training import TrainResult, TrainSettings, read_log, resume, train
from llmc.training.console import BarConsole, PlainConsole
from llmc.training.continuation import load_run
from llmc.training.find_models import find_tokenizer
from llmc.training.settings_file import read_settings
from llmc.training.surroundings import differences, surroundings

FLIPS = int(os.environ.get("LLMC_FLIPS", 40))


class Blank:
    """A figure with nothing in it."""

    @staticmethod
    def savefig(file, format):
        file.write(b"")


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Makes TrainSettings for a short run of a very small model in tmp_path / "run"."""
    monkeypatch.setitem(PRESETS, "nano", GPT2Config(maxT=16, L=1, NH=2, C=16))
    monkeypatch.setattr(TrainResult, "plot", lambda self: Blank)
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    write_corpus(tmp_path / "data", train=TEXT[:700])
    small = dict(preset="nano", batch_size=2, sequence_length=16, warmup=2, val_every=3, val_batches=2, sample_tokens=4)
    place = dict(data=str(tmp_path / "data"), out=str(tmp_path / "run"))
    return lambda **changes: TrainSettings(**{**small, **place, "steps": 8, **changes})


@pytest.fixture
def half(settings, tmp_path):
    """The folder of a run of 8 steps that has checkpoints of steps 2 and 4, and was stopped after step 4."""

    class Killed(Exception):
        pass

    def kill(report):
        if report.step == 5:
            raise Killed

    with pytest.raises(Killed):
        train(settings(checkpoint_every=2, keep=0), on_step=kill)
    assert checkpoints(tmp_path / "run") == [2, 4]
    return tmp_path / "run"


def refusal(run, **changes):
    with pytest.raises(UserError) as caught:
        resume(run, quiet=True, **changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def resumable(run):
    """Everything that a resumed run begins with."""
    with load_run(run) as (trainer, _, history):
        x, y = (array.copy() for array in trainer.train_loader.next_batch())
        settings, arrays = (
            trainer.settings,
            (trainer.model.params_flat, trainer.model.m.flat, trainer.model.v.flat, x, y),
        )
        return settings, history, trainer.baselines, trainer.changed, [array.tobytes() for array in arrays]


# ----- files and data ------------------------------------------------------------------------------------------------


def test_bits_flipped_anywhere_in_a_run_or_its_data_are_refused_or_harmless(half, tmp_path):
    names = ("model_00000004.bin", "state_00000004_00000.bin", "DONE_00000004", "settings.json", "tokenizer.bin")
    files = [half / name for name in names] + [tmp_path / "data" / name for name in ("train.bin", "val.bin")]
    before, places, counts = resumable(half), random.Random(2), {}
    for number in range(FLIPS):
        path = files[number % len(files)]
        raw = path.read_bytes()
        bit = places.randrange(8 * len(raw))
        damaged = bytearray(raw)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            assert resumable(half) == before, (path.name, bit)
            assert path.suffix != ".bin" or (path.parent != half and bit < 8 * 1024)  # what readers skip in a header
            kind = "harmless"
        except UserError as error:
            assert path.name in str(error) and "\n" not in str(error)
            kind = "refused"
        counts[path.name, kind] = counts.get((path.name, kind), 0) + 1
        path.write_bytes(raw)
    print(f"\n{FLIPS} flipped bits: {counts}")
    assert resumable(half) == before


def test_replaced_tokens_are_refused(half, tmp_path):
    tokens = np.array(read_tokens(tmp_path / "data" / "train.bin"))
    tokens[-1] ^= 1
    write_tokens(tmp_path / "data" / "train.bin", tokens)
    assert "train.bin holds different tokens than earlier in this run; restore the tokens" in refusal(half)
    write_tokens(tmp_path / "data" / "train.bin", tokens[:-1])
    assert "train.bin has 700 tokens, but had 701 in this run; restore" in refusal(half)


def test_replaced_validation_tokens_are_refused(half, tmp_path):
    write_corpus(tmp_path / "data", train=TEXT[:700], val=TEXT[1:401])
    assert "val.bin holds different tokens than earlier in this run" in refusal(half)


def test_tokens_may_move_but_not_change(half, tmp_path):
    (tmp_path / "data").rename(tmp_path / "moved")
    assert resume(half, quiet=True, data=str(tmp_path / "moved")).steps == 8
    write_corpus(tmp_path / "other", train=TEXT[5:705])
    assert "train.bin holds different tokens" in refusal(half, data=str(tmp_path / "other"), steps=9)


def shards(folder, *texts):
    for number, text in enumerate(texts):
        write_tokens(folder / f"x_train_{number:06d}.bin", np.frombuffer(text.encode(), np.uint8).astype(np.uint16))


def test_a_shard_is_compared_when_it_is_opened(settings, tmp_path, monkeypatch):
    """Three shards of 5 batches each, taken in order: after 7 steps, the third has not been read."""
    monkeypatch.setattr("llmc.training.trainer.BASELINE_TOKENS", 200)
    write_corpus(tmp_path / "data")
    (tmp_path / "data" / "train.bin").unlink()
    same = dict(order="files", steps=7, schedule="constant", warmup=0, val_every=100)
    texts = [TEXT[i : i + 170] for i in (0, 200, 400)]
    shards(tmp_path / "data", *texts)
    train(settings(**same), quiet=True)
    found = read_record(tmp_path / "run" / "DONE_00000007")["data"]["train"]
    assert [digest is not None for _, _, digest in found] == [True, True, False]
    shards(tmp_path / "data", TEXT[3:173], *texts[1:])
    assert "x_train_000000.bin holds different tokens" in refusal(tmp_path / "run", steps=20)
    shards(tmp_path / "data", *texts[:2], TEXT[3:173])
    assert resume(tmp_path / "run", quiet=True, steps=14).steps == 14  # as if it had been there from the beginning
    (tmp_path / "data" / "x_train_000002.bin").unlink()
    assert "holds 2 token files, but the run had 3" in refusal(tmp_path / "run", steps=20)


def test_edited_settings_are_refused(half):
    path = half / "settings.json"
    text = path.read_text()
    path.write_text(text.replace('"warmup": 2', '"warmup": 3'))
    assert f"{path} has been edited; undo that, and give new settings as options" in refusal(half)
    values = json.loads(text)
    del values["sha256"]
    path.write_text(json.dumps(values | {"warmup": 3}))
    assert f"{path} has been edited" in refusal(half)
    path.write_text(json.dumps(json.loads(text), indent=4))  # another layout is no edit
    assert resume(half, quiet=True, learning_rate=1e-3).run.settings.learning_rate == 1e-3


@pytest.mark.parametrize("name, value", [("seed", 1), ("batch_size", 1), ("sequence_length", 8)])
def test_settings_that_do_not_fit_the_checkpoint_are_refused(half, name, value):
    """Those of another run, or edited together with their digest."""
    values = {**json.loads((half / "settings.json").read_text()), name: value}
    values.pop("sha256")
    (half / "settings.json").write_text(json.dumps({**values, "sha256": json_digest(values)}))
    assert f"says {name.replace('_', ' ')} {value}, but the run was trained with" in refusal(half)
    (half / "settings.json").write_text(json.dumps(values))
    assert f"says {name.replace('_', ' ')} {value}, but the run was trained with" in refusal(half)


def test_settings_without_a_digest_are_read(half):
    """As they were written before there was one, when DONE said nothing."""
    values = json.loads((half / "settings.json").read_text())
    del values["sha256"]
    (half / "settings.json").write_text(json.dumps(values))
    for done in half.glob("DONE_*"):
        done.write_bytes(b"")
    assert resume(half, quiet=True).steps == 8


def test_settings_of_an_older_version_are_read(half):
    """Where the order was called shuffle; a digest of these words is right."""
    values = json.loads((half / "settings.json").read_text())
    del values["sha256"], values["order"]
    for word, order in (("llm.c", "llm.c"), (False, "files"), (True, "random")):
        values["shuffle"] = word
        (half / "settings.json").write_text(json.dumps({**values, "sha256": json_digest(values)}))
        assert read_settings(half).order == order
    assert resume(half, quiet=True).steps == 8
    values["shuffle"] = ["random"]
    (half / "settings.json").write_text(json.dumps(values))
    assert "damaged: order must be random, llm.c or files" in refusal(half)


def test_a_damaged_tokenizer_writes_no_text(half):
    path = half / "tokenizer.bin"
    raw = bytearray(path.read_bytes())
    raw[1025], raw[1027] = raw[1027], raw[1025]  # two letters swapped: still a tokenizer
    path.write_bytes(raw)
    with pytest.raises(UserError, match="tokenizer.bin has changed since it was saved"):
        find_tokenizer(257, folders=[half])
    assert "tokenizer.bin has changed since it was saved" in refusal(half)


def test_a_checkpoint_of_llmc_is_resumed(half):
    settings = json.loads((half / "settings.json").read_text(encoding="utf-8"))
    settings.pop("sha256")  # in a folder that is not of our making
    (half / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    for step in (2, 4):
        (half / f"DONE_{step:08d}").write_bytes(b"")
    result = resume(half, quiet=True)
    assert result.steps == 8 and read_record(half / "DONE_00000008")["step"] == 8


def test_the_record_says_what_the_bits_depend_on(half):
    record = read_record(half / "DONE_00000004")
    assert record["settings"].items() >= dict(seed=42, batch_size=2, sequence_length=16).items()
    assert record["surroundings"].keys() >= {"backend", "threads", "BLAS", "processor", "numpy", "numba"}
    assert [row[:2] for row in record["data"]["train"]] == [["train.bin", 701]]
    assert record["files"].keys() == {"model_00000004.bin", "state_00000004_00000.bin", "tokenizer.bin"}


# ----- bits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend, threads", [("cpu", 1), ("cpu", 2), ("numpy", 1), ("numpy", 2)])
def test_a_resume_equals_a_run_without_interruption(settings, tmp_path, backend, threads):
    """On each number of threads by itself."""
    import numba
    from threadpoolctl import threadpool_limits

    before = numba.get_num_threads()
    try:
        numba.set_num_threads(min(threads, before))
        with threadpool_limits(threads):  # NumPy's BLAS
            same = dict(backend=backend, schedule="constant", batch_size=4)
            whole = train(settings(out=str(tmp_path / "whole"), steps=9, **same), quiet=True)
            train(settings(steps=4, **same), quiet=True)
            rest = resume(tmp_path / "run", quiet=True, steps=9)
    finally:
        numba.set_num_threads(before)
    assert rest.losses[4:] == whole.losses[4:]
    for name in ("model_00000009.bin", "state_00000009_00000.bin"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


# ----- what may change -----------------------------------------------------------------------------------------------


def test_another_number_of_threads_is_said(half, monkeypatch):
    seen = []
    monkeypatch.setattr("numba.get_num_threads", lambda: 7)
    result = resume(half, on_step=seen.append)
    now = read_record(half / "DONE_00000004")["surroundings"]["threads"]
    sentence = (
        f"continuing with threads 7 instead of {now}: the last bits will differ from those of an uninterrupted run"
    )
    assert [report.notice for report in seen] == [sentence, *[None] * 4] and result.steps == 8


def test_another_backend_is_said(half, capsys):
    result = resume(half, backend="numpy")
    assert "backend numpy instead of cpu" in capsys.readouterr().out and result.steps == 8
    seen = []
    resume(half, on_step=seen.append, steps=9)  # from then on, that is the run's
    assert seen[0].notice is None


def test_unchanged_surroundings_are_not_mentioned(half):
    seen = []
    resume(half, on_step=seen.append)
    assert all(report.notice is None for report in seen)


@pytest.mark.parametrize("name", ["numpy", "cpu"])
def test_surroundings_compare(name):
    found = surroundings(get_backend(name))
    assert found == json.loads(json.dumps(found)) and found["backend"] == name and differences(found, found) == []
    other = {**found, "processor": "z80 (basic)", "BLAS": "abacus"}
    assert differences(other, found) == [f"{key} {found[key]} instead of {other[key]}" for key in ("processor", "BLAS")]
    assert differences({"threads": 2}, {"device": "H200"}) == [] and differences({}, found) == []


@pytest.mark.parametrize("console", [PlainConsole, BarConsole])
def test_a_notice_is_shown(console, half, capsys):
    from dataclasses import replace

    seen = []
    resume(half, on_step=seen.append)
    shown = console()
    shown(replace(seen[0], notice="the bits will differ"))
    getattr(shown, "close", lambda: None)()
    assert "the bits will differ" in capsys.readouterr().out


# ----- a run folder that disappears ----------------------------------------------------------------------------------


def without_time(folder):
    """What a run leaves, apart from the sample, whose folder may be another."""
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.name != "settings.json"}


WAYS = {
    "deleted": shutil.rmtree,
    "moved": lambda run: run.rename(run.parent / "moved"),
    "emptied": lambda run: [path.unlink() for path in run.iterdir()],
    "without its log": lambda run: (run / "main.log").unlink(),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("at", [1, 5])  # before the first checkpoint, and between two
def test_a_run_folder_that_disappears_is_written_again(settings, tmp_path, way, at):
    whole = train(settings(out=str(tmp_path / "whole"), checkpoint_every=2), quiet=True)
    seen = []

    def listen(report):
        seen.append(report.notice)
        if report.step == at:
            WAYS[way](tmp_path / "run")

    result = train(settings(checkpoint_every=2), on_step=listen)
    assert result.run_dir == tmp_path / "run" and result.losses == whole.losses
    notices = [notice for notice in seen if notice]
    assert len(notices) == 1 and "run had disappeared; the whole run is now in" in notices[0]
    assert read_log(tmp_path / "run" / "main.log") == read_log(tmp_path / "whole" / "main.log")
    names, expected = ({path.name for path in (tmp_path / run).iterdir()} for run in ("run", "whole"))
    assert names == expected if way != "deleted" or at == 1 else names >= expected - {"model_00000006.bin"}
    assert np.array_equal(load_checkpoint(tmp_path / "run", 8)[0].params_flat, whole.model.params_flat)
    assert resume(tmp_path / "run", quiet=True, steps=9).steps == 9


def test_gone_at_the_end_it_is_whole_again(settings, tmp_path, monkeypatch):
    """During the last sample, after the last checkpoint."""
    from llmc.training.trainer import Trainer

    sample = Trainer.sample
    monkeypatch.setattr(Trainer, "sample", lambda self, stop: shutil.rmtree(tmp_path / "run") or sample(self))
    result = train(settings(), quiet=True)
    assert "had disappeared" in result.notice and checkpoints(tmp_path / "run") == [8]
    assert len(read_log(tmp_path / "run" / "main.log")["train"]) == 8
    assert np.array_equal(load_model(tmp_path / "run" / "model.bin").params_flat, result.model.params_flat)


def test_what_took_its_place_is_left_alone(settings, tmp_path):
    def replace_it(report):
        if report.step == 3:
            (tmp_path / "run").rename(tmp_path / "moved")
            (tmp_path / "run").mkdir()
            (tmp_path / "run" / "main.log").write_text("of another run")

    result = train(settings(checkpoint_every=2), on_step=replace_it)
    assert result.run_dir == tmp_path / "run-2" and checkpoints(tmp_path / "run-2") == [4, 6, 8][-2:]
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["main.log"]
    assert checkpoints(tmp_path / "moved") == [2]


def test_a_place_that_cannot_be_written_again_is_one_sentence(settings, tmp_path):
    def block(report):
        if report.step == 3:
            shutil.rmtree(tmp_path / "runs")
            (tmp_path / "runs").write_text("a file")

    with pytest.raises(UserError, match="cannot make a run folder in .*runs") as caught:
        train(settings(checkpoint_every=2, out=str(tmp_path / "runs" / "a")), on_step=block)
    assert "\n" not in str(caught.value) and (tmp_path / "runs").read_text() == "a file"
