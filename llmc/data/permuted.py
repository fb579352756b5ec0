"""Batches in exactly the order of llm.c's loader when it shuffles (`llmc/dataloader.h` and `llmc/rand.h`).

Its generator is mt19937, like PyTorch's, seeded with 42 + rank. An epoch begins by permuting the list of files that the
previous epoch left; then, as each file is opened, its windows of B·T·world tokens are permuted anew. All numbers come
from the same generator, so an order depends only on the seed, the numbers of windows and the position; nothing else is
stored.
"""

from typing import NamedTuple

import numpy as np

from llmc.data.loader import DataLoader
from llmc.errors import UserError

LLM_C = "llm.c"  # what settings call this order
N = 624  # words of state of mt19937
SEED = 42  # llm.c's
GENERATOR = np.dtype(  # mt19937_state in rand.h; "unset" was meant for the seed, and llm.c leaves in it what was there
    [("unset", "<u8"), ("left", "<i4"), ("next", "<u4"), ("state", "<u4", N), ("matrix", "<u4", 2)]
)
MATRIX = (0, 0x9908B0DF)


class Order(NamedTuple):
    """files: the order of the files in an epoch · windows: (n,) the order of the windows in one file · random: the
    RandomState after drawing them."""

    files: list
    windows: np.ndarray
    random: np.random.RandomState


def order_at(seed: int, counts, epoch: int, shard: int) -> Order:
    """The Order in the shard-th file of an epoch. counts: the number of windows in each file · seed: 42 + rank in
    llm.c.

    Everything is drawn again from the start, which is fast: a billion tokens in windows of 4096 take 5 ms.
    """
    random, files = np.random.RandomState(seed % 2**32), list(range(len(counts)))
    for _ in range(epoch):
        files = permuted(files, random)
        _skip(random, sum(counts) - len(counts))
    files = permuted(files, random)
    _skip(random, sum(counts[file] - 1 for file in files[:shard]))
    return Order(files, np.array(permuted(list(range(counts[files[shard]])), random)), random)


def permuted(items: list, random) -> list:
    """The items, after swapping the i-th, from the last to the second, with one drawn from the first i.

    Drawn modulo i, as in llm.c, which is unfair by one part in 2^32 / i.
    """
    items = list(items)
    drawn = _draw(random, len(items) - 1) % np.arange(len(items), 1, -1)  # (items - 1,)
    for i, j in zip(range(len(items) - 1, 0, -1), drawn.tolist()):
        items[i], items[j] = items[j], items[i]
    return items


def _draw(random, n) -> np.ndarray:
    """(n,) the generator's next 32-bit numbers."""
    return random.randint(0, 1 << 32, n, np.uint32).astype(np.int64)


def _skip(random, n):
    while n > 0:
        _draw(random, min(n, 1 << 20))
        n -= 1 << 20


def read_permutation(file, size: int) -> bytes:
    """Read what `permutation` returned from the next bytes of an open file of `size` bytes.

    Raises ValueError if the file ends too soon, or the bytes make no sense.
    """
    parts = []
    for _ in ("files", "windows"):
        raw = file.read(8)
        count = int.from_bytes(raw, "little")
        if len(raw) < 8 or not 1 <= count <= size // 4:
            raise ValueError(f"{count} numbers to permute")
        parts += [raw, file.read(4 * count)]
        if sorted(np.frombuffer(parts[-1], "<i4").tolist()) != list(range(count)):
            raise ValueError("not a permutation")
    parts.append(file.read(GENERATOR.itemsize))
    if len(parts[-1]) < GENERATOR.itemsize:
        raise ValueError("no generator")
    generator = np.frombuffer(parts[-1], GENERATOR).copy()  # (1,)
    generator["unset"] = 0
    return b"".join(parts[:-1]) + generator.tobytes()


class PermutedLoader(DataLoader):
    """Like DataLoader, but in llm.c's shuffled order.

    path, B, T, V, rank, world: as in DataLoader · seed: the generator's seed, to which rank is added; 42 in llm.c.
    """

    def __init__(self, path, B: int, T: int, V: int | None = None, seed: int = SEED, rank: int = 0, world: int = 1):
        self.seed = seed
        super().__init__(path, B, T, V, rank=rank, world=world)

    def state(self) -> dict:
        """The loader's position and seed, in whole numbers; see `DataLoader.state`."""
        return {**super().state(), "seed": self.seed}

    def load_state(self, state: dict, saved: bytes = b"", epochs: int = 1):
        """Go to a position that `state()` gave, and take over its seed.

        saved: what `permutation` gave there on rank 0, to check against. llm.c's files do not say which epoch it was,
        so it is searched for in `epochs` of them. Raises UserError if these files do not have that position, or a
        different order.
        """
        self.seed, first = int(state.get("seed", self.seed)), int(state["epoch"])
        super().load_state(state)
        if not saved:
            return
        for epoch in range(first, first + epochs):
            if saved == self.permutation({**state, "epoch": epoch}, rank=0):
                return super().load_state({**state, "epoch": epoch})
        raise UserError(
            "this checkpoint's order of batches is not the one that llm.c's loader draws for these files; use"
            " the data, batch size, sequence length and number of ranks that the run began with."
        )

    def permutation(self, state: dict, rank: int | None = None) -> bytes:
        """What llm.c adds to its optimizer state: the order of the files, the order of one file's windows, and its
        generator.

        state: a position that `state()` gave · rank: our own by default.
        """
        seed = self.seed + (self.rank if rank is None else rank)
        order = order_at(seed, self._batches, state["epoch"], state["shard"])
        _, key, position, *_ = order.random.get_state()
        untouched = len(order.files) == len(order.windows) == 1 and position == N  # nothing was drawn
        generator = np.array((0, N + 1 - position, 0 if untouched else position, key, MATRIX), GENERATOR)
        lists = ((np.uint64(len(items)), np.array(items, "<i4")) for items in (order.files, order.windows))
        return b"".join(part.tobytes() for pair in lists for part in pair) + generator.tobytes()

    def _seek(self, epoch, shard, sample):
        """Draw the order of the windows in the shard."""
        super()._seek(epoch, shard, sample)
        self._windows = order_at(self.seed + self.rank, self._batches, epoch, shard).windows

    def _shard_order(self, epoch):
        """The order of the files in an epoch, drawn at random."""
        return order_at(self.seed + self.rank, self._batches, epoch, 0).files

    def _fill(self, sample):
        """Read the `sample`-th window in this order."""
        super()._fill(int(self._windows[sample]))
