"""What probably caused a problem and what to write instead: advice that depends on the problem, from a Finding.

Advice that is always the same is in the table itself, kinds.py.
"""

import re

import numpy as np

from llmc.cuda.emulator.compiling.text import statements
from llmc.cuda.emulator.findings.fixed_arrays import too_large
from llmc.cuda.emulator.findings.guards import check_above, moved_on, names_in_index, one_too_many
from llmc.cuda.emulator.findings.index import values_of, worked_out_index
from llmc.cuda.emulator.findings.limits import what_limits
from llmc.cuda.emulator.findings.loops import left_by
from llmc.cuda.emulator.findings.places import source_line
from llmc.cuda.emulator.findings.sentences import LOCAL_ARRAY
from llmc.cuda.emulator.findings.values import worked_out
from llmc.cuda.emulator.findings.vectors import begins_outside, counts_in_vectors, made_by_division

DYNAMIC = "pass enough bytes as `shared_mem` at the launch"
BELOW = "or check that the index stays below the length of the array"
FEWEST = 8  # indices, of as many threads, that show by how much they go on
OR_WRONG = (
    "Either threads with nothing to do come here, and a check such as `if (i < n)` must keep them away, or the index "
    "itself is wrong."
)
WRONG = "The very first thread comes here, so it is the index that is wrong, or the loop around it goes too far."


def out_of_bounds(found) -> str:
    """By where the access lies: before the array, past shared memory, half outside, or simply too far."""
    array, problem = found.array, found.problem
    if problem.offset < 0:
        return (
            "The index is negative: either the first threads have no neighbour before them, and a check such as "
            f"`if (i > 0)` must keep them away, or a subtraction goes too far.{_values(found)}"
        )
    if problem.space == "shared" and array is None:
        larger = DYNAMIC if re.search(r"\bextern\s+__shared__", found.raw.code) else "make the array larger"
        return f"The block's shared memory ends before this place: {larger}, {BELOW}.{_values(found)}"
    if array is not None and problem.size > array.itemsize and _counts_numbers(found):
        return _counted_in_vectors(found)
    if array is not None and problem.size > array.itemsize and problem.offset < array.nbytes:
        return (
            "The vector reaches past the end: use it only where all of its elements lie inside, and read or write the "
            "rest one by one."
        )
    return _about_the_check(found)


def crash(found) -> str:
    """By whether the kernel ended itself."""
    if found.problem.detail == "__trap()":
        return "It marks a place that should never be reached: print the values that lead there with printf."
    if found.problem.detail == LOCAL_ARRAY:
        return (
            "The last index of an array of n elements is n - 1: check the bounds of loops over local arrays, and what "
            "is added to pointers into them."
        )
    return "A pointer probably points nowhere: look at casts, and at pointers kept in variables."


def runaway(found) -> str:
    """By whether blocks came and went until the end."""
    if found.problem.detail:
        return (
            "Nothing hangs, but it is too much work for the emulator: check how the size of the grid is computed, try "
            "smaller arrays, or set LLMC_EMULATOR_SECONDS to a larger number."
        )
    return (
        "Look for a loop that never ends: a step of 0 (an unsigned or halved stride), a condition that the loop never "
        "changes, or a wait for a value that no other thread writes."
    )


def integer_overflow(found) -> str:
    """By what was computed."""
    if found.problem.detail.startswith("quotient"):
        return "The smallest integer has no positive counterpart: exclude it, or a divisor of -1, before you divide."
    return (
        "An int ends at 2,147,483,647: compute large indices in size_t or long long by converting the first factor, as "
        "in `(size_t)row * columns`."
    )


def shift(found) -> str:
    """What C++, this processor and a GPU make of it."""
    by, bits = map(int, (re.findall(r"-?\d+", found.problem.detail) + [32, 32])[:2])  # "32 32 'unsigned int'"
    if re.search(r"(?:<<|>>)\s*\w+\s*[-+]", found.quoted):
        return "C++ adds before it shifts: `a << 16 + b` is `a << (16 + b)`. Write `(a << 16) + b` if that is meant."
    here = f"the processor here shifts by {by % bits}, while a GPU shifts all bits out"
    return f"C++ leaves the result undefined: {here}. Treat this case by itself, as in `n < {bits} ? x << n : 0`."


def conversion(found) -> str:
    """What a GPU makes of it, and how to get the same here."""
    a_gpu = (
        "a GPU takes the nearest integer that fits, and 0 for NaN (64 bits, or from double: only the highest bit set)"
    )
    if found.problem.kind == "saturated":
        return f"C++ leaves the result undefined; {a_gpu}, and for a cast the emulator does the same."
    return f"C++ leaves the result undefined; {a_gpu}. Write the cast, `(int)x`, and the emulator does the same."


