"""Lesson 15: a model of what a tile costs, for machines without a GPU; and what an autotuner is held against.

The model knows what a multiprocessor of an H200 does in a cycle, and counts what a block needs of it. Whatever takes
longest is what the block takes; too few warps cannot hide the waiting; too few blocks leave multiprocessors idle. It is
no clock: it leaves out the caches, the order of the instructions and the weather. On a GPU, `clock` measures.
"""

import numpy as np

from llmc import cuda
from llmc.bench.kernels.tuning import candidates
from llmc.course.old.checks.explain import WrongAnswer, describe
from llmc.kernels import ceil_div, matmul
from llmc.kernels.tiling import TILES, Tile

MULTIPROCESSORS, CYCLES = 132, 1755.0  # of an H200: how many, and cycles in a µs
FMAS, WORDS = 128, 32  # multiply-adds and floats from shared memory, in a cycle of a multiprocessor
FLOATS = 6.0  # floats between it and the L2, in a cycle
WARPS = 16  # with fewer on a multiprocessor, its units often wait
LAUNCH = 3.0  # µs of one more kernel, which adds the parts
PARTS = range(1, 17)
FEW = TILES  # what a GPU's clock tries: every tile is compiled first
SHAPES = ((8192, 3072, 768), (768, 3072, 8192), (768, 768, 8192), (1024, 768, 768))  # (M, N, K), of GPT-2
# Of the check's benches, three for each shape. They are the same in every run, so that nobody is refused once and
# accepted the next time. A test says what they tell apart: for every number of parts there is a bench that deceives
# whoever looks at that number alone and keeps the first tile.
SEEDS = ((153, 0, 1), (384, 0, 1), (13, 0, 1), (4, 0, 1))


def cycles_of_k(tile) -> dict:
    """Cycles of a multiprocessor for one k of one block: {what: cycles}."""
    t = tile
    loads = t.threads * (t.TM + t.TN)  # floats that the threads take from shared memory
    stores = t.BM + t.BN
    return {
        "arithmetic": t.BM * t.BN / FMAS,
        "shared memory": (loads + stores) / WORDS,
        "memory": (t.BM + t.BN) / FLOATS,
    }


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


# ------------------------------------------------------------------------------------------- what the check uses


class Bench:
    """What `measure` knows of one product (M, N, K): µs of every tile with every number of parts. tried: its calls.

    shaken: how far the numbers are from the model's, by chance, so that nobody can know them before measuring; some
    tiles do not fit on this bench, and measure as infinity.
    """

    def __init__(self, M, N, K, rng, shaken=0.3):
        self.product, self.tiles, self.tried = (M, N, K), candidates(), []
        factors = {tile: float(rng.uniform(1 - shaken, 1 + shaken)) for tile in self.tiles}
        for k in rng.choice(len(self.tiles), 8, replace=False):
            factors[self.tiles[k]] = np.inf
        ways = ((tile, parts) for tile in self.tiles for parts in PARTS)
        self.us = {(tile, parts): factors[tile] * model(tile, parts, M, N, K) for tile, parts in ways}
        rng.shuffle(self.tiles)

    @property
    def best(self) -> float:
        """The least µs there is."""
        return min(self.us.values())

    def loss(self, choice) -> float:
        """How much longer this choice takes than the best, 0.05 for 5%."""
        return self.us[choice] / self.best - 1


def benches():
    """The benches of the check."""
    return [Bench(*shape, np.random.default_rng(seed)) for shape, seeds in zip(SHAPES, SEEDS) for seed in seeds]


def choice_of(got, bench) -> tuple[Tile, int]:
    """What the learner returned, if it is a tile of the list and a number of parts; WrongAnswer otherwise."""
    if not isinstance(got, tuple) or isinstance(got, Tile) or len(got) != 2:
        raise WrongAnswer(f"autotune should return two things, (tile, parts), but it returned {describe(got)}.")
    tile, parts = got
    if tile not in bench.tiles:
        raise WrongAnswer(f"the first thing that autotune returns should be one of the tiles, but is {describe(tile)}.")
    if not isinstance(parts, (int, np.integer)) or parts not in PARTS:
        got = f"the float {parts}" if isinstance(parts, float) else repr(parts)
        raise WrongAnswer(
            f"the second thing that autotune returns is parts, a whole number (an int) from 1 to 16, but it is {got}."
        )
    return tile, int(parts)


