"""Lesson 19's exercises: what is right, what is tried, and which mistakes have a name."""

from collections import Counter
from contextlib import suppress

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer
from llmc.course.lessons.attention.references import softmax
from llmc.course.lessons.matmul_kernels.exercises import noted
from llmc.course.lessons.tensor_cores.steps import bands_read, in_bands, turns_of

HOLDS, TURNED = "2.2 · v3: who holds what", "2.3 · v4: four squares at once"
SWIZZLED, SOFTENED = "2.4 · v5: swizzled, without a gap", "5.1 · A softmax in four lanes"
KEPT = f'lesson 19, section "{SWIZZLED}": place(line, group) is 0 to 7, another one in each line of a square; '
KEPT += "lane l has line l % 8 of square l / 8"
ROLES, PHASES, EARLY = "3.4 · v8: roles", "3.2 · Barriers with phases", "6.1 · A wait too few"
STAGES, N, THREADS = 3, 128, 160  # of the ring; numbers of a line
GRIDS = [(1, 8, 3), (1, 16, 3), (1, 11, 3), (1, 3, 4)]  # blocks, down, across; one block shows the numbering
GRIDS += [(8, 16, 12), (12, 24, 18), (32, 16, 24), (5, 11, 3), (7, 3, 4), (16, 20, 40), (9, 1, 5), (4, 30, 1)]
GRIDS += [(8, 24, 5)]  # with as many blocks as an earlier one
MOST = 1.25  # times as many bands may be read as in bands of 8 rows

# ------------------------------------------------------------------------------------------------------- inputs


def products(c):
    """grid, block, (result (M, N), a (M, K), b (N, K), M, N, K): one tile and several, one step of k and several."""
    for M, N, K in ((16, 8, 16), (16, 8, 48), (48, 8, 16), (16, 40, 32), (32, 24, 64)):
        factors = c.random(M, K, dtype=np.float16), c.random(N, K, dtype=np.float16)  # (M, K), (N, K)
        yield M // 16 * (N // 8), 32, (c.output(M, N), *factors, M, N, K)


def matrices(c):
    """grid, block, (turned (K, M), a (M, K), M, K): one tile and several, in both directions."""
    for M, K in ((64, 64), (128, 64), (64, 192)):
        turned, a = c.output(K, M, dtype=np.float16), c.random(M, K, dtype=np.float16)  # (K, M), (M, K)
        yield M // 64 * (K // 64), 128, (turned, a, M, K)


def lines(c):
    """grid, block, (result (blocks, 128), x (blocks, rounds, 128), rounds): fewer rounds than stages, and laps."""
    for blocks, rounds in ((1, 3), (1, 1), (1, 4), (2, 7), (1, 11)):
        yield blocks, THREADS, (c.output(blocks, N), c.random(blocks, rounds, N), rounds)


def scores_and_values(c):
    """grid, block, (out (B, 16, 8), scores (B, 16, T), values (B, T, 8), T): one tile and several.

    Scores that grow from key to key in some rows, and fall in others; one key of each row anywhere, which may be large.
    """
    steep = np.linspace(1, -1, 16, dtype=np.float32)[:, None]  # (16, 1)
    sizes = (1, 16, 0, 0), (1, 48, 0, 0), (3, 64, 0, 0), (1, 80, 0.3, 0), (4, 64, 0, 200), (1, 64, 20, 0)
    for B, T, growth, peak in sizes:
        c.new(f"one score of each row is {peak}" if peak else f"scores up to {growth * 63:,.0f}" if growth > 1 else "")
        scores = c.random(B, 16, T) + growth * steep * np.arange(T, dtype=np.float32)  # (B, 16, T)
        np.put_along_axis(scores, c.rng.integers(T, size=(B, 16, 1)), peak, axis=-1)
        yield B, 32, (c.output(B, 16, 8), scores, c.random(B, T, 8, dtype=np.float16), T)


# --------------------------------------------------------------------------------------------------------- rules


def written_once(c, result):
    """WrongAnswer if the last launch wrote to numbers of result (M, N) more than once: in every step of k, say."""
    written = sum(use.lanes * use.size for use in c.report.lines if use.write and use.space == "global")
    if written > result.nbytes:
        told = f"right, but {written // 4:,} numbers are written to result, which has {result.size:,}: write each once"
        raise WrongAnswer(f"{told}, after the last step of k", Kind.DEMAND, look=c.exercise.look_for())


def halved(result, x, rounds):
    """(blocks, 128) of x (blocks, rounds, 128): each line counts half as much as the next."""
    weights = 0.5 ** np.arange(rounds)[::-1]  # (rounds,)
    return np.einsum("r,brn->bn", weights, x.astype(np.float64)).astype(np.float32)


