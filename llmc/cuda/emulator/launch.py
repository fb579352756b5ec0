"""A checked launch: copies of the arrays go into the arena, the kernel runs on them, results come back with a `Raw`.

In the arena each array lies alone, with gigabytes of nothing around it, so a wrong index cannot hit anything and still
says which array was meant. Arrays that share memory (views, an in-place kernel) share a slot.
"""

import ctypes
from ctypes import byref, c_uint64, c_void_p
from dataclasses import replace
from time import perf_counter

import numpy as np

from llmc.cuda.emulator import runtime, statics
from llmc.cuda.emulator.raw import NOTES, Raw, RawAccess, RawProblem
from llmc.cuda.emulator.source import kernel_names
from llmc.cuda.emulator.text import surroundings
from llmc.cuda.errors import KernelError

# Kind in runtime/state.h
KINDS = (
    *("out-of-bounds", "misaligned", "invalid-pointer", "race", "missing-syncwarp", "uninitialised"),
    *("barrier-divergence", "deadlock", "inactive-lane", "runaway", "stack-overflow", "division-by-zero"),
    *("integer-overflow", "bounds", "assert", "crash", "early-return", "different-barriers"),
)
SPACES = ("", "global", "shared", "local")
NOBODY = 0xFFFFFFFF
SHARED_STATIC = -2  # "argument" of a problem in static shared memory
MOST_ARRAYS = 64

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


class Slot:
    """Arrays whose memory overlaps, and their common copy in the arena."""

    def __init__(self, index, low, high, members):
        self.index, self.low, self.high, self.members = index, low, high, members
        self.itemsize = min(argument.array.dtype.itemsize for _, argument in members)
        self.shift = {1: 0, 2: 1}.get(self.itemsize, 2)  # a shadow cell for each element, or each 4 bytes of one
        self.written = None  # (cells,) uint8: which were written, where that matters
        self.place = 0

    def cells_of(self, argument):
        """Slice of `written` that belongs to an argument's array."""
        start = argument.array.ctypes.data - self.low
        return slice(start >> self.shift, (start + argument.array.nbytes + (1 << self.shift) - 1) >> self.shift)


def slots_of(arguments):
    """The slots of a list of arguments, those that overlap together; arrays without elements get none."""
    arrays = [(i, a) for i, a in enumerate(arguments) if a.array is not None and a.array.nbytes]
    spans = sorted((a.array.ctypes.data, a.array.ctypes.data + a.array.nbytes, i) for i, a in arrays)
    merged = []
    for low, high, i in spans:
        if merged and low < merged[-1][1]:
            merged[-1][1] = max(high, merged[-1][1])
            merged[-1][2].append(i)
        else:
            merged.append([low, high, [i]])
    if len(merged) > MOST_ARRAYS:
        raise KernelError(f"a checked launch takes at most {MOST_ARRAYS} arrays, not {len(merged)}; use check=False.")
    return [Slot(k, low, high, [(i, arguments[i]) for i in sorted(i)]) for k, (low, high, i) in enumerate(merged)]


def _bring_in(slot, unwritten):
    """Copy a slot's arrays into the arena. `unwritten`: argument index -> (elements,) bool, True: holds nothing yet."""
    argument, size = slot.members[0][0], slot.high - slot.low
    missing = [i for i, _ in slot.members if i in unwritten]
    if missing:
        slot.written = np.ones((size >> slot.shift) + 2, np.uint8)  # (cells,)
        for i, member in slot.members:
            if i in unwritten:
                repeat = max(1, member.array.dtype.itemsize >> slot.shift)
                slot.written[slot.cells_of(member)] = np.repeat(~unwritten[i].ravel(), repeat)  # (cells of the array,)
    written = None if slot.written is None else slot.written.ctypes.data
    slot.place = runtime.native().llmc_place(slot.index, size, slot.low % 16, slot.shift, argument, written)
    if not slot.place:
        raise KernelError(f"no memory for a checked launch on {size / 1e6:.0f} MB; use check=False or smaller arrays.")
    ctypes.memmove(slot.place, slot.low, size)
    for i, member in slot.members:
        if i in unwritten and unwritten[i].all():  # poison: NaN, and no sensible index
            ctypes.memset(slot.place + member.array.ctypes.data - slot.low, 0xFF, member.array.nbytes)


