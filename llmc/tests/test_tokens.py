"""Token files: what is written is llm.c's format, and every damaged file is refused with one sentence that says why."""

import os
from pathlib import Path

import numpy as np
import pytest

from llmc.data.tokens import read_tokens, write_tokens
from llmc.errors import UserError


@pytest.fixture
def path(tmp_path):
    write_tokens(tmp_path / "a.bin", [5, 0, 65535, 7])
    return tmp_path / "a.bin"


def damage(path, at, *words):
    """Overwrite int32 words of the header, beginning with word `at`."""
    raw = bytearray(path.read_bytes())
    raw[4 * at : 4 * (at + len(words))] = np.array(words, "<i4").tobytes()
    path.write_bytes(raw)


def test_the_bytes_are_llm_cs(path):
    header = np.zeros(256, "<i4")  # (256,)
    header[:3] = [20240520, 1, 4]
    assert path.read_bytes() == header.tobytes() + b"\x05\x00\x00\x00\xff\xff\x07\x00"


def test_reading_maps_the_file_and_cannot_write_to_it(path):
    tokens = read_tokens(path)
    assert isinstance(tokens, np.memmap) and tokens.dtype == np.uint16
    assert tokens.tolist() == [5, 0, 65535, 7]
    with pytest.raises(ValueError):
        tokens[0] = 1


@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.int64])
def test_round_trip_of_any_integer_type(tmp_path, dtype):
    tokens = np.random.default_rng(0).integers(0, 30000, 1001).astype(dtype)  # (1001,)
    write_tokens(tmp_path / "b.bin", tokens)
    assert np.array_equal(read_tokens(tmp_path / "b.bin", V=30000), tokens)


@pytest.mark.parametrize(
    ("tokens", "sentence"),
    [
        ([], "there are no tokens"),
        ([[1, 2]], r"shape \(1, 2\)"),
        ([1.5], "whole numbers"),
        ([1, 65536], "token 1 is 65536"),
        ([3, 4, -1], "token 2 is -1"),
    ],
)
def test_what_cannot_be_written_leaves_no_file(tmp_path, tokens, sentence):
    with pytest.raises(UserError, match=sentence):
        write_tokens(tmp_path / "c.bin", tokens)
    assert list(tmp_path.iterdir()) == []


def test_missing(tmp_path):
    with pytest.raises(UserError, match="none.bin does not exist"):
        read_tokens(tmp_path / "none.bin")


def test_folder(tmp_path):
    with pytest.raises(UserError, match="cannot read"):
        read_tokens(tmp_path)


def test_not_a_token_file_names_what_was_found(path):
    damage(path, 0, 20240326)
    with pytest.raises(UserError, match="not a token file: it begins with 20240326, not .* 20240520"):
        read_tokens(path)


def test_wrong_version(path):
    damage(path, 1, 3)
    with pytest.raises(UserError, match="version 3, and llmc reads version 1"):
        read_tokens(path)


@pytest.mark.parametrize("ntok", [0, -4])
def test_empty(path, ntok):
    damage(path, 2, ntok)
    with pytest.raises(UserError, match=f"empty token file: its header says {ntok} tokens"):
        read_tokens(path)


@pytest.mark.parametrize("size", [0, 3, 1023, 1024, 1031])
def test_truncated_anywhere(path, size):
    os.truncate(path, size)
    with pytest.raises(UserError, match=f"it has ({size}|{size:,}) bytes"):
        read_tokens(path)


def test_too_long(path):
    path.write_bytes(path.read_bytes() + b"\x00\x00")
    with pytest.raises(UserError, match="too long: it has 1,034 bytes, and its header promises 1,032"):
        read_tokens(path)


def test_token_outside_the_vocabulary_is_named(path):
    with pytest.raises(UserError, match="token 2 is 65535, and ids go from 0 to 99 "):
        read_tokens(path, V=100)
    assert read_tokens(path, V=65536).size == 4


@pytest.mark.skipif("LLMC_REFERENCE_DIR" not in os.environ, reason="needs LLMC_REFERENCE_DIR")
def test_llm_cs_own_file_is_written_again_byte_for_byte(tmp_path):
    original = Path(os.environ["LLMC_REFERENCE_DIR"]) / "tinyshakespeare" / "tiny_shakespeare_val.bin"
    tokens = read_tokens(original, V=50257)
    assert tokens.size == 32768 and tokens[0] == 50256
    write_tokens(tmp_path / "again.bin", tokens)
    assert (tmp_path / "again.bin").read_bytes() == original.read_bytes()
