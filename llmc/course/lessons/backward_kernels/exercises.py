"""Lesson 14's exercises: what is right, what is tried, and which mistakes have a name."""

import numpy as np

from llmc.course.checks.comparison import compare
from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer
from llmc.course.lessons.layernorm.rows import backward, forward, normalised
from llmc.course.lessons.reductions.teamwork import shared_work  # noqa: F401, for the check cells

SHARED, STAGES, ALONG_ROWS = "3.3 · v2: rows shared", "3.4 · v3: two stages", "4.4 · v4: two readings"
REGISTERS, BUCKETS, NORM = "4.5 · v5: sums in registers", "5.2 · Sorted buckets", "6 · The norm of everything"
SECTIONS = {
    kind: section
    for section, kinds in {
        SHARED: "race, efficiency, busiest",
        STAGES: "never-written, rewrites",
        ALONG_ROWS: "barriers, shared_requests",
        REGISTERS: "sectors",
        "1.1 · A race, and an atomic": "race in global memory",
        "2 · The order of additions": "atomics",
        'lesson 12, section "3 · Make it break: one too many"': "out-of-bounds",
        'lesson 13, section "1 · Many numbers in, one out"': "barrier-divergence, deadlock",
        'lesson 13, section "3.2 · v2: one block per row"': "uninitialised",
        'lesson 13, section "3.3 · Shared memory has 32 doors"': "bank_conflicts",
        'lesson 13, section "3.4 · v3: the tree by warp shuffles"': "inactive-lane",
        'lesson 13, section "3.7 · v6: 128-bit loads"': "misaligned, requests",
        'lesson 13, section "6.2 · Inside a warp"': "missing-syncwarp",
        f'lesson 14, section "{STAGES}": every block writes its sums, even if they are 0': "never-written partial",
        f'lesson 14, section "{BUCKETS}": block u has bucket u, starts[u] to starts[u + 1]': "out-of-bounds starts",
    }.items()
    for kind in kinds.split(", ")
}

# ------------------------------------------------------------------------------------------------------- inputs


def columns(c):
    """db (C,), dout (N, C), threads: single rows and columns, no multiples; db goes on adding up."""
    for N, C in ((40, 64), (11, 33), (5, 127), (1, 7), (3, 1100), (2, 1)):
        db = c.buffer(C)
        yield from ((db, c.random(N, C), threads) for threads in (256, 96, 32, 256))


def rows_along(c):
    """(dx, dout, x (N, C), w (C,), mean, rstd (N,)), threads: rows shorter and longer than a warp; dx goes on."""
    for N, C in ((5, 129), (9, 33), (4, 7), (2, 1100), (6, 100)):
        dx = c.buffer(N, C)
        for threads in (256, 96, 32):
            x, w = c.random(N, C), c.random(C)
            yield (dx, c.random(N, C), x, w, *statistics(x)), threads


def rows_down(c):
    """(partial (blocks, 2, C), dout, x (N, C), mean, rstd (N,)), threads: also more blocks than rows."""
    for N, C, blocks in ((11, 129, 4), (7, 33, 3), (5, 1100, 2), (3, 7, 5), (1, 1, 1)):
        for threads in (256, 96, 32):
            x = c.random(N, C)
            yield (c.output(blocks, 2, C), c.random(N, C), x, *statistics(x)), threads


def buckets(tokens):
    """order (N,) and starts (U + 1,), int32: order[starts[u]], … order[starts[u + 1] - 1] are one token's positions."""
    order = np.argsort(tokens, kind="stable").astype(np.int32)  # (N,)
    _, starts = np.unique(tokens[order], return_index=True)  # (U,)
    return order, np.append(starts, tokens.size).astype(np.int32)


def positions(c):
    """dwte (V, C), dout (N, C), tokens, order (N,), starts (U + 1,), threads: tokens come once, often or never."""
    for N, C, V in ((14, 33, 9), (9, 129, 30), (12, 1100, 3), (1, 7, 5)):
        dwte = c.buffer(V, C)
        tokens = np.array([(v**2 + 5 * v + 8) % V for v in range(N)], np.int32)
        yield from ((dwte, c.random(N, C), tokens, *buckets(tokens), threads) for threads in (256, 96, 32))


def numbers(c):
    """partial (blocks,) float64, values (n,), threads; finally large numbers in front, and no square is rounded."""
    for n, blocks in ((2001, 6), (127, 6), (1, 1), (6403, 1)):
        for threads in (256, 96, 32):
            values = c.random(n)
            if n == 6403:
                c.new(f"{threads} numbers of 1024 come before 6,000 small ones")
                values = (c.rng.integers(1, 64, n) / 64).astype(np.float32)
                values[:threads] = 1024
            yield c.output(blocks, dtype=np.float64), values, threads


