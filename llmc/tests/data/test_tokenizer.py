"""Tokenizers: any text comes back, encoding follows the ranks, llm.c's tokenizer.bin is read and written."""

import os
from pathlib import Path

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from llmc.data.bpe import GPT2_PATTERN, train_bpe
from llmc.data.encoding import encode, pieces
from llmc.data.tokenizer import make_encoding, read_tokenizer, token_lengths, token_table, write_tokenizer
from llmc.errors import UserError

END = b"<|endoftext|>"
BYTES = [bytes([i]) for i in range(256)]
TEXT = "The for statement is used to iterate over the items of any sequence: for x in range(10): print(x)\n" * 3
SMALL = make_encoding([*train_bpe(TEXT, 43), END], 299, "small")
REFERENCE = os.environ.get("LLMC_REFERENCE_DIR")
CACHE = os.environ.get("TIKTOKEN_CACHE_DIR")


def encode_slowly(text, ranks):
    """Join the neighbours of lowest rank, one pair at a time, until no pair is a token."""
    ids = []
    for word in regex.findall(GPT2_PATTERN, text):
        parts = [bytes([b]) for b in word.encode()]
        while True:
            known = [(ranks[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ranks]
            if not known:
                break
            i = min(known)[1]
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
        ids += [ranks[part] for part in parts]
    return ids


def file_of(tokens, version=2, magic=20240328, eot=None):
    """The bytes of a tokenizer.bin."""
    header = np.zeros(256, "<i4")  # (256,)
    header[:3] = [magic, version, len(tokens)]
    header[3] = (len(tokens) - 1 if eot is None else eot) if version == 2 else 0
    return header.tobytes() + b"".join(bytes([len(t)]) + t for t in tokens)


def read_bytes(tmp_path, raw):
    (tmp_path / "t.bin").write_bytes(raw)
    return read_tokenizer(tmp_path / "t.bin")


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_any_unicode_text_comes_back(text):
    assert SMALL.decode(SMALL.encode_ordinary(text)) == text


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="aeforstn ixT:()\n1é😀'"))
def test_encoding_is_what_the_ranks_say(text):
    ranks = {token: i for i, token in enumerate(token_table(SMALL)[:-1])}
    assert SMALL.encode_ordinary(text) == encode_slowly(text, ranks)


def test_special_text_in_a_corpus_is_ordinary_text():
    ids = SMALL.encode_ordinary("a<|endoftext|>b")
    assert SMALL.eot_token == 299 and 299 not in ids
    assert SMALL.decode(ids) == "a<|endoftext|>b"
    assert SMALL.decode([299]) == "<|endoftext|>"


# ------------------------------------------------------------------------------------- any length, cut without change


def test_a_million_spaces_come_back():
    """tiktoken's own method panics here, with an exception that `except Exception` does not catch."""
    for run in (" " * 1_100_000, "\n \t" * 400_000):
        text = "a" + run + "b" + run
        assert SMALL.decode(encode(SMALL, text)) == text


SPACED = st.text(alphabet=" \n\r\t\u3000\x1cab1.é'", max_size=60)


@settings(max_examples=300, deadline=None)
@given(SPACED)
def test_cutting_long_runs_of_space_changes_nothing(text):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("llmc.data.encoding.LONG_RUN", 3)
        assert encode(SMALL, text) == SMALL.encode_ordinary(text)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.booleans(), SPACED), max_size=6))
def test_pieces_of_a_stream_have_the_tokens_of_its_documents(parts):
    documents = [""]
    for begins, text in parts:
        if begins:
            documents.append("")
        documents[-1] += text
    found = []
    for begins, text in pieces(parts):
        assert text
        if begins:
            found.append([])
        found = found or [[]]
        found[-1] += SMALL.encode_ordinary(text)
    assert found == [SMALL.encode_ordinary(text) for text in documents if text]


def test_a_text_without_spaces_is_cut_regardless(monkeypatch):
    monkeypatch.setattr("llmc.data.encoding.PIECE", 100)
    cut = [text for _, text in pieces([(True, " "), *[(False, "abcdefghij" * 9)] * 9])]
    assert "".join(cut) == " " + "abcdefghij" * 81 and 90 <= max(map(len, cut)) <= 200


def test_token_lengths():
    lengths = token_lengths(SMALL)
    assert lengths.dtype == np.int32 and lengths.shape == (300,)
    assert lengths[299] == 0 and lengths[:256].tolist() == [1] * 256
    text = TEXT + "é😀"
    assert lengths[SMALL.encode_ordinary(text)].sum() == len(text.encode())


@pytest.mark.parametrize(
    ("tokens", "eot", "sentence"),
    [
        ([*BYTES, END], 255, "token 255 .* should be <|endoftext|>"),
        ([*BYTES, END], 257, "token 257 .* should be"),
        ([*BYTES, END], -1, "token -1 .* should be"),
        ([*BYTES, b"a", END], 257, "token 256 .* b'a', occurs twice"),
        ([*BYTES, END, END], 257, "token 257 .*, occurs twice"),
        ([*BYTES, b"", END], 257, "token 256 .* is empty"),
        ([*BYTES[:65], b"AA", *BYTES[66:], END], 256, "has no token for byte 65"),
    ],
)
def test_unusable_tokens(tokens, eot, sentence):
    with pytest.raises(UserError, match=sentence):
        make_encoding(tokens, eot)


