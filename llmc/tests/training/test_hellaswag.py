"""HellaSwag while a model is trained: in the log, on the console, resumed, shared by ranks; training is not changed."""

import json

import numpy as np
import pytest

from llmc.cli import main
from llmc.config import PRESETS, GPT2Config
from llmc.errors import UserError
from llmc.files.digest import digest
from llmc.hellaswag import fetch, load_examples, score_examples
from llmc.tests.tiny_corpus import byte_encoding, write_corpus
from llmc.training import TrainSettings, hellaswag, read_log, resume, train
from llmc.training.ends import RunDiverged
from llmc.training.hellaswag import HellaSwag

WORDS = "the cat sat on the mat and the dog ran to the man".split()
SAME = dict(preset="nano", steps=8, batch_size=2, sequence_length=32, val_every=4, val_batches=1, backend="numpy")


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """settings(name, **changes): of a short run, with 21 examples in place of HellaSwag's."""
    monkeypatch.setitem(PRESETS, "nano", GPT2Config(maxT=32, L=1, NH=2, C=16))
    monkeypatch.setenv("LLMC_DATA_DIR", str(tmp_path / "home"))
    write_corpus(tmp_path / "data")
    random, path = np.random.RandomState(0), tmp_path / "home" / "hellaswag" / "hellaswag_val.jsonl"
    path.parent.mkdir(parents=True)
    lines = [
        {
            "ctx": " ".join(random.choice(WORDS, 3)),
            "endings": [" ".join(random.choice(WORDS, random.randint(1, 4))) for _ in range(4)],
            "label": int(random.randint(4)),
        }
        for _ in range(21)
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    monkeypatch.setattr(fetch, "SHA256", digest(path))
    return lambda name, **changes: TrainSettings(
        **SAME | {"data": str(tmp_path / "data"), "out": str(tmp_path / name), "hellaswag_every": 2} | changes
    )


def test_it_is_logged_and_changes_nothing(settings, tmp_path):
    result, without = train(settings("with"), quiet=True), train(settings("without", hellaswag_every=0), quiet=True)
    log, plain = read_log(tmp_path / "with" / "main.log"), read_log(tmp_path / "without" / "main.log")
    assert [step for step, _ in log["eval"]] == [0, 2, 4, 6, 8] and plain["eval"] == []
    assert log["train"] == plain["train"] and log["val"] == plain["val"]
    assert np.array_equal(result.model.params_flat, without.model.params_flat)
    examples = load_examples(encoding=byte_encoding())
    scores = score_examples(result.model, examples, window=32)
    assert log["eval"][-1][1] == pytest.approx(scores.accuracy_norm, abs=1e-4)
    assert "s:4 tel:" in (text := (tmp_path / "with" / "main.log").read_text())
    assert text.index("s:4 tel:") < text.index("s:4 eval:") < text.index("s:4 trl:")


def test_a_resumed_run_has_the_same_log(settings, tmp_path):
    train(settings("whole"), quiet=True)
    train(settings("parts", steps=5, schedule="constant"), quiet=True)
    train(settings("whole2", schedule="constant"), quiet=True)
    resume(tmp_path / "parts", quiet=True, steps=8)
    rows = [read_log(tmp_path / name / "main.log")["eval"] for name in ("parts", "whole2")]
    assert [row for row in rows[0] if row[0] != 5] == rows[1]  # the first part ended at step 5, and measured there


def test_the_console_says_it(settings, capsys, tmp_path, monkeypatch):
    s = settings("run", steps=2)
    words = ["--preset", "nano", "--data", s.data, "--out", s.out, "--steps", "2", "--hellaswag-every", "2"]
    words += ["--backend", "numpy", "--batch-size", "2", "--sequence-length", "32"]
    assert main(["train", *words]) == 0
    assert capsys.readouterr().out.count("HellaSwag accuracy 0.") == 2


class Two:
    """One of two ranks that only takes means."""

    world = 2

    def __init__(self, rank, given):
        self.rank, self.local, self.given = rank, rank, given

    def barrier(self):
        pass

    def mean(self, value):
        self.given.append(value)
        return value


def test_ranks_share_the_examples(settings):
    model = train(settings("run", steps=1), quiet=True).model
    s, examples, given = settings("x"), load_examples(encoding=byte_encoding()), []
    for rank in range(2):
        HellaSwag(s, byte_encoding(), model.config, Two(rank, given)).accuracy(model)
    whole = score_examples(model, examples, window=32).accuracy_norm
    assert sum(given) / len(examples) == pytest.approx(whole)


def test_it_can_be_given_up(settings):
    model = train(settings("run", steps=1), quiet=True).model
    measure = HellaSwag(settings("x"), byte_encoding(), model.config, type("One", (Two,), {"world": 1})(0, []))
    assert measure.accuracy(model, stop=lambda: True) is None


def test_weights_that_make_no_numbers_end_the_run_with_3(settings, monkeypatch):
    def broken(model, *anything, **more):
        model.params_flat[:] = np.nan
        return score_examples(model, *anything, **more)

    monkeypatch.setattr(hellaswag, "score_examples", broken)
    with pytest.raises(RunDiverged, match="the loss on HellaSwag is not a number after step 0, .* learning rate"):
        train(settings("run"), quiet=True)


def test_without_the_file_or_a_network_the_run_does_not_begin(settings, monkeypatch, tmp_path):
    monkeypatch.setattr(fetch, "URL", "http://name.invalid/hellaswag_val.jsonl")
    monkeypatch.setattr(fetch, "SHA256", "0" * 64)
    with pytest.raises(
        UserError, match=r"cannot fetch .* exists, but is a different file \(wrong SHA-256\); put a copy"
    ):
        train(settings("run"), quiet=True)
    assert not (tmp_path / "run" / "main.log").exists()
