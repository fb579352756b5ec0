"""Choosing a corpus and finding it again: by name, by folder, by the names that llm.c's scripts use."""

import os
from pathlib import Path

import numpy as np
import pytest

from llmc import cli, data
from llmc.data import gpt2_tokenizer
from llmc.data.tokenizer import read_tokenizer, write_tokenizer
from llmc.errors import UserError
from llmc.tests.data.small_corpora import BYTES, reference, write
from llmc.tests.tiny_corpus import byte_encoding


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--file", "none.txt"], "none.txt does not exist"),
        (["nonsense"], 'there is no corpus "nonsense"; choose one of fineweb, pydocs, tinyshakespeare, tinystories'),
        (["pydocs", "--file", "a.txt"], "pydocs is always made from the Python that runs llmc"),
        (["tinystories", "--shards", "3"], "--shards works with fineweb only"),
        (["fineweb", "--shards", "0"], "must be at least 1"),
        (["--vocabulary", "12"], "a vocabulary of 12 tokens is not possible"),
        (["--vocabulary", "0"], "a vocabulary of 0 tokens is not possible"),
        (
            ["--vocabulary", "300", "--tokenizer", "gpt2"],
            "--vocabulary 300 is only for a tokenizer learned from the text",
        ),
        (["--tokenizer", "none.bin"], "there is no tokenizer none.bin; choose gpt2, own or"),
        (["--format", "int8"], "invalid choice"),
        (["--name", "a/b"], "cannot be the name of a corpus"),
        (["--file", __file__, "--name", "x", "--out", "y"], "--out and --name both choose the folder"),
        (["--name", "tinystories"], "tinystories is the name of another corpus"),
    ],
)
def test_arguments_that_make_no_sense(argv, sentence, refused, home):
    assert sentence in refused("data", *argv)
    assert not home.exists()


def test_another_corpus_in_the_folder_is_left_alone(tmp_path, tokenizer, refused):
    text = write(tmp_path / "input.txt", "A line of it.\n\n" * 5000)
    options = ["--file", text, "--tokenizer", tokenizer, "--out", tmp_path / "x"]
    assert cli.main([str(word) for word in ["data", "tinyshakespeare", *options]]) == 0
    for name in ([], ["fineweb"]):
        assert "holds another corpus (tiny_shakespeare_train.bin)" in refused("data", *name, *options)


def test_find_corpus_by_llm_cs_names_and_gpt2s_tokenizer(tmp_path, home, monkeypatch):
    for name in ("x_train_000001.bin", "x_train_000002.bin", "x_val_000000.bin"):
        data.write_tokens(tmp_path / "llmc" / name, np.arange(100))
    monkeypatch.setattr(gpt2_tokenizer, "_from_tiktoken", byte_encoding)
    monkeypatch.setattr(gpt2_tokenizer, "SHA256", "")
    found = data.find_corpus(tmp_path / "llmc")
    assert found.train.name == "x_train_*.bin" and data.count_tokens(found.train) == 200
    assert found.tokenizer == home / "gpt2" / "tokenizer.bin" and read_tokenizer(found.tokenizer).n_vocab == 257
    write_tokenizer(tmp_path / "llmc" / "tokenizer.bin", BYTES)
    assert data.find_corpus(str(tmp_path / "llmc")).tokenizer.parent == tmp_path / "llmc"
    data.write_tokens(tmp_path / "llmc" / "y_train.bin", np.arange(100))
    with pytest.raises(UserError, match="holds several corpora"):
        data.find_corpus(tmp_path / "llmc")


@reference
def test_find_corpus_in_llm_cs_own_folder():
    """It cannot be written to, and its tokenizer is in its parent folder."""
    there = Path(os.environ["LLMC_REFERENCE_DIR"])
    found = data.find_corpus(there / "tinyshakespeare")
    assert not found.missing and found.tokenizer == there / "gpt2_tokenizer.bin"
    assert data.count_tokens(found.train) == 305_260 and data.count_tokens(found.val) == 32_768


def test_large_corpora_are_fetched_only_on_request(home):
    with pytest.raises(
        UserError, match="tinystories is a large corpus that is not prepared yet; .*llmc data tinystories`"
    ):
        data.find_corpus("tinystories")


def test_known_names_are_listed(home, tokenizer, tmp_path):
    source = write(tmp_path / "my.txt", "A line of it.\n" * 1000)
    data.prepare_corpus(file=str(source), tokenizer=tokenizer)
    with pytest.raises(UserError, match=r"nor a known corpus \(fineweb, my, pydocs, tinyshakespeare, tinystories\)"):
        data.find_corpus("other")
