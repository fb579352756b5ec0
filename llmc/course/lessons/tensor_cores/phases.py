"""Lesson 19: which phases a ring of stages waits for, and which bytes it copies: what differs from a ring that works.

The kernel runs once more with helpers that only note who calls them, and with what: nobody waits, nothing is copied. So
neither a deadlock nor a race hides what each thread asks for.
"""

import re
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from llmc.course.lessons.tensor_cores.places import NO_PHASE, ROLES
from llmc.course.lessons.tensor_cores.rounds import ROUNDS, STAGES, by_rounds, in_rounds, row
from llmc.course.old.checks.evidence import is_explaining
from llmc.course.old.checks.explain import WrongAnswer
from llmc.course.old.kernel_checks.runs import SECONDS, patience
from llmc.cuda.emulator.compiling.text import line_at, mask
from llmc.errors import KernelError, NoCompiler, UserError

N, THREADS, WARP = 128, 160, 32
CONSUMERS, BYTES = THREADS - WARP, 4 * N
MOST = 120  # notes that a thread can take
OPS = ("init", "arrive", "expect", "wait", "copy")
THERE, USED = "there", "used"
NOTED = f"""
__device__ int llmc_count[{THREADS}];
__device__ int llmc_notes[{THREADS * MOST * 4}];
__device__ void llmc_note(int op, int line, const void* place, int number)
{{
    int t = threadIdx.x;
    if (llmc_count[t] == {MOST}) return;
    int* note = llmc_notes + ({MOST} * t + llmc_count[t]++) * 4;
    note[0] = op, note[1] = line, note[2] = (int)__cvta_generic_to_shared(place), note[3] = number;
}}
__device__ void llmc_init(int line, const void* b, int number) {{ llmc_note(0, line, b, number); }}
__device__ void llmc_arrive(int line, const void* b) {{ llmc_note(1, line, b, 1); }}
__device__ void llmc_expect(int line, const void* b, int bytes) {{ llmc_note(2, line, b, bytes); }}
__device__ void llmc_wait(int line, const void* b, int parity) {{ llmc_note(3, line, b, parity); }}
__device__ void llmc_copy(int line, const void* to, const void* from, int bytes, const void* b)
{{
    llmc_note(4, line, b, bytes);
}}
"""


class Note(NamedTuple):
    """A call of one thread. barrier: (THERE or USED, its number). number: arrivals, bytes, or a parity."""

    op: str
    line: int
    barrier: tuple
    number: int


@contextmanager
def told(code, kernel="ring_of_stages"):
    """Around a launch and what is compared after it: a WrongAnswer begins with what `findings` sees, if it sees any."""
    try:
        yield
    except WrongAnswer as error:
        found = findings(code, kernel) if is_explaining() and "equals " not in error.message else None
        if found:
            first, *rest = error.message.split("\n")
            rest = [line for line in rest[:1] if not line.startswith("→")]  # what the emulator saw of it
            said = f"{found[:1].lower()}{found[1:]}"
            error.message = "\n".join([said, f"The check saw: {first}", *rest, f"→ Where to look: {_place(found)}."])
        raise


def _place(found) -> str:
    return NO_PHASE if "parity" in found else ROLES


def findings(code, kernel) -> str | None:
    """One sentence or more on the first thing that a working ring does otherwise; None if there is none, or no telling.

    code: the learner's CUDA C, with the exercise's helpers.
    """
    threads = noted(code, kernel)
    if threads is None:
        return None
    producer = [t for t in range(WARP) if any(note.op in ("expect", "copy") for note in threads[t])]
    if len(producer) != 1:
        return None
    mine, consumers = threads[producer[0]], threads[WARP:]
    return next(_bytes(mine), None) or _producer(mine) or _consumers(consumers) or _arrivals(consumers)


