"""A problem as a paragraph: what happened and where, who did it, what to do about it."""

import re

from llmc.cuda.emulator.reporting.advice import advice
from llmc.cuda.emulator.reporting.doers import TWO_THREADS, who
from llmc.cuda.emulator.reporting.places import array_of, extent, lane_list, place, plural, source_line

TITLES = {
    "out-of-bounds": "out of bounds",
    "invalid-pointer": "invalid pointer",
    "missing-syncwarp": "race within a warp",
    "never-written": "never written",
    "uninitialised": "uninitialised",
    "barrier-divergence": "barrier not reached by all",
    "inactive-lane": "lane that takes no part",
    "runaway": "no end in sight",
    "stack-overflow": "stack overflow",
    "division-by-zero": "division by zero",
    "integer-overflow": "integer overflow",
    "bounds": "index outside a fixed array",
    "assert": "assert",
    "early-return": "early return",
    "different-barriers": "different barriers",
}


def paragraph(raw, problem, line, line2) -> str:
    """Everything about `problem` of the launch `raw`; line and line2 are its lines, 0 where they are not known."""
    title = f"{TITLES.get(problem.kind, problem.kind)}{_race_where(problem)}"
    parts = [
        f"{title}: kernel {raw.kernel}{_lines(problem, line, line2)}: {what(raw, problem, line, line2)}.",
        who(problem),
        advice(raw, problem, line, line2),
    ]
    return "\n".join(filter(None, parts))


def what(raw, problem, line=0, line2=0) -> str:
    """The first sentence, without its full stop: "`out[i] = x;` writes out[1024], but out has 1024 elements …"."""
    code, kind = _quoted(raw.code, line), problem.kind
    if kind in ("race", "missing-syncwarp"):
        return _race(raw, problem, line, line2)
    if kind in TWO_THREADS:
        return _waiting(raw, problem, code, line2)
    if kind in ("out-of-bounds", "misaligned", "uninitialised", "invalid-pointer"):
        return _access(raw, problem, code)
    if kind == "never-written":
        return _never_written(raw, problem)
    return _other(problem, code)


def _access(raw, problem, code) -> str:
    array, where = array_of(raw, problem), place(raw, problem)
    verb = "writes" if problem.write else "reads"
    if problem.kind == "invalid-pointer":
        near = f" ({problem.detail})" if problem.detail else ""
        return f"{code}{verb} {plural(problem.size, 'byte')} at an address{near} that lies in no array of this launch"
    if problem.kind == "misaligned":
        return f"{code}{verb} {where}, which does not start at a multiple of {plural(problem.size, 'byte')}"
    if problem.kind == "uninitialised":
        return f"{code}reads {where}, which nothing has written yet"
    if array is not None:
        return f"{code}{verb} {where}, but {extent(raw.arguments[problem.argument].name, array)}"
    before = "lies before its start" if problem.offset < 0 else "lies past its end"
    return f"{code}{verb} {where or 'memory'}, which {before}"


def _race(raw, problem, line, line2) -> str:
    where = place(raw, problem) or "the same memory"
    order = "and nothing makes one wait for the other"
    code, code2 = _quoted(raw.code, line), _quoted(raw.code, line2)
    if line == line2:
        verbs = "write" if problem.write and problem.write2 else "write and read"
        return f"{_at(code)}two threads {verbs} {where}, {order}"
    first, second = code or "one thread ", code2 or "another thread "
    return f"{first}{_does(problem.write)} {where}, {second}{_does(problem.write2)} it, {order}"


def _waiting(raw, problem, code, line2) -> str:
    others = f"; some wait at line {line2}: {_quoted(raw.code, line2).rstrip()}" if line2 else ""
    if problem.kind == "inactive-lane":
        return _absent_lane(problem, code or "a warp function ")
    if problem.kind == "deadlock":
        group = f"waits for {lane_list(problem.lanes)} of a warp" if problem.lanes else "waits for threads of the block"
        return f"{code or 'the kernel '}{group}, and not all of them come{others}"
    if problem.kind == "different-barriers":
        return f"{code or 'a barrier '}holds some threads of the block while others wait in another line{others}"
    threads = plural(raw.block[0] * raw.block[1] * raw.block[2], "thread")
    some = f"{problem.lanes} of the {threads} of the block" if problem.lanes else f"some of the {threads} of the block"
    if problem.kind == "early-return":
        return f"{some} returned before the barrier {code.rstrip()}"
    return f"{code or 'a barrier '}is not reached by {some}{others}"


def _absent_lane(problem, code) -> str:
    mask = f"{lane_list(problem.lanes)} (mask 0x{problem.lanes:08x})"
    if problem.detail == "read from an absent lane":
        return f"{code}reads from lane {problem.offset}, which does not take part"
    if problem.detail == "mask without the caller":
        return f"{code}names {mask} and is called by another lane"
    if problem.detail == "lane ended without it":
        return f"{code}names {mask}, but a thread of them ended without it"
    return f"{code}names or reads a lane that does not take part" + (f" ({problem.detail})" if problem.detail else "")


def _never_written(raw, problem) -> str:
    array, name = array_of(raw, problem), "an output"
    if array is not None:
        name = raw.arguments[problem.argument].name
    more = f" and {plural(problem.count - 1, 'other element')} of {name}" if problem.count > 1 else ""
    return f"nothing writes {place(raw, problem) or name}{more}"


def _other(problem, code) -> str:
    detail = f" ({problem.detail})" if problem.detail else ""
    if problem.kind == "bounds" and (numbers := re.search(r"(-?\d+).*?\[(\d+)\]", problem.detail)):
        index, length = map(int, numbers.groups())
        return (
            f"{code or 'an access '}uses index {index} of an array of {plural(length, 'element')} (0 to {length - 1})"
        )
    if problem.kind == "integer-overflow" and " of " in problem.detail:
        operation, type_name = problem.detail.split(" of ", 1)
        return f"{_at(code)}the {operation} does not fit into `{type_name.strip(chr(39))}`"
    if problem.kind == "division-by-zero":
        return f"{code or 'the kernel '}divides an integer by zero{detail}"
    words = {
        "runaway": "the kernel still runs after its time is up",
        "stack-overflow": "a thread uses more stack than it has",
        "integer-overflow": "the result does not fit into its integer type",
        "assert": "the assert failed",
        "crash": "the kernel crashed",
    }
    return f"{_at(code)}{words.get(problem.kind, 'something went wrong')}{detail}"


def _quoted(code, line) -> str:
    """The source line in backticks and a space; "" where it is not known."""
    text = source_line(code, line)
    return f"`{text}` " if text else ""


def _at(code) -> str:
    return f"at {code}" if code else ""


def _lines(problem, line, line2) -> str:
    """ ", line 4", ", lines 4 and 7"; nothing where the launch as a whole is meant."""
    if line and line2 and line != line2:
        return f", lines {line} and {line2}"
    if line or line2:
        return f", line {line or line2}"
    return ", line unknown" if problem.pc else ""


def _race_where(problem) -> str:
    if problem.kind != "race":
        return ""
    return {"shared": " in shared memory", "global": " in global memory"}.get(problem.detail or problem.space, "")


def _does(write) -> str:
    return "writes" if write else "reads"