def rows_both_ways(c):
    """dx (N, C), partial (blocks, 2, C), dout, x (N, C), w (C,), mean, rstd (N,): idle warps, warps of many rows."""
    for N, C, blocks in ((35, 132, 2), (3, 4, 1), (9, 60, 2), (3, 36, 5), (2, 1024, 1), (16, 768, 1)):
        x = c.random(N, C)
        yield c.buffer(N, C), c.output(blocks, 2, C), c.random(N, C), x, c.random(C), *statistics(x)


def statistics(x):
    """mean and rstd (N,) of rows x (N, C), as the forward pass stores them."""
    return forward(x, *np.ones((2, x.shape[1]), np.float32))[1:]


# -------------------------------------------------------------------------------------- references and rules


def along_rows(dout, x, w):
    """dx (N, C), row by row."""
    return np.concatenate([backward(d[None, None], v[None, None], w).dx[0] for d, v in zip(dout, x)])


def down_columns(dout, x, blocks, warps=1):
    """(blocks, 2, C): sums of dout · norm and of dout; block k takes rows k, k + blocks, …, or so with its warps."""
    d = dout.astype(np.float64)  # (N, C)
    of_block = np.arange(len(d)) // warps % blocks == np.arange(blocks)[:, None]  # (blocks, N)
    return np.stack([of_block @ terms for terms in (d * normalised(x)[0], d)], axis=1).astype(np.float32)


def any_division(tried):
    """No sentence: sums of blocks that are right together count as right, whichever block has which row."""
    mine, right = (sums["partial"].sum(axis=0, dtype=np.float64) for sums in (tried.got, tried.expected))  # (2, C)
    if np.abs(mine - right).max() <= 1e-4 * np.abs(tried.expected["partial"]).max():
        tried.expected["partial"] = tried.got["partial"]


def judge_squares(c, partial, values, threads):
    """WrongAnswer unless partial (blocks,) holds the sums that the task asks for, with the digits of a double."""
    of_block = np.arange(values.size) // threads % len(partial)  # (n,)   in turns, each as many as threads
    right = np.bincount(of_block, values.astype(np.float64) ** 2, minlength=len(partial))  # (blocks,)
    look = c.exercise.look_for()
    off = np.abs(partial - right) / np.maximum(right, 1e-300)  # (blocks,)
    if (1e-12 if values.max() == 1024 else 2e-7) < off.max() < 1e-5:
        told = f"partial is right up to {off.max():.0e}, as if a float held a sum: next to it, small squares are lost"
        raise WrongAnswer(told, look=look)
    if off.max() > 1e-6 and np.isclose(partial.sum(), right.sum(), rtol=1e-9):
        told = f"the sum over all blocks is right, but partial[{off.argmax()}] is not the one that the task asks for"
        share = "Thread i of the whole grid takes i, i + T, i + 2T, … with T = gridDim.x * blockDim.x threads."
        raise WrongAnswer(told, more=[share], look=look)
    compare("partial", partial, right, rtol=2e-7, look=look)


def owners(c, numbers=0):
    """WrongAnswer if the last launch added by atomics, or (numbers:) wrote more than that many to global memory."""
    atomics = sum(use.lanes for use in c.report.lines if use.atomic)
    writes = sum(use.lanes for use in c.report.lines if use.space == "global" and use.write)
    told, look = "", c.exercise.look_for()
    if atomics:
        told = f"{atomics:,} numbers are added by atomics, in whatever order the threads arrive: equal runs may differ"
        look = c.exercise.look_for("atomics")
    elif numbers and writes > numbers:
        told = f"each result is written {writes / numbers:,.0f} times, where once is enough"
    if told:
        raise WrongAnswer(f"right, but {told}", Kind.DEMAND, look=look, table=c.report.table().splitlines())


# ---------------------------------------------------------------------------------------------------- exercises

Exercise(
    "bias_backward",
    "14",
    reference=lambda db, dout, N, C: dout.sum(axis=0, dtype=np.float64).astype(np.float32),
    adds="db",
    cases=columns,
    look=SECTIONS | {"": SHARED},
    mistakes=r"""
        without what warp 0 itself has found | if (warp == 0 && c < C) { => if (warp == 0 && c < C) { total = 0.0f;
        with warp 0 counted twice: `total` holds its sum already | k = 1 => k = 0
        = the sums of rows warp, warp + blockDim.x, … | n += warps => n += blockDim.x
        = the sums of all rows, from every warp: the warps share the rows
            | n = warp; n < N; n += warps => n = 0; n < N; n++
        = the sums of dout read as if it were (C, N): number c of row n is at n * C + c
            | (size_t)n * C + c => (size_t)c * N + n
        = the sums of what lies at 32 * k + lane, where number `lane` of warp k was put at lane * warps + k
            | partial[threadIdx.x] = => partial[lane * warps + warp] =
        = the sums with partial[lane * warps + k] added: number `lane` of warp k is at 32 * k + lane
            | if (warp == 0 && c < C) { => if (warp == 0 && c < C) { total = partial[lane * warps];
            ;; partial[32 * k + lane] => partial[lane * warps + k]
        = the sums of columns blockIdx.x * blockDim.x + threadIdx.x: a thread's column is blockIdx.x * 32 + lane
            | c = blockIdx.x * 32 + lane => c = blockIdx.x * blockDim.x + threadIdx.x
    """,
)

