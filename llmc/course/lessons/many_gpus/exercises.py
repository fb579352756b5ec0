"""Lesson 21's exercises: what is right, what is tried, and which mistakes have a name. The first one: turns.py."""

from contextlib import suppress
from numbers import Integral

import numpy as np

from llmc.course.checks.comparison import compare
from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer, describe
from llmc.course.checks.rerun import quietly
from llmc.course.lessons.many_gpus.buckets import CLUSTERS, Cluster, Piece, all_reduce_ms, gpt2, limits, play
from llmc.course.lessons.many_gpus.turns import judge_rank  # noqa: F401, for the check cells
from llmc.course.own_names import learners_names

# ------------------------------------------------------------------------------------------------- 2 · a network


def networks(c):
    """world, sizes, seconds (n,), and the alpha and beta that they come from: each time is off by up to a quarter."""
    for N, n in ((5, 12), (5, 12), (2, 8), (3, 9), (16, 30), (1024, 7), (4, 3)):
        sizes = np.sort(np.round(10 ** c.rng.uniform(2.5, 9, n)))  # (n,) bytes
        sizes[[0, -1]] = 256, 10**9
        alpha, beta = 10 ** c.rng.uniform(-6, -4), 10 ** c.rng.uniform(9, 11.5)
        yield N, sizes, 2 * (N - 1) * (alpha + sizes / N / beta) * c.rng.uniform(0.8, 1.25, n), alpha, beta


COLUMNS, SUM, COST = "np.full(len(sizes), a), a / world * sizes", "columns.sum(axis=0)", "4 · What it costs"
FIT = rf"""
    = the fit of the errors in seconds, in which the largest arrays decide, not of the relative errors
        | / seconds[:, None] => ;; {SUM} => columns.T @ seconds
    = the fit whose columns were divided by the time, and whose right side was not | {SUM} => columns.T @ seconds
    = that of the line through the smallest and the largest array alone
        | a = 2 => sizes, seconds = sizes[[0, -1]], seconds[[0, -1]]\n    a = 2
    = the time of the smallest array by its turns
        | return … => return seconds[0] / a, a / world * sizes[-1] / seconds[-1]
    [{COST}] = the fit of a single message, alpha + b / beta | {COLUMNS} => np.ones(len(sizes)), sizes
    [{COST}] = the fit with N = 2, where 2 (N - 1) is 2 and the share is 1 | {COLUMNS} => 0 * sizes + 2, sizes
    [{COST}] = the latency of all turns together | return alpha => return a * alpha
    = the seconds for a byte: beta is bytes per second | 1 / per_byte => per_byte
    = 1 / beta, and beta is 1 / alpha: the two unknowns are exchanged | return … => return per_byte, 1 / alpha
    = what comes of the line's slope, and beta of its part without bytes: the two are exchanged
        | return … => return per_byte / world, 1 / alpha / world
"""
Exercise("fit_costs", "21", returns="alpha beta", cases=networks, rtol=1e-6, look="5 · Real processes", mistakes=FIT)

# ------------------------------------------------------------------------------------------- 3 · one part each


def steps_of_ranks(c):
    """params, grads (N, n), m, v (N, n / N), t, lr: three steps on the same arrays."""
    for N, k in ((3, 4), (3, 4), (2, 5), (5, 3), (1, 6), (4, 1), (3, 40)):
        params, m, v = (c.buffer(N, n, dtype=np.float32) for n in (N * k, k, k))
        params[...], v[...] = params[0], np.abs(v) + 5
        for t in (1, 2, int(c.rng.integers(3, 50))):
            yield params, c.random(N, N * k, dtype=np.float32), m, v, t, float(c.rng.uniform(0.1, 0.5))


def last_bits(tried):
    """A sentence if all is right but for rounding: each bit must be that of a sum in the order of ranks."""
    pairs = {name: (tried.got[name], right) for name, right in tried.expected.items()}
    wrong = [name for name, pair in pairs.items() if not np.array_equal(*pair)]
    if not wrong or not all(np.allclose(*pairs[name], 1e-5, 1e-5) for name in wrong):
        return None
    if wrong == ["params"]:
        return "only the last bits of params are wrong, while m and v are right to the last"
    return f"only the last bits of {wrong[0]} are wrong: add up in the order of ranks, 0 first, in float32"


