"""Lesson 19, exercise 3: what a ring of stages must compute, which phases it waits for, how far it runs ahead.

The kernel runs once more with helpers that only note who calls them, and with what: nobody waits, nothing is copied. So
neither a deadlock nor a race hides what each thread asks for.
"""

import re

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer
from llmc.course.kernel_checks.runs import SECONDS, patience
from llmc.errors import KernelError

STAGES, N, THREADS, WARP, ROUNDS = 3, 128, 160, 32, 8  # ROUNDS: of the run that is noted
BYTES, CONSUMERS, MOST = 4 * N, THREADS - WARP, 60  # MOST: notes of a thread
ROLES, PHASES, EARLY = "3.4 · v8: roles", "3.2 · Barriers with phases", "6.1 · A wait too few"
NOTED = f"""
__device__ int counts[{THREADS}], notes[{THREADS * MOST * 3}];
__device__ void note(int op, const void* barrier, int number)
{{
    int t = threadIdx.x, *at = notes + 3 * ({MOST} * t + counts[t]);
    if (counts[t] < {MOST}) counts[t]++, at[0] = op, at[1] = (int)__cvta_generic_to_shared(barrier), at[2] = number;
}}
"""
OPS = {"init": "arrivals", "arrive": "1", "expect": "bytes", "wait": "parity & 1", "copy": "bytes"}  # and a number


def lines(c):
    """grid, block, (result (blocks, 128), x (blocks, rounds, 128), rounds): fewer rounds than stages, and laps."""
    for blocks, rounds in ((1, 3), (1, 1), (1, 4), (2, 7), (1, 11)):
        yield blocks, THREADS, (c.output(blocks, N), c.random(blocks, rounds, N), rounds)


def halved(result, x, rounds):
    """(blocks, 128) of x (blocks, rounds, 128): each line counts half as much as the next."""
    weights = 0.5 ** np.arange(rounds)[::-1]  # (rounds,)
    return np.einsum("r,brn->bn", weights, x.astype(np.float64)).astype(np.float32)


def judge_ring(c, code, grid, block, arguments):
    """Launch and compare; if the launch fails, say first what differs from a ring that works."""
    try:
        c.compare(code, grid, block, arguments)
    except WrongAnswer as error:
        it = error.diagnosis
        found = differs(*noted(code)) if c.explains and it.kind is Kind.EMULATOR else ""
        if found:
            it.more, it.sentence = [f"The emulator saw: {it.sentence}.", *it.more[:1]], found
            it.look = c.exercise.place(PHASES)
        raise


def runs_ahead(c):
    """WrongAnswer if the producer, while nothing is used, does not fill all stages; or waits for its own copies."""
    mine, _ = noted(c.report.raw.code)
    asked, newest, own, blocked = 0, -1, 0, False
    for op, name, stage, parity in mine:
        own += (op, name, stage) == ("wait", "there", newest)
        blocked |= (op, name, parity) == ("wait", "used", 0)
        asked, newest = (asked + (not blocked), stage) if op == "expect" else (asked, newest)
    told = f"never more than {asked} of {STAGES} stages hold a line while nothing is used up" * (asked < STAGES)
    if own > ROUNDS // 2:
        told = "only one copy is under way at a time: the producer waits until the line that it asked for is there"
    if mine and told:
        raise WrongAnswer(f"right, but {told}", Kind.DEMAND, look=c.exercise.look_for())
    if mine:
        c.say(f"The producer runs {asked} lines ahead.")


def noted(code) -> tuple[list, list]:
    """(what the producer calls, what each consumer calls), each as (op, "there" or "used", stage, number).

    Two empty lists where that is not known.
    """
    from llmc.cuda.emulator.modules import RawModule

    for op, (name, number) in enumerate(OPS.items()):
        head = rf"(__device__ void {name}\([^;{{}}]*\bbarrier\b[^;{{}}]*\)\s*\{{)"
        code, count = re.subn(head, rf"\1 note({op}, barrier, {number}); return;", code)
        if count != 1:
            return [], []
    x, result = np.ones((1, ROUNDS, N), np.float32), np.zeros((1, N), np.float32)
    try:
        module = RawModule(code=NOTED + code, options=("-std=c++17",), check=False)
        counts = np.ndarray((THREADS,), np.int32, module.get_global("counts"))
        counts[:] = 0  # the same text is one module
        with patience(SECONDS):
            module.get_function("ring_of_stages")((1,), (THREADS,), (result, x, np.int32(ROUNDS)))
    except KernelError:  # a name of the learner's own, for instance
        return [], []
    notes = np.ndarray((THREADS, MOST, 3), np.int32, module.get_global("notes"))
    notes = [each[:many].tolist() for each, many in zip(notes, counts)]
    inits = [(place, arrivals) for op, place, arrivals in notes[0] if op == 0]
    if [arrivals for _, arrivals in inits[::2]] != [1] * STAGES:  # in another order than the exercise has
        return [], []
    names = {place: (("there", "used")[k % 2], k // 2) for k, (place, _) in enumerate(inits)}
    threads = [[([*OPS][op], *names.get(place, ("", 0)), number) for op, place, number in each] for each in notes]
    producers = [calls for calls in threads[:WARP] if any(op == "copy" for op, *_ in calls)]
    return (producers[0], threads[WARP:]) if len(producers) == 1 else ([], [])


def differs(mine, consumers) -> str:
    """A sentence on the first thing that a working ring does otherwise; "" if there is none, or no telling."""
    rounds = [(k % STAGES, k // STAGES % 2) for k in range(ROUNDS)]  # stage and parity of each round
    free = [(stage, 1 - parity) for stage, parity in rounds]  # of which the first lap needs none
    if [number for op, *_, number in mine if op == "init"] != [1, CONSUMERS] * STAGES:
        return ""
    waits = called(mine, "wait", "used")
    order = [op for op, name, *_ in mine if op == "copy" or (op, name) == ("wait", "used")]
    brought, said = (sum(n for _, n in called(mine, op, "there")) / ROUNDS for op in ("copy", "expect"))
    if not brought == said == BYTES:
        told = f"a line has {BYTES} bytes, but in a round `expect` announces {said:,.4g} at `there`"
        return f"{told}, and `copy` brings {brought:,.4g} that are counted there"
    if waits not in (free, free[STAGES:]):
        return _calls("the producer", "wait", "used", waits, free if len(waits) > ROUNDS - STAGES else free[STAGES:])
    if order[-1] == "wait":
        return "the producer asks for each copy before it waits for its stage to be free"
    for op, name, right in (("wait", "there", rounds), ("arrive", "used", [(stage, 1) for stage, _ in rounds])):
        made = [called(calls, op, name) for calls in consumers]
        if not all(made):
            return f"consumers that call `{op}` for `{name}`: {sum(map(bool, made))} of {CONSUMERS}; all of them must"
        if wrong := [each for each in made if each != right]:
            return _calls("a consumer", op, name, wrong[0], right)
    return ""


def called(calls, op, name) -> list:
    """[(stage, number)] of these calls."""
    return [(stage, number) for each, barrier, stage, number in calls if (each, barrier) == (op, name)]


def _calls(who, op, name, made, right) -> str:
    theirs, ours = (" ".join(f"{stage}:{number}" for stage, number in each) or "none" for each in (made, right))
    each = "stage:parity" if op == "wait" else "stage:arrivals"
    return f"in {ROUNDS} rounds {who} calls `{op}` for `{name}` with {each} {theirs}; a ring that works has {ours}"


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
        with the lines the other way round | x + round * N => x + (rounds - 1 - round) * N
        with the first line again and again | x + round * N => x
    """,
)
