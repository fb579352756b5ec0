"""What a launch left behind in the runtime's memory, read into a `Raw`."""

import ctypes
from dataclasses import replace

import numpy as np

from llmc.cuda.emulator.compiling.text import surroundings
from llmc.cuda.emulator.findings.kinds import BY_NAME, KINDS
from llmc.cuda.emulator.findings.raw import RawAccess, RawProblem
from llmc.cuda.emulator.launching import native
from llmc.cuda.emulator.launching.records import CONSTANTS, SPACES, Counted, Problem, Traced
from llmc.cuda.emulator.launching.slots import slots_of

NOBODY, STATIC_SHARED, MOST_TRACED = (CONSTANTS[name] for name in ("NOBODY", "STATIC_SHARED", "MOST_TRACED"))
UPDATES = CONSTANTS["UPDATES"]


def read(handle, raw):
    """Fill `raw` with what a launch that has ended left behind."""
    outcome = native.outcome(handle)
    raw.barriers, raw.shuffles = outcome.barriers, outcome.shuffles
    raw.blocks_run, raw.lost_threads = outcome.blocks_run, outcome.lost_threads
    raw.printed = ctypes.string_at(outcome.printed.data, outcome.printed.size).decode(errors="replace")
    if outcome.unprinted:
        raw.printed += f"\n... and {outcome.unprinted:,} more characters: a launch can print 1 MB, so print less.\n"
    found = [_problem(raw, p) for p in _records(outcome.problems, Problem)]
    mixed = any(p.kind == "different-barriers" for p in found)
    found = [_judged(raw, p, mixed) for p in found]
    raw.excused = tuple(_records(outcome.excused, ctypes.c_int64))
    raw.problems = _first_causes(raw.code, [p for p in found if not BY_NAME[p.kind].note], raw.excused)
    raw.notes = [p for p in found if BY_NAME[p.kind].note]
    raw.accesses = [_access(c) for c in _records(outcome.counts, Counted)]
    if 0 < outcome.trace.size < MOST_TRACED:
        raw.trace = _trace(raw, np.ctypeslib.as_array(_records(outcome.trace, Traced)))


def _records(span, kind):
    """The runtime's array as a ctypes array."""
    return (kind * span.size).from_address(span.data) if span.size else ()


# ------------------------------------------------------------------------------------------------ problems


def _judged(raw, problem, mixed):
    """Threads that ended before a barrier had returned, and then count as arrived, or had gone past it alive.

    The launch cannot tell the two apart, but the text can: it is a mistake if the barrier is in an `if`, or in a loop
    that they left to do something else, or if threads waited for each other on different lines (`mixed`).
    """
    if problem.kind not in ("early-return", "barrier-divergence"):
        return problem
    around, active = surroundings(raw.code, problem.line), problem.kind == "barrier-divergence"
    mistake = active and (mixed or around) or "if" in around
    return replace(problem, kind="barrier-divergence" if mistake else "early-return")


def _first_causes(code, problems, excused):
    """Leave out reads of what nothing wrote if they race too: the write comes later because nobody waits for it.

    Races between warps come before races within one: a barrier that ends the first ends the second too. A barrier in an
    `if` comes before others: a thread that passes it by, or waits there in vain, is missing at those.
    """
    racing = {pc for p in problems if p.kind in ("race", "missing-syncwarp") for pc in (p.pc, p.pc2)}
    racing -= {0, *excused}
    causes = [p for p in problems if p.kind != "uninitialised" or p.pc not in racing]
    missed = [p for p in causes if p.kind == "barrier-divergence"]
    others = missed if any("if" in surroundings(code, p.line) for p in missed) else []
    late = [p for p in others if "if" not in surroundings(code, p.line)]
    return sorted(causes, key=lambda p: (p.kind == "missing-syncwarp", p in late))


def _problem(raw, p) -> RawProblem:
    space = SPACES[p.space]
    array, start = _array_at(raw, space, p.argument, p.offset)
    return RawProblem(
        kind=KINDS[p.kind].name,
        **{name: getattr(p, name) for name in ("pc", "pc2", "line", "line2", "size", "count", "lanes", "absent")},
        block=_coordinates(p.block, raw.grid),
        thread=_coordinates(p.thread, raw.block) or (0, 0, 0),
        block2=_coordinates(p.block2, raw.grid),
        thread2=_coordinates(p.thread2, raw.block),
        space=space,
        argument=max(-1, p.argument),
        offset=p.offset - start,
        write=bool(p.write),
        write2=bool(p.write2),
        atomic=p.write == UPDATES,
        atomic2=p.write2 == UPDATES,
        array=array,
        detail=p.detail.decode(errors="replace"),
    )


def _coordinates(linear, shape) -> tuple[int, int, int] | None:
    """(x, y, z) of a block's or a thread's linear number, None for nobody's."""
    if linear == NOBODY:
        return None
    return linear % shape[0], linear // shape[0] % shape[1], linear // shape[0] // shape[1]


def _array_at(raw, space, argument, offset) -> tuple[str, int]:
    """Name of the static shared array at or before an offset, and the byte that the offset should count from."""
    if space == "shared" and argument == STATIC_SHARED:
        earlier = [one for one in raw.shared_arrays if one.offset <= offset and not one.mark]
        return (earlier[-1].name, earlier[-1].offset) if earlier else ("", 0)
    if argument < 0 or raw.arguments[argument].array is None:
        return "", 0
    for slot in slots_of(raw.arguments):
        if slot.members[0][0] == argument:
            return "", raw.arguments[argument].array.ctypes.data - slot.low
    return "", 0


# ------------------------------------------------------------------------------------------------ measures


def _access(c) -> RawAccess:
    values = {name: getattr(c, name) for name, _ in Counted._fields_}
    return RawAccess(**values | {"space": SPACES[c.space], "write": bool(c.write), "atomic": bool(c.atomic)})


def _trace(raw, records):
    """The accesses of a small launch, in order."""
    names = ["pc", "block", "thread", "argument", "offset", "size", "write", "step"]
    out = np.empty(len(records), [(name, "i8") for name in names])  # (accesses,)
    for name in names[:-1]:
        out[name] = records[name]
    out["argument"] = np.where(records["space"] == SPACES.index("global"), records["argument"], -1)
    for argument in np.unique(out["argument"]):
        out["offset"][out["argument"] == argument] -= _array_at(raw, "global", int(argument), 0)[1]
    out["step"] = np.arange(len(records))
    return out
