"""What to do about a read of what nothing has written yet: advice from a Finding."""

import re

from llmc.cuda.emulator.findings.absences import exits

BULK = re.compile(r"cp[._]async[._]bulk")
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
        left = [exit for exit in exits(found.raw.code, found.line) if exit[1] != "continue"]
        gone = (
            " Do threads leave by the `{1}` on line {0} before they have written theirs?".format(*left[0])
            if left
            else ""
        )
        return (
            "Shared memory starts with whatever was there before: fill every element that will be read, with a neutral "
            f"value (0 for a sum) where there is no data, then `__syncthreads();`, then read."
            f"{_padding(found) or gone or _beginning(found) or ' Or does the index go too far?'}"
        )
    return (
        "An output starts with whatever was there before: write it with `=` before the first `+=` or read, or fill the "
        "array before the launch if the kernel is meant to add to it."
    )


def _beginning(found) -> str:
    """A sentence if all of a shared array in front of the place is written, and nothing from there on."""
    problem = found.problem
    arrays = [one for one in found.raw.shared_arrays if one.name == problem.array]
    if len(arrays) != 1 or not re.fullmatch(r"\d+;-?\d+", problem.detail) or not problem.offset:
        return ""
    (run, gap), size = map(int, problem.detail.split(";")), problem.size
    if run < problem.offset or 0 <= gap < arrays[0].size - problem.offset or problem.offset % size:
        return ""
    here, last = problem.offset // size, arrays[0].size // size - 1
    return (
        f" So far {problem.array}[0] to {problem.array}[{here - 1}] are written, and none of the {last + 1 - here} "
        "behind them: are too few written, or do the lines that write and that read count in different ways?"
    )


def _padding(found) -> str:
    """A sentence if one element behind several written ones is empty, and the next one is written again."""
    problem = found.problem
    hole = re.fullmatch(r"(\d+);(\d+)", problem.detail)
    if not hole or not problem.array or problem.offset % problem.size:
        return ""
    run, gap = map(int, hole.groups())
    size, here = problem.size, problem.offset // problem.size
    if run < LEAST * size or gap != size:
        return ""
    name = problem.array
    return (
        f" So far {name}[{here - run // size}] to {name}[{here - 1}] and {name}[{here + 1}] are written, "
        f"{name}[{here}] between them is not: is it the padding behind a row? Then the lines that write and that read "
        "count rows of different lengths."
    )
