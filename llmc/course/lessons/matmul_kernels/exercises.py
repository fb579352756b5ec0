"""Lesson 15's exercises: what is right, what is tried, and which mistakes have a name."""

import re

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer
from llmc.course.kernel_checks import runs
from llmc.course.lessons.matmul_kernels.tuning import benches, judge_choice  # noqa: F401
from llmc.cuda.emulator.modules import RawModule
from llmc.errors import KernelError

WIDE = (5, 7, 16), (9, 7, 40), (17, 33, 40), (33, 20, 37), (16, 16, 3), (1, 50, 35), (37, 1, 20), (64, 64, 64)
DEEP = (5, 7, 24), (5, 7, 20), (35, 33, 29), (32, 32, 8), (5, 40, 3), (1, 7, 64), (33, 1, 16), (32, 32, 64)
NAIVE, TILES = "3.1 · v1: one thread for each result", "3.3 · v3: tiles in shared memory"
SQUARE, BANKS = "3.5 · v5: a square of results", "3.7 · v7: no queue at the banks"
BACKGROUND = "3.8 · v8: the next slice in the background"
WAIT, BARRIER = "6.1 · A read before its wait", "6.2 · A barrier too few"
SECTIONS = dict.fromkeys(("race", "missing-syncwarp", "barrier-divergence", "deadlock"), BARRIER)
SECTIONS |= dict.fromkeys(("race in global memory", "never-written", "rewrites"), NAIVE)
SECTIONS |= dict.fromkeys(("uninitialised", "bounds", "sectors"), TILES)
SECTIONS |= {"efficiency": "3.2 · v2: neighbours along a row", "bank_conflicts": BANKS, "shared_requests": SQUARE}
SECTIONS |= {"barriers": BACKGROUND, "copy-race": f'lesson 15, section "{WAIT}", and lesson 15, section "{BARRIER}"'}
SECTIONS["out-of-bounds"] = 'lesson 12, section "3 · Make it break: one too many"'
ROWS = f'lesson 15, section "{BANKS}": the 8 warps fill the 32 rows of a tile, 4 each'
ZEROS = f'lesson 15, section "{BACKGROUND}": `ask` fills a whole tile, with zeros behind K, if all threads call it'

# What thread 0 writes down when it calls the helpers of exercise 4: of each copy, its batch; whether a multiplication
# came while it was on its way; and at the first wait that is for it, 1, or 2 if one had come.
NOTED = "__device__ int made, ends, batch[4096], used[4096], waited[4096];"
NOTES = {
    "copy_async": "batch[made++ % 4096] = ends;",
    "end_batch": "ends++;",
    "multiply": "for (int k = 0; k < made; k++) used[k] = 1;",
    "wait_but": "for (int k = 0; k < made; k++) if (!waited[k] && batch[k] < ends - BATCHES) waited[k] = 1 + used[k];",
}


def product(a, b):
    """(M, K) times (K, N), float32, from float64 sums."""
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)  # (M, N)


def slices_in_the_background(c, slices):
    """WrongAnswer unless all slices but the first, two copies of a thread each, come while the threads multiply."""
    hidden = hidden_copies(c.report.raw.code, 8 * slices)
    if hidden and sum(hidden) < 2 * (slices - 1):
        whole = sum(a and b for a, b in zip(hidden[::2], hidden[1::2]))
        half, why = sum(hidden) - 2 * whole, "`wait_but<n>` waits for all batches but the last n"
        also = f"Of {half} others, only one of the two copies of a thread does: " * (half > 0) + why
        also += ", and a slice may be more than one." if half else ", so `wait_but<0>` waits for the next slice, too, "
        also += "" if half else "if that was asked for before the wait."
        told = f"right, but only {whole} of {slices} slices come in the background of a multiplication; the goal is "
        raise WrongAnswer(f"{told}all but the first", Kind.DEMAND, more=[also], look=c.exercise.look_for())