def runs_ahead(c):
    """WrongAnswer if the producer, while nothing is used, does not fill all stages; or waits for its own copies.

    The kernel runs once more with helpers that only note what thread 0 calls them with: nobody waits.
    """
    barrier = "(int)__cvta_generic_to_shared(barrier)"
    notes = {"init": ("0", barrier, "0"), "expect": ("1", barrier, "0"), "wait": ("2", barrier, "parity & 1")}
    arguments = np.zeros((1, N), np.float32), np.ones((1, 8, N), np.float32), 8  # eight rounds
    notes |= {"arrive": (), "copy": ()}
    calls = noted(c.report.raw.code, c.name, THREADS, arguments, notes, "return;")
    calls = [*zip(calls[::3], calls[1::3], calls[2::3])]  # which, barrier, parity
    used = [barrier for _, barrier, _ in calls[1 : 2 * STAGES : 2]]  # of there[0], used[0], there[1], …
    asked, newest, own, blocked = 0, 0, 0, False
    for which, barrier, parity in calls[2 * STAGES :]:
        own += which == 2 and barrier == newest
        blocked |= which == 2 and barrier in used and parity == 0
        asked, newest = (asked + (not blocked), barrier) if which == 1 else (asked, newest)
    told = f"never more than {asked} of {STAGES} stages hold a line while nothing is used up" * (asked < STAGES)
    if own > 4:
        told = "only one copy is under way at a time: the producer waits until the line that it asked for is there"
    if calls and told:
        raise WrongAnswer(f"right, but {told}", Kind.DEMAND, look=c.exercise.look_for())
    if calls:
        c.say(f"The producer runs {asked} lines ahead.")


def all_finite(tried):
    """A sentence if out (B, 16, 8) has NaN or infinite entries."""
    why = "exp overflows above 88.7, infinity times 0 is NaN, and so are 0 / 0 and infinity - infinity"
    return None if np.isfinite(tried.got["out"]).all() else f"out has NaN or infinite entries: {why}"


