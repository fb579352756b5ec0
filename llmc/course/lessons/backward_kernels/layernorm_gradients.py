"""Lesson 14, layernorm's gradients: what its kernels should give, from float64, and what well-known mistakes give.

Mistakes are {sentence after "dx equals ": (array, where to look)}. References have the dtype of x or dout.
"""

import numpy as np

from llmc.course.lessons import layernorm
from llmc.course.lessons.backward_kernels import divisions
from llmc.course.lessons.backward_kernels.places import ALONG_ROWS, QUADS, STAGES, TWO_DIRECTIONS
from llmc.course.lessons.fast_on_cpu.fused import relocated
from llmc.course.lessons.layernorm import rows
from llmc.course.lessons.reductions.lanes import telling
from llmc.course.old.kernel_checks.evidence import slots


def statistics(x):
    """mean and rstd (N,) of rows x (N, C), as the forward pass stores them."""
    ones = np.ones(x.shape[1], np.float32)  # (C,)
    found = layernorm.forward(x, ones, ones)
    return found.mean, found.rstd


def gradients(dout, x, w):
    """dx (N, C), dw and db (C,)."""
    dx, dw, db = layernorm.backward(dout[None], x[None], w)
    return rows.Gradients(dx[0], dw, db)


def dx_mistakes(dout, x, w, neighbours=1) -> dict:
    """Known wrong dx (N, C), without what the buffer held. neighbours: so many numbers of a row that lie together are
    one lane's."""
    known = relocated(layernorm.backward_mistakes(dout, x, w)["dx"], ALONG_ROWS)
    mine = _wrong_means(dout, x, w, neighbours)
    other = "x.shape", "two places of norm"  # what a kernel does not have, and what `mine` says in its own words
    known = {words: wrong for words, wrong in known.items() if not any(each in words for each in other)}
    known |= {words: (array, ALONG_ROWS) for words, array in mine.items()}
    return telling(known, gradients(dout, x, w).dx)


def _mean_of_means(terms, lane):
    """(N, 1): the mean over 32 lanes of each one's mean of its numbers in terms (N, C); 0 for a lane without any."""
    means = [terms[:, lane == k].mean(axis=1) if (lane == k).any() else 0 * terms[:, 0] for k in range(32)]
    return np.mean(means, axis=0)[:, None]


def _wrong_means(dout, x, w, neighbours) -> dict:
    """dx (N, C) from means that went wrong in a way in which only a kernel's do."""
    norm, rstd = rows.normalised(x)  # (N, C), (N, 1)
    x64, dnorm = np.asarray(x, np.float64), np.asarray(dout, np.float64) * w  # (N, C) each
    mean, C = x64.mean(axis=1, keepdims=True), x.shape[1]

    def dx(a, b, norm=norm, rstd=rstd):
        return ((dnorm - a - norm * b) * rstd).astype(x.dtype)

    a, b = (terms.mean(axis=1, keepdims=True) for terms in (dnorm, dnorm * norm))  # (N, 1) each
    dout_mean, dout_norm = (terms.mean(axis=1, keepdims=True) for terms in (dout, dout * norm))  # (N, 1) each
    of_row_0 = (x64 - mean[0]) * rstd  # (N, C)
    lane = np.arange(C) // neighbours % 32  # (C,)
    lanes = (lane[:, None] == lane) / C  # (C, C)
    own_a, own_b = dnorm @ lanes, (dnorm * norm) @ lanes  # (N, C) each
    return {
        "the reference with each lane's own sums, divided by C": dx(own_a, own_b),
        "the reference with each lane's own first sum, of dnorm": dx(own_a, b),
        "the reference with each lane's own second sum, of dnorm · norm": dx(a, own_b),
        "the reference with x in place of norm in the second mean": dx(a, (dnorm * x64).mean(axis=1, keepdims=True)),
        "the reference with mean(dout) in place of mean(dnorm): w is missing in the first sum": dx(dout_mean, b),
        "the reference with mean(dout · norm) in place of mean(dnorm · norm): w is missing in the second sum": dx(
            a, dout_norm
        ),
        "the reference with the first sum divided by 32, not by C": dx(a * C / 32, b),
        "the reference with the second sum divided by 32, not by C": dx(a, b * C / 32),
        "the reference with both sums divided by 32, not by C": dx(a * C / 32, b * C / 32),
        "the reference with the mean of the lanes' own means, which are of different counts": dx(
            *(_mean_of_means(terms, lane) for terms in (dnorm, dnorm * norm))
        ),
        "the reference with mean[0] in place of mean[row]": dx(
            a, (dnorm * of_row_0).mean(axis=1, keepdims=True), of_row_0
        ),
        "the reference with rstd[0] in place of rstd[row]": dx(
            a, b * rstd[0] / rstd, norm * rstd[0] / rstd, np.broadcast_to(rstd[0], rstd.shape)
        ),
        "the reference with x - mean in place of norm at one place, in the second mean or in front of it: rstd is "
        "missing there": dx(a, b / rstd),
        "the reference with x in place of norm in front of the second mean": dx(a, b, x64),
        "the reference with norm = x · rstd - mean: it is (x - mean) · rstd": _with_norm(
            dnorm, x64 * rstd - mean, rstd
        ),
        "the reference with the first sum not divided by C": dx(a * C, b),
        "the reference with the second sum not divided by C": dx(a, b * C),
        "the reference with dout in place of dnorm = dout · w in front of the means": dx(a, b) + (dout - dnorm) * rstd,
        "the reference with the two means exchanged": dx(b, a),
        "the reference with norm in front of both means": dx(norm * a, b),
        "the reference with the sum of norm in place of the second: it is dnorm · norm": dx(
            a, norm.mean(axis=1, keepdims=True)
        ),
    }