def hidden_copies(code, K):
    """Of each copy of thread 0: was it on its way during a multiplication? [] where the text has not all helpers."""
    for name, note in NOTES.items():
        noted = rf"\1 if (blockIdx.x + threadIdx.x == 0) {{ {note} }}"
        code, count = re.subn(rf"(__device__ void {name}\([^;{{}}]*\{{)", noted, code)
        if count != 1:
            return []
    arrays = np.zeros((32, 32), np.float32), *np.zeros((2, 32 * K), np.float32)
    try:
        module = RawModule(code=NOTED + code, options=("-std=c++17",), check=False)
        with runs.patience(runs.SECONDS):
            module.get_function("double_buffer")((1,), (256,), (*arrays, *map(np.int32, (32, 32, K))))
    except KernelError:  # a `batch` of the learner's own, for instance
        return []
    (made,), waited = (np.frombuffer(module.get_global(name), np.int32) for name in ("made", "waited"))
    return (waited[:made] == 2).tolist()


# ---------------------------------------------------------------------------------------------------- exercises

Exercise(
    "tiled_matmul",
    "15",
    reference=lambda result, a, b, M, N, K: product(a, b.T),
    writes="result",
    cases=lambda c: WIDE,
    look=SECTIONS | {"": TILES},
    mistakes=r"""
        = the right numbers with each tile of 16 x 16 turned | as[row][i] * bs[column][i] => as[column][i] * bs[row][i]
        with bs[row] in place of bs[column]: a column of the result has its own row of b | bs[column][i] => bs[row][i]
        with each slice of b turned | bs[column][i] => bs[i][column]
        with each slice of a turned | as[row][i] => as[i][row]
        with b read as (K, N): b[n][k] lies at n * K + k | b[(size_t)(n0 + row) * K + k] => b[(size_t)k * N + n0 + row]
        with b[n0 + column][k] in place of b[n0 + row][k] in bs[row][column]
            | n0 + row < N => n0 + column < N ;; b[(size_t)(n0 + row) => b[(size_t)(n0 + column)
        with rows of b that begin at m0, not n0 | n0 + row < N => m0 + row < N ;; b[(size_t)(n0 => b[(size_t)(m0
        with the first slice of b in all of them | b[(size_t)(n0 + row) * K + k] => b[(size_t)(n0 + row) * K + column]
        = the sum without the last slice, which is not a whole one | k0 < K; => k0 + 16 <= K;
        = the sum over the last slice alone | as[row][i] * => (k0 + 16 < K ? 0 : as[row][i]) *
        plus what the slice before has left behind the end of K
            | k = k0 + column => k = k0 + column - 16 * (k0 > 0 && k0 + column >= K)
        with a + b in place of a * b | as[row][i] * bs => as[row][i] + bs
        without the last k of a slice | i < 16 => i < 15
        cut off to a whole number after each k, as in an int | float total = 0.0f => int total = 0
    """,
)

Exercise(
    "turn_tile",
    "15",
    reference=lambda turned, a, M, K: a.T.copy(),
    writes="turned",
    cases=lambda c: ((64, 32), (33, 5), (70, 33), (33, 70), (5, 7), (1, 40), (40, 1), (96, 128)),
    look=SECTIONS | {"": BANKS, "uninitialised": ROWS, "race in global memory": BANKS},
    mistakes=r"""
        = a, copied as it lies: rows must become columns | k0 + k < K && m0 + lane < M => m0 + k < M && k0 + lane < K
            ;; (k0 + k) * M + m0 => (m0 + k) * K + k0 ;; = tile[lane][k] => = tile[k][lane]
        with columns of a that begin at 0, not k0, in every tile | * K + k0 + lane => * K + lane
        = a with rows and columns exchanged for the tiles, and not inside of each: the tile is turned twice, or never
            | = tile[lane][k] => = tile[k][lane]
        with number lane ^ row of each row of a tile in place of number lane: a swizzle, written or read alone
            | tile[row][lane] = => tile[row][lane ^ row] =
        with each row of a tile moved on by its number, as by (lane + row) % 32 where it is written alone
            | tile[row][lane] = => tile[row][(lane + row) % 32] =
        with each row of a tile moved on by twice its number, as by a swizzle written with a plus and read with a minus
            | tile[row][lane] => tile[row][(lane + row) % 32] ;; tile[lane][k] => tile[lane][(k - lane + 32) % 32]
        with number k ^ warp read of a swizzle that keeps it at k ^ lane
            | tile[row][lane] = => tile[row][lane ^ row] = ;; = tile[lane][k] => = tile[lane][k ^ warp]
    """,
)

