"""Lesson 21: gradients that travel in buckets while the backward pass goes on: what a choice costs, and the best one.

A Piece is some tensors whose gradients become final together; pieces come in the order of the backward pass. A bucket
is one or more pieces that follow one another; its all-reduce begins when all of it is final and the one before is done.
"""

from contextlib import suppress
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from numbers import Integral
from typing import NamedTuple

import numpy as np

from llmc.config import preset
from llmc.course.lessons.many_gpus.places import BUCKETS
from llmc.course.old.checks.evidence import is_explaining
from llmc.course.old.checks.explain import WrongAnswer, describe

STEP_MS = 56.92  # of GPT-2 124M with 32 sequences on an H200 (results.py)
CLOSE = 0.25  # how much more than the least may be added by what is called good
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
    "8 GPUs, 290 GB/s": Cluster(8, ALPHA, 290e9, 0.1),
    "16 GPUs, 12.5 GB/s": Cluster(16, ALPHA, 12.5e9, 0.1),
    "64 GPUs, 50 GB/s": Cluster(64, ALPHA, 50e9, 0.1),
    "512 GPUs, 50 GB/s": Cluster(512, ALPHA, 50e9, 0.1),
}


def gpt2(name="d12", B=32, T=1024) -> list:
    """GPT-2's gradients in bf16: four pieces a layer. The backward pass takes two thirds of a step of an H200."""
    config = preset(name)
    C, L, Vp, maxT = config.C, config.L, config.Vp, config.maxT
    matrix = C * C
    sizes = [  # (name, weights, multiplications for a token)
        ("lnf", 2 * C, Vp * C),
        *(
            (f"{l}.{what}", weights, products)
            for l in reversed(range(L))
            for what, weights, products in (
                ("fcproj", 4 * matrix + C, 4 * matrix),
                ("fc, ln2", 4 * matrix + 4 * C + 2 * C, 4 * matrix),
                ("attproj", matrix + C, matrix + T * C),
                ("qkv, ln1", 3 * matrix + 3 * C + 2 * C, 3 * matrix),
            )
        ),
        ("wte, wpe", Vp * C + maxT * C, matrix),
    ]
    whole = 2 / 3 * STEP_MS * B * T / (32 * 1024)
    total = sum(products for *_, products in sizes)
    return [Piece(what, 2 * weights, whole * products / total) for what, weights, products in sizes]


def odd(rng, n) -> tuple:
    """(n odd pieces, a cluster)."""
    names = [f"p{k}" for k in rng.permutation(10 * n)[:n]]
    pieces = [Piece(name, int(10 ** rng.uniform(3, 8)), float(rng.uniform(0.05, 3))) for name in names]
    world, alpha, beta = int(rng.integers(2, 200)), 10 ** rng.uniform(-6, -4.5), 10 ** rng.uniform(9.5, 11.5)
    return pieces, Cluster(world, float(alpha), float(beta), float(rng.uniform(0, 0.3)))


def all_reduce_ms(nbytes, cluster) -> float:
    """Of one bucket, in a ring."""
    N = cluster.world
    return 1e3 * 2 * (N - 1) * (cluster.alpha + nbytes / N / cluster.beta)


