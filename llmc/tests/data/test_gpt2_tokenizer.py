"""GPT-2's tokenizer: fetched at most once, and one sentence when it cannot be fetched."""

import os

import pytest

from llmc.data import gpt2_tokenizer
from llmc.tests.data.small_corpora import reference, write


@reference
def test_gpt2s_tokenizer_is_kept_after_the_first_time(home, monkeypatch):
    table = gpt2_tokenizer.gpt2_encoding()
    monkeypatch.setattr(gpt2_tokenizer, "_from_tiktoken", lambda: pytest.fail("asked again"))
    assert (
        home / "gpt2" / "tokenizer.bin"
    ).is_file() and gpt2_tokenizer.gpt2_encoding().n_vocab == table.n_vocab == 50257
    (home / "gpt2" / "tokenizer.bin").write_bytes(b"something else")
    with pytest.raises(pytest.fail.Exception, match="asked again"):
        gpt2_tokenizer.gpt2_encoding()


def test_gpt2s_tokenizer_cannot_be_fetched(tmp_path, monkeypatch, refused):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "none"))
    monkeypatch.setattr("tiktoken.load.read_file", lambda _: (_ for _ in ()).throw(ConnectionError("no network")))
    tiktoken_registry = pytest.importorskip("tiktoken.registry")
    monkeypatch.setattr(tiktoken_registry, "ENCODINGS", {})
    text = write(tmp_path / "a.txt", "A line.\n" * 1000)
    sentence = refused("data", "--file", text, "--tokenizer", "gpt2")
    assert (
        "cannot be downloaded; connect to a network once, give llm.c's gpt2_tokenizer.bin with --tokenizer" in sentence
    )


def test_a_cache_that_is_damaged_beyond_repair_is_gone_past(monkeypatch):
    """A folder in place of tiktoken's file, or a cache that cannot be written: the network has the tokens, too."""

    def get_encoding(name):
        if os.environ["TIKTOKEN_CACHE_DIR"]:
            raise IsADirectoryError("the file is a folder")
        return name

    monkeypatch.setattr("tiktoken.get_encoding", get_encoding)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "damaged")
    assert gpt2_tokenizer._from_tiktoken() == "gpt2" and os.environ["TIKTOKEN_CACHE_DIR"] == "damaged"
