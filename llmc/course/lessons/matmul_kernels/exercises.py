"""Lesson 15's exercises: what is right, what is tried, and which mistakes have a name."""

import re

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer
from llmc.course.kernel_checks import runs
from llmc.course.lessons.matmul_kernels.tuning import benches, judge_choice  # noqa: F401
from llmc.cuda.emulator.modules import RawModule
from llmc.errors import KernelError

MOST = 4096  # numbers that are noted
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


def product(a, b):
    """(M, K) times (K, N), float32, from float64 sums."""
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)  # (M, N)


def slices_in_the_background(c, slices):
    """WrongAnswer unless all slices but the first, two copies of a thread each, come while the threads multiply."""
    notes = {"copy_async": ("-3",), "end_batch": ("-2",), "multiply": ("-1",), "wait_but": ("BATCHES",)}
    arguments = np.zeros((32, 32), np.float32), *np.zeros((2, 256 * slices), np.float32), 32, 32, 8 * slices
    calls = noted(c.report.raw.code, "double_buffer", 256, arguments, notes)
    # batches; copies with a multiplication before their wait; those not yet waited for: (batch, multiplied so far?)
    ended, hidden, waiting = 0, 0, []
    for call in calls:
        ended += call == -2
        waiting = [(batch, multiplied or call == -1) for batch, multiplied in waiting] + [(ended, False)] * (call == -3)
        there = [multiplied for batch, multiplied in waiting if 0 <= call < ended - batch]
        hidden, waiting = hidden + sum(there), waiting[len(there) :]
    if calls and hidden < 2 * (slices - 1):
        told = f"right, but only {hidden // 2} of {slices} slices come in the background of a multiplication"
        why = "`wait_but<n>` waits for all batches but the last n, and a slice may be more than one."
        where = c.exercise.look_for()
        raise WrongAnswer(f"{told}; the goal is all but the first", Kind.DEMAND, more=[why], look=where)


