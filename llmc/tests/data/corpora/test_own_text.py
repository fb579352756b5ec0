"""Corpora from a text of one's own: documents, encodings, texts that are too short."""

import pytest

from llmc import cli, data
from llmc.data.corpora import text_file
from llmc.data.tokenizer import read_tokenizer
from llmc.data.tokens import read_tokens
from llmc.tests.data.small_corpora import write


def test_own_text_with_its_own_tokenizer(tmp_path, home, capsys):
    text = "".join(f"Line {i} says that {i} and {i} are {i + i}. Ünïcödé too.\r\n" for i in range(2000))
    source = write(tmp_path / "my book.txt", text)
    assert cli.main(["data", "--file", str(source), "--name", "mine", "--vocabulary", "400"]) == 0
    said = capsys.readouterr().out
    assert "trained a tokenizer of 400 tokens" in said and said.endswith(f"wrote {home / 'mine'}\n")
    made = data.find_corpus("mine")
    decode = read_tokenizer(made.tokenizer).decode
    train, val = (read_tokens(path, V=400).tolist() for path in (made.train, made.val))
    assert train[0] == val[0] == 399 and decode(train[1:]) + decode(val[1:]) == text
    assert 0.15 < len(val) / (len(train) + len(val)) < 0.25 and decode(val[1:]).startswith("Line ")
    assert cli.main(["data", "--file", str(source)]) == 0  # without a name it takes the file's
    assert not data.find_corpus("my book").missing


def test_documents_of_an_own_text(tmp_path, tokenizer):
    """Lines of <|endoftext|> separate documents; within a line of other text it is text."""
    parts = [f"Document {i}\n\nhas <|endoftext|> in it\n" for i in range(100)]
    source = write(
        tmp_path / "a.txt", "<|endoftext|>\n" + "<|endoftext|>\r\n".join(parts) + "<|endoftext|>\n<|endoftext|>"
    )
    made = data.prepare_corpus(out_dir=tmp_path / "x", file=str(source), tokenizer=tokenizer)
    ids = [read_tokens(path).tolist() for path in (made.train, made.val)]
    assert sum(part.count(256) for part in ids) == 100
    found = [bytes(map(int, run[:-1])).decode() for part in ids for run in split_at(part, 256)]
    assert found == [part[:-1] for part in parts]


def split_at(ids, end):
    """[end, 1, 2, end, 3] -> [1, 2], [3]."""
    at = [i for i, token in enumerate(ids) if token == end] + [len(ids)]
    return [ids[a + 1 : b] for a, b in zip(at, at[1:])]


def test_text_that_is_not_utf8_names_line_and_byte(tmp_path, refused, monkeypatch):
    lines = [b"a line of text\n"] * 500
    lines[300] = "ä fine ".encode() + b"caf\xe9\n"
    source = write(tmp_path / "a.txt", b"".join(lines))
    for block in (1 << 20, 64, 7):
        monkeypatch.setattr(text_file, "BLOCK", block)
        sentence = refused("data", "--file", source, "--name", "x")
        assert f"{source} is not UTF-8: byte 12 of line 301 is 0xE9; save the file in UTF-8" in sentence
    write(source, b"".join(lines[:300]) + "ä".encode()[:1])
    assert "byte 1 of line 301 is 0xC3" in refused("data", "--file", source, "--name", "x")
    write(source, ("some text\n" * 500).encode("utf-16"))
    assert "byte 1 of line 1 is 0xFF" in refused("data", "--file", source, "--name", "x")


@pytest.mark.parametrize("block", [5, 16, 1 << 20])
def test_a_text_is_the_same_in_blocks_of_any_size(tmp_path, monkeypatch, block):
    monkeypatch.setattr(text_file, "BLOCK", block)
    text = "eins\n\nzwei drei\n<|endoftext|>\nvier fünf sechs sieben acht\r\n\n" + "ü" * 40 + " Ende"
    source = write(tmp_path / "a.txt", "\ufeff" + text)
    assert "".join(text_file.blocks(source)) == text
    if block > len("<|endoftext|>\n"):
        parts = list(text_file.documents(source))
        assert "".join(part for _, part in parts) == text.replace("<|endoftext|>\n", "")
        assert sum(begins for begins, _ in parts) == 2
    raw = source.read_bytes()
    for cut in (i for i in range(3, len(raw)) if raw[i] & 0xC0 != 0x80):
        assert "".join(text_file.blocks(source, 0, cut)) + "".join(text_file.blocks(source, cut)) == text


def test_a_short_text_and_a_small_vocabulary(tmp_path, refused):
    source = write(tmp_path / "a.txt", "short\n")
    assert "has only 6 bytes, which is too little to learn from; give a text of at least 1,000" in refused(
        "data", "--file", source
    )
    write(source, "again and again\n" * 100)
    assert "this text allows only" in refused("data", "--file", source)
