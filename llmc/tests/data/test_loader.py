"""The loader gives llm.c's batches in llm.c's order: by hand, by brute force, and on the files llm.c made."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from llmc.data.loader import DataLoader, ShuffledLoader
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
    assert batches(loader, 3) == [first, second, first]  # 19 and 20 do not fill a batch; then it starts over
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
    with pytest.raises(UserError, match=f"has 11 tokens, but one batch needs {needed} "):
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


# ------------------------------------------------------------------------------------------------------ several files

SIZES = (26, 11, 50)  # tokens of three files; the middle one has room for a single batch of both processes


@pytest.fixture
def shards(tmp_path):
    """The pattern of three uneven files, which are not written in the order of their names."""
    for i in (2, 0, 1):
        write_tokens(tmp_path / f"x_train_{i:06d}.bin", 100 * i + np.arange(SIZES[i]))
    return tmp_path / "x_train_*.bin"


def all_batches(rank, world, B, T):
    """llm.c's order of one epoch by brute force: walk over each file, dealing stretches of B·T in turn, as lists."""
    found = []
    for i, ntok in enumerate(SIZES):
        tokens, at = [100 * i + k for k in range(ntok)], 0
        while at + world * B * T + 1 <= ntok:
            window = tokens[at + rank * B * T :][: B * T + 1]
            found.append([[window[b * T + s :][:T] for b in range(B)] for s in (0, 1)])
            at += world * B * T
    return found


@pytest.mark.parametrize("world", [1, 2])
def test_shards_one_after_the_other_as_llm_c_reads_them(shards, world):
    for rank in range(world):
        loader, expected = DataLoader(shards, B=1, T=5, rank=rank, world=world), all_batches(rank, world, 1, 5)
        assert loader.num_batches == len(expected) and loader.num_tokens == sum(SIZES)
        assert [list(batch) for batch in batches(loader, 2 * len(expected))] == 2 * expected


def test_a_pattern_a_list_and_a_folder_named_like_a_pattern(shards, tmp_path):
    names = [tmp_path / f"x_train_{i:06d}.bin" for i in (2, 0)]
    assert DataLoader(names, B=1, T=5).next_batch()[0].tolist() == [[200, 201, 202, 203, 204]]
    assert DataLoader(str(shards), B=1, T=5).num_tokens == sum(SIZES)
    assert DataLoader(tmp_path.parent / f"{tmp_path.name[:-1]}*" / "x_*1.bin", B=1, T=5).num_tokens >= 11
    odd = tmp_path / "a[1]"
    write_tokens(odd / "y_train_1.bin", np.arange(20))
    assert DataLoader(odd / "y_train_*.bin", B=1, T=5).num_tokens == 20
    with pytest.raises(UserError, match="no token file matches"):
        DataLoader(tmp_path / "z_*.bin", B=1, T=5)


def test_a_shard_shorter_than_a_batch_is_named(shards):
    with pytest.raises(UserError, match="x_train_000001.bin has 11 tokens, but one batch needs 13 "):
        DataLoader(shards, B=2, T=6)


@pytest.mark.parametrize("taken", [0, 1, 5, 6, 7, 16, 17, 40])
def test_a_saved_state_continues_with_the_same_batches(shards, taken):
    loader, other = DataLoader(shards, B=1, T=5), DataLoader(shards, B=1, T=5)
    batches(loader, taken)
    state = json.loads(json.dumps(loader.state()))
    batches(other, 3)
    other.load_state(state)
    assert other.state() == state and batches(other, 20) == batches(loader, 20)


def test_the_state_is_llm_cs_shard_and_the_batches_taken_of_it(shards):
    loader = DataLoader(shards, B=1, T=5)
    seen = []
    for _ in range(18):
        loader.next_batch()
        seen.append(tuple(loader.state().values()))
    assert seen[4:8] == [(0, 0, 5), (0, 1, 1), (0, 1, 2), (0, 2, 1)]
    assert seen[15:] == [(0, 2, 9), (1, 0, 1), (1, 0, 2)]


def test_head_is_the_text_across_files(shards):
    loader = DataLoader(shards, B=1, T=5)
    batches(loader, 6)
    assert loader.head(29).tolist() == [*range(26), 100, 101, 102] and loader.head(0).size == 0
    assert loader.head(10**9).size == sum(SIZES) and loader.head(3).dtype == np.uint16
    assert batches(loader, 1)[0][0] == [[105, 106, 107, 108, 109]]  # where it was


def test_headerless_int32_shards_give_the_same_batches(shards, tmp_path):
    for i in (0, 2):
        write_tokens(tmp_path / f"x_train_{i:06d}.bin", 100 * i + np.arange(SIZES[i]), "int32")
    assert [list(batch) for batch in batches(DataLoader(shards, 1, 5), 16)] == all_batches(0, 1, 1, 5)


@pytest.mark.parametrize("form", ["uint16", "int32"])
@pytest.mark.parametrize("make", [DataLoader, ShuffledLoader])
def test_a_file_that_shrinks_is_one_sentence_not_a_crash(tmp_path, make, form):
    """A memory map would end the process here, with SIGBUS; only a file of several pages shows it."""
    write_tokens(tmp_path / "t.bin", np.arange(60_000), form)
    loader = make(tmp_path / "t.bin", B=4, T=100)
    loader.next_batch()
    os.truncate(tmp_path / "t.bin", 1500)
    with pytest.raises(UserError, match="t.bin has shrunk since it was opened"):
        batches(loader, loader.num_batches)


def test_a_shard_that_disappears_or_changes_is_one_sentence(shards, tmp_path):
    loader = DataLoader(shards, B=1, T=5)
    (tmp_path / "x_train_000001.bin").unlink()
    batches(loader, 5)
    state = loader.state()
    with pytest.raises(UserError, match="x_train_000001.bin does not exist"):
        loader.next_batch()
    assert loader.state() == state
    write_tokens(tmp_path / "x_train_000001.bin", np.arange(30))
    with pytest.raises(UserError, match="x_train_000001.bin has changed"):
        loader.next_batch()


def test_ids_of_a_later_shard_are_checked_when_its_turn_comes(shards):
    loader = DataLoader(shards, B=1, T=5, V=202)
    batches(loader, 7)
    with pytest.raises(UserError, match="x_train_000002.bin: token 2 is 202"):
        loader.next_batch()
