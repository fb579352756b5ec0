"""Token files are written in llm.c's format, and every damaged one is refused with one sentence that says why."""

import os
from pathlib import Path

import numpy as np
import pytest

from llmc.data import tokens
from llmc.data.shards import count_tokens
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
    mapped = read_tokens(path)
    assert isinstance(mapped, np.memmap) and mapped.dtype == np.uint16
    assert mapped.tolist() == [5, 0, 65535, 7]
    with pytest.raises(ValueError):
        mapped[0] = 1


@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.int64])
def test_round_trip_of_any_integer_type(tmp_path, dtype):
    ids = np.random.default_rng(0).integers(0, 30000, 1001).astype(dtype)  # (1001,)
    write_tokens(tmp_path / "b.bin", ids)
    assert np.array_equal(read_tokens(tmp_path / "b.bin", V=30000), ids)


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        ([], "there are no tokens"),
        ([[1, 2]], r"shape \(1, 2\)"),
        ([1.5], "whole numbers"),
        ([1, 65536], "token 1 is 65536"),
        ([3, 4, -1], "token 2 is -1"),
    ],
)
def test_what_cannot_be_written_leaves_no_file(tmp_path, ids, sentence):
    with pytest.raises(UserError, match=sentence):
        write_tokens(tmp_path / "c.bin", ids)
    assert list(tmp_path.iterdir()) == []


def test_missing(tmp_path):
    with pytest.raises(UserError, match="none.bin does not exist"):
        read_tokens(tmp_path / "none.bin")


def test_folder(tmp_path):
    with pytest.raises(UserError, match="is a folder"):
        read_tokens(tmp_path)


def test_not_a_token_file_names_what_was_found(path):
    damage(path, 0, 20240326)
    with pytest.raises(UserError, match="not a token file: it begins with 20240326, not .* 20240520"):
        read_tokens(path)


def test_wrong_version(path):
    damage(path, 1, 3)
    with pytest.raises(UserError, match="version 3, but llmc reads version 1"):
        read_tokens(path)


@pytest.mark.parametrize("ntok", [0, -4])
def test_empty(path, ntok):
    damage(path, 2, ntok)
    with pytest.raises(UserError, match=f"is empty: its header says {ntok} tokens"):
        read_tokens(path)


@pytest.mark.parametrize("size", [0, 3, 1023, 1024, 1031])
def test_truncated_anywhere(path, size):
    os.truncate(path, size)
    with pytest.raises(UserError, match=f"it has ({size}|{size:,}) bytes"):
        read_tokens(path)


def test_too_long(path):
    path.write_bytes(path.read_bytes() + b"\x00\x00")
    with pytest.raises(UserError, match="too long: it has 1,034 bytes, but its header promises 1,032"):
        read_tokens(path)


def test_token_outside_the_vocabulary_is_named(path):
    with pytest.raises(UserError, match="token 2 is 65535, but ids must be from 0 to 99 "):
        read_tokens(path, V=100)
    assert read_tokens(path, V=65536).size == 4


@pytest.mark.skipif("LLMC_REFERENCE_DIR" not in os.environ, reason="needs LLMC_REFERENCE_DIR")
def test_llm_cs_own_file_is_written_again_byte_for_byte(tmp_path):
    original = Path(os.environ["LLMC_REFERENCE_DIR"]) / "tinyshakespeare" / "tiny_shakespeare_val.bin"
    ids = read_tokens(original, V=50257)
    assert ids.size == 32768 and ids[0] == 50256
    write_tokens(tmp_path / "again.bin", ids)
    assert (tmp_path / "again.bin").read_bytes() == original.read_bytes()


# --------------------------------------------------------------------------- the first release's form, without a header


def test_int32_is_the_ids_and_nothing_else(tmp_path):
    write_tokens(tmp_path / "i.bin", [5, 0, 65535, 7], "int32")
    assert (tmp_path / "i.bin").read_bytes() == np.array([5, 0, 65535, 7], "<i4").tobytes()
    ids = read_tokens(tmp_path / "i.bin", V=65536)
    assert ids.dtype == np.int32 and ids.tolist() == [5, 0, 65535, 7]
    with pytest.raises(UserError, match="token 2 is 65535, but ids must be from 0 to 99 "):
        read_tokens(tmp_path / "i.bin", V=100)


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (np.array([5, 6, 65536], "<i4").tobytes(), "its token 2 would be 65536"),
        (np.array([5, 6, -1], "<i4").tobytes(), "its token 2 would be -1"),
        (np.array([5, 6, 7], "<i4").tobytes() + b"\0", "it has 13 bytes, but the header alone takes 1024"),
        (
            np.arange(1, 2000, dtype="<u2").tobytes(),
            "begins with 131073, not with the magic .*numpy.fromfile.*'uint16'",
        ),
        (b"\x93NUMPY" + bytes(2000), r"if it holds ids, like nanoGPT's files, .*write_tokens\(.*numpy.load\("),
        (b"A text is no token file.", "it has 24 bytes"),
        (b"A text is no token file." * 100, "begins with 1702109249, not with"),
        (bytes(4096), "only zeros"),
    ],
)
def test_what_is_neither_form_is_refused(tmp_path, raw, sentence):
    (tmp_path / "x.bin").write_bytes(raw)
    with pytest.raises(UserError, match=sentence):
        read_tokens(tmp_path / "x.bin")


def test_a_bad_id_far_into_a_headerless_file_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(tokens, "CHUNK", 100)
    ids = np.arange(1000, dtype="<i4")
    ids[777] = 70000
    (tmp_path / "x.bin").write_bytes(ids.tobytes())
    with pytest.raises(UserError, match="its token 777 would be 70000"):
        read_tokens(tmp_path / "x.bin")


@pytest.mark.parametrize("form", ["uint16", "int32"])
def test_written_in_parts_is_written_at_once(tmp_path, form):
    ids = np.arange(1000)
    write_tokens(tmp_path / "a.bin", ids, form)
    with tokens.token_writer(tmp_path / "b.bin", form) as writer:
        for part in (ids[:1], ids[1:1], ids[1:900], ids[900:].tolist()):
            writer.append(part)
    assert writer.ntok == 1000 and (tmp_path / "a.bin").read_bytes() == (tmp_path / "b.bin").read_bytes()


def test_an_error_halfway_leaves_no_file(tmp_path):
    with pytest.raises(UserError, match="token 5 is 70000"), tokens.token_writer(tmp_path / "b.bin") as writer:
        writer.append(np.arange(3))
        writer.append([1, 2, 70000])
    with pytest.raises(UserError, match="no token format 'int8'"):
        write_tokens(tmp_path / "b.bin", [1], "int8")
    assert list(tmp_path.iterdir()) == []


def test_more_tokens_than_a_header_can_count(tmp_path, monkeypatch):
    monkeypatch.setattr(tokens, "MOST", 10)
    write_tokens(tmp_path / "a.bin", np.arange(10))
    with pytest.raises(UserError, match="more than 10 tokens; split them into several shards"):
        write_tokens(tmp_path / "b.bin", np.arange(11))


def test_count_and_shards(tmp_path):
    for i, n in enumerate((5, 7)):
        write_tokens(tmp_path / f"x_{i}.bin", np.arange(n))
    assert count_tokens(tmp_path / "x_*.bin") == 12 and count_tokens(tmp_path / "x_1.bin") == 7