Exercise(
    "layernorm_dx",
    "14",
    reference=lambda dx, dout, x, w, mean, rstd, N, C: along_rows(dout, x, w),
    adds="dx",
    cases=rows_along,
    look=SECTIONS | {"": ALONG_ROWS, "efficiency": ALONG_ROWS},
    mistakes=r"""
        without the mean(dnorm) term | - dnorms - norm => - norm
        without the norm · mean(dnorm · norm) term | - norm * products) => )
        with sums over C in place of means
            | warp_sum(dnorms) / C => warp_sum(dnorms) ;; warp_sum(products) / C => warp_sum(products)
        with mean(dout) in place of mean(dnorm): w is missing in the first sum | dnorms += dnorm => dnorms += dout[c]
        with dout in place of dnorm = dout · w in front of the means | (dout[c] * w[c] - dnorms => (dout[c] - dnorms
        with x - mean in place of norm: rstd is missing, in the second mean and in front of it
            | dnorm * (x[c] - m) * r => dnorm * (x[c] - m) ;; norm = (x[c] - m) * r => norm = x[c] - m
        with norm = x · rstd - mean: it is (x - mean) · rstd
            | dnorm * (x[c] - m) * r => dnorm * (x[c] * r - m) ;; norm = (x[c] - m) * r => norm = x[c] * r - m
        with mean(dout · norm) in place of mean(dnorm · norm): w is missing in the second sum
            | products += dnorm => products += dout[c]
        with the two means exchanged | - dnorms - norm * products => - products - norm * dnorms
        with mean[0] in place of mean[row] | mean[row] => mean[0]
        with mean and rstd of row blockIdx.x | mean[row], r = rstd[row] => mean[blockIdx.x], r = rstd[blockIdx.x]
        with lane 0's own second sum, of dnorm · norm, in every lane
            | warp_sum(products) => __shfl_sync(0xffffffff, products, 0)
        with dnorm of each lane's last column in front of the means | products = 0.0f; => products = 0.0f, dnorm = 0;
            ;; float dnorm = dout[c] * w[c] => dnorm = dout[c] * w[c] ;; (dout[c] * w[c] - dnorms => (dnorm - dnorms
    """,
)

Exercise(
    "layernorm_partials",
    "14",
    reference=lambda partial, dout, x, mean, rstd, N, C: down_columns(dout, x, len(partial)),
    writes="partial",
    cases=rows_down,
    rules=(any_division,),
    look=SECTIONS | dict.fromkeys(("", "uninitialised", "efficiency"), STAGES),
    mistakes=r"""
        [4.1 · Two] with x in place of norm | (x[(size_t)n * C + c] - mean[n]) * rstd[n] => x[(size_t)n * C + c]
        [4.1 · Two] with norm = x · rstd - mean: it is (x - mean) · rstd
            | (x[(size_t)n * C + c] - mean[n]) * rstd[n] => (x[(size_t)n * C + c] * rstd[n] - mean[n])
        [4.1 · Two] = the sums of dout · norm and of dout · rstd: rstd belongs to norm | db += d => db += d * rstd[n]
        laid out as (2, gridDim.x, C): a block's dw and db lie next to each other, partial[k][0] and partial[k][1]
            | (size_t)(2 * blockIdx.x + 0) => (size_t)blockIdx.x
            ;; (size_t)(2 * blockIdx.x + 1) => (size_t)(gridDim.x + blockIdx.x)
        laid out as (gridDim.x, C, 2): first come all numbers of dw, then those of db
            | (size_t)(2 * blockIdx.x + 0) * C + c => ((size_t)blockIdx.x * C + c) * 2
            ;; (size_t)(2 * blockIdx.x + 1) * C + c => ((size_t)blockIdx.x * C + c) * 2 + 1
        with all rows in every block: the blocks share the rows
            | n = blockIdx.x; n < N; n += gridDim.x => n = 0; n < N; n++
        divided by the block's rows: these are sums | dw += d => rows++; dw += d ;; float dw => float rows = 0, dw
            ;; + c] = dw => + c] = dw / fmaxf(rows, 1) ;; + c] = db => + c] = db / fmaxf(rows, 1)
        with the last row of each block alone | dw += d => dw = d ;; db += d => db = d
        = sums of stretches of N / gridDim.x rows: the last N % gridDim.x rows are missing
            | n = blockIdx.x; n < N; n += gridDim.x
            => n = blockIdx.x * (N / gridDim.x); n < (blockIdx.x + 1) * (N / gridDim.x); n++
        plus sums of other columns: dw and db go on from one column of a thread to its next, blockDim.x further
            | float dw = 0.0f, db = 0.0f; => ;; for (int c = threadIdx.x
            => float dw = 0.0f, db = 0.0f; for (int c = threadIdx.x
    """,
)