def noted(code, kernel) -> list | None:
    """What each thread of one block notes in ROUNDS rounds, [[Note]]; None where that cannot be known."""
    from llmc.cuda.emulator.modules import RawModule

    text, parts, at = mask(code), [NOTED], 0
    if any(len(re.findall(rf"__device__ void {op}\(", text)) != 1 for op in OPS):
        return None
    for call in re.finditer(rf"(?<!void )(?<![\w.])({'|'.join(OPS)})\(", text):
        parts += [code[at : call.start()], f"llmc_{call[1]}({line_at(code, call.start())}, "]
        at = call.end()
    x, result = np.ones((1, ROUNDS, N), np.float32), np.zeros((1, N), np.float32)
    try:
        module = RawModule(code="".join([*parts, code[at:]]), options=("-std=c++17",), check=False)
        counts = np.ndarray((THREADS,), np.int32, module.get_global("llmc_count"))
        counts[:] = 0  # the same text is one module
        with patience(SECONDS):
            module.get_function(kernel)((1,), (THREADS,), (result, x, np.int32(ROUNDS)))
    except (KernelError, NoCompiler, UserError):  # a name of the learner's own, for instance
        return None
    notes = np.ndarray((THREADS, MOST, 4), np.int32, module.get_global("llmc_notes"))
    barriers = _barriers(notes[: counts.size], counts)
    if barriers is None or counts.max() == MOST:
        return None
    return [
        [
            Note(
                OPS[op], line, barriers.get(place, ("another barrier", 0)), number % 2 if OPS[op] == "wait" else number
            )
            for op, line, place, number in rows
        ]
        for rows in (notes[t, : counts[t]].tolist() for t in range(THREADS))
    ]


