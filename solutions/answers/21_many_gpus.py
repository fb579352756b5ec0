"""Answers to the exercises of lesson 21 in strangers' style. `adamw` and `play` are those of the exercise notebook."""

# ruff: noqa: F821
import numpy as np

from llmc.course.authoring.answers import right, wrong


@right("ring_all_reduce")
def ring_with_bounds(array, link):
    """Slices in place of views from array_split, and one loop for both halves."""
    N, n = link.world, len(array)
    ends = np.cumsum([n // N + (k < n % N) for k in range(N)])
    where = [slice(end - (n // N + (k < n % N)), end) for k, end in enumerate(ends)]
    k = link.rank
    for turn in range(2 * N - 2):
        came = link.exchange(array[where[k]])
        k = (k - 1) % N
        if turn < N - 1:
            array[where[k]] = array[where[k]] + came
        else:
            array[where[k]] = came


@right("ring_all_reduce")
def ring_with_np_add(array, link):
    if link.world == 1:
        return
    pieces = np.array_split(array, link.world)

    def at(k):
        return pieces[k % link.world]

    for t in range(link.world - 1):
        mine = at(link.rank - t - 1)
        np.add(link.exchange(at(link.rank - t)), mine, out=mine)
    for t in range(link.world - 1):
        np.copyto(at(link.rank - t), link.exchange(at(link.rank - t + 1)))


@wrong("ring_all_reduce", says="is no chunk of its array: np.array_split cuts it into")
def ring_of_whole_arrays(array, link):
    passing = array.copy()
    for _ in range(link.world - 1):
        passing = link.exchange(passing)
        array += passing


@wrong("ring_all_reduce", says="to which it has added what came in the turn before: that is chunk")
def ring_in_the_other_direction(array, link):
    N, r = link.world, link.rank
    chunks = np.array_split(array, N)
    for t in range(N - 1):
        chunks[(r + t + 1) % N] += link.exchange(chunks[(r + t) % N])
    for t in range(N - 1):
        chunks[(r + t) % N][...] = link.exchange(chunks[(r - 1 + t) % N])


@wrong("ring_all_reduce", says="your code stopped with ValueError: cannot reshape")
def ring_of_equal_chunks(array, link):
    N, r = link.world, link.rank
    chunks = array.reshape(N, -1)
    for t in range(N - 1):
        chunks[(r - t - 1) % N] += link.exchange(chunks[(r - t) % N])
    for t in range(N - 1):
        chunks[(r - t) % N] = link.exchange(chunks[(r + 1 - t) % N])


@right("fit_costs")
def fit_by_normal_equations(world, sizes, seconds):
    a, b = 2 * (world - 1) / seconds, 2 * (world - 1) * sizes / world / seconds
    aa, ab, bb = a @ a, a @ b, b @ b
    det = aa * bb - ab * ab
    alpha = (bb * a.sum() - ab * b.sum()) / det
    return alpha, det / (aa * b.sum() - ab * a.sum())


@right("fit_costs")
def fit_by_polyfit(world, sizes, seconds):
    """polyfit weighs the errors themselves, not their squares."""
    slope, start = np.polyfit(sizes, seconds / (2 * (world - 1)), 1, w=1 / seconds)
    return np.array([start, 1 / (slope * world)])


@wrong("fit_costs", says="with `seconds` in place of `np.sqrt(seconds)`")
def fit_with_roots_as_weights(world, sizes, seconds):
    slope, start = np.polyfit(sizes, seconds / (2 * (world - 1)), 1, w=1 / np.sqrt(seconds))
    return start, 1 / (slope * world)


@wrong("fit_costs", says="without `/ world`")
def fit_of_whole_arrays(world, sizes, seconds):
    a = 2 * (world - 1)
    columns = np.stack([np.full(len(sizes), a), a * sizes], axis=1) / seconds[:, None]
    alpha, per_byte = np.linalg.lstsq(columns, np.ones(len(sizes)), rcond=None)[0]
    return alpha, 1 / per_byte


@wrong("fit_costs", says="alpha equals the time of the smallest array by its turns")
def fit_from_the_ends(world, sizes, seconds):
    a = 2 * (world - 1)
    return seconds[sizes.argmin()] / a, a / world * sizes.max() / seconds[sizes.argmax()]


@right("zero1_step")
def zero1_in_three_loops(params, grads, m, v, t, lr):
    N, n = params.shape
    parts = np.arange(n).reshape(N, -1)
    sums = []
    for r in range(N):
        total = np.zeros(n // N, np.float32)
        for row in grads:
            total += row[parts[r]]
        sums.append(total)
    for r in range(N):
        mine = params[r, parts[r][0] : parts[r][-1] + 1]
        adamw(mine, sums[r], m[r], v[r], t, lr)
    new = np.concatenate([params[r, parts[r]] for r in range(N)])
    for r in range(N):
        params[r] = new


@right("zero1_step")
def zero1_with_reshaped_views(params, grads, m, v, t, lr):
    N = len(params)
    total = grads.sum(axis=0).reshape(N, -1)
    for r, own in enumerate(total):
        adamw(params[r].reshape(N, -1)[r], own, m[r], v[r], t, lr)
    for r in range(N):
        params.reshape(N, N, -1)[:, r] = params[r].reshape(N, -1)[r]


@wrong("zero1_step", says="are wrong: add up in the order of ranks, 0 first, in float32")
def zero1_in_the_order_of_a_ring(params, grads, m, v, t, lr):
    N = len(params)
    for r in range(N):
        total = grads[r].reshape(N, -1)[r].copy()
        for step in range(1, N):
            total += grads[(r + step) % N].reshape(N, -1)[r]
        adamw(params[r].reshape(N, -1)[r], total, m[r], v[r], t, lr)
        params.reshape(N, N, -1)[:, r] = params[r].reshape(N, -1)[r]


@wrong("zero1_step", says="what adamw leaves after N calls on each part")
def update_on_every_rank(params, grads, m, v, t, lr):
    N, n = params.shape
    k = n // N
    for r in range(N):
        part = slice(r * k, (r + 1) * k)
        g = grads[:, part].sum(axis=0)
        for o in range(N):
            adamw(params[o, part], g, m[r], v[r], t, lr)


@wrong("zero1_step", says="params were never written")
def zero1_that_updates_a_copy(params, grads, m, v, t, lr):
    N, n = params.shape
    parts = np.arange(n).reshape(N, -1)
    total = grads.sum(axis=0)
    for r in range(N):
        adamw(params[r, parts[r]], total[parts[r]], m[r], v[r], t, lr)
        params[:, parts[r]] = params[r, parts[r]]


@right("global_clip")
def clip_with_a_factor(shard, most, ranks):
    own = sum(float(x) * float(x) for x in shard)
    norm = ranks.all_reduce(own) ** 0.5
    shard *= np.float32(min(1.0, most / norm)) if norm else 1
    return norm


@right("global_clip")
def clip_with_dot(shard, most, ranks):
    wide = np.float64(shard)
    norm = np.sqrt(ranks.all_reduce(np.dot(wide, wide)))
    if most < norm:
        shard[:] = wide / (norm / most)
    return np.float64(norm)


@wrong("global_clip", says="equals the squares relative to the largest number")
def clip_with_sums_relative_to_their_largest(shard, most, ranks):
    largest = float(np.abs(shard).max(initial=0.0)) or 1.0
    relative = (shard / largest).astype(np.float64)
    norm = largest * np.sqrt(ranks.all_reduce((relative**2).sum()))
    if norm > most:
        shard *= most / norm
    return norm


@wrong("global_clip", says="with a shard of 0 numbers, your function never calls all_reduce")
def clip_that_leaves_early(shard, most, ranks):
    if len(shard) == 0:
        return 0.0
    norm = np.sqrt(ranks.all_reduce((shard.astype(np.float64) ** 2).sum()))
    if norm > most:
        shard *= most / norm
    return norm


@right("choose_buckets")
def buckets_with_flipped_borders(pieces, cluster):
    n = len(pieces)

    def counts_of(borders):
        ends = [0, *sorted(borders), n]
        return [b - a for a, b in zip(ends, ends[1:])]

    def cost(borders):
        return play(pieces, counts_of(borders), cluster)

    kept = min(({round(n * i / k) for i in range(1, k)} for k in range(1, n + 1)), key=cost)
    while n > 1 and cost(other := min((kept ^ {k} for k in range(1, n)), key=cost)) < cost(kept):
        kept = other
    return counts_of(kept)


@right("choose_buckets")
def buckets_found_exactly(pieces, cluster):
    """Of each beginning, those that no other one beats both in `now` and in `until`."""
    N, kept = cluster.world, [[(0.0, 0.0, [])]]
    for end in range(1, len(pieces) + 1):
        found = []
        for start in range(end):
            ms, nbytes = (sum(piece[k] for piece in pieces[start:end]) for k in (2, 1))
            travel = 1e3 * 2 * (N - 1) * (cluster.alpha + nbytes / N / cluster.beta)
            for now, until, counts in kept[start]:
                slowed = min(ms, max(0.0, until - now) * (1 - cluster.taken))
                then = now + slowed / (1 - cluster.taken) + ms - slowed
                found.append((then, max(then, until) + travel, [*counts, end - start]))
        front = []
        for each in sorted(found):
            if not front or each[1] < front[-1][1]:
                front.append(each)
        kept.append(front)
    return min(kept[-1], key=lambda each: each[1])[2]


@wrong("choose_buckets", says="The last bucket, which nothing hides, has 78.8 MB")
def buckets_of_one_limit(pieces, cluster):
    counts, held = [1], pieces[0].nbytes
    for piece in pieces[1:]:
        if held + piece.nbytes > 25e6:
            counts.append(0)
            held = 0
        counts[-1] += 1
        held += piece.nbytes
    return counts


@wrong("choose_buckets", says="like the ends of buckets: return how many pieces each has")
def buckets_as_borders(pieces, cluster):
    return np.cumsum(buckets_found_exactly(pieces, cluster)).tolist()


@wrong("choose_buckets", says="ms will do")
def buckets_that_take_one_after_the_other(pieces, cluster):
    counts, rest = [], list(pieces)
    while rest:
        counts.append(
            min(range(1, len(rest) + 1), key=lambda k: play(rest, [k] + [1] * (len(rest) - k), cluster))  # noqa: B023
        )
        rest = rest[counts[-1] :]
    return counts
