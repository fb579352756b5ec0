"""Answers to the exercises of lesson 21 as learners write them: right ones that look different, and wrong ones.

Each wrong answer comes with words that its check must say. CI runs them all;
`python -m llmc.course.old.authoring.answers 21` runs those of this lesson.
`adamw` and `play` are those of the exercise notebook.
"""

# ruff: noqa: F821
import numpy as np

from llmc.course.old.authoring.answers import right, wrong

# ---------------------------------------------------------------------------------------------------- 1 ring_all_reduce


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


@wrong("ring_all_reduce", says="np.array_split")
def ring_without_what_the_division_leaves(array, link):
    N, r = link.world, link.rank
    k = len(array) // N
    chunks = [array[i * k : (i + 1) * k] for i in range(N)]
    for t in range(N - 1):
        chunks[(r - t - 1) % N] += link.exchange(chunks[(r - t) % N])
    for t in range(N - 1):
        chunks[(r - t) % N][...] = link.exchange(chunks[(r + 1 - t) % N])


@wrong("ring_all_reduce", says="one chunk is whole, and the others are missing")
def ring_that_puts_arrays_into_the_list(array, link):
    N, r = link.world, link.rank
    chunks = np.array_split(array, N)
    for t in range(N - 1):
        chunks[(r - t - 1) % N] += link.exchange(chunks[(r - t) % N])
    for t in range(N - 1):
        chunks[(r - t) % N] = link.exchange(chunks[(r + 1 - t) % N])


@wrong("ring_all_reduce", says="2 for the reduce-scatter, 2 for the all-gather")
def ring_without_all_gather(array, link):
    N, r = link.world, link.rank
    chunks = np.array_split(array, N)
    for t in range(N - 1):
        chunks[(r - t - 1) % N] += link.exchange(chunks[(r - t) % N])


@wrong("ring_all_reduce", says="sends all 6 numbers: only one chunk of 2 may travel in a turn")
def ring_of_whole_arrays(array, link):
    passing = array.copy()
    for _ in range(link.world - 1):
        passing = link.exchange(passing)
        array += passing


@wrong("ring_all_reduce", says="waits forever: its neighbours have finished")
def ring_with_a_turn_too_many(array, link):
    N, r = link.world, link.rank
    chunks = np.array_split(array, N)
    for t in range(N - 1):
        chunks[(r - t - 1) % N] += link.exchange(chunks[(r - t) % N])
    for t in range(N):
        chunks[(r - t) % N][...] = link.exchange(chunks[(r + 1 - t) % N])


@wrong("ring_all_reduce", says="to which it has added what came in the turn before, which is chunk")
def ring_in_the_other_direction(array, link):
    N, r = link.world, link.rank
    chunks = np.array_split(array, N)
    for t in range(N - 1):
        chunks[(r + t + 1) % N] += link.exchange(chunks[(r + t) % N])
    for t in range(N - 1):
        chunks[(r + t) % N][...] = link.exchange(chunks[(r - 1 + t) % N])


@wrong("ring_all_reduce", says="in turn 0 of the all-gather")
def ring_that_gathers_what_it_had(array, link):
    N, r = link.world, link.rank
    chunks = np.array_split(array, N)
    for t in range(N - 1):
        chunks[(r - t - 1) % N] += link.exchange(chunks[(r - t) % N])
    for t in range(N - 1):
        chunks[(r - t - 1) % N][...] = link.exchange(chunks[(r - t) % N])


@wrong("ring_all_reduce", says="as it was at the start, without what came from the left")
def ring_that_adds_to_copies(array, link):
    N, r = link.world, link.rank
    chunks = np.array_split(array.copy(), N)
    first = np.array_split(array, N)
    for t in range(N - 1):
        chunks[(r - t - 1) % N] += link.exchange(first[(r - t) % N])
    for t in range(N - 1):
        chunks[(r - t) % N][...] = link.exchange(chunks[(r + 1 - t) % N])


@wrong("ring_all_reduce", says="what it was before: what arrives must be written into array itself")
def ring_in_a_copy(array, link):
    N, r = link.world, link.rank
    chunks = np.array_split(array.copy(), N)
    for t in range(N - 1):
        chunks[(r - t - 1) % N] += link.exchange(chunks[(r - t) % N])
    for t in range(N - 1):
        chunks[(r - t) % N][...] = link.exchange(chunks[(r + 1 - t) % N])


@wrong("ring_all_reduce", says="as it was, without the numbers of rank")
def ring_that_only_passes_on(array, link):
    N, r = link.world, link.rank
    chunks = np.array_split(array, N)
    for t in range(N - 1):
        chunks[(r - t - 1) % N][...] = link.exchange(chunks[(r - t) % N])
    for t in range(N - 1):
        chunks[(r - t) % N][...] = link.exchange(chunks[(r + 1 - t) % N])


