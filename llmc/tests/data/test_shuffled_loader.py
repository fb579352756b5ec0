"""Shuffled batches: every window once an epoch, in an order set by the seed; over files and processes, and resumed."""

import json

import numpy as np
import pytest

from llmc.data import DataLoader, ShuffledLoader, write_tokens
from llmc.errors import UserError


@pytest.fixture
def tokens(tmp_path):
    """A token file in which each token is its own position."""
    write_tokens(tmp_path / "t.bin", np.arange(103, dtype=np.uint16))
    return tmp_path / "t.bin"


@pytest.fixture
def shards(tmp_path):
    """The pattern of three uneven files; the tokens of file i are i·1000 + their position."""
    for i, ntok in enumerate((103, 40, 77)):
        write_tokens(tmp_path / f"x_train_{i:06d}.bin", 1000 * i + np.arange(ntok))
    return tmp_path / "x_train_*.bin"


def rows(loader, n):
    """x of the next n batches, (n·B, T)."""
    return np.concatenate([loader.next_batch()[0].copy() for _ in range(n)])


def test_an_epoch_shows_every_window_once(tokens):
    loader = ShuffledLoader(tokens, B=3, T=4, seed=1)
    assert loader.num_batches == DataLoader(tokens, B=3, T=4).num_batches
    seen = []
    for _ in range(loader.num_batches):
        x, y = loader.next_batch()
        assert np.array_equal(y, x + 1) and np.array_equal(x - x[:, :1], np.tile(np.arange(4), (3, 1)))
        seen += x[:, 0].tolist()
    starts = np.sort(seen)
    assert starts[0] < 4 and np.all(np.diff(starts) == 4) and seen != starts.tolist()


def test_epochs_differ_and_the_seed_repeats_them(tokens):
    def run(seed, n=20):
        loader = ShuffledLoader(tokens, B=3, T=4, seed=seed)
        return [loader.next_batch()[0].tolist() for _ in range(n)]

    assert run(1) == run(1) != run(2)
    assert run(1)[:8] != run(1)[8:16]
    loader = ShuffledLoader(tokens, B=3, T=4, seed=1)
    first = loader.next_batch()[0].tolist()
    loader.reset()
    assert loader.next_batch()[0].tolist() == first


def test_a_file_of_one_batch_works(tmp_path):
    write_tokens(tmp_path / "t.bin", np.arange(13, dtype=np.uint16))
    loader = ShuffledLoader(tmp_path / "t.bin", B=3, T=4)
    for _ in range(5):
        assert loader.next_batch()[1].max() == 12


def test_the_order_on_one_file_is_that_of_all_earlier_runs(tokens):
    """Drawn again here from the seed and the epoch alone: another order would change every published result."""
    loader = ShuffledLoader(tokens, B=3, T=4, seed=7)
    for epoch in (0, 1):
        random = np.random.default_rng([7, epoch])
        first = random.integers(0, min(3, 102 - 8 * 12) + 1)
        starts = first + 4 * random.permutation(24)  # (24,)
        assert rows(loader, 8)[:, 0].tolist() == starts.tolist()


def test_shards_come_one_by_one_in_an_order_that_changes(shards):
    orders = set()
    loader = ShuffledLoader(shards, B=2, T=4, seed=3)
    assert loader.num_batches == 12 + 4 + 9 and loader.num_tokens == 220
    for _ in range(8):
        seen = rows(loader, loader.num_batches)  # (50, T)
        files = seen[:, 0] // 1000  # (50,)
        changes = np.flatnonzero(np.diff(files))
        orders.add(tuple(files[[0, *(changes + 1)]].tolist()))
        assert len(changes) == 2 and sorted(np.bincount(files).tolist()) == [8, 18, 24]
        assert all(np.all(np.diff(np.sort(seen[files == i, 0])) == 4) for i in range(3))
    assert len(orders) > 2


def test_processes_share_the_windows(shards):
    whole = ShuffledLoader(shards, B=6, T=4, seed=5)
    parts = [ShuffledLoader(shards, B=2, T=4, seed=5, rank=rank, world=3) for rank in range(3)]
    assert [part.num_batches for part in parts] == 3 * [whole.num_batches]
    for _ in range(2 * whole.num_batches):
        together = [np.concatenate(arrays) for arrays in zip(*(part.next_batch() for part in parts))]
        assert all(np.array_equal(a, b) for a, b in zip(together, whole.next_batch()))


@pytest.mark.parametrize("taken", [0, 1, 12, 24, 25, 26, 60])
def test_a_saved_state_continues_with_the_same_batches(shards, taken):
    loader, other = ShuffledLoader(shards, B=2, T=4, seed=3), ShuffledLoader(shards, B=2, T=4, seed=4)
    for _ in range(taken):
        loader.next_batch()
    state = json.loads(json.dumps(loader.state()))
    assert state["seed"] == 3 and all(isinstance(value, int) for value in state.values())
    rows(other, 5)
    other.load_state(state)
    assert other.state() == state and np.array_equal(rows(other, 30), rows(loader, 30))


def test_a_state_of_other_data_is_refused(shards):
    loader = ShuffledLoader(shards, B=2, T=4)
    for wrong, sentence in (
        ({"shard": 3}, "the run stopped in shard 3 of epoch 0"),
        ({"epoch": -1}, "the run stopped in shard 0 of epoch -1"),
        ({"sample": 100}, "the run had taken 100"),
    ):
        with pytest.raises(UserError, match=sentence):
            loader.load_state({**loader.state(), **wrong})