def noted(code, kernel, threads, arguments, notes, then="") -> list:
    """Numbers that thread 0 notes in one block where it enters helpers of the kernel; [] where it lacks any of them.

    notes: {helper: texts of the numbers}. then: a statement of all threads that follows.
    """
    for name, numbers in notes.items():
        note = " ".join(f"noted[many++ % {MOST}] = {number};" for number in numbers)
        begun = rf"\1 if (threadIdx.x == 0) {{ {note} }} {then}"
        code, count = re.subn(rf"(__device__ void {name}\([^;{{}}]*\{{)", begun, code)
        if count != 1:
            return []
    try:
        declared = f"__device__ int many, noted[{MOST}];\n"
        module = RawModule(code=declared + code, options=("-std=c++17",), check=False)
        many, found = (np.frombuffer(module.get_global(name), np.int32) for name in ("many", "noted"))
        many[0] = 0  # the same text is the same module
        given = [np.int32(each) if isinstance(each, int) else each for each in arguments]
        with runs.patience(runs.SECONDS):
            module.get_function(kernel)((1,), (threads,), given)
    except KernelError:  # a `noted` of the learner's own, for instance
        return []
    return found[: many[0]].tolist()


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
        with b[n0 + column][k] in place of b[n0 + row][k] in bs[row][column]
            | n0 + row < N => n0 + column < N ;; b[(size_t)(n0 + row) => b[(size_t)(n0 + column)
        with each slice of b turned | bs[column][i] => bs[i][column]
        with each slice of a turned | as[row][i] => as[i][row]
        with b read as (K, N): b[n][k] lies at n * K + k | b[(size_t)(n0 + row) * K + k] => b[(size_t)k * N + n0 + row]
        with rows of b that begin at m0, not n0 | n0 + row < N => m0 + row < N ;; b[(size_t)(n0 => b[(size_t)(m0
        with the first slice of b in all of them | b[(size_t)(n0 + row) * K + k] => b[(size_t)(n0 + row) * K + column]
        = the sum without the last slice, which is not a whole one | k0 < K; => k0 + 16 <= K;
        = the sum over the last slice alone | as[row][i] * => (k0 + 16 < K ? 0 : as[row][i]) *
    """,
)

Exercise(
    "turn_tile",
    "15",
    reference=lambda turned, a, M, K: a.T.copy(),
    writes="turned",
    cases=lambda c: ((64, 32), (33, 5), (70, 33), (33, 70), (5, 7), (1, 40), (40, 1), (96, 128)),
    look=SECTIONS | {"": BANKS, "uninitialised": BANKS, "race in global memory": BANKS},
    mistakes=r"""
        = a, copied as it lies: rows must become columns | k0 + k < K && m0 + lane < M => m0 + k < M && k0 + lane < K
            ;; (k0 + k) * M + m0 => (m0 + k) * K + k0 ;; = tile[lane][k] => = tile[k][lane]
        with columns of a that begin at 0, not k0, in every tile | * K + k0 + lane => * K + lane
        = a with rows and columns exchanged for the tiles, and not inside of each: the tile is turned twice, or never
            | = tile[lane][k] => = tile[k][lane]
        with each row of a tile moved on by its number | tile[row][lane] = => tile[row][(lane + row) % 32] =
        with number lane ^ row of each row of a tile in place of number lane: a swizzle, written or read alone
            | tile[row][lane] = => tile[row][lane ^ row] =
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
        = the right numbers with each thread's square of 4 x 4 turned | totals[i][j] += x => totals[j][i] += x
        with columns 16 apart where a thread writes, not where it reads | n0 + column + j => n0 + column / 4 + 16 * j
        with rows 16 apart where a thread reads, not where it writes | [row + i] => [row / 4 + 16 * i]
        with the columns of thread t from t on where it reads, and from 4 t on where it writes
            | bs[k][column + i] => bs[k][column / 4 + i]
        with a thread's 4 rows in reverse, where it writes or where it reads | m0 + row + i => m0 + row + 3 - i
        with a thread's row and column exchanged, where it reads or where it writes
            | m0 + row + i => m0 + column + i ;; n0 + column + j => n0 + row + j
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
    look=SECTIONS | {"": BACKGROUND, "uninitialised": BACKGROUND, "race": WAIT},
    mistakes=r"""
        with later slices of b read as if b were (N, K) | k0 + 8, N, K, false => k0 + 8, N, K, true
        with b read as if it were (N, K) | + 8, N, K, false => + 8, N, K, true ;; 0, N, K, false => 0, N, K, true
        with a read as if it were (K, M) | + 8, M, K, true => + 8, M, K, false ;; 0, M, K, true => 0, M, K, false
        with later slices of a that begin at n0, not m0 | a, m0, k0 => a, n0, k0
        with slices of b that begin at m0, not n0 | b, n0, k0 => b, m0, k0 ;; b, n0, 0 => b, m0, 0
        with slices of a that begin at row, not m0 | a, m0, k0 => a, row, k0 ;; a, m0, 0 => a, row, 0
        with a first slice of a that begins at row, not m0 | a, m0, 0 => a, row, 0
        with later slices of b that begin at column, not n0 | b, n0, k0 => b, column, k0
        = the product of slices that begin at k = 0, 1, 9, … | m0, k0 + 8 => m0, k0 + 1 ;; n0, k0 + 8 => n0, k0 + 1
        with the first slice twice, and never the last | m0, k0 + 8 => m0, k0 ;; n0, k0 + 8 => n0, k0
        without the second slice | m0, k0 + 8 => m0, k0 + 16 ;; n0, k0 + 8 => n0, k0 + 16
        = the sum without the last slice | k0 < K; => k0 + 8 < K;
        = the first slice of 8 k again and again | m0, k0 + 8 => m0, 0 ;; n0, k0 + 8 => n0, 0
    """,
)

Exercise("autotune", "15", cases=benches, look="8 · Which tile?")
