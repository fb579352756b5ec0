"""Lesson 15: a model of what a tile costs, for machines without a GPU; and what an autotuner is judged by.

The model knows what a multiprocessor of an H200 does in a cycle, and counts what a block needs of it. Whatever takes
longest is what the block takes; too few warps cannot hide the waiting; too few blocks leave multiprocessors idle. It is
no clock: it leaves out the caches, the order of the instructions and the weather. On a GPU, ladders.clock measures.
"""

import numpy as np

from llmc.bench.kernels.tuning import candidates
from llmc.course.checks.messages.diagnosis import WrongAnswer
from llmc.kernels import ceil_div

MULTIPROCESSORS, CYCLES = 132, 1755.0  # of an H200: how many, and cycles in a µs
FMAS, WORDS = 128, 32  # multiply-adds and floats from shared memory, in a cycle of a multiprocessor
FLOATS = 6.0  # floats between it and the L2, in a cycle
WARPS = 16  # with fewer on a multiprocessor, its units often wait
LAUNCH = 3.0  # µs of one more kernel, which adds the parts
PARTS = range(1, 17)
SHAPES = ((8192, 3072, 768), (768, 3072, 8192), (768, 768, 8192), (1024, 768, 768))  # (M, N, K), of GPT-2
# Of the check's benches, three for each shape, always the same ones, so that nobody is refused once and accepted the
# next time. For every number of parts, one deceives whoever looks at that number alone and keeps the first tile.
SEEDS = ((153, 0, 1), (384, 0, 1), (13, 0, 1), (4, 0, 1))
MOST_CALLS, MOST_LOSS = 300, 0.1


def cycles_of_k(tile) -> dict:
    """Cycles of a multiprocessor for one k of one block: {what: cycles}."""
    t = tile
    words = t.threads * (t.TM + t.TN) + t.BM + t.BN  # that threads take from shared memory, and that are put there
    return {"arithmetic": t.BM * t.BN / FMAS, "shared memory": words / WORDS, "memory": (t.BM + t.BN) / FLOATS}


def model(tile, parts, M, N, K) -> float:
    """µs that version 9 would take by this model, with that tile and that many parts of K."""
    blocks = tile.blocks(M, N) * parts
    rounds, rest = divmod(ceil_div(blocks, MULTIPROCESSORS), tile.BLOCKS)
    waiting = 1 + max(0.0, WARPS / (tile.BLOCKS * tile.threads / 32) - 1) / 4  # too few warps
    alone = 1 + max(0.0, WARPS / (max(rest, 1) * tile.threads / 32) - 1) / 4
    together = rounds * tile.BLOCKS * waiting + rest * alone
    slices = ceil_div(ceil_div(K, parts), tile.BK) + tile.STAGES  # the first ones are waited for
    block = max(cycles_of_k(tile).values()) * tile.BK * slices * (1.05 if tile.STAGES == 2 else 1.0)
    adding = 0.0 if parts == 1 else LAUNCH + (2 * parts + 1) * M * N / (FLOATS * MULTIPROCESSORS) / CYCLES
    return together * block / CYCLES + adding


class Bench:
    """What `measure` knows of one product (M, N, K): µs of every tile with every number of parts. tried: its calls.

    They are off the model's by up to three tenths, at random, so that nobody can know them before measuring; some
    tiles do not fit on this bench, and measure as infinity.
    """

    def __init__(self, M, N, K, rng):
        self.product, self.tiles, self.tried = (M, N, K), candidates(), []
        factors = {tile: float(rng.uniform(0.7, 1.3)) for tile in self.tiles}
        for k in rng.choice(len(self.tiles), 8, replace=False):
            factors[self.tiles[k]] = np.inf
        self.us = {(t, parts): factors[t] * model(t, parts, M, N, K) for t in self.tiles for parts in PARTS}
        rng.shuffle(self.tiles)

    def measure(self, tile, parts):
        """µs of a way."""
        self.tried.append((tile, parts))
        if (tile, parts) not in self.us:
            raise ValueError(f"measure(tile, parts) takes one of the tiles, and 1 to 16 parts, not {parts!r}")
        return self.us[tile, parts]

    def loss(self, choice) -> float:
        """How much longer this choice takes than the best: 0.05 for 5%."""
        return self.us[choice] / min(self.us.values()) - 1


def benches(c):
    """The benches of the check, always the same twelve."""
    c.may_call(ceil_div, Bench.measure)
    for shape, seeds in zip(SHAPES, SEEDS):
        yield from (Bench(*shape, np.random.default_rng(seed)) for seed in seeds)


def judge_choice(c, got, bench) -> float:
    """The loss of what autotune returned; WrongAnswer unless that is nearly the best, found with few measurements."""
    calls, told = len(bench.tried), ""
    tile, parts = got if isinstance(got, tuple | list) and len(got) == 2 else (None, None)
    if not isinstance(tile, tuple) or not isinstance(parts, int | np.integer) or (tile, parts) not in bench.us:
        told = "autotune should return two things, (tile, parts): one of the tiles and an int from 1 to 16, but it "
        told += f"returned {got!r:.200}"
    elif calls > MOST_CALLS:
        told = f"autotune measured {calls:,} times, {len({*bench.tried})} different ways; "
        told += f"the goal is at most {MOST_CALLS}"
    elif bench.loss((tile, parts)) > MOST_LOSS:
        best = min(PARTS, key=lambda n: bench.us[tile, n])
        told = f"autotune's choice takes {bench.loss((tile, parts)):.0%} longer than the best; the goal is at most "
        told += f"{MOST_LOSS:.0%}. At best, with parts = {best}, its tile takes {bench.loss((tile, best)):.0%} longer"
    if told:
        raise WrongAnswer(told, look=c.exercise.look_for())
    return bench.loss((tile, parts))