def then(state, ms, nbytes, cluster) -> tuple:
    """(when the backward pass has done ms more, when the all-reduce of a bucket is over that begins then).

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
def best(pieces, cluster) -> list:
    """The buckets with which everything is done first: of each beginning, the states that no other one beats.

    pieces: a tuple of Pieces.
    """
    n = len(pieces)
    ms, nbytes = ([0, *accumulate(piece[k] for piece in pieces)] for k in (2, 1))
    fronts = [[((0.0, 0.0), ())]]  # after k pieces: [(state, buckets)], earlier and earlier done, freer and freer later
    for end in range(1, n + 1):
        found = [
            (then(state, ms[end] - ms[start], nbytes[end] - nbytes[start], cluster), (*buckets, end - start))
            for start in range(end)
            for state, buckets in fronts[start]
        ]
        front = []
        for state, buckets in sorted(found):
            if not front or state[1] < front[-1][0][1]:
                front.append((state, buckets))
        fronts.append(front)
    return list(min(fronts[-1], key=lambda found: found[0][1])[1])


def limits(pieces, cluster) -> tuple:
    """Milliseconds of the best buckets, and those that no choice goes below: the backward pass, then the last piece."""
    floor = sum(piece.ms for piece in pieces) + all_reduce_ms(pieces[-1].nbytes, cluster)
    return play(pieces, best(tuple(pieces), cluster), cluster), floor


def demand(pieces, buckets, cluster, most, what, again=None) -> float:
    """Milliseconds of these buckets. WrongAnswer if they are none, or add more than `most` times what the best add.

    again(pieces, cluster): the function that chose them, for a look at what else it chooses.
    """
    others = Others(again if is_explaining() else None)
    _inspect(pieces, buckets, what, others)
    backward, got = sum(piece.ms for piece in pieces), play(pieces, buckets, cluster)
    good, _ = limits(pieces, cluster)
    if got - backward > most * (good - backward) + 1e-9:
        n = len(buckets)
        often = all_reduce_ms(0, cluster)
        last = sum(piece.nbytes for piece in pieces[len(pieces) - buckets[-1] :])
        some = f"{n} buckets add" if n != 1 else "one bucket adds"
        added, enough = got - backward, most * (good - backward)
        digits = next((k for k in range(2, 9) if f"{added:.{k}f}" != f"{enough:.{k}f}"), 9)
        lines = [
            f"{what}: {some} {added:.{digits}f} ms to the backward pass of {backward:.2f} ms;"
            f" {enough:.{digits}f} ms will do.",
            f"Each message takes {often:.3f} ms even if it is empty, the bytes of all of them"
            f" {all_reduce_ms(sum(p.nbytes for p in pieces), cluster) - often:.2f} ms;"
            f" the last bucket, which nothing hides, has {last / 1e6:.1f} MB.",
        ]
        if shown := others.shown():
            lines.append(shown)
        elif n == 1 and len(pieces) > 1:
            lines.append("With one bucket nothing travels before the backward pass is over.")
            if not others.always(lambda some, counts: len(counts) == 1):
                lines += _by_single_borders(pieces, buckets, cluster, most)
        elif n == len(pieces) > 1:
            lines.append("With a bucket for each piece, every latency is paid.")
        else:
            lines += [*_simpler(pieces, cluster, got), *_by_single_borders(pieces, buckets, cluster, most)]
        raise WrongAnswer("\n".join([*lines, f"→ Where to look: {BUCKETS}."]))
    return got


def _simpler(pieces, cluster, got):
    """A sentence if a choice that takes no thought is better; else none."""
    for words, counts in (("One bucket for all", [len(pieces)]), ("A bucket for each piece", [1] * len(pieces))):
        ms = play(pieces, counts, cluster)
        if ms < got - 1e-9:
            yield f"{words} would be done {got - ms:.2f} ms earlier."
            return


def _by_single_borders(pieces, buckets, cluster, most):
    """A sentence if one kind of change, made as long as it helps, makes these buckets good enough; else none."""
    backward, n = sum(piece.ms for piece in pieces), len(pieces)
    enough = backward + most * (limits(pieces, cluster)[0] - backward) + 1e-9
    start, got = frozenset(accumulate(buckets[:-1])), play(pieces, buckets, cluster)
    for words, changed in BORDERS.items() if is_explaining() else ():
        borders, least = start, got
        while True:
            some_and_ms = ((some, play(pieces, _counts(some, n), cluster)) for some in changed(borders, n))
            tried = [(round(ms, 9), sorted(some)) for some, ms in some_and_ms]  # equal ones on every machine
            if not tried or min(tried)[0] >= least - 1e-9:
                break
            least, borders = min(tried)[0], frozenset(min(tried)[1])
        if least <= enough:
            more = f"{words}, as long as that helps, only {least - backward:.2f} ms are added, with {len(borders) + 1}"
            yield f"If single borders are {more} bucket{'s' * (len(borders) > 0)}."
            return


BORDERS = {
    "taken away": lambda borders, n: [borders - {one} for one in borders],
    "added": lambda borders, n: [borders | {one} for one in range(1, n) if one not in borders],
    "moved by one piece": lambda borders, n: [
        borders - {one} | {other}
        for one in borders
        for other in (one - 1, one + 1)
        if 0 < other < n and other not in borders
    ],
}
BORDERS["moved, added or taken away"] = lambda borders, n: [
    each for changed in list(BORDERS.values())[:3] for each in changed(borders, n)
]


def _counts(borders, n) -> list:
    return [end - start for start, end in pairwise([0, *sorted(borders), n])]


class Others:
    """What a function that has chosen wrong buckets chooses for other pieces and clusters. choose: None if unknown."""

    def __init__(self, choose):
        self._choose = choose

    def _chosen(self, pieces, cluster):
        """Its buckets, or None."""
        with suppress(Exception):
            return [int(count) for count in self._choose(list(pieces), cluster)]
        return None

    @cached_property
    def cases(self) -> list:
        """[(pieces, cluster, its buckets)]."""
        rng = np.random.default_rng(0)
        some = [odd(rng, n) for n in (5, 8, 13, 13)] + [(gpt2(), cluster) for cluster in CLUSTERS.values()]
        return [(pieces, cluster, self._chosen(pieces, cluster)) for pieces, cluster in some if self._choose]

    def always(self, so) -> bool:
        """Is so(pieces, buckets) true in every case?"""
        return bool(self.cases) and all(counts is not None and so(pieces, counts) for pieces, _, counts in self.cases)

    def shown(self) -> str | None:
        """What its choices have in common: what it never looks at, or which problem they solve instead."""
        if not self.cases or not all(n and min(n) > 0 and sum(n) == len(p) for p, _, n in self.cases):
            return None
        if all(len(n) == 1 for *_, n in self.cases) or all(max(n) == 1 for *_, n in self.cases):
            return None  # which says enough
        slowest = [max(play(p, n, c) for n in ([len(p)], [1] * len(p))) for p, c, _ in self.cases]
        if all(play(p, n, c) > most - 1e-9 for (p, c, n), most in zip(self.cases, slowest)):
            return "In every case they take as long as the slower of one bucket and a bucket for each piece, or longer."
        chosen = [counts for *_, counts in self.cases[-len(CLUSTERS) :]]
        if all(counts == chosen[0] for counts in chosen) and len(chosen[0]) > 1 < max(chosen[0]):
            return f"GPT-2 gets the same {len(chosen[0])} buckets on 8 GPUs and on 512, at 12.5 GB/s and at 290."
        (most, words), (second, _) = sorted((self._excess(change), words) for words, change in INSTEAD.items())[:2]
        if most < CLOSE and 2 * most < min(second, self._excess(lambda *same: same)):
            return f"They would be good buckets {words}."
        return None

    def _excess(self, change) -> float:
        """By how much more than the best they add, at most, to changed (pieces, cluster, buckets)."""
        found = []
        for case in self.cases:
            pieces, cluster, counts = change(*case)
            backward = sum(piece.ms for piece in pieces)
            least = play(pieces, best(tuple(pieces), cluster), cluster) - backward
            found.append((play(pieces, counts, cluster) - backward) / max(least, 1e-9) - 1)
        return max(found)


def _alike(pieces, **what) -> list:
    return [piece._replace(**what) for piece in pieces]


INSTEAD = {
    "if the pieces came the other way round: they come in the order of the backward pass already": (
        lambda pieces, cluster, counts: (pieces[::-1], cluster, counts)
    ),
    "if the list were turned round: its first number is that of the pieces that are final first": (
        lambda pieces, cluster, counts: (pieces, cluster, counts[::-1])
    ),
    "if a message took no time to begin: each costs 2 (N - 1) · alpha, however small it is": (
        lambda pieces, cluster, counts: (pieces, cluster._replace(alpha=0.0), counts)
    ),
    "of pieces that all have the same bytes": (
        lambda pieces, cluster, counts: (
            _alike(pieces, nbytes=sum(p.nbytes for p in pieces) // len(pieces)),
            cluster,
            counts,
        )
    ),
    "of pieces that all take the same time": (
        lambda pieces, cluster, counts: (_alike(pieces, ms=sum(p.ms for p in pieces) / len(pieces)), cluster, counts)
    ),
    "on a cluster of two GPUs": (lambda pieces, cluster, counts: (pieces, cluster._replace(world=2), counts)),
    "if the backward pass took no time: what it hides costs nothing": (
        lambda pieces, cluster, counts: (_alike(pieces, ms=1e-3), cluster, counts)
    ),
}


def _is_ends(pieces, buckets) -> bool:
    """Do the numbers rise to that of all pieces?"""
    return [*buckets] == sorted(set(buckets)) and [*buckets][-1:] == [len(pieces)]


def _inspect(pieces, buckets, what, others):
    """WrongAnswer unless buckets are counts of pieces that cover all of them."""
    if not isinstance(buckets, list | tuple):
        raise WrongAnswer(f"return a list of whole numbers, not {describe(buckets)}.")
    for k, count in enumerate(buckets):
        if not isinstance(count, Integral) or isinstance(count, bool):
            raise WrongAnswer(f"bucket {k} is {describe(count)}, and should be a whole number: how many pieces it has.")
        if count < 1 and sum(buckets) == len(pieces):
            raise WrongAnswer(f"bucket {k} has {count} pieces: an empty bucket would cost its latency for nothing.")
    if sum(buckets) != len(pieces):
        left, why = len(pieces) - sum(buckets), "some would be summed twice"
        if left > 0:
            why = "the last one is" if left == 1 else f"the last {left} are"
            why += " in none, and some gradients would never be summed"
        more = _what_was_counted(pieces, buckets, others)
        words = f"{what}: the buckets hold {sum(buckets)} pieces, and there are {len(pieces)}: {why}"
        raise WrongAnswer(f"{words}.\n{more}→ Where to look: {BUCKETS}.")


def _what_was_counted(pieces, buckets, others) -> str:
    """A line about counts that do not add up; "" if they show nothing."""
    if _is_ends(pieces, buckets) and others.always(_is_ends):
        return (
            f"The list is {list(buckets)}, and in every case it rises to the number of pieces: those are the places "
            "where buckets end. Return how many pieces each one has.\n"
        )
    alike = len(buckets) > 1 and len(set(buckets)) == 1 and others.always(lambda some, counts: len(set(counts)) == 1)
    if alike and len(pieces) // len(buckets) == buckets[0]:
        return f"{len(pieces)} pieces are no multiple of {len(buckets)} buckets.\n"
    if others.always(lambda some, counts: sum(counts) == len(some) - 1):
        return "In every case the numbers add up to one piece less than there are.\n"
    if others.always(lambda some, counts: sum(counts) == len(some) - len(counts) + 1):
        return "In every case one piece is missing for each bucket behind the first.\n"
    if others.always(lambda some, counts: sum(counts) < len(some)):
        return "In other cases, too, the numbers add up to less than there are pieces.\n"
    return ""
