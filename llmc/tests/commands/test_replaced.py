"""Commands that read a run while it is training: its checkpoints come and go."""

import shutil

import pytest

from llmc.checkpoints import load_model
from llmc.checkpoints.folder import save_checkpoint
from llmc.checkpoints.optimizer_state import TrainState
from llmc.cli import main
from llmc.config import GPT2Config
from llmc.model import GPT2
from llmc.tests.tiny_corpus import V, write_corpus


@pytest.fixture
def replaced(tmp_path, monkeypatch):
    """A run whose checkpoint of step 1 is replaced by that of step 2 while it is being read; its folder."""
    run, config = tmp_path / "run", GPT2Config(maxT=16, V=V, L=1, NH=1, C=8)

    def save(step, keep=0):
        model = GPT2(config)
        model.init_weights(step)
        save_checkpoint(run, model, TrainState(step), keep)

    def load(path, *options):
        if path.name == "model_00000001.bin":
            save(2, keep=1)
        return load_model(path, *options)

    run.mkdir()
    shutil.copy(write_corpus(tmp_path / "corpus").tokenizer, run)
    save(1)
    for command in ("sample", "export"):
        monkeypatch.setattr(f"llmc.commands.{command}.load_model", load)
    return run


def test_a_checkpoint_that_is_replaced_while_it_is_read(replaced, tmp_path, capsys):
    assert main(["sample", str(replaced), "--prompt", "the ", "--max-tokens", "4", "--temperature", "0"]) == 0
    first = capsys.readouterr().out
    assert main(["sample", str(replaced), "--prompt", "the ", "--max-tokens", "4", "--temperature", "0"]) == 0
    assert capsys.readouterr().out == first and [path.name for path in replaced.glob("model*")] == [
        "model_00000002.bin"
    ]


def test_a_checkpoint_that_is_gone_and_not_replaced_is_refused(replaced, monkeypatch, capsys):
    def gone(path, *options):
        path.unlink()
        return load_model(path, *options)

    monkeypatch.setattr("llmc.commands.sample.load_model", gone)
    assert main(["sample", str(replaced)]) == 2 and "holds no model.bin" in capsys.readouterr().err