@wrong("ring_all_reduce", says="np.array_split cuts them into")
def ring_with_a_long_last_chunk(array, link):
    N, r = link.world, link.rank
    k = len(array) // N
    where = [slice(i * k, (i + 1) * k if i < N - 1 else None) for i in range(N)]
    for t in range(N - 1):
        array[where[(r - t - 1) % N]] += link.exchange(array[where[(r - t) % N]])
    for t in range(N - 1):
        array[where[(r - t) % N]] = link.exchange(array[where[(r + 1 - t) % N]])


@wrong("ring_all_reduce", says="reshape")
def ring_of_equal_chunks(array, link):
    N, r = link.world, link.rank
    chunks = array.reshape(N, -1)
    for t in range(N - 1):
        chunks[(r - t - 1) % N] += link.exchange(chunks[(r - t) % N])
    for t in range(N - 1):
        chunks[(r - t) % N] = link.exchange(chunks[(r + 1 - t) % N])


@wrong("ring_all_reduce", says="the sum divided by the number of ranks")
def ring_of_the_mean(array, link):
    ring_with_bounds(array, link)
    array /= link.world


@wrong("ring_all_reduce", says="and the numbers are float32")
def ring_in_float64(array, link):
    N, r = link.world, link.rank
    chunks = np.array_split(array.astype(np.float64), N)
    for t in range(N - 1):
        chunks[(r - t - 1) % N] += link.exchange(chunks[(r - t) % N])
    for t in range(N - 1):
        chunks[(r - t) % N][...] = link.exchange(chunks[(r + 1 - t) % N])
    array[...] = np.concatenate(chunks)


@wrong("ring_all_reduce", says="in the all-gather it takes the place of what was there")
def ring_that_adds_in_both_halves(array, link):
    N, r = link.world, link.rank
    chunks = np.array_split(array, N)
    for t in range(N - 1):
        chunks[(r - t - 1) % N] += link.exchange(chunks[(r - t) % N])
    for t in range(N - 1):
        chunks[(r - t) % N] += link.exchange(chunks[(r + 1 - t) % N])


# ---------------------------------------------------------------------------------------------------------- 2 fit_costs


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


@right("fit_costs")
def fit_by_lstsq(world, sizes, seconds):
    a = 2 * (world - 1)
    columns = np.stack([np.full(len(sizes), a), a / world * sizes], axis=1) / seconds[:, None]
    alpha, per_byte = np.linalg.lstsq(columns, np.ones(len(sizes)), rcond=None)[0]
    return alpha, 1 / per_byte


@wrong("fit_costs", says="the fit of the errors in seconds, in which the largest arrays decide")
def fit_of_seconds(world, sizes, seconds):
    a = 2 * (world - 1)
    columns = np.stack([np.full(len(sizes), a), a / world * sizes], axis=1)
    alpha, per_byte = np.linalg.lstsq(columns, seconds, rcond=None)[0]
    return alpha, 1 / per_byte


@wrong("fit_costs", says="beta is bytes per second")
def fit_of_seconds_per_byte(world, sizes, seconds):
    a = 2 * (world - 1)
    columns = np.stack([np.full(len(sizes), a), a / world * sizes], axis=1) / seconds[:, None]
    return tuple(np.linalg.lstsq(columns, np.ones(len(sizes)), rcond=None)[0])


@wrong("fit_costs", says="alpha equals the fit of alpha + b / beta, one message: a ring makes 2 (N - 1) turns.")
def fit_of_one_message(world, sizes, seconds):
    columns = np.stack([np.ones(len(sizes)), sizes], axis=1) / seconds[:, None]
    alpha, per_byte = np.linalg.lstsq(columns, np.ones(len(sizes)), rcond=None)[0]
    return alpha, 1 / per_byte


@wrong("fit_costs", says="beta equals the fit with whole arrays in every turn: a chunk has b / N bytes")
def fit_of_whole_arrays(world, sizes, seconds):
    a = 2 * (world - 1)
    columns = np.stack([np.full(len(sizes), a), a * sizes], axis=1) / seconds[:, None]
    alpha, per_byte = np.linalg.lstsq(columns, np.ones(len(sizes)), rcond=None)[0]
    return alpha, 1 / per_byte


@wrong("fit_costs", says="return alpha, then beta")
def fit_turned_round(world, sizes, seconds):
    return fit_by_polyfit(world, sizes, seconds)[::-1]


@wrong("fit_costs", says="whose squares were divided by the time")
def fit_with_roots_as_weights(world, sizes, seconds):
    slope, start = np.polyfit(sizes, seconds / (2 * (world - 1)), 1, w=1 / np.sqrt(seconds))
    return start, 1 / (slope * world)


@wrong("fit_costs", says="divided by the time twice")
def fit_with_squares_as_weights(world, sizes, seconds):
    slope, start = np.polyfit(sizes, seconds / (2 * (world - 1)), 1, w=seconds**-2)
    return start, 1 / (slope * world)


@wrong("fit_costs", says="alpha equals the time of the smallest array by its turns")
def fit_from_the_ends(world, sizes, seconds):
    a = 2 * (world - 1)
    return seconds[sizes.argmin()] / a, a / world * sizes.max() / seconds[sizes.argmax()]


