"""Lesson 21: gradients that travel in buckets while the backward pass goes on: what a choice costs, and the best one.

A Piece is a few tensors whose gradients become final together; pieces come in the order of the backward pass. A bucket
is one or more pieces that follow one another; its all-reduce begins when all of it is final and the one before is done.
"""

from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from llmc.config import preset

STEP_MS = 56.92  # of GPT-2 124M with 32 sequences on an H200 (results.py)
ALPHA = 8e-6  # seconds that a message takes at least: NCCL's order of magnitude, not measured


class Piece(NamedTuple):
    """nbytes: of its gradients. ms: that the backward pass takes to finish them, once the piece before is finished."""

    name: str
    nbytes: int
    ms: float


class Cluster(NamedTuple):
    """GPUs in a ring; alpha: seconds, beta: bytes per second. taken: the share of a GPU that an all-reduce uses."""

    world: int
    alpha: float
    beta: float
    taken: float


CLUSTERS = {
    f"{world} GPUs, {gb_s} GB/s": Cluster(world, ALPHA, gb_s * 1e9, 0.1)
    for world, gb_s in ((8, 290), (16, 12.5), (64, 50), (512, 50))
}


def gpt2(name="d12", B=32, T=1024) -> list:
    """GPT-2's gradients in bf16: four pieces a layer. The backward pass takes two thirds of a step of an H200."""
    config = preset(name)
    C, head, matrix = config.C, config.Vp * config.C, config.C**2
    layer = (  # (name, weights, multiplications for a token)
        ("fcproj", 4 * matrix + C, 4 * matrix),
        ("fc, ln2", 4 * matrix + 6 * C, 4 * matrix),
        ("attproj", matrix + C, matrix + T * C),
        ("qkv, ln1", 3 * matrix + 5 * C, 3 * matrix),
    )
    layers = [(f"{l}.{what}", *each) for l in reversed(range(config.L)) for what, *each in layer]
    sizes = [("lnf", 2 * C, head), *layers, ("wte, wpe", head + config.maxT * C, matrix)]
    ms = 2 / 3 * STEP_MS * B * T / (32 * 1024) / sum(products for *_, products in sizes)
    return [Piece(what, 2 * weights, products * ms) for what, weights, products in sizes]


def all_reduce_ms(nbytes, cluster) -> float:
    """Of one bucket, in a ring."""
    N = cluster.world
    return 1e3 * 2 * (N - 1) * (cluster.alpha + nbytes / N / cluster.beta)


def then(state, ms, nbytes, cluster) -> tuple:
    """(when the backward pass has done ms more, when the all-reduce of a bucket that begins then is over).

    state: the same, of the bucket before. While an all-reduce runs, the backward pass is slower by the share taken.
    """
    now, until = state
    slowed = min(ms, max(0.0, until - now) * (1 - cluster.taken))  # of the ms: done while the one before travels
    now += slowed / (1 - cluster.taken) + ms - slowed
    return now, max(now, until) + all_reduce_ms(nbytes, cluster)


def play(pieces, buckets, cluster) -> float:
    """Milliseconds from the start of the backward pass until everything has been summed."""
    state, first = (0.0, 0.0), 0
    for count in buckets:
        bucket = pieces[first : first + count]
        state = then(state, sum(piece.ms for piece in bucket), sum(piece.nbytes for piece in bucket), cluster)
        first += count
    return state[1]


@lru_cache(maxsize=64)
def limits(pieces, cluster) -> tuple:
    """Milliseconds of the best buckets, and those that no choice goes below: the backward pass, then the last piece.

    pieces: a tuple. Of the buckets up to each piece, only the states that no other one beats are kept.
    """
    ms, nbytes = ([0, *accumulate(piece[k] for piece in pieces)] for k in (2, 1))
    fronts = [[(0.0, 0.0)]]  # after k pieces: the states, the first number ever larger, the second ever smaller
    for end in range(1, len(pieces) + 1):
        front, sums = [], [(ms[end] - ms[k], nbytes[end] - nbytes[k]) for k in range(end)]  # of the last bucket
        for state in sorted(then(before, *sums[k], cluster) for k in range(end) for before in fronts[k]):
            if not front or state[1] < front[-1][1]:
                front.append(state)
        fronts.append(front)
    return min(until for _, until in fronts[-1]), ms[-1] + all_reduce_ms(pieces[-1].nbytes, cluster)