def bounds(found) -> str:
    """By the loop or check around the index."""
    numbers = re.search(r"(-?\d+).*?\[(\d+)\]", found.problem.detail)
    if numbers and numbers[1] == numbers[2] and (line := one_too_many(found, int(numbers[2]))):
        return f"The check on line {line} lets one too many through: the last index is the length minus 1."
    if said := numbers and too_large(found, *map(int, numbers.groups())):
        return said
    return (
        "The last index of an array of n elements is n - 1: is the array large enough, and are the bound of the loop "
        f"and the order of the indices right?{_values(found)}"
    )


def _about_the_check(found) -> str:
    """The index is too large: is there no check, does it let one too many through, or is something else wrong?"""
    at_the_end = found.array is not None and found.problem.offset == found.array.nbytes
    if at_the_end and (line := one_too_many(found, found.array.size)):
        return f"The check on line {line} lets one too many through: the last index is the length minus 1."
    line, name = left_by(found.raw.code, found.line, _names(found)) if found.line else (0, "")
    if line:
        return (
            f"After the loop on line {line}, `{name}` is the first number for which it no longer runs.{_values(found)}"
        )
    if (there := check_above(found)) and found.array is not None and counts_in_vectors(found):
        return _index_of_a_vector(found, there)
    index = worked_out_index(found)
    said = what_limits(found, index)
    return f"{said or (WRONG if _is_the_first(found) else OR_WRONG)}{_values(found, index)}"


def _is_the_first(found) -> bool:
    """Is it the very first thread of the grid, which hardly ever has nothing to do?"""
    return not any(found.problem.thread or (1,)) and not any(found.problem.block or (1,))


def _names(found) -> set:
    """The names in the index."""
    return names_in_index(statements(found.raw.code).splitlines()[found.line - 1])


def _values(found, index=None) -> str:
    """What the index is made of, where that is known, and where the array's pointer was moved."""
    values = values_of(index) if index else worked_out(found)
    numbers = moved_on(found) if index is None or index.moved else []
    lines = " and ".join(f"line {number}, `{source_line(found.raw.code, number)}`" for number in numbers)
    moved = f" {found.name} has been moved by {lines}" if numbers else ""
    return (f" This thread has {values}." if values else "") + moved


def _index_of_a_vector(found, check) -> str:
    """Does it count single elements? If it, or its bound, contains a division by the vector's length, something else
    is wrong."""
    many, index, elements = _vector(found)
    means = f"This pointer counts vectors of {many}: index {index} means {elements}"
    if made_by_division(found, many, check):
        vectors = f"{found.name} has {found.array.size // many} vectors"
        if beyond := begins_outside(found, many):
            return f"{means}, and {vectors}. {beyond}"
        return f"{means}, and {vectors}. Which part of the index is too large?{_values(found)}"
    if _in_steps(found, many):
        return (
            f"{means}. All of its indices here are multiples of {many}, so they count single elements: divide by "
            f"{many} what indexes pointers to vectors, and leave the bound on line {check.line} as it is."
        )
    return f"{means}. Divide by {many} whatever counts single elements, the index or the bound on line {check.line}."


def _in_steps(found, many) -> bool:
    """Were all indices of the vectors that several threads have accessed here multiples of their length?"""
    trace = found.raw.trace
    if trace is None:
        return False
    here = trace[trace["pc"] == found.problem.pc]
    several = len(np.unique(here["offset"])) >= FEWEST and len(np.unique(here["thread"])) >= FEWEST
    return several and not (here["offset"] % (many * found.problem.size)).any()


def _vector(found) -> tuple[int, int, str]:
    """For a vector's access: (its length, its index, "elements 16 to 19")."""
    many, index = found.problem.size // found.array.itemsize, found.problem.offset // found.problem.size
    return many, index, f"elements {index * many} to {index * many + many - 1}"


def _counts_numbers(found) -> bool:
    """Is a vector pointer indexed by the number of the thread's first element, many · thread, not the thread's?"""
    many, index, _ = _vector(found)
    thread = found.problem.block[0] * found.raw.block[0] + found.problem.thread[0]
    return thread > 0 and index == many * thread and counts_in_vectors(found)


def _counted_in_vectors(found) -> str:
    many, index, elements = _vector(found)
    return (
        f"This pointer counts vectors of {many}: index {index} means {elements}, and this thread has elements {index} "
        f"to {index + many - 1}. Divide the index by {many}, or add it before the cast."
    )


def misaligned(found) -> str:
    """By whether one element or a vector was accessed."""
    size = found.problem.size
    if found.array is not None and size <= found.array.itemsize:
        return (
            "The pointer was moved by a number of bytes: count in elements of the array's own type instead, without "
            "casts."
        )
    return (
        f"An access of {size} bytes must start at a multiple of {size}: use indices that are multiples of the vector's "
        "length, and plain loads where a row does not start at one."
    )
