"""`llmc init` and `llmc export`: model files to start from, and models for Hugging Face."""

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest

from llmc.checkpoints import TrainState, read_huggingface, read_model, save_checkpoint, write_huggingface, write_model
from llmc.cli import main
from llmc.config import PRESETS, GPT2Config
from llmc.data.tokenizer import END_OF_TEXT, make_encoding, write_tokenizer
from llmc.files.atomic_write import atomic_folder, atomic_write
from llmc.files.floats import bfloat16_to_float32, float32_to_bfloat16
from llmc.model import GPT2

CONFIG = GPT2Config(maxT=8, V=257, L=2, NH=2, C=8)


def llmc(capsys, *argv):
    """(exit status, stdout, stderr) of a command."""
    status = main([str(word) for word in argv])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def fresh(config=CONFIG, seed=42):
    model = GPT2(config)
    model.init_weights(seed)
    return model


def bytes_encoding():
    """A tokenizer of the 256 bytes and the end of text."""
    return make_encoding([bytes([b]) for b in range(256)] + [END_OF_TEXT.encode()], 256)


# ----- init -----------------------------------------------------------------------------------------------------------


def test_a_preset_becomes_its_initial_weights(tmp_path, capsys):
    status, out, _ = llmc(capsys, "init", "--preset", "tiny", "--seed", 7, "-o", tmp_path / "m.bin")
    assert status == 0 and "536,064 parameters in float32, 2.1 MB" in out
    model = read_model(tmp_path / "m.bin")
    assert model.config == PRESETS["tiny"]
    np.testing.assert_array_equal(model.params_flat, fresh(PRESETS["tiny"], 7).params_flat)


def test_bfloat16(tmp_path, capsys):
    llmc(capsys, "init", "--preset", "tiny", "--precision", "bfloat16", "-o", tmp_path / "m.bin")
    expected = bfloat16_to_float32(float32_to_bfloat16(fresh(PRESETS["tiny"]).params_flat))
    np.testing.assert_array_equal(read_model(tmp_path / "m.bin").params_flat, expected)


def test_a_hugging_face_folder_becomes_a_model_file(tmp_path, capsys):
    write_huggingface(tmp_path / "hf", fresh())
    assert llmc(capsys, "init", "--from", tmp_path / "hf", "-o", tmp_path / "m.bin")[0] == 0
    np.testing.assert_array_equal(read_model(tmp_path / "m.bin").params_flat, fresh().params_flat)


def test_nothing_is_overwritten_unless_asked(tmp_path, capsys):
    path = tmp_path / "m.bin"
    path.write_bytes(b"mine")
    status, _, err = llmc(capsys, "init", "--preset", "tiny", "-o", path)
    assert status == 2 and "already exists" in err and path.read_bytes() == b"mine"
    assert llmc(capsys, "init", "--preset", "tiny", "-o", path, "--force")[0] == 0
    assert read_model(path).config == PRESETS["tiny"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give either --preset"),
        (["--preset", "tiny", "--from", "x"], "give either --preset"),
        (["--preset", "d13"], "there is no preset 'd13'"),
        (["--preset", "tiny", "--seed", "-1"], "the seed must be a whole number from 0 to 4294967295"),
        (["--preset", "tiny", "--seed", str(2**32)], "the seed must be"),
        (["--preset", "tiny", "--precision", "fp8"], 'precision must be "float32" or "bfloat16"'),
        (["--from", "no/such/folder"], "there is no folder no/such/folder"),
    ],
)
def test_init_refuses_in_one_sentence(tmp_path, capsys, options, message):
    status, out, err = llmc(capsys, "init", *options, "-o", tmp_path / "m.bin")
    assert status == 2 and out == "" and message in err and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [("init", "--preset", "tiny"), ("export", "x")])
def test_a_zero_byte_in_a_name(capsys, command):
    status, out, err = llmc(capsys, *command, "-o", "x\0y")
    assert status == 2 and out == "" and "it contains a zero byte" in err and err.count("\n") == 1


# ----- export ---------------------------------------------------------------------------------------------------------


def test_a_model_file_alone(tmp_path, capsys):
    write_model(tmp_path / "m.bin", fresh())
    status, out, _ = llmc(capsys, "export", tmp_path / "m.bin", "-o", tmp_path / "hf")
    assert status == 0 and "wrote" in out and "config.json, model.safetensors" in out and "--tokenizer" in out
    np.testing.assert_array_equal(read_huggingface(tmp_path / "hf").params_flat, fresh().params_flat)


