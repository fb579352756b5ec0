"""tinyshakespeare, byte for byte as llm.c makes it, and in sections of its own."""

import os
from pathlib import Path

import numpy as np

from llmc import cli, data
from llmc.data.tokenizer import read_tokenizer
from llmc.data.tokens import read_tokens
from llmc.tests.data.small_corpora import BYTES, reference, write


@reference
def test_tinyshakespeare_is_llm_cs_byte_for_byte(tmp_path, capsys):
    there = Path(os.environ["LLMC_REFERENCE_DIR"])
    argv = f"data tinyshakespeare --file {there}/tinyshakespeare/input.txt --tokenizer gpt2 --out".split()
    assert cli.main([*argv, str(tmp_path / "a")]) == 0
    assert "305,260 training and 32,768 validation tokens" in capsys.readouterr().out
    for name in ("tiny_shakespeare_train.bin", "tiny_shakespeare_val.bin"):
        assert (tmp_path / "a" / name).read_bytes() == (there / "tinyshakespeare" / name).read_bytes()
    assert (tmp_path / "a" / "tokenizer.bin").read_bytes() == (there / "gpt2_tokenizer.bin").read_bytes()
    assert cli.main([*argv, str(tmp_path / "b"), "--format", "int32"]) == 0
    for name, size in (("tiny_shakespeare_train.bin", 305_260), ("tiny_shakespeare_val.bin", 32_768)):
        assert (tmp_path / "b" / name).stat().st_size == 4 * size
        assert np.array_equal(read_tokens(tmp_path / "b" / name), read_tokens(tmp_path / "a" / name))


def test_sections_are_split_at_the_first_blank_line_of_several(tmp_path, tokenizer):
    text = "First:\nline\n\n\nSecond\n\nThird" + "\n\nmore of it" * 5000
    source = write(tmp_path / "input.txt", text)
    made = data.prepare_corpus("tinyshakespeare", tmp_path / "x", file=str(source), tokenizer=tokenizer)
    tokens = np.concatenate([read_tokens(made.val), read_tokens(made.train)])
    whole = BYTES.decode(tokens[1:].tolist()).split("<|endoftext|>")
    assert whole == [part + "\n\n" for part in text.split("\n\n")[:-1]] + ["more of it"]
    assert read_tokens(made.val).size == 32768


def test_an_own_tokenizer_never_saw_the_validation_text(tmp_path):
    lines = [f"line {i} {'early ' if i < 5000 else 'later '}words\n\n" for i in range(20_000)]
    source = write(tmp_path / "input.txt", "".join(lines))
    options = {"file": str(source), "tokenizer": "own"}
    made = data.prepare_corpus("tinyshakespeare", tmp_path / "x", 300, **options)
    table = [read_tokenizer(made.tokenizer).decode_single_token_bytes(i) for i in range(299)]
    assert any(b"late" in token for token in table) and not any(b"earl" in token for token in table)


def test_too_little_text(tmp_path, tokenizer, refused):
    source = write(tmp_path / "input.txt", "A line of it.\n\n" * 1000)
    sentence = refused("data", "tinyshakespeare", "--file", source, "--tokenizer", tokenizer, "--out", tmp_path / "x")
    assert "too short: validation takes all of its 16,000 tokens" in sentence and not (tmp_path / "x").exists()
