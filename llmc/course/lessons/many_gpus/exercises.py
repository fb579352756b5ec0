"""Lesson 21's exercises: what is right, what is tried, and which mistakes have a name."""

from numbers import Integral

import numpy as np

from llmc.course.checks.comparison import compare
from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer, describe
from llmc.course.lessons.many_gpus.buckets import CLUSTERS, Cluster, Piece, all_reduce_ms, gpt2, limits, play
from llmc.course.lessons.many_gpus.ring import ring


def places_in_rings(c):
    """rank, array (n,) to be overwritten, the arrays (n,) of all ranks, what the left neighbour sends in each turn."""
    for N, n in ((3, 6), (3, 6), (1, 4), (2, 7), (3, 11), (5, 5), (5, 13), (5, 3), (2, 1), (8, 30)):
        arrays = [c.random(n, dtype=np.float32) for _ in range(N)]
        for rank in c.rng.permutation(N).tolist():
            array, left = c.buffer(n, dtype=np.float32), (rank - 1) % N
            array[...] = arrays[rank]
            yield rank, array, arrays, [state[left][(left - t) % N] for t, state in enumerate(ring(arrays)[:-1])]


def judge_rank(c, function, array, link, arrays):
    """Call; each message of this rank must be right, their number, and the sum in array (n,), to the last bit."""
    N, rank, start, states, look = len(arrays), link.rank, array.copy(), ring(arrays), c.exercise.look_for()
    try:
        c.call(function, array, link)
    finally:  # a wrong message that was sent before an error is its cause
        judge_messages(link.sent, states, rank, look)
    made, needed = len(link.sent), 2 * (N - 1)
    if made < needed:
        words = f"rank {rank} of {N} makes {made} exchange{'s' * (made != 1)}, and {needed} are needed"
        raise WrongAnswer(f"{words}: {N - 1} for the reduce-scatter, {N - 1} for the all-gather", look=look)
    compare(f"the array of rank {rank} of {N}", array, np.concatenate(states[-1][rank]), 0, 0, before=start, look=look)


def judge_messages(sent, states, rank, look):
    """WrongAnswer if a message is not what this rank should have sent: the first one is explained."""
    N = len(states[0])
    for t, (got, state) in enumerate(zip(sent, states[:-1])):
        k, mine = (rank - t) % N, state[rank]
        name = f"the chunk that rank {rank} of {N} sends in exchange {t + 1} of {2 * (N - 1)}"
        if t == 0 and not any(np.array_equal(got, chunk) for chunk in mine):
            cut = [chunk.size for chunk in mine]
            raise WrongAnswer(f"{name} is no chunk of its array: np.array_split cuts it into {cut} numbers", look=look)
        others = [j for j in range(N) if j != k and mine[j].shape == mine[k].shape]
        known = {f"its chunk {j}, and it is chunk {k}'s turn": mine[j] for j in others}
        if t:
            before, came = states[t - 1][rank], states[t - 1][rank - 1][k]  # what came is chunk k, too
            words = f"to which it has added what came in the turn before: that is chunk {k}"
            known |= {f"its chunk {j}, {words}": before[j] + came for j in others}
            known |= {f"chunk {k} as it was at the start": states[0][rank][k]}
            twice = f"chunk {k} with what came added to it: here it takes the place of what was there"
            known |= {"what came in the turn before, without what was there": came, twice: before[k] + came}
        compare(name, got, mine[k], 0, 0, known=known, look=look)


SUM = r"""
    = the state after the reduce-scatter: one chunk is whole, and the others are missing
        | chunks[(r - t) % N][...] = link => chunks[(r - t) % N] = link
    = the sum divided by the number of ranks: an all-reduce adds, and nothing more
        | chunks[(r + 1 - t) % N]) => chunks[(r + 1 - t) % N])\n    array /= N
"""
Exercise("ring_all_reduce", "21", writes="array", cases=places_in_rings, look="3 · Around the ring", mistakes=SUM)


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
"""
Exercise("fit_costs", "21", returns="alpha beta", cases=networks, rtol=1e-6, look="5 · Real processes", mistakes=FIT)


def steps_of_ranks(c):
    """params, grads (N, n), m, v (N, n / N), t, lr: three steps on the same arrays."""
    for N, k in ((3, 4), (3, 4), (2, 5), (5, 3), (1, 6), (4, 1), (3, 40)):
        params, m, v = (c.buffer(N, n, dtype=np.float32) for n in (N * k, k, k))
        params[...], v[...] = params[0], np.abs(v) + 5
        for t in (1, 2, int(c.rng.integers(3, 50))):
            yield params, c.random(N, N * k, dtype=np.float32), m, v, t, float(c.rng.uniform(0.1, 0.5))


def last_bits(tried):
    """A sentence if all is right except for rounding: each bit must be that of a sum in the order of ranks."""
    pairs = {name: (tried.got[name], right) for name, right in tried.expected.items()}
    wrong = [name for name, pair in pairs.items() if not np.array_equal(*pair)]
    if not wrong or not all(np.allclose(*pairs[name], 1e-5, 1e-5) for name in wrong):
        return None
    if wrong == ["params"]:
        return "only the last bits of params are wrong, while m and v are right to the last"
    return f"only the last bits of {wrong[0]} are wrong: add up in the order of ranks, 0 first, in float32"


CALL = "adamw(params[r, part], total, m[r], v[r], t, lr)"
STEP = rf"""
    with each rank's own gradient: the update needs the sum over all ranks
        | total = grads[0, part] => total = grads[r, part] ;; total += grads[other, part] => pass
    with the mean of the gradients: they count 1 / N already | total, m[r] => total / N, m[r]
    with every N-th number of the gradient as a part: it is one piece | slice(r * k, (r + 1) * k) => slice(r, None, N)
    without each rank's own gradient | total, m[r] => total - grads[r, part], m[r]
    = what it held before but for row 0, which the update of every part has moved: part r has m[r] and v[r]
        | m[r], v[r] => m[0], v[0]
    = what adamw leaves after N calls on each part, and each call moves m and v
        | {CALL} => for other in range(N):\n            {CALL.replace("r, part", "other, part")}
    = the new part r in row r, N times over: part r goes into its own place in all rows
        | params[:, part] = params[r, part] => params[r] = np.tile(params[r, part], N)
