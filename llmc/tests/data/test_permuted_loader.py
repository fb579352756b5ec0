"""llm.c's shuffle: its generator, drawn here by hand; windows over files, epochs and processes; resumed."""

import json

import numpy as np
import pytest

from llmc.data import PermutedLoader, find_corpus, write_tokens
from llmc.data.permuted import permuted
from llmc.errors import UserError
from llmc.training import Trainer, TrainSettings
from llmc.training.recipes import recipe

WINDOWS = (12, 5, 9)  # of 8 tokens, in each file


def twister(seed):
    """mt19937 as Matsumoto and Nishimura wrote it down (1998): yields its numbers of 32 bits."""
    words = [seed]
    for i in range(1, 624):
        words.append((1812433253 * (words[-1] ^ (words[-1] >> 30)) + i) % 2**32)
    while True:
        for i in range(624):
            mixed = (words[i] & 0x80000000) | (words[(i + 1) % 624] & 0x7FFFFFFF)
            words[i] = words[(i + 397) % 624] ^ (mixed >> 1) ^ (0x9908B0DF if mixed % 2 else 0)
        for y in words:
            y ^= y >> 11
            y ^= (y << 7) & 0x9D2C5680
            y ^= (y << 15) & 0xEFC60000
            yield y ^ (y >> 18)


def order_by_hand(seed, counts, epochs):
    """Yield (file, window) of so many epochs, one draw after the other, as dataloader.h goes."""
    draws, files = twister(seed), list(range(len(counts)))

    def permute(items):
        for i in range(len(items) - 1, 0, -1):
            j = next(draws) % (i + 1)
            items[i], items[j] = items[j], items[i]

    for _ in range(epochs):
        permute(files)
        for file in files:
            windows = list(range(counts[file]))
            permute(windows)
            yield from ((file, window) for window in windows)


@pytest.fixture
def shards(tmp_path):
    """The pattern of three uneven files; the tokens of file i are i·1000 + their position."""
    for i, windows in enumerate(WINDOWS):
        write_tokens(tmp_path / f"x_train_{i:06d}.bin", 1000 * i + np.arange(8 * windows + 1 + i))
    return tmp_path / "x_train_*.bin"


def first_tokens(loader, n):
    """The first token of each of the next n batches."""
    return [int(loader.next_batch()[0][0, 0]) for _ in range(n)]


def test_the_order_is_that_of_the_generator(shards):
    loader, n = PermutedLoader(shards, B=2, T=4), 60 * sum(WINDOWS)  # more than two blocks of 624 numbers
    expected = [1000 * file + 8 * window for file, window in order_by_hand(42, WINDOWS, 60)]
    assert first_tokens(loader, n) == expected and sorted(expected[:26]) == sorted(set(expected))
    loader.reset()
    assert first_tokens(loader, 3) == expected[:3]


def test_a_window_is_one_stretch_of_text(shards):
    x, y = PermutedLoader(shards, B=2, T=4).next_batch()
    assert (np.diff(x.reshape(-1)) == 1).all() and (y == x + 1).all()


def test_each_rank_draws_its_own_windows(shards):
    for rank in range(2):
        loader = PermutedLoader(shards, B=1, T=4, rank=rank, world=2)
        expected = [1000 * file + 8 * window + 4 * rank for file, window in order_by_hand(42 + rank, WINDOWS, 2)]
        assert first_tokens(loader, 2 * sum(WINDOWS)) == expected


def test_the_seed_wraps_around(shards):
    """It is an unsigned int of 32 bits there."""
    one = PermutedLoader(shards, B=1, T=4, seed=2**32 - 1, rank=1, world=2)
    assert first_tokens(one, 20) == [1000 * f + 8 * w + 4 for f, w in order_by_hand(0, WINDOWS, 1)][:20]


def test_one_window_draws_nothing(tmp_path):
    write_tokens(tmp_path / "t.bin", np.arange(9))
    loader = PermutedLoader(tmp_path / "t.bin", B=2, T=4)
    assert first_tokens(loader, 3) == [0, 0, 0] and permuted([7], np.random.RandomState(0)) == [7]


@pytest.mark.parametrize("taken", [0, 1, 12, 25, 26, 27, 60])
def test_a_saved_state_continues_with_the_same_batches(shards, taken):
    loader, other = PermutedLoader(shards, B=2, T=4), PermutedLoader(shards, B=2, T=4, seed=4)
    first_tokens(loader, taken)
    state = json.loads(json.dumps(loader.state()))
    first_tokens(other, 5)
    other.load_state(state, loader.permutation(state))
    assert other.state() == state and first_tokens(other, 40) == first_tokens(loader, 40)


def test_another_order_is_refused(shards):
    loader = PermutedLoader(shards, B=2, T=4)
    first_tokens(loader, 30)
    saved = loader.permutation(loader.state())
    unknown = {**loader.state(), "epoch": 0}
    for wrong in (dict(B=1, T=4), dict(B=2, T=3)):
        with pytest.raises(UserError, match="not the one that llm.c's loader draws"):
            PermutedLoader(shards, **wrong).load_state(unknown, saved, epochs=9)
    with pytest.raises(UserError, match="not the one that llm.c's loader draws"):
        loader.load_state(unknown, saved)  # it is that of the second epoch


# ------------------------------------------------------------------------------------------------ llm.c's own losses


@pytest.mark.parametrize("order, kind, steps", [("llm.c", "shuffled", 4), ("files", "in_order", 10)])
def test_llmcs_losses(reference_dir, tmp_path, monkeypatch, order, kind, steps):
    """GPT-2 124M, trained on the first batches that llm.c's program took; another order of them shows at once."""
    expected = json.loads((reference_dir / "tinyshakespeare_d12_losses.json").read_text())[kind]["train"]
    corpus = find_corpus(reference_dir / "tinyshakespeare")
    monkeypatch.setattr("llmc.training.trainer.baselines", lambda *_: {})  # seconds, for numbers not looked at
    settings = TrainSettings(**recipe("cpu-demo") | dict(data=str(corpus.folder), order=order, val_batches=1))
    trainer = Trainer(settings)
    for step, loss in enumerate(expected[:steps]):
        assert abs(trainer.train_step()[0] - loss) < 2e-4, step
