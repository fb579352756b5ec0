"""What a launch left in the runtime's memory, read into a `Raw`."""

import ctypes
from ctypes import byref, c_uint64, c_void_p
from dataclasses import replace

import numpy as np

from llmc.cuda.emulator import native
from llmc.cuda.emulator.compiling.text import surroundings
from llmc.cuda.emulator.raw import NOTES, RawAccess, RawProblem
from llmc.cuda.emulator.slots import slots_of

# Kind in runtime/state.h
KINDS = (
    *("out-of-bounds", "misaligned", "invalid-pointer", "race", "missing-syncwarp", "uninitialised"),
    *("barrier-divergence", "deadlock", "inactive-lane", "runaway", "stack-overflow", "division-by-zero"),
    *("integer-overflow", "bounds", "assert", "crash", "early-return", "different-barriers"),
)
SPACES = ("", "global", "shared", "local")
NOBODY = 0xFFFFFFFF
SHARED_STATIC = -2  # "argument" of a problem in static shared memory

# Problem, Counted and Traced in runtime/
PROBLEM = np.dtype(
    [(name, "i4") for name in ("kind", "space", "argument", "line", "line2", "write", "write2", "size")]
    + [(name, "i8") for name in ("pc", "pc2", "offset", "count")]
    + [(name, "u4") for name in ("block", "thread", "block2", "thread2", "lanes")]
    + [("detail", "S84")]
)
COUNTED = np.dtype(
    [(name, "i8") for name in ("pc", "requests", "lanes", "sectors", "ideal", "passes", "least", "worst")]
    + [(name, "i4") for name in ("space", "argument", "size", "write", "atomic", "unused")]
)
TRACED = np.dtype(
    [("pc", "i8"), ("offset", "i8"), ("block", "u4"), ("thread", "u4")]
    + [(name, "i4") for name in ("argument", "size", "write", "space")]
)
MOST_TRACED = 1 << 16  # a launch with more accesses has no trace


def read(handle, raw, measure=False):
    """Fill `raw` with what a launch that has ended left."""
    runtime, numbers = native.library(), (c_uint64 * 5)()
    runtime.llmc_numbers(handle, numbers)
    raw.barriers, raw.blocks_run, raw.lost_threads = numbers[0], numbers[1], numbers[2]
    text = c_void_p()
    length = runtime.llmc_printed(handle, byref(text))
    raw.printed = ctypes.string_at(text, length).decode(errors="replace") if length else ""
    found = _records(runtime.llmc_problems(handle), runtime.llmc_found(handle), PROBLEM)
    everything = [_problem(raw, p) for p in found]
    mixed = any(p.kind == "different-barriers" for p in everything)
    everything = [_judged(raw, p, mixed) for p in everything]
    raw.problems = _first_causes([p for p in everything if p.kind not in NOTES])
    raw.notes = [p for p in everything if p.kind in NOTES]
    if measure:
        raw.accesses = [_access(c) for c in _records(runtime.llmc_counts(), numbers[3], COUNTED)]
        if 0 < numbers[4] < MOST_TRACED:
            raw.trace = _trace(raw, _records(runtime.llmc_trace(), numbers[4], TRACED))


def _records(address, n, dtype):
    if not n:
        return np.empty(0, dtype)
    return np.frombuffer(ctypes.string_at(address, n * dtype.itemsize), dtype)  # (n,)


def _judged(raw, problem, mixed):
    """Threads that ended before a barrier returned early, which works, or went around the barrier, which does not.

    The launch cannot tell the two apart, but the text can: it is a mistake where the barrier stands in an `if`, or in a
    loop which they left to do something else; and where threads waited for each other in different lines (`mixed`).
    """
    if problem.kind not in ("early-return", "barrier-divergence"):
        return problem
    around, active = surroundings(raw.code, problem.line), problem.kind == "barrier-divergence"
    mistake = active and (mixed or around) or "if" in around and problem.detail
    return replace(problem, kind="barrier-divergence" if mistake else "early-return", detail="")


def _first_causes(problems):
    """Without reads of what nothing wrote that are in a race too: the write comes later because nobody waits for it.

    Races between warps come before those within one: the barrier that ends the first ends the second too.
    """
    racing = {pc for p in problems if p.kind in ("race", "missing-syncwarp") for pc in (p.pc, p.pc2)} - {0}
    causes = [p for p in problems if p.kind != "uninitialised" or p.pc not in racing]
    return sorted(causes, key=lambda p: p.kind == "missing-syncwarp")


def _triple(linear, shape):
    return tuple(int(v) for v in (linear % shape[0], linear // shape[0] % shape[1], linear // shape[0] // shape[1]))


def _problem(raw, p) -> RawProblem:
    def place(linear, shape):
        return None if linear == NOBODY else _triple(int(linear), shape)

    kind, space = KINDS[p["kind"]], SPACES[p["space"]]
    detail = p["detail"].decode(errors="replace")
    if kind in ("race", "missing-syncwarp"):
        detail = space
    elif kind == "bounds":
        detail = f"{p['offset']} {detail}"
    array, start = _array_at(raw, space, int(p["argument"]), int(p["offset"]))
    return RawProblem(
        kind=kind,
        pc=int(p["pc"]),
        pc2=int(p["pc2"]),
        line=int(p["line"]),
        line2=int(p["line2"]),
        block=_triple(int(p["block"]), raw.grid),
        thread=place(p["thread"], raw.block) or (0, 0, 0),
        block2=place(p["block2"], raw.grid),
        thread2=place(p["thread2"], raw.block),
        space=space,
        argument=max(-1, int(p["argument"])),
        offset=int(p["offset"]) - start,
        size=int(p["size"]),
        write=bool(p["write"]),
        write2=bool(p["write2"]),
        count=int(p["count"]),
        lanes=int(p["lanes"]),
        array=array,
        detail=detail,
    )


def _array_at(raw, space, argument, offset):
    """Name of the static shared array around or before an offset, and the byte that an access's offset counts from."""
    if space == "shared" and argument == SHARED_STATIC:
        before = [one for one in raw.shared_arrays if one.offset <= offset and not one.mark]
        return (before[-1].name, before[-1].offset) if before else ("", 0)
    if argument < 0 or raw.arguments[argument].array is None:
        return "", 0
    for slot in slots_of(raw.arguments):
        if slot.members[0][0] == argument:
            return "", raw.arguments[argument].array.ctypes.data - slot.low
    return "", 0


def _access(c) -> RawAccess:
    shared = SPACES[c["space"]] == "shared"
    return RawAccess(
        pc=int(c["pc"]),
        space=SPACES[c["space"]],
        write=bool(c["write"]),
        atomic=bool(c["atomic"]),
        size=int(c["size"]),
        argument=int(c["argument"]),
        requests=int(c["requests"]),
        lanes=int(c["lanes"]),
        sectors=int(c["sectors"]),
        ideal=int(c["least"] if shared else c["ideal"]),
        ways=int(c["passes"]),
        worst=int(c["worst"]),
    )


def _trace(raw, records):
    """The accesses of a small launch, in order."""
    names = ["pc", "block", "thread", "argument", "offset", "size", "write", "step"]
    out = np.empty(len(records), [(name, "i8") for name in names])  # (accesses,)
    for name in names[:-1]:
        out[name] = records[name]
    out["argument"] = np.where(records["space"] == 1, records["argument"], -1)
    for argument in np.unique(out["argument"]):
        out["offset"][out["argument"] == argument] -= _array_at(raw, "global", int(argument), 0)[1]
    out["step"] = np.arange(len(records))
    return out