def judge_tiles(c, function, blocks, down, across) -> int:
    """Bands read; WrongAnswer unless every tile is taken once, blocks have equally many, and turns read little."""
    lists = [pairs(c.call(function, block, blocks, down, across)) for block in range(blocks)]
    alone = pairs(c.call(function, 0, 1, down, across)) or []
    c.calls.clear()  # what follows is not about the last call alone
    grid, every = f", with {blocks} block{'s' * (blocks > 1)} and {down} x {across} tiles", {*np.ndindex(down, across)}
    had = Counter(tile for tiles in lists for tile in tiles or ())
    least, longest = -(-len(every) // blocks), max(len(tiles or ()) for tiles in lists)
    kind, told, more = Kind.RULE, "", []
    if None in lists:
        kind, told = Kind.SHAPE, f"block {lists.index(None)} should get a list of pairs (row, column) of ints"
    elif strange := [*{*had} - every]:
        told = f"there is no tile {min(strange)}{grid}"
    elif missing := every - {*had}:
        told = f"tile {min(missing)} belongs to no block{grid}"
    elif max(had.values()) > 1:
        told = f"tile {max(had, key=had.get)} is had {max(had.values())} times{grid}"
    elif longest > least:
        told = f"a block has {longest} tiles where {least} would do{grid}"
    else:
        read = bands_read([[tiles[t] for tiles in lists if t < len(tiles)] for t in range(longest)])
        ours = bands_read(turns_of(in_bands, blocks, down, across))
        if read > MOST * ours:
            kind, told = Kind.DEMAND, f"every tile once, but the turns read {read} bands{grid}; {ours} would do"
            dealt = bands_read([alone[k : k + blocks] for k in range(0, len(alone), blocks)])
            why = "share that order out better" if dealt <= MOST * ours else "look at that order first"
            more = [f"The tiles of a block that is alone, dealt out to all one by one, would read {dealt}: {why}."]
    if told:
        raise WrongAnswer(told, kind, more=more, look=c.exercise.look_for())
    return read


def pairs(tiles) -> list | None:
    """What was returned for a block, as pairs of ints; None for anything else."""
    with suppress(TypeError, ValueError):
        found = [(row, column) for row, column in tiles]
        if all(isinstance(n, int | np.integer) for pair in found for n in pair):
            return [(int(row), int(column)) for row, column in found]
    return None


# ---------------------------------------------------------------------------------------------------- exercises

# where a lane's numbers begin: in a, in b, in result
A, B = "a + (m0 + lane / 4) * K + k0 + lane % 4 * 2", "b + (n0 + lane / 4) * K + k0 + lane % 4 * 2"
D = "result + (m0 + lane / 4) * N + n0 + lane % 4 * 2"
A8, B8, D8 = (f"{p} => {p.replace('lane / 4', 'lane % 8').replace('lane % 4', 'lane / 8')}" for p in (A, B, D))
A1, B1 = (f"{place} => {place.removesuffix(' * 2')}" for place in (A, B))

Exercise(
    "mma_by_hand",
    "19",
    reference=lambda result, a, b, M, N, K: (a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float32),
    writes="result",
    cases=products,
    look=dict.fromkeys(("", "never-written", "out-of-bounds", "race", "uninitialised-local", "rewrites"), HOLDS),
    mistakes=rf"""
        with registers 1 and 2 of a exchanged: register 1 holds the rows 8 further down
            | pair(above + 8 * K); => pair(above + 8); ;; x[2] = pair(above + 8) => x[2] = pair(above + 8 * K)
        with column lane % 8 and pair lane / 8 in b: a lane's column is lane / 4 | {B8}
        with row lane % 8 and pair lane / 8 in d: a lane's row is lane / 4 | {D8}
        with row lane % 8 and pair lane / 8 in a and b: it is lane / 4 and lane % 4 | {A8} ;; {B8}
        with row lane % 8 and pair lane / 8 in a, b and d: it is lane / 4 and lane % 4 | {A8} ;; {B8} ;; {D8}
        with k = lane % 4 in place of lane % 4 * 2 in a and b: each register holds two numbers | {A1} ;; {B1}
        with all four registers of a from its first eight rows
            | pair(above + 8 * K); => pair(above); ;; pair(above + 8 * K + 8) => pair(above + 8)
        with row lane % 4 and k = lane / 4 * 2 in a: they are exchanged
            | {A} => {A.replace("lane / 4", "lane % 4").replace("lane % 4 * 2", "lane / 4 * 2")}
        with rows lane / 4 * 2 and the next one of a: a lane has row lane / 4, and in registers 1 and 3 the one 8 below
            | {A} => {A.replace("/ 4", "/ 4 * 2")}
            ;; pair(above + 8 * K); => pair(above + K); ;; pair(above + 8 * K + 8) => pair(above + K + 8)
        with the middle two numbers of d exchanged: d[1] is right of d[0], d[2] eight rows below it
            | = d[1] => = d[2] ;; place[8 * N] = d[2] => place[8 * N] = d[1]
        with rows lane / 4 * 2 and the next one of d: d[0] and d[1] are in row lane / 4, the others eight rows below
            | {D} => {D.replace("/ 4", "/ 4 * 2")} ;; place[8 * N] => place[N] ;; place[8 * N + 1] => place[N + 1]
        with the first 16 k again and again | {A} => {A.replace("k0 + ", "")} ;; {B} => {B.replace("k0 + ", "")}
        = the product of the last 16 k alone
            | pair(column + 8); => pair(column + 8);\n        for (int i = 0; i < 4; i++) d[i] = 0;
        with b read as (K, N), as if the numbers of a column lay N apart
            | {B} => b + (k0 + lane % 4 * 2) * N + n0 + lane / 4
            ;; pair(column); => column[0].bits | (unsigned)column[N].bits << 16;
            ;; pair(column + 8) => column[8 * N].bits | (unsigned)column[9 * N].bits << 16
        with pairs of b that lie in a row of (K, N): b is (N, K), and the two k of a register are neighbours
            | {B} => b + (k0 + lane % 4 * 2) * N + n0 + lane / 4 ;; pair(column + 8) => pair(column + 8 * N)
        written as if it were (N, M): row m, column n is at m * N + n
            | {D} => result + (n0 + lane % 4 * 2) * M + m0 + lane / 4
            ;; place[1] => place[M] ;; place[8 * N] => place[8] ;; place[8 * N + 1] => place[M + 8]
    """,
)

Exercise(
    "swizzle",
    "19",
    reference=lambda turned, a, M, K: a.T.copy(),
    writes="turned",
    cases=matrices,
    rtol=0.0,
    look=dict.fromkeys(("", "never-written"), TURNED)
    | dict.fromkeys(("race", "uninitialised", "out-of-bounds", "bounds", "misaligned", "bank_conflicts"), KEPT),
    mistakes=rf"""
        [{SWIZZLED}] with groups read where others are kept | [place(line, square % 8)] => [square % 8]
        [{SWIZZLED}] with groups kept at (group + line) % 8 and read at group ^ line % 8
            | return group ^ line % 8 => return (group + line) % 8
            ;; [place(line, square % 8)] => [square % 8 ^ lane % 8]
        [{SWIZZLED}] with place of the square's row, square / 8, in place of the line
            | place(line, square % 8) => place(square / 8, square % 8)
        with groups 0 to 3 of each line also for its groups 4 to 7: the group is square % 8
            | place(line, square % 8) => place(line, lane / 8)
        with line l / 4 of square l % 4 given by lane l, not line l % 8 of square l / 8
            | first + lane / 8 => first + lane % 4 ;; square / 8 * 8 + lane % 8 => square / 8 * 8 + lane / 4
        with the lines of square % 8 and group square / 8, for those of square / 8 and square % 8
            | square / 8 * 8 + lane % 8 => square % 8 * 8 + lane % 8
            ;; place(line, square % 8) => place(line, square / 8)
        with the first four squares of each warp in all its turns | first + lane / 8 => warp * 16 + lane / 8
    """,
)

Exercise(
    "ring_of_stages",
    "19",
    reference=halved,
    writes="result",
    cases=lines,
    look=dict.fromkeys(("", "race", "never-written"), ROLES)
    | dict.fromkeys(("copy-race", "uninitialised"), EARLY)
    | dict.fromkeys(("deadlock", "mbarrier"), PHASES)
    | dict.fromkeys(("out-of-bounds", "wrong-tile"), "3.1 · A machine for copies"),
    mistakes=r"""
        with each new line halved, too: only `total`, which was there before it, counts half
            | total / 2 + lines[stage][t] => (total + lines[stage][t]) / 2
        with the first line again and again | x + round * N => x
    """,
)

Exercise("tiles_of_block", "19", cases=lambda c: iter(GRIDS), look="2.6 · Which tile comes next?")

MEET = "higher = fmaxf(higher, __shfl_xor_sync(ALL, higher, {}));"
MEET_1, MEET_2, MEET_32 = MEET.format(1), MEET.format(2), "for (int gap = 16; gap > 0; gap /= 2) " + MEET.format("gap")
ADD_1, ADD_2 = "whole = total[n] + __shfl_xor_sync(ALL, total[n], 1);", "whole += __shfl_xor_sync(ALL, whole, 2);"

Exercise(
    "softmax_in_fragments",
    "19",
    reference=lambda out, scores, values, T: (softmax(scores.astype(np.float64)) @ values).astype(np.float32),
    writes="out",
    cases=scores_and_values,
    rules=(all_finite,),
    rtol=2e-3,
    look=SOFTENED,
    mistakes=rf"""
        with neither sums nor total shrinking when the maximum grows | expf(top[n] - higher) => 1.0f
        with a maximum of each lane's own numbers: four lanes share a row | {MEET_1} => ;; {MEET_2} =>
        with maxima exchanged between other rows: the lanes of a row are 1 and 2 apart (xor)
            | {MEET_1} => {MEET_1.replace("1)", "4)")} ;; {MEET_2} => {MEET_2.replace("2)", "8)")}
        with maxima that __shfl_down_sync brings: for a row's last lanes, these are another row's
            | {MEET_1} => {MEET_1.replace("xor", "down")} ;; {MEET_2} => {MEET_2.replace("xor", "down")}
        with a maximum over all 32 lanes, which hold eight rows: four lanes share a row
            | {MEET_1} => {MEET_32} ;; {MEET_2} =>
        with totals of all 32 lanes, which hold eight rows: four lanes share a row
            | {ADD_1} => whole = total[n]; ;; {ADD_2}
            => for (int gap = 16; gap > 0; gap /= 2) whole += __shfl_xor_sync(ALL, whole, gap);
        with each lane's own total: four lanes share a row | {ADD_1} => whole = total[n]; ;; {ADD_2} =>
        with a total of three of the four lanes of a row | {ADD_2} => whole += __shfl_xor_sync(ALL, total[n], 2);
        with totals added up over the four lanes after every tile: what was added up before then counts several times
            | total[n] += score;\n        }} => total[n] += score;\n        }}
            \n        total[n] += __shfl_xor_sync(ALL, total[n], 1), total[n] += __shfl_xor_sync(ALL, total[n], 2);
        with all four sums shrunk for each row: sums[2 * n] and sums[2 * n + 1] are row n's
            | i < 2; i++) sums[2 * n + i] => i < 4; i++) sums[i]
        with a total of the last tile alone | total[n] *= shrink => total[n] = 0
        with scores[i][1] and scores[i][2] taken for each other: the first two of four are one row's
            | scores[i / 2][2 * n + i % 2]) => scores[i / 2][n + i % 2 * 2])
            ;; scores[i / 2][2 * n + i % 2]; => scores[i / 2][n + i % 2 * 2];
        with sums[1] and sums[2] taken for each other: the first two of four are one row's
            | sums[2 * n + i] *= shrink => sums[n + 2 * i] *= shrink
    """,
)
