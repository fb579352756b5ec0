"""Lesson 14, sums of columns, of tokens and of squares: what its kernels should give, and what known mistakes give.

Mistakes are {sentence after "db equals ": (array, where to look)}. References have the dtype of dout. Layernorm's sums
are in layernorm_gradients.
"""

import numpy as np

from llmc.course.lessons.backward_kernels import divisions
from llmc.course.lessons.backward_kernels.places import BUCKETS, NORM, ORDER, SHARED
from llmc.course.lessons.reductions.lanes import telling
from llmc.course.old.checks.explain import WrongAnswer
from llmc.course.old.kernel_checks.demands import Wasteful


def no_atomics(report):
    """Wasteful if the kernel added by atomics, whose order no program decides."""
    atomics = sum(use.lanes for use in report.lines if use.atomic)
    if atomics:
        raise Wasteful(
            f"right, but {atomics:,} numbers are added by atomics, in whatever order the threads arrive: two equal "
            "runs may differ in the last bits.\nThis kernel can do without: each result has one owner, who adds in a "
            f"fixed order.\n{report.table()}\n→ Where to look: {ORDER}."
        )


def added_once(report, numbers):
    """Wasteful if more than that many numbers are written to global memory: a sum is added bit by bit."""
    writes = sum(use.lanes for use in report.lines if use.space == "global" and use.write)
    if writes > numbers:
        raise Wasteful(
            f"right, but each result is written {writes / numbers:,.0f} times, where once is enough.\n"
            f"{report.table()}\n→ Where to look: {BUCKETS}."
        )


# --------------------------------------------------------------------------------------------------- columns


def column_sums(dout):
    """(N, C) -> (C,)."""
    return dout.sum(axis=0, dtype=np.float64).astype(dout.dtype)