def test_a_run_with_its_tokenizer(tmp_path, capsys):
    """A finished run has model.bin; a killed one has only its checkpoints."""
    run = tmp_path / "run"
    model = fresh()
    save_checkpoint(run, model, TrainState(step=0))
    write_tokenizer(run / "tokenizer.bin", bytes_encoding())
    status, out, _ = llmc(capsys, "export", run, "-o", tmp_path / "hf")
    files = "config.json, merges.txt, model.safetensors, tokenizer_config.json, vocab.json"
    assert status == 0 and out == f"wrote {tmp_path / 'hf'}: {files}\n"
    np.testing.assert_array_equal(read_huggingface(tmp_path / "hf").params_flat, model.params_flat)
    assert json.loads((tmp_path / "hf" / "config.json").read_text())["eos_token_id"] == 256
    save_checkpoint(run, fresh(seed=1), TrainState(step=1))
    write_model(run / "model.bin", fresh(seed=1))
    llmc(capsys, "export", run, "-o", tmp_path / "final")
    np.testing.assert_array_equal(read_huggingface(tmp_path / "final").params_flat, fresh(seed=1).params_flat)


def test_an_export_in_bfloat16(tmp_path, capsys):
    write_model(tmp_path / "m.bin", fresh())
    assert llmc(capsys, "export", tmp_path / "m.bin", "-o", tmp_path / "hf", "--precision", "bfloat16")[0] == 0
    expected = bfloat16_to_float32(float32_to_bfloat16(fresh().params_flat))
    np.testing.assert_array_equal(read_huggingface(tmp_path / "hf").params_flat, expected)
    assert json.loads((tmp_path / "hf" / "config.json").read_text())["dtype"] == "bfloat16"
    status, _, err = llmc(capsys, "export", tmp_path / "m.bin", "-o", tmp_path / "x", "--precision", "fp8")
    assert status == 2 and "fp8" in err and not (tmp_path / "x").exists()


def test_there_and_back_is_the_same_file(tmp_path, capsys):
    write_model(tmp_path / "m.bin", fresh())
    llmc(capsys, "export", tmp_path / "m.bin", "-o", tmp_path / "hf")
    llmc(capsys, "init", "--from", tmp_path / "hf", "-o", tmp_path / "again.bin")
    assert (tmp_path / "again.bin").read_bytes() == (tmp_path / "m.bin").read_bytes()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path, capsys):
    write_model(tmp_path / "m.bin", fresh())
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "notes.txt").write_text("mine")
    status, _, err = llmc(capsys, "export", tmp_path / "m.bin", "-o", tmp_path / "hf")
    assert status == 2 and "is not empty" in err and len(list((tmp_path / "hf").iterdir())) == 1
    for force in ([], ["--force"]):
        status, _, err = llmc(capsys, "export", tmp_path / "m.bin", "-o", tmp_path / "m.bin", *force)
        assert status == 2 and "m.bin is not a folder" in err
    assert llmc(capsys, "export", tmp_path / "m.bin", "-o", tmp_path / "hf", "--force")[0] == 0
    assert (tmp_path / "hf" / "notes.txt").read_text() == "mine"


def test_another_models_tokenizer_is_refused(tmp_path, capsys):
    write_model(tmp_path / "m.bin", fresh(GPT2Config(maxT=8, V=300, L=2, NH=2, C=8)))
    write_tokenizer(tmp_path / "t.bin", bytes_encoding())
    status, _, err = llmc(
        capsys, "export", tmp_path / "m.bin", "-o", tmp_path / "hf", "--tokenizer", tmp_path / "t.bin"
    )
    assert status == 2 and "the model has 300 tokens" in err and "t.bin has 257;" in err
    assert not (tmp_path / "hf").exists()


@pytest.mark.parametrize("there", [True, False])
def test_an_export_that_fails_leaves_nothing(tmp_path, monkeypatch, capsys, there):
    def full(folder, *rest):
        with atomic_write(Path(folder) / "model.safetensors"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("llmc.commands.export.write_huggingface", full)
    write_model(tmp_path / "m.bin", fresh())
    write_tokenizer(tmp_path / "tokenizer.bin", bytes_encoding())
    if there:
        (tmp_path / "hf").mkdir()
    before = sorted(tmp_path.rglob("*"))
    status, _, err = llmc(capsys, "export", tmp_path / "m.bin", "-o", tmp_path / "hf")
    assert status == 2 and f"cannot write {tmp_path / 'hf' / 'model.safetensors'}: No space left on device" in err
    assert sorted(tmp_path.rglob("*")) == before
    with pytest.raises(KeyboardInterrupt), atomic_folder(tmp_path / "hf") as made:
        (made / "half").touch()
        raise KeyboardInterrupt
    assert sorted(tmp_path.rglob("*")) == before


def test_in_gpt2s_vocabulary_the_end_of_text_is_gpt2s(tmp_path):
    write_huggingface(tmp_path, GPT2(GPT2Config(maxT=1, L=1, NH=1, C=1)))
    assert json.loads((tmp_path / "config.json").read_text())["eos_token_id"] == 50256