TOTAL, CALL = "total = grads[0, part].copy()", "adamw(params[r, part], total, m[r], v[r], t, lr)"
GATHER = "params[:, part] = params[r, part]"
STEP = rf"""
    with each rank's own gradient: the update needs the sum over all ranks
        | {TOTAL} => total = grads[r, part].copy() ;; total += grads[other, part] => pass
    with the mean of the gradients: they count 1 / N already | total, m[r] => total / N, m[r]
    without each rank's own gradient | total, m[r] => total - grads[r, part], m[r]
    with every N-th number of the gradient, from number r on, as part r: a part is one piece
        | part = … => part = slice(r, None, N)
    = what it held before but for row 0, which the update of every part has moved: part r has m[r] and v[r]
        | m[r], v[r] => m[0], v[0]
    = what adamw leaves after N calls on each part, and each call moves m and v
        | {CALL} => for other in range(N):\n            {CALL.replace("r, part", "other, part")}
    with t + 1 | m[r], v[r], t => m[r], v[r], t + 1
    = the new part r in row r, N times over: part r goes into its own place in all rows
        | {GATHER} => params[r] = np.tile(params[r, part], N)
"""
BOUNDS = {"rtol": 1e-5, "atol": 1e-6, "rules": (last_bits,), "look": "7 · Whose memory?"}
Exercise("zero1_step", "21", writes="params m v", cases=steps_of_ranks, **BOUNDS, mistakes=STEP)

# --------------------------------------------------------------------------------------- 4 · what nobody has


def shards_of_gradients(c):
    """shard (k,), most, and the sum of the other shards' squares, for every rank: long and short; huge, tiny, zeros."""
    for lengths, size, share in (
        *[((7, 5, 3), 1, 0.3)] * 2,
        *[((4, 9), 0.01, 1.7), ((1, 30), 1, 1.7), ((6, 0, 2, 2), 1, 0.7), ((3, 8), 1e25, 0.5), ((6, 3), 1e-6, 0.4)],
        *[((5, 4), 1e-30, 0.2), ((5, 4), 1e-30, 5.0), ((9,), 1, 0.6), ((1, 1, 1, 1, 1), 1, 0.9), ((3, 2), 0, 1.0)],
    ):
        shards = [(size * c.random(k)).astype(np.float32) for k in lengths]
        parts = [squares(shard) for shard in shards]
        for rank, mine in enumerate(shards):
            shard = c.buffer(mine.size, dtype=np.float32)
            shard[...] = mine
            yield shard, share * (sum(parts) ** 0.5 or 1.0), sum(parts[:rank] + parts[rank + 1 :])


def squares(shard) -> float:
    """The sum of the squares of a shard (k,), in float64."""
    return float((shard.astype(np.float64) ** 2).sum())


def judge_clip(c, function, shard, most, ranks):
    """Call; what is given to all_reduce must be right, and the norm, and the shard (k,) afterwards."""
    before, look = shard.copy(), c.exercise.look_for()
    norm = c.call(function, shard, most, ranks)
    judge_asked(ranks.asked, before, look, c.exercise.look_for("asked"))
    total = (squares(before) + ranks.others) ** 0.5
    compare("norm", norm, np.float64(total), 1e-6, look=look)
    right = (before * min(1.0, most / total) if total else before).astype(np.float32)  # (k,)
    compare("the shard", shard, right, 1e-5, 1e-6 * np.abs(right).max(initial=0.0), before=before, look=look)


def judge_asked(asked, shard, look, hang):
    """WrongAnswer unless all_reduce was called once, with the sum of the squares of the shard (k,)."""
    if len(asked) != 1:
        times = f"calls all_reduce {len(asked)} times" if asked else "never calls all_reduce"
        has = f"{shard.size} numbers{', all of them 0' * (shard.size > 0 and not shard.any())}"
        raise WrongAnswer(f"with a shard of {has}, your function {times}: each rank calls it exactly once", look=hang)
    if np.ndim(asked[0]):
        raise WrongAnswer(f"all_reduce takes a number, and was given {describe(asked[0])}", look=look)
    own, got, largest = squares(shard), np.float64(asked[0]), np.abs(shard).max(initial=0.0).astype(np.float64)
    what = "what is given to all_reduce"
    if got in (0.0, np.inf) and (own > 3.4e38 if got else 0 < own < 1e-45):
        raise WrongAnswer(f"{what} is {got:g}: in float32 the squares overflow or vanish", look=look)
    known = {
        "the norm of the shard: norms do not add up, their squares do": own**0.5,
        "the sum of the shard's numbers, not of their squares": shard.astype(np.float64).sum(),
        "the mean of the squares, not their sum": own / max(1, shard.size),
        "the squares relative to the largest number, another one on each rank": own / (largest or 1) ** 2,
    }
    compare(what, got, np.float64(own), 1e-6, known=known, look=look)


