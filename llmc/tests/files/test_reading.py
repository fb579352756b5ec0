"""The one door for input files: what is named by mistake is refused in one sentence, and nothing waits for ever."""

import os
import sys

import pytest

from llmc.checkpoints import read_model
from llmc.cli import main
from llmc.data.corpora.text_file import blocks
from llmc.data.tokenizer import read_tokenizer
from llmc.data.tokens import read_tokens
from llmc.errors import UserError
from llmc.files.reading import opened, user_path
from llmc.parity.compare import read_losses
from llmc.training import TrainSettings, read_log

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")
READERS = {
    "model": read_model,
    "tokenizer": read_tokenizer,
    "tokens": read_tokens,
    "text": lambda path: list(blocks(path)),
    "losses": lambda path: read_losses(path, "A"),
    "log": read_log,
}


@pytest.fixture
def strange(tmp_path):
    """{what: a path that no reader can use}."""
    paths = {"missing": tmp_path / "missing", "folder": tmp_path, "long": tmp_path / ("x" * 5000), "zero": "a\0b"}
    paths["user"] = "~nobody-of-this-name/model.bin"
    if sys.platform != "win32":
        os.mkfifo(tmp_path / "pipe")
        paths |= {"pipe": tmp_path / "pipe", "device": "/dev/zero"}
    return paths


@pytest.mark.parametrize("reader", READERS)
def test_a_strange_path_is_one_sentence_for_every_reader(strange, reader):
    for what, path in strange.items():
        with pytest.raises(UserError) as error:
            READERS[reader](path)
        text = str(error.value)
        assert text.endswith(".") and "\n" not in text, (what, text)


@posix
def test_a_pipe_is_named_as_what_it_is(strange):
    with pytest.raises(UserError, match="pipe is not a regular file; give a file[.]$"), opened(strange["pipe"]):
        pass


def test_a_home_folder_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "a").write_bytes(b"1")
    with opened("~/a") as file:
        assert file.read() == b"1"
    assert user_path("~/a") == tmp_path / "a"


@pytest.mark.parametrize("path", ["~nobody-of-this-name/m.bin", "x" * 5000, "/dev/null", "/", "."])
@pytest.mark.parametrize(
    "words", [["sample"], ["eval"], ["train", "--model"], ["train", "--resume"], ["export", "--out", "o"]]
)
def test_on_the_command_line(words, path, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([*words, path]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("llmc: ") and err.count("\n") == 1 and err.rstrip().endswith(".") and out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "bad", [{"beta1": 1.0}, {"beta2": 1}, {"preset": 3}, {"data": ["pydocs"]}, {"order": True}, {"model": "a\0b"}]
)
def test_settings_of_the_wrong_kind(bad):
    with pytest.raises(UserError, match="must be"):
        TrainSettings(**bad)
