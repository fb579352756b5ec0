"""Lesson 19's exercises: what is right, what is tried, and which mistakes have a name. 3 and 4: rings.py, order.py."""

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer
from llmc.course.lessons.tensor_cores import softening
from llmc.course.lessons.tensor_cores.order import bands_read, judge_tiles  # noqa: F401, for the check cells
from llmc.course.lessons.tensor_cores.rings import judge_ring, runs_ahead  # noqa: F401, likewise

HOLDS, TURNED = "2.2 · v3: who holds what", "2.3 · v4: four squares at once"
SWIZZLED, SOFTENED = "2.4 · v5: swizzled, without a gap", "5.1 · A softmax in four lanes"

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


def judge_softmax(c, code, grid, block, arguments):
    """Launch and compare; where nothing else explains NaN and infinite entries, say where they come from."""
    try:
        c.compare(code, grid, block, arguments)
    except WrongAnswer as error:
        if error.diagnosis.kind is Kind.PLACE and not np.isfinite(arguments[0]).all():
            why = "exp overflows above 88.7, infinity times 0 is NaN, and so are 0 / 0 and infinity - infinity"
            error.diagnosis.kind, error.diagnosis.sentence = Kind.RULE, f"out has NaN or infinite entries: {why}"
        raise


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
        with row lane % 8 and pair lane / 8 in a: a lane's row is lane / 4 | {A8}
        with column lane % 8 and pair lane / 8 in b: a lane's column is lane / 4 | {B8}
        with row lane % 8 and pair lane / 8 in d: a lane's row is lane / 4 | {D8}
        with row lane % 8 and pair lane / 8 in a and b: it is lane / 4 and lane % 4 | {A8} ;; {B8}
        with row lane % 8 and pair lane / 8 in a, b and d: it is lane / 4 and lane % 4 | {A8} ;; {B8} ;; {D8}
        with k = lane % 4 in place of lane % 4 * 2 in a: each register holds two numbers | {A1}
        with k = lane % 4 in place of lane % 4 * 2 in a and b: each register holds two numbers | {A1} ;; {B1}
        with all four registers of a from its first eight rows
            | pair(above + 8 * K); => pair(above); ;; pair(above + 8 * K + 8) => pair(above + 8)
        with rows lane / 4 * 2 and the next one of a: a lane has row lane / 4, and in registers 1 and 3 the one 8 below
            | {A} => {A.replace("/ 4", "/ 4 * 2")}
            ;; pair(above + 8 * K); => pair(above + K); ;; pair(above + 8 * K + 8) => pair(above + K + 8)
        with the middle two numbers of d exchanged: d[1] is right of d[0], d[2] eight rows below it
            | = d[1] => = d[2] ;; place[8 * N] = d[2] => place[8 * N] = d[1]
        with rows lane / 4 * 2 and the next one of d: d[0] and d[1] are in row lane / 4, the others eight rows below
            | {D} => {D.replace("/ 4", "/ 4 * 2")} ;; place[8 * N] => place[N] ;; place[8 * N + 1] => place[N + 1]
        with the first 16 k of a and b again and again
            | {A} => {A.replace("+ k0 ", "")} ;; {B} => {B.replace("+ k0 ", "")}
        = the product of the last 16 k alone
            | pair(column + 8); => pair(column + 8);\n        for (int i = 0; i < 4; i++) d[i] = 0;
        with row lane % 4 and k = lane / 4 * 2 in a: they are exchanged
            | {A} => {A.replace("lane / 4", "lane % 4").replace("lane % 4 * 2", "lane / 4 * 2")}
        with b read as (K, N), as if the numbers of a column lay N apart
            | {B} => b + (k0 + lane % 4 * 2) * N + n0 + lane / 4
            ;; pair(column); => column[0].bits | (unsigned)column[N].bits << 16;
            ;; pair(column + 8) => column[8 * N].bits | (unsigned)column[9 * N].bits << 16
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
    | dict.fromkeys(("race", "uninitialised", "out-of-bounds", "bounds", "misaligned", "bank_conflicts"), SWIZZLED),
    mistakes=rf"""
        [{SWIZZLED}] with groups read where others are kept | [place(line, square % 8)] => [square % 8]
        [{SWIZZLED}] with groups read where others are kept, which a sum has moved
            | return group ^ line % 8 => return (group + line) % 8 ;; [place(line, square % 8)] => [square % 8]
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

MEET = "higher = fmaxf(higher, __shfl_xor_sync(ALL, higher, {}));"
MEET_1, MEET_2, MEET_32 = MEET.format(1), MEET.format(2), "for (int gap = 16; gap > 0; gap /= 2) " + MEET.format("gap")
ADD_1, ADD_2 = "whole = total[n] + __shfl_xor_sync(ALL, total[n], 1);", "whole += __shfl_xor_sync(ALL, whole, 2);"

Exercise(
    "softmax_in_fragments",
    "19",
    reference=lambda out, scores, values, T: softening.attend(scores, values).astype(np.float32),
    writes="out",
    cases=scores_and_values,
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
        with totals of other rows added (xor 8 and 16): the lanes of a row are 1 and 2 apart
            | {ADD_1} => {ADD_1.replace("1)", "16)")} ;; {ADD_2} => {ADD_2.replace("2)", "8)")}
        with a total of three of the four lanes of a row | {ADD_2} => whole += __shfl_xor_sync(ALL, total[n], 2);
        with totals added up over the four lanes after every tile: what was added up before then counts 4, 16, … times
            | total[n] += score;\n        }} => total[n] += score;\n        }}
            \n        total[n] += __shfl_xor_sync(ALL, total[n], 1), total[n] += __shfl_xor_sync(ALL, total[n], 2);
        with a total of the first of each two columns alone, without scores[i][2 * n + 1]
            | total[n] += score; => if (i % 2 == 0) total[n] += score;
        with all four sums shrunk for each row: sums[2 * n] and sums[2 * n + 1] are row n's
            | i < 2; i++) sums[2 * n + i] => i < 4; i++) sums[i]
        with a maximum of this tile alone, without top[n] | float higher = top[n] => float higher = -INFINITY
        with a total of the last tile alone | total[n] *= shrink => total[n] = 0
        with scores[i][1] and scores[i][2] taken for each other: the first two of four are one row's
            | scores[i / 2][2 * n + i % 2]) => scores[i / 2][n + i % 2 * 2])
            ;; scores[i / 2][2 * n + i % 2]; => scores[i / 2][n + i % 2 * 2];
        with sums[1] and sums[2] taken for each other: the first two of four are one row's
            | sums[2 * n + i] *= shrink => sums[n + 2 * i] *= shrink
    """,
)