WIDE = "(shard.astype(np.float64) ** 2).sum()"
CLIP = rf"""
    = that of this rank's shard alone, after clipping | return norm => return {WIDE} ** 0.5
    = the squared norm | np.sqrt(ranks => (ranks
    = that after clipping, not before it | return norm => return min(norm, most)
    with this rank's squares counted twice: they are in what all_reduce returns | {WIDE})) => {WIDE}) + {WIDE})
    scaled by this rank's own norm: then each rank has another factor
        | norm = => own = {WIDE} ** 0.5\n    norm = ;; norm > most => own > most ;; most / norm => most / own
    scaled by most / (norm + 1e-6), as PyTorch does it: here the factor is most / norm
        | norm > most => norm + 1e-6 > most ;; most / norm => most / (norm + 1e-6)
    divided by the norm: the factor is most / norm | most / norm => 1 / norm
    times norm / most: it is the other way round | most / norm => norm / most
    scaled to a norm of `most`, though its norm is below | norm > most => norm > 0
    scaled where the squared norm is above `most`: the norm decides | norm > => norm**2 >
"""
LOOK = {"asked": "8.1 · A hang", "": "8.2 · Three mistakes that do not hang"}
Exercise("global_clip", "21", returns="norm", writes="shard", cases=shards_of_gradients, look=LOOK, mistakes=CLIP)

# -------------------------------------------------------------------------------------------------- 5 · buckets


def plans(c):
    """what, pieces, cluster, and how many times what the best buckets add is enough: odd pieces, then GPT-2's."""
    for n in (1, 2, 3, 5, 8, 8, 13, 13):
        names = c.rng.permutation(10 * n)[:n]
        pieces = [Piece(f"p{k}", int(10 ** c.rng.uniform(3, 8)), c.rng.uniform(0.05, 3)) for k in names]
        alpha, beta, taken = 10 ** c.rng.uniform(-6, -4.5), 10 ** c.rng.uniform(9.5, 11.5), c.rng.uniform(0, 0.3)
        cluster = Cluster(int(c.rng.integers(2, 200)), alpha, beta, taken)
        yield f"{n} odd pieces on {cluster.world} GPUs", pieces, cluster, 2.0
    yield from ((f"GPT-2 on {name}", gpt2(), cluster, 1.15) for name, cluster in CLUSTERS.items())


def judge_buckets(c, function, what, pieces, cluster, most):
    """Call; the buckets must hold all pieces, and add at most so many times what the best add. Say what GPT-2's add."""
    counts, look = c.call(function, list(pieces), cluster), c.exercise.look_for()
    if told := no_buckets(counts, pieces):
        raise WrongAnswer(told, look=look)
    backward = sum(piece.ms for piece in pieces)
    added, best, floor = (ms - backward for ms in (play(pieces, counts, cluster), *limits(pieces, cluster)))
    if added > most * best + 1e-9:
        some = "one bucket adds" if len(counts) == 1 else f"{len(counts)} buckets add"
        told = f"{what}: {some} {added:.4g} ms to the backward pass of {backward:.4g} ms; {most * best:.4g} ms will do"
        last = sum(piece.nbytes for piece in pieces[len(pieces) - counts[-1] :]) / 1e6
        more = [f"Each message takes {all_reduce_ms(0, cluster):.3f} ms even if it is empty."]
        more += [f"The last bucket, which nothing hides, has {last:.1f} MB."]
        more += why_so_many(function, counts) if c.explains else []
        raise WrongAnswer(told, Kind.DEMAND, more=more, look=look)
    if most < 2:
        c.say(f"{what}: {added:.2f} ms beyond the backward pass (the best {best:.2f}, no choice below {floor:.2f}).")


def no_buckets(counts, pieces) -> str:
    """A sentence unless counts are those of buckets that hold all pieces."""
    if not isinstance(counts, list | tuple):
        return f"return a list of whole numbers, not {describe(counts)}"
    for k, count in enumerate(counts):
        if not isinstance(count, Integral) or isinstance(count, bool):
            return f"bucket {k} is {describe(count)}, and should be a whole number: how many pieces it has"
    held, n = sum(counts), len(pieces)
    if held == n:
        return "each bucket needs at least one piece" if min(counts) < 1 else ""
    if [*counts] == sorted({*counts}) and n in counts[-1:]:
        return f"{[*counts]} rises to the number of pieces, like the ends of buckets: return how many pieces each has"
    why = "some would be summed twice" if held > n else "some gradients would never be summed"
    return f"the buckets {[*counts]} hold {held} pieces in place of {n}: {why}"


def why_so_many(function, counts) -> list[str]:
    """A sentence on buckets that are one, or as many as there are pieces, or the same for every cluster."""
    if len(counts) == 1:
        return ["With one bucket nothing travels before the backward pass is over."]
    if max(counts) == 1:
        return ["With a bucket for each piece, every latency is paid."]
    with suppress(Exception), learners_names(), quietly():
        first, *others = (function(gpt2(), cluster) for cluster in CLUSTERS.values())
        if all(other == first for other in others):
            return [f"GPT-2 gets the same {len(first)} buckets on 8 GPUs and on 512, at 12.5 GB/s and at 290."]
    return []


Exercise("choose_buckets", "21", returns="counts", cases=plans, look="6.3 · Hiding it")
