"""Training batches in random order: what llm.c's loader does with should_shuffle, with an order of our own.

In file order a batch is one stretch of text, B·T tokens on one subject; shuffled, its B rows come from B places, and
the same number of steps learns clearly more.
"""

import numpy as np

from llmc.data.loader import DataLoader


class ShuffledLoader(DataLoader):
    """Like DataLoader, but each epoch cuts the tokens into windows of T anew and takes the windows in a random order.

    path, B, T, V as in DataLoader · seed: the order depends on it and on the epoch alone, so `epoch` and the number of
    the batch in it are all the state there is.
    """

    def __init__(self, path, B: int, T: int, V: int | None = None, seed: int = 0):
        self.seed = seed
        super().__init__(path, B, T, V)

    def reset(self):
        """Begin again with the first batch of the first epoch."""
        self._begin(epoch=0)

    def _begin(self, epoch):
        """Draw the order of an epoch: where each of its windows starts."""
        self.epoch, self._next = epoch, 0
        random = np.random.default_rng([self.seed, epoch])
        spare = self.tokens.size - 1 - self.num_batches * self.B * self.T
        first = random.integers(0, min(self.T - 1, spare) + 1)  # windows are cut elsewhere each time
        self._starts = first + self.T * random.permutation(self.num_batches * self.B)  # (num_batches·B,)

    def next_batch(self):
        """(x, y), both (B, T) int32, y[b, t] the token that follows x[b, t]; every call fills the same two buffers."""
        if self._next == self.num_batches:
            self._begin(self.epoch + 1)
        rows = self._starts[self._next * self.B : (self._next + 1) * self.B]  # (B,)
        for b, start in enumerate(rows):
            window = self.tokens[start : start + self.T + 1]  # (T + 1,)
            self._x[b], self._y[b] = window[:-1], window[1:]  # (T,) both
        self._next += 1
        return self._x, self._y