Exercise(
    "embedding_backward",
    "14",
    reference=lambda dwte, dout, tokens, order, starts, C: (
        (
            (np.arange(len(dwte))[:, None] == tokens) @ dout.astype(np.float64)  # (V, N) @ (N, C)
        ).astype(np.float32)
    ),
    adds="dwte",
    cases=positions,
    look=SECTIONS | dict.fromkeys(("", "efficiency", "busiest", "rewrites"), BUCKETS),
    mistakes=r"""
        = the sum of dout's rows k in place of order[k]: order says which row comes at place k
            | dout[(size_t)order[k] * C => dout[(size_t)k * C
        = the sum of dout's rows tokens[order[k]]: dout has a row for each position, order[k]
            | dout[(size_t)order[k] * C => dout[(size_t)tokens[order[k]] * C
        = the first row of each bucket alone | k < end => k < first + 1
        with a total that is not 0 again in a thread's next column
            | float total = 0.0f; => ;; for (int c => float total = 0.0f;\n    for (int c
        = the sum of all places up to the bucket's end: bucket u begins at starts[u] | k = first => k = 0
        = how often each token comes | total += dout[(size_t)order[k] * C + c] => total += 1
        in the rows u in place of the tokens' rows: bucket u belongs to tokens[order[starts[u]]]
            | dwte[(size_t)token * C => dwte[(size_t)blockIdx.x * C
        in the rows of tokens[starts[u]]: that is a place, and order says which position is there
            | tokens[order[first]] => tokens[first]
    """,
)

Exercise(
    "partial_squares",
    "14",
    writes="partial",
    cases=numbers,
    look=SECTIONS | dict.fromkeys(("", "efficiency", "busiest", "rewrites", "barriers"), NORM),
    mistakes=r"""
        = the sum of the numbers, not of their squares | (double)values[i] * values[i] => values[i]
        = the sum of the first turn alone | i += threads => i += n
        with warp 0 counted twice | k = 1 => k = 0
        = the sum of all numbers, in every block: the blocks share them
            | i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads => i = threadIdx.x; i < n; i += blockDim.x
        = the mean of the squares | partial[blockIdx.x] = total => partial[blockIdx.x] = total / n
    """,
)

Exercise(
    "fused_layernorm_backward",
    "14",
    reference=lambda dx, partial, dout, x, w, mean, rstd, N, C: (
        down_columns(dout, x, len(partial), warps=8),
        along_rows(dout, x, w),
    ),
    adds="dx",
    writes="partial",
    cases=rows_both_ways,
    rules=(any_division,),
    look=SECTIONS | {"": REGISTERS},
    mistakes=r"""
        with means of a quarter of the numbers, .x of each float4
            | dnorms += d.x + d.y + d.z + d.w => dnorms += d.x
            ;; products += d.x * v.x + d.y * v.y + d.z * v.z + d.w * v.w => products += d.x * v.x
        with sums divided by C / 4, not by C | dnorms / C, b = products / C => dnorms / quads, b = products / quads
        with sums of the last row of each warp alone
            | dw[k].x += d.x * v.x, dw[k].y += d.y * v.y, dw[k].z += d.z * v.z, dw[k].w += d.w * v.w
            => dw[k] = make_float4(d.x * v.x, d.y * v.y, d.z * v.z, d.w * v.w)
            ;; db[k].x += d.x, db[k].y += d.y, db[k].z += d.z, db[k].w += d.w => db[k] = d
        [4.1 · Two] = the sums of dout · w · norm and of dout: w belongs to dx, and dw is the sum of dout · norm
            | dw[k].x += d.x * v.x, dw[k].y += d.y * v.y, dw[k].z += d.z * v.z, dw[k].w += d.w * v.w
            => dw[k].x += d.x * s.x * v.x,
            \n dw[k].y += d.y * s.y * v.y, dw[k].z += d.z * s.z * v.z, dw[k].w += d.w * s.w * v.w
        [4.1 · Two] = the sums of dout · norm and of dout · w: w belongs to dx, and db is the sum of dout
            | db[k].x += d.x, db[k].y += d.y, db[k].z += d.z, db[k].w += d.w
            => db[k].x += d.x * s.x, db[k].y += d.y * s.y, db[k].z += d.z * s.z, db[k].w += d.w * s.w
    """,
)