def column_mistakes(dout, threads) -> dict:
    """Known wrong sums (C,) of blocks of that many threads, without what the buffer held."""
    N, C = dout.shape
    d, warps = np.asarray(dout, np.float64), threads // 32
    whole = np.zeros((warps, C))  # what each warp has in an int
    for n in range(N):
        whole[n % warps] = np.trunc(whole[n % warps] + d[n])
    of_warps = np.stack([d[k::warps].sum(axis=0) for k in range(warps)])  # (warps, C)
    known = {
        "the sums of dout read as if it were (C, N): number c of row n is at n * C + c": d.reshape(C, N).sum(axis=1),
        "the sums without what warp 0 itself has found": of_warps[1:].sum(axis=0),
        "the sums of rows warp, warp + 8, …: a block need not have 8 warps": d[np.arange(N) % 8 < warps].sum(axis=0),
        "the sums without the last N % warps rows": (d[: N // warps * warps].sum(axis=0)),
        "what a tree by halves makes of the warps' sums: it loses some where the warps are no power of two": (
            _by_halves(of_warps)
        ),
        "the sums with partial[lane * warps + k] added: number `lane` of warp k is at 32 * k + lane": (
            _neighbours(of_warps)
        ),
        "sums that are cut to whole numbers in every turn, as an int holds them": whole.sum(axis=0),
        "the sums without the last row": d[:-1].sum(axis=0),
        "the sums of warp 0 alone": d[::warps].sum(axis=0),
        "the sums of columns blockIdx.x * blockDim.x + threadIdx.x: a block has 32 columns, so a thread's column is "
        "blockIdx.x * 32 + lane": _columns_of_threads(d, threads),
        "the sums with partial[k * warps + lane] added: number `lane` of warp k is at 32 * k + lane": (
            _other_places(d, warps)
        ),
    }
    known |= divisions.of_warps(d, warps)
    wrong = {words: (array.astype(dout.dtype), SHARED) for words, array in known.items()}
    return telling(wrong, column_sums(dout)) if N > 1 else {}


def _by_halves(sums):
    """(C,): sums (warps, C) added up by a tree that is right for powers of two."""
    sums, half = sums.copy(), len(sums) // 2
    while half:
        sums[:half] += sums[half : 2 * half]
        half //= 2
    return sums[0]


def _neighbours(sums):
    """(C,): sums (warps, C) lie in partial as they should; each lane adds up `warps` places that are neighbours."""
    warps, C = sums.shape
    lanes = np.pad(sums, ((0, 0), (0, -C % 32))).reshape(warps, -1, 32)  # (warps, blocks, 32)
    partial = lanes.transpose(1, 0, 2).reshape(-1, 32, warps)  # (blocks, 32, warps): places lane * warps + k
    return partial.sum(axis=2).reshape(-1)[:C]


def _columns_of_threads(d, threads):
    """(C,): each thread has a column of its own; warp 0 adds up those of all warps. d: (N, C) float64."""
    C, warps = d.shape[1], threads // 32
    found = np.zeros(C)
    for c in range(C):
        if c % threads < 32:
            found[c] = sum(d[k::warps, c + 32 * k].sum() for k in range(warps) if c + 32 * k < C)
    return found


def _other_places(d, warps):
    """(C,): warp 0 takes the sums of the others from places k * warps + lane. d: (N, C) float64."""
    N, C = d.shape
    blocks = -(-C // 32)
    sums = np.zeros((blocks, warps, 32))  # what lies in partial
    for k in range(warps):
        sums[:, k] = np.pad(d[k::warps].sum(axis=0), (0, 32 * blocks - C)).reshape(blocks, 32)
    partial, lane = sums.reshape(blocks, -1), np.arange(32)  # (blocks, threads)
    found = partial[:, :32] + sum(partial[:, k * warps + lane] for k in range(1, warps))  # (blocks, 32)
    return found.reshape(-1)[:C]


# ------------------------------------------------------------------------------------------------ embeddings


def buckets(tokens):
    """order (N,) and starts (U + 1,), int32: order[starts[u]], … order[starts[u + 1] - 1] are one token's positions."""
    order = np.argsort(tokens, kind="stable").astype(np.int32)  # (N,)
    _, starts = np.unique(tokens[order], return_index=True)  # (U,)
    return order, np.append(starts, tokens.size).astype(np.int32)


def token_sums(dout, tokens, V):
    """(V, C): for each token the sum of its rows of dout (N, C)."""
    dwte = np.zeros((V, dout.shape[1]))  # (V, C)
    np.add.at(dwte, tokens, np.asarray(dout, np.float64))
    return dwte.astype(dout.dtype)


def token_mistakes(dout, tokens, V, before) -> dict:
    """Known wrong (V, C), without what the buffer held, which is `before`."""
    order, starts = buckets(tokens)
    d, right = np.asarray(dout, np.float64), token_sums(dout, tokens, V)
    found, counts = np.unique(tokens, return_counts=True)  # (U,) each

    def table(of_bucket):
        filled = np.zeros_like(right)  # (V, C)
        for u, token in enumerate(found):
            filled[token] = of_bucket(u)
        return filled

    by_bucket, by_start = np.zeros_like(right), np.zeros_like(right)  # (V, C) each
    by_bucket[: len(found)] = right[found]
    np.add.at(by_start, tokens[starts[:-1]], right[found])
    by_position = np.zeros((max(V, len(tokens)), d.shape[1]))  # (at least V, C)
    np.add.at(by_position, order[starts[:-1]], right[found])
    by_order, by_token = np.zeros_like(right), np.zeros_like(right)  # (V, C) each
    np.add.at(by_order, tokens[order[: len(found)]], right[found])
    np.add.at(by_token, tokens[: len(found)], right[found])
    known = {
        "the reference plus what dwte held, which then counts twice": table(
            lambda u: right[found[u]] + before[found[u]]
        ),
        "the reference in the rows of order[starts[u]]: that is a position, and tokens says which token is there": (
            by_position[:V]
        ),
        "the sum of dout's rows k in place of order[k]: order says which row comes at place k": table(
            lambda u: d[starts[u] : starts[u + 1]].sum(axis=0)
        ),
        "the first row of each bucket alone": table(lambda u: d[order[starts[u]]]),
        "the last row of each bucket alone": table(lambda u: d[order[starts[u + 1] - 1]]),
        "the mean of each bucket": table(lambda u: right[found[u]] / counts[u]),
        "the reference without the last row of each bucket: its last place is starts[u + 1] - 1": table(
            lambda u: right[found[u]] - d[order[starts[u + 1] - 1]]
        ),
        "the reference without the first row of each bucket: it begins at starts[u]": table(
            lambda u: right[found[u]] - d[order[starts[u]]]
        ),
        "the reference in the rows u in place of the tokens' rows: bucket u belongs to tokens[order[starts[u]]]": (
            by_bucket
        ),
        "the reference in the rows of tokens[order[u]]: bucket u begins at place starts[u], not u": by_order,
        "the reference in the rows of tokens[u]: bucket u belongs to tokens[order[starts[u]]]": by_token,
        "the sum of dout's row u, once for each of a bucket's positions": table(lambda u: d[u] * counts[u]),
        "the sum of the first row of each bucket, once for each of its positions": table(
            lambda u: d[order[starts[u]]] * counts[u]
        ),
        "the sum of dout's rows tokens[order[k]]: dout has a row for each position, order[k]": table(
            lambda u: d[np.minimum(found[u], len(d) - 1)] * counts[u]
        ),
        "how often each token comes": table(lambda u: np.full(d.shape[1], counts[u])),
        "the reference in the rows of tokens[starts[u]]: that is a place, and order says which position is there": (
            by_start
        ),
    }
    return telling({words: (array.astype(dout.dtype), BUCKETS) for words, array in known.items()}, right)


# ------------------------------------------------------------------------------------------------------ norm


def square_sums(values, blocks, threads):
    """(blocks,) float64: in turns, each block takes as many numbers as it has threads."""
    squares = np.zeros(-(-values.size // (blocks * threads)) * blocks * threads)
    squares[: values.size] = values.astype(np.float64) ** 2
    return squares.reshape(-1, blocks, threads).sum(axis=(0, 2))  # (blocks,)


def exact_squares(rng, n, large):
    """(n,): `large` numbers of 1024, then small ones; neither their squares in float nor sums in double are rounded."""
    values = (rng.integers(1, 64, n) / 64).astype(np.float32)
    values[:large] = 1024
    return values


def in_double(partial, expected, rounding=2e-7):
    """WrongAnswer if the sums are nearly right, but hold no more digits than a float has."""
    off = (np.abs(partial - expected) / np.maximum(expected, 1e-300)).max()
    if rounding < off < 1e-5:
        raise WrongAnswer(
            f"partial is right up to {off:.0e}, as if a float held a sum: next to a large sum, it loses small "
            f"squares. The task asks for sums in double.\n→ Where to look: {NORM}."
        )


def other_shares(partial, expected):
    """WrongAnswer if the sum over all blocks (blocks,) is right, but single blocks have other numbers."""
    wrong = np.flatnonzero(np.abs(partial - expected) > 1e-6 * expected)
    if wrong.size and np.isclose(np.sum(partial), np.sum(expected), rtol=1e-9):
        raise WrongAnswer(
            f"the sum over all blocks is right, but partial[{wrong[0]}] is not the one that the task asks for: "
            "thread i of the whole grid takes i, i + T, i + 2T, … with T = gridDim.x * blockDim.x threads."
            f"\n→ Where to look: {NORM}."
        )


def square_mistakes(values, blocks, threads) -> dict:
    """Known wrong sums (blocks,)."""
    right = square_sums(values, blocks, threads)
    turns = -(-values.size // (blocks * threads))
    padded = np.zeros(turns * blocks * threads)
    padded[: values.size] = values
    parts = padded.reshape(turns, blocks, threads)
    known = {
        "the sum of the numbers, not of their squares": parts.sum(axis=(0, 2)),
        "the root of the sum: stage two takes the root, once for all blocks": np.sqrt(right),
        "the sum of |x|": np.abs(parts).sum(axis=(0, 2)),
        "the square of the sum": parts.sum(axis=(0, 2)) ** 2,
        "the sum of the first turn alone": (parts[0] ** 2).sum(axis=1),
        "what the first warp has: the other warps' sums are missing": (parts[:, :, :32] ** 2).sum(axis=(0, 2)),
    }
    known |= divisions.of_turns(parts)
    return {words: (array, NORM) for words, array in known.items() if np.abs(array - right).max() > 0}
