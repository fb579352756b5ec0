"""Batches from a token file, in the order of llm.c's `llmc/dataloader.h` without shuffling.

The file is read from front to back in steps of B·T tokens. With several processes (`world`), they take turns: batch i
of process `rank` begins at token (i·world + rank)·B·T. It reads one token more than B·T: y is x one token later.
"""

import numpy as np

from llmc.data.tokens import read_tokens
from llmc.errors import UserError


class DataLoader:
    """Endless batches of one token file. `num_batches` make an epoch; after it the file starts again.

    path: token file · B, T: batch and sequence length · V: if given, ids must be < V · rank, world: which of how many
    processes this one is. Raises UserError for a bad file, or one with too few tokens for one batch of every process.
    """

    def __init__(self, path, B: int, T: int, V: int | None = None, rank: int = 0, world: int = 1):
        if min(B, T, world) < 1 or not 0 <= rank < world:
            raise UserError(f"a loader needs B, T, world ≥ 1 and 0 ≤ rank < world, not {B=} {T=} {rank=} {world=}.")
        self.path, self.B, self.T, self.rank, self.world = path, B, T, rank, world
        self.tokens = read_tokens(path, V)  # (ntok,) uint16, on disk
        self.num_batches = (2 * self.tokens.size - 2) // (2 * B * T * world)  # llm.c counts in bytes: 2 a token
        if self.num_batches < 1:
            raise UserError(
                f"{path} has {self.tokens.size:,} tokens, and one batch needs {B * T * world + 1:,}"
                f" ({B=}, {T=}, {world=}, plus one); take a smaller batch or sequence length."
            )
        self._x = np.empty((B, T), np.int32)
        self._y = np.empty((B, T), np.int32)
        self.reset()

    def reset(self):
        """Begin again with the first batch."""
        self._next = 0

    def next_batch(self):
        """(x, y), both (B, T) int32, y[b, t] the token that follows x[b, t].

        The same two buffers are filled at every call: copy what must outlive the next one.
        """
        n = self.B * self.T
        start = (self._next * self.world + self.rank) * n
        window = self.tokens[start : start + n + 1]  # (B·T + 1,)
        self._x[...] = window[:-1].reshape(self.B, self.T)  # (B, T)
        self._y[...] = window[1:].reshape(self.B, self.T)  # (B, T)
        self._next = (self._next + 1) % self.num_batches
        return self._x, self._y