def _take_out(slot, unwritten):
    """Copy what the kernel may have written back to the caller's arrays."""
    for i, argument in slot.members:
        # also through a pointer to const, for a kernel may cast it; but no poison
        if argument.array.flags.writeable and not (argument.const and i in unwritten):
            offset = argument.array.ctypes.data - slot.low
            ctypes.memmove(argument.array.ctypes.data, slot.place + offset, argument.array.nbytes)


def _pack(arguments, slots):
    """Pointers to the values of all arguments, as the entry wants them, and what must stay alive meanwhile."""
    at = {}
    for slot in slots:
        for i, argument in slot.members:
            at[i] = slot.place + argument.array.ctypes.data - slot.low
    kept, pointers = [], (c_void_p * max(1, len(arguments)))()
    for i, argument in enumerate(arguments):
        if argument.packed is None:
            value = c_void_p(at.get(i))
        else:
            value = ctypes.create_string_buffer(bytes(argument.packed), max(16, len(argument.packed)))
        kept.append(value)
        pointers[i] = ctypes.addressof(value)
    return pointers, kept


def launch(library, index, code, kernel, grid, block, arguments, shared_mem=0, measure=False, unwritten=None):
    """Run a checked launch and return its `Raw`.

    library: runtime.Library · index of the entry · grid, block: triples · arguments: list of arguments.Argument ·
    unwritten: argument index -> (elements,) bool, True for elements that hold nothing yet: to read one is a problem. On
    return those that the launch has written are False.
    """
    unwritten = unwritten or {}
    slots = slots_of(arguments)
    with runtime.exclusive():
        start = perf_counter()
        for slot in slots:
            _bring_in(slot, unwritten)
        pointers, kept = _pack(arguments, slots)
        address = ctypes.addressof(pointers)
        prepared = runtime.options(library, index, grid, block, address, shared_mem, True, measure)
        arrays = statics.of_kernel(library.path, kernel, kernel_names(code))
        runtime.tell_shared(arrays)
        try:
            handle = runtime.run_checked(prepared)
        finally:
            for slot in slots:
                _take_out(slot, unwritten)
            runtime.native().llmc_forget(len(slots))
        raw = Raw(library.path, code, kernel, grid, block, arguments, shared_arrays=arrays)
        read(handle, raw, measure)
        runtime.release(handle)
        raw.seconds = perf_counter() - start
    for slot in slots:
        for i, argument in slot.members:
            if i in unwritten:
                unwritten[i].ravel()[:] = ~_elements_written(slot, argument)  # (elements,)
    return raw


def _elements_written(slot, argument):
    """(elements,) bool: which elements of an argument's array hold something now."""
    cells = slot.written[slot.cells_of(argument)].astype(bool)  # (cells,)
    repeat = max(1, argument.array.dtype.itemsize >> slot.shift)
    return cells.reshape(-1, repeat).all(axis=1)  # (elements,)


# ------------------------------------------------------------------------------------------------ reading


def read(handle, raw, measure=False):
    """Fill `raw` with what a launch that has ended left."""
    native, numbers = runtime.native(), (c_uint64 * 5)()
    native.llmc_numbers(handle, numbers)
    raw.barriers, raw.blocks_run, raw.lost_threads = numbers[0], numbers[1], numbers[2]
    text = c_void_p()
    length = native.llmc_printed(handle, byref(text))
    raw.printed = ctypes.string_at(text, length).decode(errors="replace") if length else ""
    found = _records(native.llmc_problems(handle), native.llmc_found(handle), PROBLEM)
    everything = [_problem(raw, p) for p in found]
    mixed = any(p.kind == "different-barriers" for p in everything)
    everything = [_judged(raw, p, mixed) for p in everything]
    raw.problems = _first_causes([p for p in everything if p.kind not in NOTES])
    raw.notes = [p for p in everything if p.kind in NOTES]
    if measure:
        raw.accesses = [_access(c) for c in _records(native.llmc_counts(), numbers[3], COUNTED)]
        if 0 < numbers[4] < MOST_TRACED:
            raw.trace = _trace(raw, _records(native.llmc_trace(), numbers[4], TRACED))


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