def _with_norm(dnorm, norm, rstd):
    """dx (N, C) with another norm, wherever it stands."""
    b = (dnorm * norm).mean(axis=1, keepdims=True)  # (N, 1)
    return ((dnorm - dnorm.mean(axis=1, keepdims=True) - norm * b) * rstd).astype(np.float32)


def partials(dw_terms, db_terms, chunks, warps=1):
    """(chunks, 2, C): the terms (N, C) of both sums; chunk k adds up rows k, k + chunks, … with one warp."""
    chunk = np.arange(len(dw_terms)) // warps % chunks  # (N,)
    return np.stack([[t[chunk == k].sum(axis=0) for t in (dw_terms, db_terms)] for k in range(chunks)]).astype(
        np.float32
    )


def partial_sums(dout, x, chunks, warps=1):
    """The sums of dw and db that each of the chunks has, (chunks, 2, C)."""
    d = np.asarray(dout, np.float64)  # (N, C)
    return partials(d * rows.normalised(x)[0], d, chunks, warps)


def add_up(partial, expected) -> bool:
    """Do they, both (chunks, 2, C), have the same sums over all chunks? Which chunk has which row may differ."""
    mine, right = (np.sum(sums, axis=0, dtype=np.float64) for sums in (partial, expected))  # (2, C) each
    return bool(np.abs(mine - right).max() <= 1e-4 * np.abs(expected).max())