Exercise(
    "register_tile",
    "15",
    reference=lambda result, a, b, M, N, K: product(a.T, b),
    adds="result",
    cases=lambda c: ((33, 20, 16), (9, 7, 8), (70, 66, 19), (65, 30, 5), (3, 129, 17), (1, 1, 1), (64, 64, 32)),
    look=SECTIONS | {"": SQUARE},
    mistakes=r"""
        with as read at this thread's column, not its row | as[k][row + i] => as[k][column + i]
        with bs read at this thread's row, not its column | bs[k][column + i] => bs[k][row + i]
        = the right numbers with each thread's square of 4 x 4 turned | totals[i][j] += x => totals[j][i] += x
        with rows 16 apart where a thread writes, not where it reads | m0 + row + i => m0 + row / 4 + 16 * i
        with columns 16 apart where a thread writes, not where it reads | n0 + column + j => n0 + column / 4 + 16 * j
        with rows 16 apart where a thread reads, not where it writes | [row + i] => [row / 4 + 16 * i]
        with columns 16 apart where a thread reads, not where it writes | [column + i] => [column / 4 + 16 * i]
        with the columns of thread t from t on where it reads, and from 4 t on where it writes
            | bs[k][column + i] => bs[k][column / 4 + i]
        with a thread's 4 rows in reverse, where it writes or where it reads | m0 + row + i => m0 + row + 3 - i
        with a thread's row and column exchanged, where it reads or where it writes
            | m0 + row + i => m0 + column + i ;; n0 + column + j => n0 + row + j
        with x[i] * y[i] in place of x[i] * y[j] | x[i] * y[j] => x[i] * y[i]
        with the last k of each slice alone | for (int k = 0 => for (int k = 7
        with the totals so far added after every slice | x[i] * y[j] => x[i] * y[j] * ((K - k0 + 7) / 8)
    """,
)

Exercise(
    "double_buffer",
    "15",
    reference=lambda result, a, b, M, N, K: product(a, b),
    writes="result",
    cases=lambda c: DEEP,
    look=SECTIONS | {"": BACKGROUND, "race": WAIT, "uninitialised": ZEROS},
    mistakes=r"""
        with later slices of b read as if b were (N, K) | k0 + 8, N, K, false => k0 + 8, N, K, true
        with b read as if it were (N, K) | + 8, N, K, false => + 8, N, K, true ;; 0, N, K, false => 0, N, K, true
        with a read as if it were (K, M) | + 8, M, K, true => + 8, M, K, false ;; 0, M, K, true => 0, M, K, false
        with later slices of a that begin at n0, not m0 | a, m0, k0 => a, n0, k0
        with slices of b that begin at m0, not n0 | b, n0, k0 => b, m0, k0 ;; b, n0, 0 => b, m0, 0
        with a first slice of a that begins at row, not m0 | a, m0, 0 => a, row, 0
        with slices of a that begin at row, not m0 | a, m0, k0 => a, row, k0 ;; a, m0, 0 => a, row, 0
        with later slices of b that begin at column, not n0 | b, n0, k0 => b, column, k0
        with M in place of N, the size, in later slices of b | k0 + 8, N => k0 + 8, M
        = the product of slices that begin at k = 0, 1, 9, … | m0, k0 + 8 => m0, k0 + 1 ;; n0, k0 + 8 => n0, k0 + 1
        = the product of slices that begin at k = 8, 8, 16, … | m0, 0, M => m0, 8, M ;; n0, 0, N => n0, 8, N
        without the second slice | m0, k0 + 8 => m0, k0 + 16 ;; n0, k0 + 8 => n0, k0 + 16
        = the sum without the last slice | k0 < K; => k0 + 8 < K;
        = the first slice of 8 k again and again | m0, k0 + 8 => m0, 0 ;; n0, k0 + 8 => n0, 0
    """,
)

Exercise("autotune", "15", cases=benches, look="8 · Which tile?")
