"""Fixtures of the data tests: a data folder of their own, a tokenizer, and the command line's refusals."""

import pytest

from llmc import cli
from llmc.data.tokenizer import write_tokenizer
from llmc.tests.data.small_corpora import BYTES


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """The data folder of the test; it does not exist yet."""
    monkeypatch.setenv("LLMC_DATA_DIR", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def tokenizer(tmp_path):
    """The path of a tokenizer.bin whose tokens are bytes."""
    write_tokenizer(tmp_path / "bytes.bin", BYTES)
    return str(tmp_path / "bytes.bin")


@pytest.fixture
def refused(capsys):
    """Runs the command line, which must refuse, and returns its one sentence."""

    def run(*argv):
        assert cli.main([str(word) for word in argv]) == 2
        out = capsys.readouterr()
        assert out.err.startswith("llmc: ") and out.err.count("\n") == 1
        return out.err

    return run