def _carried(sums, threads) -> dict:
    """Known wrong (chunks, 2, C) of threads with several columns each, c, c + threads, …, that go on adding."""
    C, found = sums.shape[-1], {}
    turns = np.zeros((*sums.shape[:2], -(-C // threads) * threads))  # (chunks, 2, C of whole turns)
    turns[..., :C] = sums
    added = turns.reshape(*sums.shape[:2], -1, threads).cumsum(axis=2).reshape(turns.shape)[..., :C]
    for words, which in (("dw and db go", (0, 1)), ("dw goes", (0,)), ("db goes", (1,))):
        array = sums.astype(np.float64)
        array[:, which] = added[:, which]
        columns = f"{words} on from one column of a thread to its next, {threads} = blockDim.x further"
        found[f"the reference plus sums of other columns: {columns}"] = (array, STAGES)
    return found


def partial_mistakes(dout, x, w, chunks, warps=1, threads=None) -> dict:
    """Known wrong (chunks, 2, C). threads: of a block, if its threads take columns in turns."""
    d, x64 = np.asarray(dout, np.float64), np.asarray(x, np.float64)  # (N, C) each
    norm, rstd = rows.normalised(x)  # (N, C), (N, 1)
    mean, right = x64.mean(axis=1, keepdims=True), partial_sums(dout, x, chunks, warps)
    formulas = {
        "the reference with x in place of norm = (x - mean) · rstd": (d * x64, d),
        "the reference without rstd in norm = (x - mean) · rstd": (d * norm / rstd, d),
        "the reference with norm = (x - mean) / rstd: rstd is already 1/std": (d * norm / rstd**2, d),
        "the reference with dnorm = dout · w in place of dout: w is no part of its own gradient": (d * w * norm, d * w),
        "the sums of dout · w · norm and of dout: w belongs to dx, and dw is the sum of dout · norm": (d * w * norm, d),
        "the sums of dout · norm and of dout · w: w belongs to dx, and db is the sum of dout": (d * norm, d * w),
        "dout alone in both sums: norm is missing in dw": (d, d),
        "the sums of dout · norm and of dout · rstd: rstd belongs to norm, and db is the sum of dout": (
            d * norm,
            d * rstd,
        ),
        "the sums of dout · norm and of norm: db is the sum of dout": (d * norm, norm),
        "the reference with dout read as if it were (C, N): number c of row n is at n * C + c": (
            d.reshape(-1, len(d)).T * norm,
            d.reshape(-1, len(d)).T,
        ),
        "dout · norm in both sums: norm belongs to dw alone": (d * norm, d * norm),
        "the reference with norm = x · rstd - mean: it is (x - mean) · rstd": (d * (x64 * rstd - mean), d),
        "the reference with norm = x - mean · rstd: it is (x - mean) · rstd": (d * (x64 - mean * rstd), d),
        "the reference with norm = x · rstd: mean is missing": (d * x64 * rstd, d),
        "the reference with mean[0] in place of mean[n]": (d * (x64 - mean[0]) * rstd, d),
        "the reference with rstd[0] in place of rstd[n]": (d * norm / rstd * rstd[0], d),
        "the reference with x of row 0 in every row": (d * (x64[0] - mean) * rstd, d),
        "norm without dout in dw: dw is the sum of dout · norm": (norm, d),
        "the reference with dout · x, from which mean is subtracted: it is dout · (x - mean)": (
            (d * x64 - mean) * rstd,
            d,
        ),
        "the reference with norm + dout in place of dout · norm": (norm + d, d),
    }
    known = {words: (partials(*terms, chunks, warps), TWO_DIRECTIONS) for words, terms in formulas.items()}
    last = np.arange(len(d))[:, None] >= len(d) - chunks * warps  # (N, 1)
    each = "warp" if warps > 1 else "block"
    known |= {
        "the reference with db in front of dw: dw is the first of each chunk": (right[:, ::-1], STAGES),
        "the reference laid out as (2, gridDim.x, C): a block's dw and db lie next to each other, partial[k][0] and "
        "partial[k][1]": (np.swapaxes(right, 0, 1).reshape(right.shape), STAGES),
        "the reference with all rows in every chunk: the chunks share the rows": (
            np.repeat(partial_sums(dout, x, 1), chunks, axis=0),
            STAGES,
        ),
        f"the reference with the last row of each {each} alone": (
            partials(d * norm * last, d * last, chunks, warps),
            STAGES,
        ),
    }
    if warps == 1 and len(d) // chunks * chunks < len(d):  # each block has a stretch of rows
        share = len(d) // chunks
        stretches = [slice(k * share, (k + 1) * share) for k in range(chunks)]
        whole = [[(d * norm)[rows].sum(axis=0), d[rows].sum(axis=0)] for rows in stretches]
        words = f"the reference without the last {len(d) % chunks} of {len(d)} rows, N % gridDim.x"
        known[words] = np.array(whole, np.float32), STAGES
    if warps > 1:
        first = partials((d * norm)[: chunks * warps], d[: chunks * warps], chunks, warps)
        known["the reference with the first rows alone, one for each warp"] = first, STAGES
    if warps == 1:
        known |= {words: (a, STAGES) for words, a in divisions.of_chunks((d * norm, d), chunks).items()}
        words = "the reference laid out as (gridDim.x, C, 2): first all numbers of dw, then all of db"
        known[words] = np.swapaxes(right, 1, 2).reshape(right.shape), STAGES
    if threads and threads < dout.shape[1]:
        known |= _carried(right, threads)
    return telling(known, right)


# ----------------------------------------------------------------------------------------------------- fused


def fused_mistakes(dout, x, w, dx, before, partial) -> dict:
    """{name: known wrong dx and partial}; and what both show by themselves, dx as it lies on top of `before`."""
    d, right = np.asarray(dout, np.float64), gradients(dout, x, w).dx
    norm = rows.normalised(x)[0]  # (N, C)
    one_of_four = np.arange(x.shape[1]) % 4 == 0  # (C,)
    terms = d * w, d * w * norm  # (N, C) each

    def with_means(weight, other=None):
        weights = (weight, weight if other is None else other)
        a, b = (np.mean(u * t, axis=1, keepdims=True) for u, t in zip(weights, terms))  # (N, 1) each
        return (terms[0] - a - norm * b) / np.asarray(x, np.float64).std(axis=1, keepdims=True)

    wrong = {
        "the reference with means of a quarter of the numbers, .x of each float4": with_means(one_of_four),
        "the reference with sums divided by C / 4, not by C": with_means(4.0),
    }
    for k, slot in enumerate("xyzw"):
        without = np.arange(x.shape[1]) % 4 != k  # (C,)
        wrong[f"the reference with .{slot} left out of the first mean"] = with_means(without, 1.0)
        wrong[f"the reference with .{slot} left out of the second mean"] = with_means(1.0, without)
    wrong = {words: (array.astype(np.float32), QUADS) for words, array in wrong.items()}
    known = telling(dx_mistakes(dout, x, w, neighbours=4) | wrong, right)
    known |= {words: (array - before, QUADS) for words, array in slots(dx, right + before).items()}
    chunks = len(partial)
    shown = {words: (a, QUADS) for words, a in _slots(partial, partial_sums(dout, x, chunks, warps=8)).items()}
    return {"dx": known, "partial": partial_mistakes(dout, x, w, chunks, warps=8) | shown}


def _slots(partial, right) -> dict:
    """What `slots` sees in partial (chunks, 2, C): in dw or db where the other one is right, or alike in both."""
    known = [slots(partial[:, k], right[:, k]) for k in (0, 1)]
    wrong = [not np.allclose(partial[:, k], right[:, k], rtol=0, atol=1e-4 * np.abs(right).max()) for k in (0, 1)]
    if wrong == [True, True]:
        return {words: partial for words in known[0] if words in known[1]}
    return {f"{words} of {name}": partial for each, name in zip(known, ("dw", "db")) for words in each}
