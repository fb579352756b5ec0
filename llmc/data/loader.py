"""Batches from token files, in the order of llm.c's `llmc/dataloader.h`.

Each file is read from front to back in steps of B·T tokens, then the next file follows. Several processes (`world`)
take turns: batch i of process `rank` begins at token (i·world + rank)·B·T. Each batch reads B·T + 1 tokens, because y
is x shifted by one token.

`ShuffledLoader` reads them in random order, as llm.c's loader does with should_shuffle, but in our own order. In file
order, a batch is one stretch of text: B·T tokens on one subject. When shuffled, its B rows come from B places, and the
model learns clearly more in the same number of steps.
"""

import numpy as np

from llmc.data.shards import Shards
from llmc.data.tokens import read_tokens
from llmc.errors import UserError


class DataLoader:
    """An endless supply of batches. After `num_batches`, an epoch over all files, the first file starts again.

    path: a token file, a pattern ("…/x_train_*.bin") or a list of files · B, T: batch size and sequence length · V: if
    given, ids must be < V (checked when a file is opened) · rank, world: the number of this process, and how many there
    are. `num_tokens` is the number of tokens in all files. Raises UserError for a bad file, for a file with too few
    tokens for one batch of every process, and (also later, in `next_batch`) for a file that has disappeared or shrunk.
    """

    def __init__(self, path, B: int, T: int, V: int | None = None, rank: int = 0, world: int = 1):
        if min(B, T, world) < 1 or not 0 <= rank < world:
            raise UserError(f"a loader needs B, T, world ≥ 1 and 0 ≤ rank < world, not {B=} {T=} {rank=} {world=}.")
        self.path, self.B, self.T, self.rank, self.world = path, B, T, rank, world
        self.shards = Shards(path, V)
        self.num_tokens = sum(self.shards.sizes)
        self._batches = [(ntok - 1) // (B * T * world) for ntok in self.shards.sizes]  # of each file
        self.num_batches = sum(self._batches)
        for file, ntok, batches in zip(self.shards.paths, self.shards.sizes, self._batches):
            if batches < 1:
                most = (ntok - 1) // (T * world)
                raise UserError(
                    f"{file} has {ntok:,} tokens, but one batch needs {B * T * world + 1:,} ({B=}, {T=}, {world=}, plus"
                    f" one); choose {f'a batch size of at most {most}' if most else 'a shorter sequence length'}."
                )
        self._x = np.empty((B, T), np.int32)
        self._y = np.empty((B, T), np.int32)
        self.reset()

    @property
    def tokens(self) -> np.ndarray:
        """(ntok,) the tokens of the first file, as `read_tokens` maps them."""
        return read_tokens(self.shards.paths[0])

    def head(self, n: int) -> np.ndarray:
        """(n,) uint16: the first n tokens across all files, or fewer if there are fewer."""
        return self.shards.head(n)

    def reset(self):
        """Begin again with the first batch of the first epoch."""
        self._seek(0, 0, 0)

    def state(self) -> dict:
        """The loader's position, as whole numbers: epoch, shard (its place in the epoch), sample (batches taken)."""
        return {"epoch": self.epoch, "shard": self._shard, "sample": self._sample}

    def load_state(self, state: dict):
        """Go to a position that `state()` gave. Raises UserError if these files do not have it."""
        epoch, shard, sample = (int(state[name]) for name in ("epoch", "shard", "sample"))
        if epoch < 0 or not 0 <= shard < len(self._batches):
            raise UserError(
                f"the run stopped in shard {shard} of epoch {epoch}, which this data does not have; use the data"
                " it began with."
            )
        self._seek(epoch, shard, 0)
        if not 0 <= sample <= self._batches[self._file]:
            raise UserError(
                f"{self.shards.paths[self._file]} has {self._batches[self._file]:,} batches, but the run had taken"
                f" {sample:,} from it; use the data, batch size and sequence length that the run began with."
            )
        self._sample = sample

    def next_batch(self):
        """(x, y), both (B, T) int32; y[b, t] is the token that follows x[b, t].

        Every call fills the same two buffers: copy a batch that must outlive the next call.
        """
        if self._sample == self._batches[self._file]:
            last = self._shard == len(self._order) - 1
            self._seek(self.epoch + last, 0 if last else self._shard + 1, 0)
        self._fill(self._sample)
        self._sample += 1
        return self._x, self._y

    def _seek(self, epoch, shard, sample):
        """Go to a batch by opening its file. If that fails, nothing changes."""
        order = self._shard_order(epoch)
        self.shards.open(order[shard])
        self.epoch, self._shard, self._sample = epoch, shard, sample
        self._order, self._file = order, order[shard]
        self._window = self.shards.buffer(self._longest_read() + 1)

    def _shard_order(self, epoch):
        """The order of the files in an epoch: by name."""
        return range(len(self._batches))

    def _longest_read(self):
        """How many tokens of a batch are read in one go."""
        return self.B * self.T

    def _fill(self, sample):
        """Read batch `sample` of the open file into x and y."""
        start = (sample * self.world + self.rank) * self.B * self.T
        self.shards.read(start, self._window)  # (B·T + 1,)
        self._x[...] = self._window[:-1].reshape(self.B, self.T)  # (B, T)
        self._y[...] = self._window[1:].reshape(self.B, self.T)  # (B, T)


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
            self._x[b], self._y[b] = self._window[:-1], self._window[1:]  # both (T,)
