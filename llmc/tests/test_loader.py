"""The loader gives llm.c's batches in llm.c's order: by hand on eleven tokens, and on the files llm.c made."""

import os
from pathlib import Path

import numpy as np
import pytest

from llmc.data.loader import DataLoader
from llmc.data.tokens import read_tokens, write_tokens
from llmc.errors import UserError


@pytest.fixture
def path(tmp_path):
    """Eleven tokens: 10, 11, ..., 20."""
    write_tokens(tmp_path / "eleven.bin", np.arange(10, 21))
    return tmp_path / "eleven.bin"


def batches(loader, n):
    """The next n batches as nested lists."""
    return [tuple(a.tolist() for a in loader.next_batch()) for _ in range(n)]


def test_batches_by_hand(path):
    loader = DataLoader(path, B=2, T=2)
    first = ([[10, 11], [12, 13]], [[11, 12], [13, 14]])
    second = ([[14, 15], [16, 17]], [[15, 16], [17, 18]])
    assert loader.num_batches == 2
    assert batches(loader, 3) == [first, second, first]  # 19 and 20 do not fill a batch; then from the front again
    loader.next_batch()
    loader.reset()
    assert batches(loader, 1) == [first]


def test_two_processes_take_turns(path):
    loaders = [DataLoader(path, B=1, T=2, rank=rank, world=2) for rank in (0, 1)]
    assert [loader.num_batches for loader in loaders] == [2, 2]
    assert batches(loaders[0], 2) == [([[10, 11]], [[11, 12]]), ([[14, 15]], [[15, 16]])]
    assert batches(loaders[1], 3) == [([[12, 13]], [[13, 14]]), ([[16, 17]], [[17, 18]]), ([[12, 13]], [[13, 14]])]


@pytest.mark.parametrize(("B", "T", "world", "expected"), [(1, 10, 1, 1), (1, 9, 1, 1), (1, 5, 1, 2), (1, 1, 3, 3)])
def test_number_of_batches(path, B, T, world, expected):
    assert DataLoader(path, B, T, world=world).num_batches == expected


def test_buffers_are_int32_and_always_the_same(path):
    loader = DataLoader(path, B=2, T=2)
    x, y = loader.next_batch()
    assert x.dtype == y.dtype == np.int32 and x.shape == y.shape == (2, 2)
    again_x, again_y = loader.next_batch()
    assert again_x is x and again_y is y


@pytest.mark.parametrize(("B", "T", "world", "needed"), [(1, 11, 1, 12), (2, 2, 3, 13), (64, 1024, 1, "65,537")])
def test_too_few_tokens_says_how_many_are_needed(path, B, T, world, needed):
    with pytest.raises(UserError, match=f"has 11 tokens, and one batch needs {needed} "):
        DataLoader(path, B, T, world=world)


@pytest.mark.parametrize("wrong", [{"B": 0}, {"T": -1}, {"rank": 1}, {"rank": -1}, {"world": 0}])
def test_impossible_arguments(path, wrong):
    with pytest.raises(UserError, match="a loader needs"):
        DataLoader(path, **{"B": 1, "T": 2, **wrong})


def test_token_outside_the_vocabulary(path):
    with pytest.raises(UserError, match="token 5 is 15"):
        DataLoader(path, B=1, T=2, V=15)


@pytest.mark.skipif("LLMC_REFERENCE_DIR" not in os.environ, reason="needs LLMC_REFERENCE_DIR")
@pytest.mark.parametrize(
    ("part", "B", "T", "epoch"), [("train", 4, 1024, 74), ("train", 4, 64, 1192), ("val", 4, 64, 127)]
)
def test_tinyshakespeare_as_llm_c_reads_it(part, B, T, epoch):
    path = Path(os.environ["LLMC_REFERENCE_DIR"]) / "tinyshakespeare" / f"tiny_shakespeare_{part}.bin"
    loader, tokens = DataLoader(path, B, T, V=50257), read_tokens(path)
    assert loader.num_batches == epoch
    for i in [*range(epoch), 0]:
        x, y = loader.next_batch()
        window = tokens[i * B * T : (i + 1) * B * T + 1]  # (B·T + 1,)
        assert np.array_equal(x.ravel(), window[:-1]) and np.array_equal(y.ravel(), window[1:])
