"""Why an element stays unwritten: threads that leave too early, or that write fewer numbers than there are for each."""

import math
import re

import numpy as np

from llmc.course.old.kernel_checks import shares
from llmc.cuda.emulator.compiling.text import line_at, mask

RETURN = re.compile(r"\bif\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\s*(?:\{\s*)?(return\s*;)")
TRIES = 2  # of kernels that are compiled for this
STEPS = re.compile(r"\+=\s*blockDim\b")
FOUR = re.compile(r"\bfloat4\b")


def left_early(report, again) -> str:
    """A sentence if all is written once the threads of an early `return` stay. again(code): such a launch's report."""
    code, missing = report.raw.code, _missing(report)
    for match in list(RETURN.finditer(mask(code)))[:TRIES]:
        stays = code[: match.start(1)] + ";" + code[match.end(1) :]
        for other, when in (
            (stays, "when they stay"),
            (_kept_out(code, match), "when they are there after the barrier"),
        ):
            launched = again(other) if other else None
            if launched is not None and _all_written(launched, missing.argument):
                line = line_at(code, match.start(1))
                return (
                    f"Threads that leave on line {line}, with `return`, are missing: {when}, all of it is written. "
                    "Let the condition guard only what they must not do."
                )
    return ""


def idle_leave(report, again) -> str:
    """A sentence if whole blocks do nothing because all their threads leave by one `return`; else "".

    Threads that stay may run out of bounds, so a read is put before the `return` instead: who makes it comes by.
    """
    code, missing = report.raw.code, _missing(report)
    others = [
        each.name for k, each in enumerate(report.raw.arguments) if each.array is not None and k != missing.argument
    ]
    size, blocks = math.prod(report.raw.block), math.prod(report.raw.grid)
    active = _active(report)
    idle = np.setdiff1d(np.arange(blocks), active // size)
    for match in list(RETURN.finditer(mask(code)))[:TRIES] if others and 0 < len(idle) < blocks else ():
        read = f"{{ if (*(const volatile char*){others[0]} || true) return; }}"
        launched = again(code[: match.start(1)] + read + code[match.end(1) :])
        if launched is not None and np.isin(idle[:, None] * size + np.arange(size), _active(launched)).all():
            which = f"block {idle[0]}" if len(idle) == 1 else f"blocks {', '.join(map(str, idle[:-1]))} and {idle[-1]}"
            name, line = report.raw.arguments[missing.argument].name, line_at(code, match.start(1))
            return f"Every thread of {which} leaves on line {line}, with `return`, before it writes anything to {name}."
    return ""


def _active(report):
    """The numbers of the threads that touch any array."""
    trace = report.raw.trace
    if trace is None:
        return np.empty(0, np.int64)
    return np.unique(trace["block"].astype(np.int64) * math.prod(report.raw.block) + trace["thread"])


def _kept_out(code, match) -> str:
    """The code in which these threads do nothing up to the next barrier, and then go on; "" where that cannot be."""
    text = mask(code)
    condition, barrier = text[match.start() : match.start(1)].rstrip(), text.find("__syncthreads", match.end())
    between = text[match.end() : max(barrier, match.end())]
    if not condition.endswith(")") or barrier < 0 or between.count("{") != between.count("}"):
        return ""
    asked = condition[condition.index("(") :]
    return f"{code[: match.start()]}if (!{asked}) {{{code[match.end() : barrier]}}} {code[barrier:]}"


def too_few_each(report) -> str:
    """A sentence if each thread writes once where there are several numbers for each, or if there is no whole four."""
    missing = _missing(report)
    argument = report.raw.arguments[missing.argument] if missing.argument >= 0 else None
    if argument is None or argument.array is None:
        return ""
    size, name = argument.array.size, argument.name
    if missing.count == size < 4 and FOUR.search(mask(report.raw.code)):
        return f"There is no whole float4 in {_numbers(size)}: which thread comes to {_them(size)}?"
    written = shares.accessed(report, written=True)  # of nothing, if the launch was not recorded
    written = written[written[:, 0] == missing.argument]
    each = np.unique(written[:, 2], return_counts=True)[1]
    threads = math.prod(report.raw.grid) * math.prod(report.raw.block)
    if not len(each) or each.max() * threads >= size:
        return ""
    lines = {use.line for use in report.lines if use.write and use.name == name and use.space == "global"} - {0}
    at = f" (line {lines.pop()})" if len(lines) == 1 else ""
    return (
        f"A thread writes at most {_numbers(int(each.max()))} of {name}{at}, but there are {size:,} for the "
        f"{threads:,} threads, {math.ceil(size / threads)} each."
    )


def one_column_each(report) -> list[str]:
    """A sentence about an array of rows of which just as many columns are written as a block has threads."""
    threads, touched = math.prod(report.raw.block), shares.accessed(report, written=True)
    for k, argument in enumerate(report.raw.arguments):
        columns = argument.array.shape[-1] if argument.array is not None and argument.array.ndim > 1 else 0
        written = np.unique(touched[touched[:, 0] == k, 1] % max(1, columns))
        if threads < columns and np.array_equal(written, np.arange(threads)):
            step = f"a loop from threadIdx.x in steps of blockDim.x, over all {columns}"
            missing = "is missing" if not STEPS.search(mask(report.raw.code)) else "must be around what is written"
            return [
                f"{argument.name} is written in {threads} columns, as many as the block has threads: {step}, {missing}."
            ]
    return []


def _missing(report):
    """The emulator's record of what is unwritten."""
    return next(p for p in report.raw.problems if p.kind == "never-written")


def _all_written(report, argument) -> bool:
    """Has this launch written every element of that array, and none outside of it?"""
    if argument < 0 or any(p.write for p in report.raw.problems):
        return False
    written = shares.accessed(report, written=True)
    return len(np.unique(written[written[:, 0] == argument, 1])) == report.raw.arguments[argument].array.size


def _numbers(n) -> str:
    return f"{n} number{'s' * (n > 1)}"


def _them(n) -> str:
    return "it" if n == 1 else "them"
