"""What to do about a read of what nothing has written yet: advice from a Finding."""

import re
from math import prod

import numpy as np

from llmc.cuda.emulator.compiling.text import line_at, statements
from llmc.cuda.emulator.findings.absences import exits
from llmc.cuda.emulator.findings.loops import condition_around
from llmc.cuda.emulator.findings.places import item_of
from llmc.cuda.emulator.findings.values import function_around

BULK = re.compile(r"cp[._]async[._]bulk")
STORES = r"(?<![\w.]){}\s*(?:\[[^\[\]]*(?:\[[^\]]*\][^\[\]]*)*\]\s*)+=(?!=)"  # not +=
FILL = "or fill the array before the launch if the kernel is meant to add to it"
LEAST = 8  # elements of a row that ends in padding


def uninitialised(found) -> str:
    """By where: in shared memory, or in an array of the launch."""
    if found.array is None and BULK.search(found.raw.code):
        return (
            "If a bulk copy is to bring it, nobody had asked for that copy yet, so the wait for its mbarrier ended too "
            "early. Which phase does it wait for? A new barrier is in phase 0, whose parity is 0, and a wait for "
            "parity 1 ends at once. What threads bring themselves must be written before it is read."
        )
    if found.array is None:
        starts = "Shared memory starts with whatever was there before"
        if _is_empty(found.raw):
            return f"{starts}, and no thread writes anything to it in this launch: put there what is read here."
        why = _padding(found) or _later(found) or _gone(found) or _beginning(found) or _only_where(found)
        return (
            f"{starts}. Either what is read here should be written first (with 0, for a sum, where there is no data), "
            f"with a `__syncthreads();` in between, or another element should be read.{why}"
        )
    return f"An output starts with whatever was there before: write it with `=` before the first `+=` or read, {FILL}."


def _is_empty(raw) -> bool:
    """Has nobody written to shared memory, as far as was measured? Asynchronous copies are not."""
    wrote = any(use.write and use.space == "shared" for use in raw.accesses)
    return bool(raw.accesses) and not wrote and "async" not in raw.code


def _writes(found):
    """The recorded writes of this block to shared memory; None where nothing was recorded."""
    raw, (x, y, z) = found.raw, found.problem.block
    if raw.trace is None:
        return None
    block = x + raw.grid[0] * (y + raw.grid[1] * z)
    return raw.trace[(raw.trace["argument"] < 0) & (raw.trace["write"] != 0) & (raw.trace["block"] == block)]


def _later(found) -> str:
    """A sentence if the element is written after all, by the same thread or by another one; else ""."""
    writes, at = _writes(found), found.problem.offset
    if writes is None or found.raw.shared_arrays:  # whose offsets count from elsewhere
        return ""
    late = writes[(writes["offset"] <= at) & (at < writes["offset"] + writes["size"])]
    if not len(late):
        return ""
    (i, j, k), (x, y, _) = found.problem.thread, found.raw.block
    own = int(late["thread"][0]) == i + x * (j + y * k)
    return f" This element is written only after that, by {'the same' if own else 'another'} thread."


def _gone(found) -> str:
    """A question if threads may have left before they wrote anything; "" if each has written something."""
    left, writes = [each for each in exits(found.raw.code, found.line) if each[1] != "continue"], _writes(found)
    _, stores = _stores(found)
    if stores:  # a thread that leaves after all of them has written
        left = [each for each in left if each[0] < max(stores)]
    if not left or writes is not None and len(np.unique(writes["thread"])) == prod(found.raw.block):
        return ""
    return " Do threads leave by the `{1}` on line {0} before they have written their elements?".format(*left[0])


def _beginning(found) -> str:
    """A sentence if all of a shared array before the place is written, and nothing from there on."""
    problem = found.problem
    arrays = [one for one in found.raw.shared_arrays if one.name == problem.array]
    if len(arrays) != 1 or not re.fullmatch(r"\d+;-?\d+", problem.detail) or not problem.offset:
        return ""
    (run, gap), size = map(int, problem.detail.split(";")), item_of(found.raw.code, problem)
    if run < problem.offset or 0 <= gap < arrays[0].size - problem.offset or problem.offset % size:
        return ""
    here, last = problem.offset // size, arrays[0].size // size - 1
    return (
        f" So far {problem.array}[0] to {problem.array}[{here - 1}] are written, and none of the {last + 1 - here} "
        "after them: are too few written, are too many read, or do the lines that write and that read count in "
        "different ways?"
    )


def _only_where(found) -> str:
    """A sentence if all lines that give the array its first numbers stand in conditions, which kept a thread away."""
    (name, writes), text = _stores(found), statements(found.raw.code)
    if _all_write_alike(found):
        return ""
    told = [condition_around(text, line, found.line) for line in writes]
    if not told or not all(told):
        return ""
    return f" Line {writes[0]} writes {name} only where `{told[0]}`."


def _all_write_alike(found) -> bool:
    """Does each thread of the block write to shared memory equally often, so that no condition keeps one away?"""
    writes = _writes(found)
    if writes is None:
        return False
    _, often = np.unique(writes["thread"], return_counts=True)
    return len(often) == prod(found.raw.block) and len(set(often.tolist())) == 1


def _stores(found) -> tuple[str, list[int]]:
    """The shared array that is read, and the lines of the same function that write it with `=`; ("", []) if unknown."""
    text = statements(found.raw.code)
    read = text.splitlines()[found.line - 1] if found.line else ""
    names = {name for name in re.findall(r"(\w+)\s*\[", read) if re.search(rf"__shared__[^;]*\b{name}\s*\[", text)}
    name = found.problem.array or (names.pop() if len(names) == 1 else "")
    if not name or not found.line:
        return "", []
    here, at = function_around(text.splitlines(), found.line)
    before = found.line - here.count("\n", 0, at) - 1  # lines before that function
    return name, [before + line_at(here, match.start()) for match in re.finditer(STORES.format(name), here)]


def _padding(found) -> str:
    """A sentence if one element after several written ones is empty, and the next one is written again."""
    problem = found.problem
    hole = re.fullmatch(r"(\d+);(\d+)", problem.detail)
    size = item_of(found.raw.code, problem)
    if not hole or not problem.array or size != problem.size or problem.offset % size:
        return ""
    run, gap = map(int, hole.groups())
    here = problem.offset // size
    if run < LEAST * size or gap != size:
        return ""
    name = problem.array
    return (
        f" So far {name}[{here - run // size}] to {name}[{here - 1}] and {name}[{here + 1}] are written, "
        f"but {name}[{here}] between them is not: is it the padding at the end of a row? Then the lines that "
        "write and that read count rows of different lengths."
    )