"""
BOUNDS = {"rtol": 1e-5, "atol": 1e-6, "rules": (last_bits,), "look": "7 · Whose memory?"}
Exercise("zero1_step", "21", writes="params m v", cases=steps_of_ranks, **BOUNDS, mistakes=STEP)


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
        told = f"with a shard of {shard.size} numbers, your function {times}: each rank calls it exactly once"
        raise WrongAnswer(told, look=hang)
    if np.ndim(asked[0]):
        raise WrongAnswer(f"all_reduce takes a number, and was given {describe(asked[0])}", look=look)
    own, got, largest = squares(shard), np.float64(asked[0]), np.abs(shard).max(initial=0.0).astype(np.float64)
    what = "what is given to all_reduce"
    if got in (0.0, np.inf) and (own > 3.4e38 if got else 0 < own < 1e-45):
        raise WrongAnswer(f"{what} is {got:g}: in float32 the squares overflow or vanish", look=look)
    known = {
        "the norm of the shard: norms do not add up, their squares do": own**0.5,
        "the mean of the squares, not their sum": own / max(1, shard.size),
        "the squares relative to the largest number, another one on each rank": own / (largest or 1) ** 2,
    }
    compare(what, got, np.float64(own), 1e-6, known=known, look=look)


WIDE = "(shard.astype(np.float64) ** 2).sum()"
CLIP = rf"""
    = that of this rank's shard alone, after clipping | return norm => return {WIDE} ** 0.5
    = that after clipping, not before it | return norm => return min(norm, most)
    with this rank's squares counted twice: they are in what all_reduce returns | {WIDE})) => {WIDE}) + {WIDE})
    scaled by this rank's own norm: then each rank has another factor
        | norm = => own = {WIDE} ** 0.5\n    norm = ;; norm > most => own > most ;; most / norm => most / own
    scaled by most / (norm + 1e-6), as PyTorch does it: here the factor is most / norm
        | norm > most => norm + 1e-6 > most ;; most / norm => most / (norm + 1e-6)
    times norm / most: it is the other way round | most / norm => norm / most
    scaled to a norm of `most`, though its norm is below | norm > most => norm > 0
    scaled where the squared norm is above `most`: the norm decides | norm > => norm**2 >
"""
LOOK = {"asked": "8.1 · A hang", "": "8.2 · Three mistakes that do not hang"}
Exercise("global_clip", "21", returns="norm", writes="shard", cases=shards_of_gradients, look=LOOK, mistakes=CLIP)


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
    added, best, floor = (ms - backward for ms in (play(pieces, counts, cluster), *limits(tuple(pieces), cluster)))
    if added > most * best + 1e-9:
        some = "one bucket adds" if len(counts) == 1 else f"{len(counts)} buckets add"
        told = f"{what}: {some} {added:.4g} ms to the backward pass of {backward:.4g} ms; {most * best:.4g} ms will do"
        last = sum(piece.nbytes for piece in pieces[len(pieces) - counts[-1] :]) / 1e6
        more = [f"Each message takes {all_reduce_ms(0, cluster):.3f} ms even if it is empty."]
        more += [f"The last bucket, which nothing hides, has {last:.1f} MB."]
        raise WrongAnswer(told, Kind.DEMAND, more=more, look=look)
    if most < 2:
        c.say(f"{what}: {added:.2f} ms beyond the backward pass (the best {best:.2f}, no choice below {floor:.2f}).")


def no_buckets(counts, pieces) -> str:
    """A sentence unless counts are those of buckets that hold all pieces."""
    if not isinstance(counts, list | tuple) or not all(isinstance(count, Integral) for count in counts):
        return f"return a list of whole numbers, how many pieces each bucket has, not {counts!r:.60}"
    held, n = sum(counts), len(pieces)
    if held == n:
        return "each bucket needs at least one piece" if min(counts) < 1 else ""
    if [*counts] == sorted({*counts}) and n in counts[-1:]:
        return f"{[*counts]} rises to the number of pieces, like the ends of buckets: return how many pieces each has"
    return f"the buckets {[*counts]} hold {held} pieces in place of {n}"


Exercise("choose_buckets", "21", returns="counts", cases=plans, look="6.3 · Hiding it")