def _barriers(notes, counts) -> dict | None:
    """{address: (name, number)}, from the calls of init that the exercise gives."""
    inits = [row for t in range(THREADS) for row in notes[t, : counts[t]].tolist() if row[0] == 0]
    places = [row[2] for row in inits]
    if [row[3] for row in inits] != [1, CONSUMERS] * STAGES or len(set(places)) != 2 * STAGES:
        return None
    return {place: ((THERE, USED)[k % 2], k // 2) for k, place in enumerate(places)}


def _turns(stage) -> int:
    """In how many rounds is this stage filled?"""
    return len(range(stage, ROUNDS, STAGES))


def _of(notes, *ops, name=None) -> list:
    return [note for note in notes if note.op in ops and (name is None or note.barrier[0] == name)]


def _bytes(mine):
    """The producer's copies, and the bytes that are expected."""
    copies, expects = _of(mine, "copy"), _of(mine, "expect")
    if not copies:
        yield "No copy is asked for: the producer must call copy in every round."
        return
    elsewhere = next((note for note in copies if note.barrier[0] != THERE), None)
    if elsewhere:
        yield f"The copy of line {elsewhere.line} is counted by {elsewhere.barrier[0]}; consumers wait for {THERE}."
    wrong = next((k for k, note in enumerate(copies) if note.barrier[1] != k % STAGES), None)
    if len(copies) == ROUNDS and wrong is not None:
        name, stage = copies[wrong].barrier
        yield (
            f"The copy of line {copies[wrong].line} in round {wrong} is counted by {name}[{stage}], and the stage of "
            f"that round is {wrong % STAGES}."
        )
    aside = next((note for note in expects if note.barrier[0] != THERE), None)
    if aside:
        yield f"Line {aside.line} expects bytes at {aside.barrier[0]}, but the copies are counted by {THERE}."
    for stage in range(STAGES):
        turns = _turns(stage)
        brought, announced = (sum(n.number for n in some if n.barrier[1] == stage) for some in (copies, expects))
        if brought != turns * BYTES:
            yield _too_few_or_many(copies, stage, brought, turns)
        if not expects:
            yield "Nobody expects the bytes of the copies: expect announces them, and arrives, too."
        elif announced != brought:
            few = "fewer" if announced < brought else "more"
            ends = "before all of it is there" if announced < brought else "never"
            yield (
                f"Line {expects[0].line} expects {announced / turns:,.4g} bytes a round at {THERE}[{stage}], {few} "
                f"than the {brought / turns:,.4g} that line {copies[0].line} copies, so that the phase ends {ends}."
            )


def _too_few_or_many(copies, stage, brought, turns) -> str:
    """Copies that do not bring a line in each of so many rounds."""
    own = [note for note in copies if note.barrier[1] == stage]
    if not own or len(own) < turns:
        return f"Only {len(own)} of {turns} copies into stage {stage} are asked for in {ROUNDS} rounds."
    each = f"{brought / turns:,.4g} bytes"
    why = f": {N} numbers of 4 bytes each. Its size is given in bytes, not in numbers" if brought == turns * N else ""
    return f"Line {own[0].line} copies {each} in a round, and a line has {BYTES} bytes{why}."


def _producer(mine) -> str | None:
    """The waits of the thread that fills stages: the first lap may do without."""
    waits, copy = _of(mine, "wait", name=USED), _of(mine, "copy")[0]
    right = [1 - round // STAGES % 2 for round in range(ROUNDS)]  # parities
    if not waits:
        there = _of(mine, "wait", name=THERE)
        instead = (
            f" It waits for {THERE} instead (line {there[0].line}), which is for the consumers to do." if there else ""
        )
        arriving = "" if there else ", and while the last copy into it may be under way"
        return (
            f"The producer never waits for {USED}: line {copy.line} asks for the next copy into a stage while "
            f"consumers may still need what is there{arriving}.{instead}"
        )
    first = waits[0]
    for skipped in (0, STAGES):
        places = [(round % STAGES, right[round]) for round in range(skipped, ROUNDS)]
        if [(note.barrier[1], note.number) for note in waits] == places:
            return _late(mine, skipped)
    still = "although consumers may still need what round {} has brought there"
    if said := by_rounds("the producer", USED, in_rounds(mine, USED, "copy"), right, STAGES, still):
        return said
    skipped = STAGES if len(waits) <= ROUNDS - STAGES else 0
    asked, due = [note.number for note in waits], right[skipped : skipped + len(waits)]
    if [note.barrier[1] for note in waits] != [round % STAGES for round in range(skipped, skipped + len(waits))]:
        return _of_stages("The producer", USED, waits, skipped)
    if asked == due:
        return f"The producer waits for {USED} only {len(waits)} times in {ROUNDS} rounds (line {first.line})."
    begins = (
        f"A stage that was never filled is free: in the first lap of {STAGES} rounds wait for the phase before phase "
        "0, whose parity is 1, in the second lap for phase 0, and so on, from lap to lap the other one"
    )
    return _parities("the producer", USED, first.line, skipped, asked, due, begins)


def _late(mine, skipped) -> str | None:
    """Right waits, but behind the copies that they are for?"""
    order = [
        (note.op, note.line) for note in mine if note.op == "copy" or note.op == "wait" and note.barrier[0] == USED
    ]
    begins = order[skipped : skipped + 2]
    if len(begins) == 2 and [op for op, _ in begins] == ["copy", "wait"] and len(_of(mine, "copy")) == ROUNDS:
        (_, copy), (_, wait) = begins
        return f"The producer asks for a copy (line {copy}) before it waits for its stage to be free (line {wait})."
    return None


def _consumers(consumers) -> str | None:
    """The waits of the threads that use what is there."""
    right = [(round % STAGES, round // STAGES % 2) for round in range(ROUNDS)]
    waits = [_of(notes, "wait", name=THERE) for notes in consumers]
    silent = [t for t, notes in enumerate(waits) if not notes]
    if len(silent) == CONSUMERS:
        used = next((note for notes in consumers for note in _of(notes, "wait", name=USED)), None)
        instead = f"; line {used.line} waits for {USED}, which is for the producer" if used else ""
        return f"No consumer waits for {THERE}, so they read before the copy has brought anything{instead}."
    if silent:
        number = next(t for t in range(CONSUMERS) if t not in silent)
        return (
            f"Only {_some(CONSUMERS - len(silent))} (thread {number + WARP} first) {_verb('wait', silent)} for "
            f"{THERE}, in line {waits[number][0].line}: every thread that reads must wait itself."
        )
    early = "so it reads before the copy has brought anything"
    for notes, each in zip(waits, consumers):
        asked = [(note.barrier[1], note.number) for note in notes]
        if asked == right:
            continue
        parities = [parity for _, parity in right]
        if said := by_rounds("a consumer", THERE, in_rounds(each, THERE, "arrive"), parities, 0, early):
            return said
        if [stage for stage, _ in asked] != [stage for stage, _ in right[: len(asked)]]:
            return _of_stages("A consumer", THERE, notes, 0)
        if len(asked) == ROUNDS:
            how = (
                f"A stage's barrier ends one phase in each lap of {STAGES} rounds: phase 0, of parity 0, in the first, "
                "phase 1 in the second, and so on"
            )
            parities = [parity for _, parity in asked], [parity for _, parity in right]
            return _parities("a consumer", THERE, notes[0].line, 0, *parities, how)
        return f"A consumer waits for {THERE} only {len(asked)} times in {ROUNDS} rounds (line {notes[0].line})."
    return None


def _arrivals(consumers) -> str | None:
    """Who says that a stage has been used."""
    elsewhere = next((note for notes in consumers for note in _of(notes, "arrive", name=THERE)), None)
    if elsewhere:
        return (
            f"Consumers arrive at {THERE} (line {elsewhere.line}), whose one arrival is the producer's: "
            f"what they have used they say at {USED}."
        )
    arrivals = [_of(notes, "arrive", name=USED) for notes in consumers]
    silent = [notes for notes in arrivals if not notes]
    if len(silent) == CONSUMERS:
        return f"No consumer arrives at {USED}, so its phases never end, and the producer would wait for ever."
    line = next(notes for notes in arrivals if notes)[0].line
    if silent:
        some = f"{_some(CONSUMERS - len(silent))} {_verb('arrive', silent)}"
        return f"Only {some} at {USED} (line {line}), and a phase needs all {CONSUMERS} arrivals."
    for notes in arrivals:
        stages = [note.barrier[1] for note in notes]
        if stages != [round % STAGES for round in range(ROUNDS)]:
            often = f"{len(stages)} times in {ROUNDS} rounds" if len(stages) != ROUNDS else f"of stages {row(stages)}"
            return (
                f"A consumer arrives at {USED} {often} (line {line}): in each round it arrives once, at the barrier of "
                f"the stage that it has just read, {row(round % STAGES for round in range(ROUNDS))}."
            )
    return None


def _parities(who, name, line, first, asked, due, why) -> str:
    wrong = next(k for k, (a, b) in enumerate(zip(asked, due)) if a != b)
    stage = (first + wrong) % STAGES
    return (
        f"In round {first + wrong}, {who} waits for parity {asked[wrong]} of {name}[{stage}] (line {line}), and it "
        f"should be {due[wrong]}.\n"
        f"Parities that it waits for in rounds {first}, {first + 1}, {first + 2}, …: {row(asked)}; right are "
        f"{row(due)}. {why}."
    )


def _of_stages(who, name, waits, first) -> str:
    due = [round % STAGES for round in range(first, first + len(waits))]
    stages = f"{name} of stages {row(note.barrier[1] for note in waits)} in turn (line {waits[0].line})"
    return f"{who} waits for {stages}, and the rounds' stages are {row(due)}."


def _some(consumers) -> str:
    return f"{consumers} of the {CONSUMERS} consumers"


def _verb(word, silent) -> str:
    """Of those who are not silent."""
    return f"{word}s" if len(silent) == CONSUMERS - 1 else word
