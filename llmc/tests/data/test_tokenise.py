"""From text to tokens on all cores: in order, in bounded memory, and without processes left behind."""

import multiprocessing
from itertools import count, islice

import numpy as np
import pytest

from llmc.data import encoding, tokenise
from llmc.data.corpora import build
from llmc.errors import UserError
from llmc.tests.data.small_corpora import BYTES


def endless(taken):
    """Documents without end; `taken` records those that were taken."""
    for i in count():
        taken.append(i)
        yield True, f"document {i} "


def test_all_cores_give_the_same_tokens_in_the_same_order(monkeypatch):
    monkeypatch.setattr(tokenise, "PIECE", 300)
    pieces = [(i % 3 == 0, f"piece {i}, {'x' * (i % 50)} ") for i in range(600)]
    alone = np.concatenate(list(tokenise.tokenise(pieces, BYTES, processes=1)))
    together = np.concatenate(list(tokenise.tokenise(pieces, BYTES, processes=2)))
    assert np.array_equal(alone, together)
    assert alone.tolist() == [i for begins, text in pieces for i in [256] * begins + list(text.encode())]
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("processes", [1, 2])
def test_a_corpus_without_end_needs_the_memory_of_a_few_batches(monkeypatch, tmp_path, processes):
    monkeypatch.setattr(tokenise, "PIECE", 100)
    monkeypatch.setattr(tokenise, "cores", lambda: processes)
    taken, files = [], ((f"{i}.bin", 1000) for i in count())
    written = list(islice(build.write_files(tmp_path, build.Part(endless(taken), files), BYTES), 3))
    assert written == [(f"{i}.bin", 1000) for i in range(3)]
    assert 3000 / 17 < len(taken) < 3000 / 11 + (tokenise.SMALL + 2 * processes + 2) * 10
    assert sorted(p.name for p in tmp_path.glob("*.bin*")) == ["0.bin", "1.bin", "2.bin", "bytes.bin"][:3]


def test_a_killed_worker_is_one_sentence(monkeypatch):
    monkeypatch.setattr(tokenise, "PIECE", 100)
    arrays = tokenise.tokenise(endless([]), BYTES, processes=2)
    next(arrays)
    for child in multiprocessing.active_children():
        child.kill()
    with pytest.raises(UserError, match="a process that was encoding text ended early"):
        list(islice(arrays, 100))


def test_a_small_text_starts_no_process(monkeypatch):
    monkeypatch.setattr(tokenise, "_in_processes", lambda *_: pytest.fail("started processes"))
    assert (
        sum(a.size for a in tokenise.tokenise([(True, "a" * encoding.PIECE)] * 3, BYTES, 2)) == 3 * encoding.PIECE + 3
    )