@wrong("fit_costs", says="alpha equals the latency of all turns together")
def fit_of_all_turns(world, sizes, seconds):
    columns = np.stack([np.ones(len(sizes)), 2 * (world - 1) / world * sizes], axis=1) / seconds[:, None]
    alpha, per_byte = np.linalg.lstsq(columns, np.ones(len(sizes)), rcond=None)[0]
    return alpha, 1 / per_byte


@wrong("fit_costs", says="where 2 (N - 1) is 2 and the share is 1")
def fit_of_the_lesson(world, sizes, seconds):
    columns = np.stack([np.full(len(sizes), 2.0), sizes], axis=1) / seconds[:, None]
    alpha, per_byte = np.linalg.lstsq(columns, np.ones(len(sizes)), rcond=None)[0]
    return alpha, 1 / per_byte


@wrong("fit_costs", says="return two numbers")
def fit_with_a_dict(world, sizes, seconds):
    alpha, beta = fit_by_polyfit(world, sizes, seconds)
    return {"alpha": alpha, "beta": beta}


# --------------------------------------------------------------------------------------------------------- 3 zero1_step


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


@wrong("zero1_step", says="the new part of each rank on that rank alone")
def zero1_without_all_gather(params, grads, m, v, t, lr):
    N = len(params)
    total = grads.sum(axis=0).reshape(N, -1)
    for r in range(N):
        adamw(params[r].reshape(N, -1)[r], total[r], m[r], v[r], t, lr)


@wrong("zero1_step", says="each rank's own gradient: the update needs the sum over all ranks")
def zero1_without_reduce_scatter(params, grads, m, v, t, lr):
    N = len(params)
    for r in range(N):
        adamw(params[r].reshape(N, -1)[r], grads[r].reshape(N, -1)[r], m[r], v[r], t, lr)
        params.reshape(N, N, -1)[:, r] = params[r].reshape(N, -1)[r]


@wrong("zero1_step", says="the mean of the gradients: they count 1 / N already")
def zero1_of_the_mean(params, grads, m, v, t, lr):
    N = len(params)
    total = grads.mean(axis=0).reshape(N, -1)
    for r in range(N):
        adamw(params[r].reshape(N, -1)[r], total[r], m[r], v[r], t, lr)
        params.reshape(N, N, -1)[:, r] = params[r].reshape(N, -1)[r]


@wrong("zero1_step", says="what it held before, though m and v are new")
def zero1_that_updates_a_copy(params, grads, m, v, t, lr):
    N, n = params.shape
    parts = np.arange(n).reshape(N, -1)
    total = grads.sum(axis=0)
    for r in range(N):
        adamw(params[r, parts[r]], total[parts[r]], m[r], v[r], t, lr)
        params[:, parts[r]] = params[r, parts[r]]


@wrong("zero1_step", says="old m but for row 0, which the update of every part has moved: part r has m[r] and v[r]")
def zero1_with_rank_0s_moments(params, grads, m, v, t, lr):
    N = len(params)
    total = grads.sum(axis=0).reshape(N, -1)
    for r in range(N):
        adamw(params[r].reshape(N, -1)[r], total[r], m[0], v[0], t, lr)
        params.reshape(N, N, -1)[:, r] = params[r].reshape(N, -1)[r]


@wrong("zero1_step", says="params equals a step with t + 1")
def zero1_that_counts_once_more(params, grads, m, v, t, lr):
    N = len(params)
    total = grads.sum(axis=0).reshape(N, -1)
    for r in range(N):
        adamw(params[r].reshape(N, -1)[r], total[r], m[r], v[r], t + 1, lr)
        params.reshape(N, N, -1)[:, r] = params[r].reshape(N, -1)[r]


@wrong("zero1_step", says="the sum in the order of ranks")
def zero1_in_the_order_of_a_ring(params, grads, m, v, t, lr):
    N = len(params)
    for r in range(N):
        total = grads[r].reshape(N, -1)[r].copy()
        for step in range(1, N):
            total += grads[(r + step) % N].reshape(N, -1)[r]
        adamw(params[r].reshape(N, -1)[r], total, m[r], v[r], t, lr)
        params.reshape(N, N, -1)[:, r] = params[r].reshape(N, -1)[r]


@wrong("zero1_step", says="the new part of each rank on that rank alone")
def zero1_that_gathers_before_the_update(params, grads, m, v, t, lr):
    N = len(params)
    total = grads.sum(axis=0).reshape(N, -1)
    for r in range(N):
        params.reshape(N, N, -1)[:, r] = params[r].reshape(N, -1)[r]
        adamw(params[r].reshape(N, -1)[r], total[r], m[r], v[r], t, lr)


@wrong("zero1_step", says="An input was written to")
def zero1_that_sums_into_the_gradients(params, grads, m, v, t, lr):
    N = len(params)
    for other in range(1, N):
        grads[0] += grads[other]
    total = grads[0].reshape(N, -1)
    for r in range(N):
        adamw(params[r].reshape(N, -1)[r], total[r], m[r], v[r], t, lr)
        params.reshape(N, N, -1)[:, r] = params[r].reshape(N, -1)[r]