def judge(bench, choice, calls, most_calls, most_loss, where):
    """WrongAnswer unless the choice is nearly the best, and was found with few measurements."""
    if bench.us[choice] == np.inf:
        raise WrongAnswer(
            f"autotune chose a tile that does not fit: it measures as infinity.\n→ Where to look: {where}."
        )
    if calls > most_calls:
        raise WrongAnswer(
            f"autotune measured {calls:,} times; the goal is at most {most_calls}. {_too_often(bench, most_calls)}\n"
            f"→ Where to look: {where}."
        )
    if bench.loss(choice) > most_loss:
        raise WrongAnswer(
            f"autotune's choice takes {bench.loss(choice):.0%} longer than the best; the goal is at most "
            f"{most_loss:.0%}.\n{_tile_or_parts(bench, choice, most_loss)}\n→ Where to look: {where}."
        )


def _too_often(bench, most_calls) -> str:
    """Did it measure too many ways, or the same ones again?"""
    ways = len(set(bench.tried))
    again = len(bench.tried) - ways
    if again and ways <= most_calls:
        return f"These are only {ways} different ways, and {again} times one of them again."
    said = f"There are {len(bench.us):,} ways."
    return f"{said} And {again} times it measured a way that it had measured before." if again else said


def _tile_or_parts(bench, choice, most_loss) -> str:
    """Is it the tile of this choice that is wrong, or its parts? And was the right one measured?"""
    tile, parts = choice
    fastest = min(bench.tried, key=bench.us.get, default=choice)
    left_out = _left_out(bench, tile, fastest)
    if bench.tried and tile == bench.tried[-1][0] != fastest[0] and parts == fastest[1] and not left_out:
        return (
            "The parts are those of the fastest way that autotune measured, and the tile is that of the last one; the "
            "fastest way has another tile."
        )
    same_tile = min(((tile, each) for each in PARTS), key=bench.us.get)
    same_parts = min(((each, parts) for each in bench.tiles), key=bench.us.get)
    of_tile, of_parts = (f"{bench.loss(way):.0%} longer than the best" for way in (same_tile, same_parts))
    if bench.loss(same_tile) <= most_loss:
        asked = "autotune measured that, too" if same_tile in bench.tried else "autotune never measured that"
        return f"The parts are wrong: with parts = {same_tile[1]}, not {parts}, this tile takes {of_tile}; {asked}."
    if bench.loss(same_parts) <= most_loss:
        said = f"The tile is wrong: whatever its parts, it takes at least {of_tile}"
    else:
        said = f"This tile takes at least {of_tile}, whatever its parts; "
        said += f"parts = {parts} at least {of_parts}, with any tile"
    best = f"The best has another tile, and parts = {min(bench.us, key=bench.us.get)[1]}; {_looked_at(bench)}."
    return f"{said}. {best}{left_out}"


def _left_out(bench, tile, fastest) -> str:
    """A sentence if other numbers of parts were measured of this tile, and none of that of the fastest way."""
    of_tile, of_fastest = ([each for each in {*bench.tried} if each[0] == which] for which in (tile, fastest[0]))
    if len(of_tile) < 2 or len(of_fastest) != 1 or tile == fastest[0]:
        return ""
    return (
        f" The fastest way that autotune measured is another tile with parts = {fastest[1]}, of which it measured no "
        "other parts."
    )


def _looked_at(bench) -> str:
    """What was measured of the tile that is the best."""
    best, right = min(bench.us, key=bench.us.get)
    parts = sorted({each for tile, each in bench.tried if tile == best})
    if right in parts:
        return "autotune measured that, too"
    if len(parts) == 1 and parts == list({each for _, each in bench.tried}):
        return f"autotune never tried other parts than {parts[0]}"
    if len(parts) == 1:
        return f"autotune measured that tile with parts = {parts[0]} alone"
    if parts:
        return f"autotune measured that tile with {len(parts)} other numbers of parts"
    return "autotune never measured that tile"


# ------------------------------------------------------------------------------------------------- on a GPU


def clock(name, M, N, K):
    """measure(tile, parts) -> µs on this GPU, for one of llmc.kernels.cublas.PRODUCTS; infinity where it fails."""
    from functools import partial

    from llmc.bench.kernels.times import microseconds
    from llmc.course.lessons.matmul_kernels.measured import SETS, arrays

    sets = [arrays(name, M, N, K, seed) for seed in range(SETS)]

    def measure(tile, parts):
        def launch(result, a, b):
            matmul.in_warp_tiles(name, result, a, b, M, N, K, tile=tile, parts=parts)

        try:
            return microseconds([partial(launch, *each) for each in sets])
        except cuda.xp.cuda.driver.CUDADriverError:
            return np.inf

    return measure