def test_the_file_holds_the_tokens_in_order_and_gives_the_same_encoding(tmp_path):
    write_tokenizer(tmp_path / "t.bin", SMALL)
    assert (tmp_path / "t.bin").read_bytes() == file_of(token_table(SMALL))
    again = read_tokenizer(tmp_path / "t.bin")
    assert again.n_vocab == 300 and again.eot_token == 299
    assert again.encode_ordinary(TEXT) == SMALL.encode_ordinary(TEXT)


def test_a_token_too_long_for_its_length_byte_is_refused(tmp_path):
    encoding = make_encoding([*BYTES, b"x" * 256, END], 257)
    with pytest.raises(UserError, match="token 256 has 256 bytes, but tokenizer.bin allows only 255"):
        write_tokenizer(tmp_path / "t.bin", encoding)
    assert list(tmp_path.iterdir()) == []


def test_missing_file(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        read_tokenizer(tmp_path / "none.bin")


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (file_of([*BYTES, END])[:-1], "truncated: it ends inside token 256 of 257"),
        (file_of([*BYTES, END])[:1124], "truncated: it ends inside token 50 of 257"),
        (file_of([*BYTES, END])[:100], "not a tokenizer file: it has 100 bytes"),
        (file_of([*BYTES, END]) + b"\x01", "too long: 1 bytes follow"),
        (file_of([*BYTES, b"", END]), "damaged: token 256 has length 0"),
        (file_of([*BYTES, b"a", END]), "occurs twice"),
        (file_of([*BYTES, END], eot=7), "token 7 .* should be"),
        (file_of([*BYTES, END], magic=20240520), "begins with 20240520, not .* 20240328"),
        (file_of([*BYTES, END], version=3), "version 3, but llmc reads version 1 or 2"),
        (file_of([]), "token -1 .* should be"),
    ],
)
def test_damaged_files(tmp_path, raw, sentence):
    with pytest.raises(UserError, match=sentence):
        read_bytes(tmp_path, raw)


def test_version_1_means_gpt2s_end_of_text(tmp_path):
    many = [*BYTES, *(b"\x00" + i.to_bytes(2, "big") for i in range(50000)), END]  # 50257 tokens
    assert read_bytes(tmp_path, file_of(many, version=1)).eot_token == 50256
    with pytest.raises(UserError, match="token 50256 .* should be"):
        read_bytes(tmp_path, file_of([*BYTES, END], version=1))


def test_version_1_is_written_only_for_gpt2s_end_of_text(tmp_path):
    many = [*BYTES, *(b"\x00" + i.to_bytes(2, "big") for i in range(50000)), END]  # 50257 tokens
    write_tokenizer(tmp_path / "t.bin", make_encoding(many, 50256), version=1)
    assert (tmp_path / "t.bin").read_bytes() == file_of(many, version=1)
    for encoding, version in ((SMALL, 1), (SMALL, 3)):
        with pytest.raises(UserError, match=f"of version {version} cannot store the end-of-text id 299"):
            write_tokenizer(tmp_path / "u.bin", encoding, version)
    assert [path.name for path in tmp_path.iterdir()] == ["t.bin"]


@pytest.mark.skipif(not REFERENCE, reason="needs LLMC_REFERENCE_DIR")
def test_llm_cs_gpt2_tokenizer_is_written_again_byte_for_byte(tmp_path):
    original = Path(REFERENCE) / "gpt2_tokenizer.bin"
    write_tokenizer(tmp_path / "again.bin", read_tokenizer(original))
    assert (tmp_path / "again.bin").read_bytes() == original.read_bytes()


@pytest.mark.skipif(not REFERENCE, reason="needs LLMC_REFERENCE_DIR")
def test_llm_cs_gpt2_tokenizer_makes_llm_cs_tokens():
    folder = Path(REFERENCE) / "tinyshakespeare"
    encoding = read_tokenizer(Path(REFERENCE) / "gpt2_tokenizer.bin")
    parts = (folder / "input.txt").read_bytes().decode("utf-8").split("\n\n")
    sections = [part + "\n\n" for part in parts[:-1]] + parts[-1:]
    stream = [i for section in sections for i in [50256, *encoding.encode_ordinary(section)]]
    val, train = (np.fromfile(folder / f"tiny_shakespeare_{n}.bin", "<u2", offset=1024) for n in ("val", "train"))
    assert np.array_equal(stream, np.concatenate([val, train]))


@pytest.mark.skipif(not (REFERENCE and CACHE), reason="needs LLMC_REFERENCE_DIR and TIKTOKEN_CACHE_DIR")
def test_llm_cs_gpt2_tokenizer_is_tiktokens():
    import tiktoken

    ours, theirs = read_tokenizer(Path(REFERENCE) / "gpt2_tokenizer.bin"), tiktoken.get_encoding("gpt2")
    assert token_table(ours) == token_table(theirs) and ours.eot_token == theirs.eot_token

    @settings(max_examples=300, deadline=None)
    @given(st.text())
    def compare(text):
        assert ours.encode_ordinary(text) == theirs.encode_ordinary(text)

    compare()
