"""Batches in random order, as from llm.c's loader with should_shuffle, but in our own order.

In file order, a batch is one stretch of text: B·T tokens on one subject. When shuffled, its B rows come from B places,
and the model learns clearly more in the same number of steps.
"""

import numpy as np

from llmc.data.loader import DataLoader


class ShuffledLoader(DataLoader):
    """Like DataLoader, but each epoch takes the files in a random order, cuts each into windows of T tokens at a random
    offset, and takes the windows in a random order.

    path, B, T, V, rank, world: as in DataLoader · seed: the order depends only on seed, epoch and file, so the whole
    state is a DataLoader's position and the seed.
    """

    def __init__(self, path, B: int, T: int, V: int | None = None, seed: int = 0, rank: int = 0, world: int = 1):
        self.seed = seed
        super().__init__(path, B, T, V, rank=rank, world=world)

    def state(self) -> dict:
        """The loader's position and seed, in whole numbers; see `DataLoader.state`."""
        return {**super().state(), "seed": self.seed}

    def load_state(self, state: dict):
        """Go to a position that `state()` gave, and take over its seed."""
        self.seed = int(state["seed"])
        super().load_state(state)

    def _shard_order(self, epoch):
        """The order of the files in an epoch, drawn at random."""
        many = len(self._batches)
        return np.random.default_rng([self.seed, epoch, many]).permutation(many).tolist()

    def _longest_read(self):
        return self.T

    def _seek(self, epoch, shard, sample):
        """Draw where each window of the shard starts."""
        super()._seek(epoch, shard, sample)
        key = [self.seed, epoch, self._file] if len(self._batches) > 1 else [self.seed, epoch]
        random = np.random.default_rng(key)
        n = self._batches[self._file] * self.B * self.world
        spare = self.shards.sizes[self._file] - 1 - n * self.T
        first = random.integers(0, min(self.T - 1, spare) + 1)  # each epoch cuts elsewhere
        self._starts = first + self.T * random.permutation(n)  # (n,)

    def _fill(self, sample):
        """Read the B windows of batch `sample` into the rows of x and y."""
        at = (sample * self.world + self.rank) * self.B
        for b, start in enumerate(self._starts[at : at + self.B].tolist()):
            self.shards.read(start, self._window)  # (T + 1,)
            self._x[b], self._y[b] = self._window[:-1], self._window[1:]  # (T,) both