@wrong("zero1_step", says="the old weights with part 0 alone updated, in all rows")
def zero1_that_gathers_from_rank_0(params, grads, m, v, t, lr):
    N = len(params)
    total = grads.sum(axis=0).reshape(N, -1)
    for r in range(N):
        adamw(params[r].reshape(N, -1)[r], total[r], m[r], v[r], t, lr)
    params[...] = params[0]


@wrong("zero1_step", says="m has")
def zero1_whose_parts_begin_anywhere(params, grads, m, v, t, lr):
    N, n = params.shape
    for r in range(N):
        part = slice(r, r + n // N)
        total = grads[:, part].sum(axis=0)
        adamw(params[r, part], total, m[r], v[r], t, lr)
        params[:, part] = params[r, part]


@wrong("zero1_step", says="every N-th number of the gradient, from number r on, as part r: a part is one piece")
def zero1_whose_parts_are_dealt_out(params, grads, m, v, t, lr):
    N = len(params)
    for r in range(N):
        mine = params[r, r::N]
        adamw(mine, grads[:, r::N].sum(axis=0), m[r], v[r], t, lr)
        params[:, r::N] = mine


@wrong("zero1_step", says="`m[r].copy()` makes a new array: what `adamw` writes into it is lost")
def zero1_with_copies_of_the_moments(params, grads, m, v, t, lr):
    total = grads[0].copy()
    for other in grads[1:]:
        total += other
    for r, part in enumerate(np.split(total, len(params))):
        piece = np.split(params[r], len(params))[r].copy()
        adamw(piece, part, m[r].copy(), v[r].copy(), t, lr)
        for row in params:
            np.split(row, len(params))[r][:] = piece


# -------------------------------------------------------------------------------------------------------- 4 global_clip


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


@wrong("global_clip", says="the norm of this rank's shard alone, after clipping")
def clip_that_returns_its_own_norm_at_the_end(shard, most, ranks):
    norm = np.sqrt(ranks.all_reduce((shard.astype(np.float64) ** 2).sum()))
    if norm > most:
        shard *= most / norm
    return np.sqrt((shard.astype(np.float64) ** 2).sum())


@wrong("global_clip", says="norms do not add up, their squares do")
def clip_of_added_norms(shard, most, ranks):
    norm = ranks.all_reduce(np.linalg.norm(shard.astype(np.float64)))
    if norm > most:
        shard *= most / norm
    return norm


@wrong("global_clip", says="calls all_reduce never: the other ranks call it once, and wait")
def clip_of_its_own_norm(shard, most, ranks):
    norm = np.linalg.norm(shard.astype(np.float64))
    if norm > most:
        shard *= most / norm
    return norm


@wrong("global_clip", says="in float32, where they overflow or vanish")
def clip_in_float32(shard, most, ranks):
    with np.errstate(all="ignore"):
        norm = np.sqrt(ranks.all_reduce((shard * shard).sum()))
    if norm > most:
        shard *= most / norm
    return norm


@wrong("global_clip", says="of 0 numbers, calls all_reduce never")
def clip_that_leaves_early(shard, most, ranks):
    if len(shard) == 0:
        return 0.0
    norm = np.sqrt(ranks.all_reduce((shard.astype(np.float64) ** 2).sum()))
    if norm > most:
        shard *= most / norm
    return norm


@wrong("global_clip", says="scaled to a norm of `most`, though its norm is below")
def clip_that_always_scales(shard, most, ranks):
    norm = np.sqrt(ranks.all_reduce((shard.astype(np.float64) ** 2).sum()))
    if norm > 0:
        shard *= most / norm
    return norm


@wrong("global_clip", says="by this rank's own norm: then each rank has another factor")
def clip_by_its_own_norm(shard, most, ranks):
    own = (shard.astype(np.float64) ** 2).sum()
    norm = np.sqrt(ranks.all_reduce(own))
    if np.sqrt(own) > most:
        shard *= most / np.sqrt(own)
    return norm


@wrong("global_clip", says="the norm equals the squared norm")
def clip_without_a_root(shard, most, ranks):
    norm = ranks.all_reduce((shard.astype(np.float64) ** 2).sum())
    if norm > most:
        shard *= most / norm
    return norm


@wrong("global_clip", says="equals the squares relative to this rank's largest number: sums of several ranks then")
def clip_with_sums_relative_to_their_largest(shard, most, ranks):
    largest = float(np.abs(shard).max(initial=0.0)) or 1.0
    relative = (shard / largest).astype(np.float64)
    norm = largest * np.sqrt(ranks.all_reduce((relative**2).sum()))
    if norm > most:
        shard *= most / norm
    return norm


@wrong("global_clip", says="`shard = shard.astype(np.float64)` gives the name `shard` to another array and leaves the")
def clip_of_a_copy_by_the_same_name(shard, most, ranks):
    shard = shard.astype(np.float64)
    norm = np.sqrt(ranks.all_reduce(np.einsum("i,i->", shard, shard)))
    if norm > most:
        shard *= most / norm
    return norm


@wrong("global_clip", says="gives the name `shard` to another array and leaves the caller's array alone.")
def clip_into_a_new_array(shard, most, ranks):
    norm = np.sqrt(ranks.all_reduce((shard.astype(np.float64) ** 2).sum()))
    if norm > most:
        shard = shard * (most / norm)
    return norm


@wrong("global_clip", says="calls all_reduce 2 times")
def clip_that_asks_twice(shard, most, ranks):
    squares = (shard.astype(np.float64) ** 2).sum()
    norm = np.sqrt(ranks.all_reduce(squares))
    if norm > most:
        shard *= most / np.sqrt(ranks.all_reduce(squares))
    return norm


@wrong("global_clip", says="the norm after clipping")
def clip_that_returns_the_clipped_norm(shard, most, ranks):
    norm = np.sqrt(ranks.all_reduce((shard.astype(np.float64) ** 2).sum()))
    if norm > most:
        shard *= most / norm
    return min(norm, most)


@wrong("global_clip", says="each number cut off at most, where one factor is for all.")
def clip_of_each_number(shard, most, ranks):
    norm = np.sqrt(ranks.all_reduce((shard.astype(np.float64) ** 2).sum()))
    np.clip(shard, -most, most, out=shard)
    return norm


@wrong("global_clip", says="the mean of the squares, not their sum")
def clip_of_the_mean_square(shard, most, ranks):
    norm = np.sqrt(ranks.all_reduce((shard.astype(np.float64) ** 2).mean() if len(shard) else 0.0))
    if norm > most:
        shard *= most / norm
    return norm


@wrong("global_clip", says="with `norm` divided by `most`, in the line `shard /= norm`")
def clip_to_one(shard, most, ranks):
    norm = np.sqrt(ranks.all_reduce((shard.astype(np.float64) ** 2).sum()))
    if norm > most:
        shard /= norm
    return norm


@wrong("global_clip", says="as PyTorch does it")
def clip_like_pytorch(shard, most, ranks):
    norm = np.sqrt(ranks.all_reduce((shard.astype(np.float64) ** 2).sum()))
    factor = most / (norm + 1e-6)
    if factor < 1:
        shard *= factor
    return norm


@wrong("global_clip", says="this rank's squares counted twice")
def clip_that_adds_its_own(shard, most, ranks):
    own = (shard.astype(np.float64) ** 2).sum()
    norm = np.sqrt(own + ranks.all_reduce(own))
    if norm > most:
        shard *= most / norm
    return norm


@wrong("global_clip", says="in float32, where they overflow or vanish")
def clip_by_the_norm_in_float32(shard, most, ranks):
    with np.errstate(all="ignore"):
        norm = ranks.all_reduce(np.linalg.norm(shard) ** 2) ** 0.5
    if norm > most:
        shard *= most / norm
    return norm


# ----------------------------------------------------------------------------------------------------- 5 choose_buckets


@right("choose_buckets")
def buckets_with_moved_borders(pieces, cluster):
    """Borders that are added and removed as long as it helps, from a few beginnings."""
    n = len(pieces)

    def counts_of(borders):
        ends = [0, *sorted(borders), n]
        return [b - a for a, b in zip(ends, ends[1:])]

    def climbed(borders):
        least = play(pieces, counts_of(borders), cluster)
        improved = True
        while improved:
            improved = False
            for k in range(1, n):
                other = borders ^ {k}
                ms = play(pieces, counts_of(other), cluster)
                if ms < least - 1e-12:
                    borders, least, improved = other, ms, True
        return least, counts_of(borders)

    sizes = np.cumsum([piece.nbytes for piece in pieces])
    starts = []
    for k in range(1, n + 1):
        starts.append({int(i) + 1 for i in np.searchsorted(sizes, sizes[-1] * np.arange(1, k) / k) if i + 1 < n})
    return min(climbed(start) for start in starts)[1]


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


@wrong("choose_buckets", says="They would be good buckets if the pieces came the other way round")
def buckets_of_reversed_pieces(pieces, cluster):
    return buckets_found_exactly(pieces[::-1], cluster)


@wrong("choose_buckets", says="They would be good buckets if a message took no time to begin")
def buckets_without_alpha(pieces, cluster):
    return buckets_found_exactly(pieces, cluster._replace(alpha=0.0))


@wrong("choose_buckets", says="GPT-2 gets the same 9 buckets on 8 GPUs and on 512")
def buckets_of_one_limit(pieces, cluster):
    counts, held = [1], pieces[0].nbytes
    for piece in pieces[1:]:
        if held + piece.nbytes > 25e6:
            counts.append(0)
            held = 0
        counts[-1] += 1
        held += piece.nbytes
    return counts


@wrong("choose_buckets", says="With one bucket nothing travels before the backward pass is over")
def buckets_of_everything(pieces, cluster):
    return [len(pieces)]


@wrong("choose_buckets", says="With a bucket for each piece, every latency is paid")
def buckets_of_one_piece(pieces, cluster):
    return [1] * len(pieces)


@wrong("choose_buckets", says="ms earlier.")
def buckets_of_25_megabytes(pieces, cluster):
    counts, held = [0], 0
    for piece in pieces:
        if held > 25e6 and cluster.world >= 512:
            counts.append(0)
            held = 0
        counts[-1] += 1
        held += piece.nbytes
    return counts if cluster.world >= 512 else buckets_found_exactly(pieces, cluster)


@wrong("choose_buckets", says="In other cases, too, the numbers add up to less")
def buckets_without_the_last(pieces, cluster):
    counts = buckets_found_exactly(pieces, cluster)
    return counts[:-1]


@wrong("choose_buckets", says="hold 0 pieces, and there are 1: the last one is in none")
def buckets_that_end_one_piece_early(pieces, cluster):
    held = np.cumsum([piece.nbytes for piece in pieces])

    def equal_bytes(k):
        ends = np.searchsorted(held, held[-1] * np.arange(1, k + 1) / k)
        return np.diff(ends, prepend=0).tolist()

    choices = [equal_bytes(k) for k in range(1, len(pieces) + 1)]
    choices += [[len(part) for part in np.array_split(pieces, k)] for k in range(1, len(pieces) + 1)]
    return min(choices, key=lambda counts: play(pieces, counts, cluster))


@wrong("choose_buckets", says="If single borders are taken away, as long as that helps, only 0.71 ms are added")
def borders_that_are_never_taken_back(pieces, cluster):
    def counts_of(borders):
        return [b - a for a, b in zip([0, *borders], [*borders, len(pieces)])]

    borders, best = [], play(pieces, [len(pieces)], cluster)
    for border in range(1, len(pieces)):
        ms = play(pieces, counts_of([*borders, border]), cluster)
        if ms < best:
            borders, best = [*borders, border], ms
    return counts_of(borders)


@wrong("choose_buckets", says="return a list of whole numbers")
def buckets_as_an_array(pieces, cluster):
    return np.array(buckets_found_exactly(pieces, cluster))


@wrong("choose_buckets", says="should be a whole number: how many pieces it has")
def buckets_of_pieces(pieces, cluster):
    return [pieces]


@wrong("choose_buckets", says="an empty bucket would cost its latency for nothing")
def buckets_with_an_empty_one(pieces, cluster):
    return [0, *buckets_found_exactly(pieces, cluster)]


@wrong("choose_buckets", says="some would be summed twice")
def buckets_as_borders(pieces, cluster):
    return np.cumsum(buckets_found_exactly(pieces, cluster)).tolist()


@wrong("choose_buckets", says="GPT-2 gets the same 2 buckets on 8 GPUs and on 512")
def buckets_in_two_halves(pieces, cluster):
    half = len(pieces) // 2
    return [half, len(pieces) - half] if half else [1]


@wrong("choose_buckets", says="GPT-2 on 8 GPUs, 290 GB/s: ")
def buckets_by_count(pieces, cluster):
    """The best of equal counts, as in the lesson's plot: sizes do not matter to it."""
    n = len(pieces)
    cuts = [[len(part) for part in np.array_split(np.arange(n), k)] for k in range(1, n + 1)]
    return (
        min(cuts, key=lambda counts: play(pieces, counts, cluster))
        if n > 20
        else buckets_found_exactly(pieces, cluster)
    )


@wrong(
    "choose_buckets",
    says="If single borders are taken away, as long as that helps, only 5.49 ms are added, with 3 buckets",
)
def buckets_by_a_limit(pieces, cluster):
    """The best of all limits in bytes, each good for some clusters only."""
    total = sum(piece.nbytes for piece in pieces)

    def filled(limit):
        counts, held = [], limit
        for piece in pieces:
            if held + piece.nbytes > limit:
                counts.append(0)
                held = 0
            counts[-1] += 1
            held += piece.nbytes
        return counts

    limits = [total / k for k in range(1, 2 * len(pieces) + 1)]
    return min(map(filled, limits), key=lambda counts: play(pieces, counts, cluster))


@wrong("zero1_step", says="in row r the new part r, N times over")
def row_filled_with_its_part(params, grads, m, v, t, lr):
    N, n = params.shape
    P = params.reshape(N, N, -1)
    G = grads.reshape(N, N, -1)
    for r in range(N):
        g = G[0, r] * 1
        for o in range(1, N):
            g += G[o, r]
        adamw(P[r, r], g, m[r], v[r], t, lr)
        P[r] = P[r, r]


@wrong("zero1_step", says="the sum in the order of ranks")
def own_gradient_first(params, grads, m, v, t, lr):
    N, n = params.shape
    k = n // N
    for r in range(N):
        part = slice(r * k, (r + 1) * k)
        g = grads[r, part].copy()
        for o in range(N):
            if o != r:
                g += grads[o, part]
        adamw(params[r, part], g, m[r], v[r], t, lr)
        params[:, part] = params[r, part]


@wrong("zero1_step", says="what adamw leaves after 3 calls on each part")
def update_on_every_rank(params, grads, m, v, t, lr):
    N, n = params.shape
    k = n // N
    for r in range(N):
        part = slice(r * k, (r + 1) * k)
        g = grads[:, part].sum(axis=0)
        for o in range(N):
            adamw(params[o, part], g, m[r], v[r], t, lr)


@wrong("ring_all_reduce", says="the right chunks from number")
def chunks_from_its_own_on(array, link):
    N, r = link.world, link.rank
    chunks = [c.copy() for c in np.array_split(array, N)]
    for t in range(N - 1):
        chunks[(r - t - 1) % N] += link.exchange(chunks[(r - t) % N])
    for t in range(N - 1):
        chunks[(r - t) % N][...] = link.exchange(chunks[(r + 1 - t) % N])
    k = 0
    for c in chunks[r:] + chunks[:r]:
        array[k : k + len(c)] = c
        k += len(c)


@wrong("fit_costs", says="whose right side was not")
def right_side_not_divided(world, sizes, seconds):
    a = 2 * (world - 1)
    columns = np.stack([np.full(len(sizes), a), a / world * sizes], axis=1) / seconds[:, None]
    alpha, per_byte = np.linalg.lstsq(columns, seconds, rcond=None)[0]
    return alpha, 1 / per_byte


@wrong("fit_costs", says="alpha equals the fit with N turns: a ring makes 2 (N - 1).")
def fit_of_as_many_turns_as_ranks(world, sizes, seconds):
    columns = np.stack([np.full(len(sizes), world), 2 * (world - 1) / world * sizes], axis=1) / seconds[:, None]
    alpha, per_byte = np.linalg.lstsq(columns, np.ones(len(sizes)), rcond=None)[0]
    return alpha, 1 / per_byte


@wrong("zero1_step", says="m equals a step without the gradient of the last rank.")
def zero1_without_the_last_rank(params, grads, m, v, t, lr):
    N, n = params.shape
    for r, part in enumerate(slice(k, k + n // N) for k in range(0, n, n // N)):
        total = grads[0, part].copy()
        for other in range(1, N - 1):
            total += grads[other, part]
        adamw(params[r, part], total, m[r], v[r], t, lr)
        params[:, part] = params[r, part]


@wrong("zero1_step", says="m equals a step with the gradient of rank 0 counted twice.")
def zero1_with_rank_0_twice(params, grads, m, v, t, lr):
    N, n = params.shape
    for r, part in enumerate(slice(k, k + n // N) for k in range(0, n, n // N)):
        total = grads[0, part].copy()
        for own in grads:
            total += own[part]
        adamw(params[r, part], total, m[r], v[r], t, lr)
        params[:, part] = params[r, part]


@wrong("zero1_step", says="m equals a step without each rank's own gradient.")
def zero1_of_the_others(params, grads, m, v, t, lr):
    N, n = params.shape
    for r, part in enumerate(slice(k, k + n // N) for k in range(0, n, n // N)):
        total = sum(grads[other, part] for other in range(N) if other != r) + np.zeros(n // N, np.float32)
        adamw(params[r, part], total, m[r], v[r], t, lr)
        params[:, part] = params[r, part]


@wrong("zero1_step", says="params is right but for its last bits, while m and v are right to the last")
def zero1_with_a_step_of_its_own(params, grads, m, v, t, lr):
    N, n = params.shape
    total = grads[0].copy()
    for own in grads[1:]:
        total += own
    for r, part in enumerate(slice(k, k + n // N) for k in range(0, n, n // N)):
        m[r] += 0.1 * (total[part] - m[r])
        v[r] += 0.05 * (total[part] ** 2 - v[r])
        root = np.sqrt(v[r] / (1 - 0.95**t)) + 1e-8
        params[:, part] -= lr * (m[r] / (1 - 0.9**t) / root)


@wrong("global_clip", says="scaled where this rank's own norm is above `most`: the norm of the whole gradient decides")
def clip_where_its_own_norm_is_long(shard, most, ranks):
    own = (shard.astype(np.float64) ** 2).sum()
    norm = ranks.all_reduce(own) ** 0.5
    if own**0.5 > most:
        np.multiply(shard, most / norm, out=shard)
    return norm


@wrong("global_clip", says="scaled where the squared norm is above `most`: the norm of the whole gradient decides")
def clip_where_the_square_is_long(shard, most, ranks):
    total = ranks.all_reduce((shard.astype(np.float64) ** 2).sum())
    norm = np.sqrt(total)
    if total > most:
        shard *= most / norm
    return norm


@wrong("global_clip", says="scaled where the largest of this rank's numbers is above `most`: the norm of the whole")
def clip_where_the_largest_is_long(shard, most, ranks):
    norm = np.sqrt(ranks.all_reduce((shard.astype(np.float64) ** 2).sum()))
    if np.abs(shard).max(initial=0) > most:
        shard *= most / norm
    return norm


@wrong("fit_costs", says="the line through the smallest and the largest array alone")
def fit_costs_from_two_sizes(world, sizes, seconds):
    small, large = np.argmin(sizes), np.argmax(sizes)
    a = 2 * (world - 1)
    per_byte = (seconds[large] - seconds[small]) / (sizes[large] - sizes[small])  # of a · sizes / world
    return (seconds[small] - per_byte * sizes[small]) / a, a / world / per_byte


@wrong("fit_costs", says="divided by the times that the model itself gives")
def fit_costs_by_its_own_times(world, sizes, seconds):
    a, model = 2 * (world - 1), seconds
    columns = np.stack([np.full(len(sizes), float(a)), a / world * sizes], axis=1)
    for _ in range(50):
        A, y = columns / model[:, None], seconds / model
        x = np.linalg.solve(A.T @ A, A.T @ y)
        model = columns @ x
    return x[0], 1 / x[1]


@wrong("choose_buckets", says="it rises to the number of pieces: those are the places where buckets end")
def buckets_by_their_ends(pieces, cluster):
    n = len(pieces)

    def counts_of(borders):
        return [b - a for a, b in zip([0] + borders, borders)]

    def cost(borders):
        return play(pieces, counts_of(borders), cluster)

    best = min((sorted({round(n * i / k) for i in range(1, k + 1)}) for k in range(1, n + 1)), key=cost)
    better = True
    while better:
        better = False
        for border in range(1, n):
            trial = sorted(set(best) ^ {border})
            if cost(trial) < cost(best):
                best, better = trial, True
    return best


@wrong("ring_all_reduce", says="np.array_split cuts ")
def ring_with_pieces_rounded_up(array, link):
    N, r, n = link.world, link.rank, len(array)
    size = -(-n // N)

    def piece(k):
        return array[k % N * size : (k % N + 1) * size]

    for t in range(N - 1):
        target = piece(r - t - 1)
        target += link.exchange(piece(r - t))
    for t in range(N - 1):
        piece(r - t)[...] = link.exchange(piece(r + 1 - t))


@wrong("fit_costs", says="a line through the logarithms of sizes and times: a sum is no line there")
def fit_of_logarithms(world, sizes, seconds):
    slope, start = np.polyfit(np.log(sizes), np.log(seconds), 1)
    return np.exp(start) / (2 * (world - 1)), 1 / slope


@wrong("choose_buckets", says="If single borders are moved, added or taken away, as long as that helps, only 18.54 ms")
def buckets_that_take_one_after_the_other(pieces, cluster):
    counts, rest = [], list(pieces)
    while rest:
        counts.append(
            min(range(1, len(rest) + 1), key=lambda k: play(rest, [k] + [1] * (len(rest) - k), cluster))  # noqa: B023
        )
        rest = rest[counts[-1] :]
    return counts


@wrong("fit_costs", says="the two are exchanged")
def costs_of_a_line_the_other_way_round(world, sizes, seconds):
    turns = 2 * (world - 1)
    fixed, per_byte = np.polyfit(sizes, seconds, deg=1, w=1 / seconds)
    alpha = fixed / turns
    beta = turns / (world * per_byte)
    return alpha, beta


@wrong("fit_costs", says="alpha equals 1 / beta, and beta is 1 / alpha: the two unknowns are exchanged")
def costs_of_unknowns_the_other_way_round(world, sizes, seconds):
    turns = 2 * (world - 1)
    columns = np.stack([turns / world * sizes, np.full(sizes.size, turns)], axis=1) / seconds[:, None]  # (n, 2)
    alpha, per_byte = np.linalg.solve(columns.T @ columns, columns.sum(axis=0))
    return alpha, 1 / per_byte


@wrong("global_clip", says="ZeroDivisionError: float division by zero\n    in ")
def clip_by_the_quotient_of_no_norm(shard, most, ranks):
    squares = 0.0
    for g in shard:
        squares += float(g) * float(g)
    norm = ranks.all_reduce(squares) ** 0.5
    factor = min(1.0, most / norm)
    shard[:] = shard * np.float32(factor)
    return norm


@wrong("choose_buckets", says="In every case they take as long as the slower of")
def buckets_of_one_size_that_take_longest(pieces, cluster):
    n = len(pieces)
    best, least = None, 0.0
    for size in range(1, n + 1):
        counts = [size] * (n // size)
        if n % size:
            counts.append(n % size)
        ms = play(pieces, counts, cluster)
        if ms > least:
            best, least = counts, ms
    return best


@wrong("global_clip", says="the gradient as it was, though the norm is above `most`")
def clip_with_the_larger_of_two_factors(shard, most, ranks):
    wide = shard.astype(np.float64)
    norm = np.sqrt(ranks.all_reduce((wide * wide).sum()))
    factor = max(1.0, most / norm) if norm > 0 else 1.0
    shard *= factor
    return norm


@wrong("choose_buckets", says="one piece is missing for each bucket behind the first")
def buckets_that_lose_a_piece_at_each_border(pieces, cluster):
    first, *others = buckets_found_exactly(pieces, cluster)
    return [first, *(count - 1 for count in others)]
