"""The examples' files: the published text and llm.c's eval file, whole and damaged; fetching."""

import json

import numpy as np
import pytest

from llmc.errors import UserError
from llmc.files.digest import digest
from llmc.hellaswag import Example, fetch, load_examples, read_eval_file, read_examples, write_eval_file
from llmc.tests.hellaswag.parrot import EXAMPLES
from llmc.tests.tiny_corpus import byte_encoding

LINES = [
    {"ind": 24, "ctx": "A man sits.", "endings": ["He", "She is", "naïve", "it"], "label": 3, "split": "val"},
    {"ctx": "Two", "endings": ["a", "b", "c", "d"], "label": 0},
]


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "hellaswag_val.jsonl"
    path.write_text("\n".join(map(json.dumps, LINES)) + "\n\n")
    return path


def test_text_becomes_tokens(text_file):
    first, second = read_examples(text_file, byte_encoding())
    assert bytes(first.context) == b"A man sits." and first.label == 3
    assert [bytes(ending) for ending in first.endings] == [b" He", b" She is", " naïve".encode(), b" it"]
    assert bytes(second.context) == b"Two"
    assert len(list(read_examples(text_file, byte_encoding(), limit=1))) == 1
    assert len(load_examples(text_file, byte_encoding(), limit=1)) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"label": 4},
        {"label": "3"},
        {"label": True},
        {"endings": ["a", "b", "c"]},
        {"endings": [1, 2, 3, 4]},
        {"ctx": ""},
    ],
)
def test_a_line_that_is_no_example(text_file, change):
    text_file.write_text("\n" + json.dumps(LINES[0] | change))
    with pytest.raises(UserError, match=r"^line 2 of .*hellaswag_val.jsonl is not a HellaSwag example"):
        list(read_examples(text_file, byte_encoding()))


@pytest.mark.parametrize("content", [b"", b"\n\n", b"not json", b"\xff\xfe", b"[1]"])
def test_a_text_file_of_something_else(text_file, content):
    text_file.write_bytes(content)
    with pytest.raises(UserError):
        list(read_examples(text_file, byte_encoding()))


def test_the_eval_file_is_llmcs(tmp_path):
    """Word for word what dev/data/data_common.py and dataloader.h describe."""
    path = tmp_path / "hellaswag_val.bin"
    write_eval_file(path, EXAMPLES)
    header, words = np.fromfile(path, "<i4", 256), np.fromfile(path, "<u2", offset=1024)
    assert header[:4].tolist() == [20240522, 1, 4, 42] and not header[4:].any()
    assert words[:21].tolist() == [65535, 38, 0, 0, 4, 2, 1, 2, 1, 2, 2, 2, 2, 2, 3, 3, 2, 4, 5, 65535, 42]
    assert read_eval_file(path) == EXAMPLES and read_eval_file(path, limit=2) == EXAMPLES[:2]
    assert load_examples(path, V=8) == EXAMPLES


def test_text_and_eval_file_agree(text_file, tmp_path):
    examples = load_examples(text_file, byte_encoding())
    write_eval_file(tmp_path / "x.bin", examples)
    assert load_examples(tmp_path / "x.bin", limit=2) == examples


@pytest.mark.parametrize("size", [0, 1000, 1024, 1024 + 9, 1024 + 38, 1024 + 39, -2, -1, None])
def test_a_truncated_eval_file(tmp_path, size):
    path = tmp_path / "x.bin"
    write_eval_file(path, EXAMPLES)
    raw = path.read_bytes()
    path.write_bytes(raw[:size] if size is not None else raw + b"\0\0")
    with pytest.raises(UserError, match="x.bin"):
        read_eval_file(path)


def test_every_damaged_word_is_noticed_or_read(tmp_path):
    """No flip of a word makes anything but examples or a UserError."""
    path = tmp_path / "x.bin"
    write_eval_file(path, EXAMPLES)
    whole, refused = np.fromfile(path, "<u2"), 0
    for at in [0, 2, 4, *range(512, whole.size)]:
        for value in (0, 3, 65535):
            words = whole.copy()
            words[at] = value
            words.tofile(path)
            try:
                examples = read_eval_file(path)
                assert len(examples) <= 4 and all(len(e.endings) == 4 and all(e.endings) for e in examples)
            except UserError:
                refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    "example",
    [
        Example([1], [[2], [3], [4], []], 0),
        Example([1], [[2], [3], [4]], 0),
        Example([1], [[2], [3], [4], [65535]], 0),
        Example([1], [[2], [3], [4], [-1]], 0),
        Example([1], [[2], [3], [4], [5]], 4),
        Example([1] * 33_000, [[2], [3], [4], [5]], 0),
    ],
)
def test_what_the_format_cannot_hold(tmp_path, example):
    with pytest.raises(UserError, match="example 1|bytes"):
        write_eval_file(tmp_path / "x.bin", [EXAMPLES[0], example])
    assert not (tmp_path / "x.bin").exists()


def test_no_examples(tmp_path):
    with pytest.raises(UserError, match="1 to 65,535"):
        write_eval_file(tmp_path / "x.bin", [])


def test_tokens_of_another_vocabulary(tmp_path):
    write_eval_file(tmp_path / "x.bin", EXAMPLES)
    with pytest.raises(UserError, match="holds token 6, but the model knows only tokens 0 to 5"):
        load_examples(tmp_path / "x.bin", V=6)


def test_text_needs_a_tokenizer(text_file):
    with pytest.raises(UserError, match="--tokenizer"):
        load_examples(text_file)


def test_fetched_once_and_offline_one_sentence(text_file, tmp_path, monkeypatch):
    monkeypatch.setenv("LLMC_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr(fetch, "URL", "http://name.invalid/hellaswag_val.jsonl")
    with pytest.raises(UserError) as caught:
        load_examples(encoding=byte_encoding())
    assert "cannot fetch http://name.invalid" in str(caught.value) and "put a copy of the file at" in str(caught.value)
    there = tmp_path / "data" / "hellaswag" / "hellaswag_val.jsonl"
    there.write_bytes(text_file.read_bytes())
    monkeypatch.setattr(fetch, "SHA256", digest(there))
    assert len(load_examples(encoding=byte_encoding())) == 2
