"""What happened: the first sentence about each kind of problem, from a Finding, without its full stop."""

import math
import re

import numpy as np

from llmc.cuda.emulator.findings import hopper
from llmc.cuda.emulator.findings.places import extent, lane_list, plural

LOCAL_ARRAY = "local array"  # the detail of a crash that __stack_chk_fail in llmc_words.h tells of


def said(words):
    """A sentence that is the same wherever the problem happens: "in `x = y;`, the kernel crashed"."""
    return lambda found: f"{found.within}{words}{_in_brackets(found)}"


def crash(found) -> str:
    """ "in `x = y;`, the kernel crashed"; "`__trap();` was reached, which ends the kernel"; …"""
    if found.problem.detail == "__trap()":
        return f"{found.quoted or '`__trap()` '}was reached, which ends the kernel"
    if found.problem.detail == LOCAL_ARRAY:
        return "something was written past the end of a local array"
    return said("the kernel crashed")(found)


def missing_return(found) -> str:
    """ "the function `__device__ float f(float x) {` came to its end without a `return`"."""
    return f"the function {found.quoted}came to its end without a `return`"


def runaway(found) -> str:
    """ "the kernel was still running when its time was up", and how many blocks had run if there is more than one."""
    done, blocks = found.raw.blocks_run, math.prod(found.raw.grid)
    if found.problem.detail:
        return f"only {done:,} of the grid's {blocks:,} blocks had run when the time was up"
    before = f", after {done:,} of its {blocks:,} blocks" if blocks > 1 else ""
    return f"{found.within}the kernel was still running when its time was up{before}"


def _in_brackets(found) -> str:
    return f" ({found.problem.detail})" if found.problem.detail else ""


# ------------------------------------------------------------------------------------------------ one access


def out_of_bounds(found) -> str:
    """ "`out[i] = x;` writes out[1024], but out has 1024 elements (0 to 1023)"."""
    if found.array is not None:
        ends = extent(found.name, found.array) + _in_a_larger(found.array, found.problem.offset)
        return f"{found.quoted}{found.verb} {found.place}, but {ends}"
    side = "before its start" if found.problem.offset < 0 else "past its end"
    return f"{found.quoted}{found.verb} {found.place or 'memory'}, which lies {side}"


def _in_a_larger(array, offset) -> str:
    """What holds the place in question where the array is a part of a larger one, which a GPU would go on in; or ""."""
    whole = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    inside = 0 <= array.ctypes.data + offset - whole.ctypes.data < whole.nbytes
    elements = plural(whole.size, "element")
    return f" and is part of an array of {elements}: a GPU would take one of those" if inside else ""


def invalid_pointer(found) -> str:
    """ "`out[i] = *p;` reads 4 bytes at an address outside every array of this launch"."""
    size = plural(found.problem.size, "byte")
    return f"{found.quoted}{found.verb} {size} at an address outside every array of this launch"


def misaligned(found) -> str:
    """ "`float4 v = p[i];` reads 16 bytes of x, elements 1 to 4, at an address that is not a multiple of 16 bytes"."""
    size = plural(found.problem.size, "byte")
    return f"{found.quoted}{found.verb} {found.place}, at an address that is not a multiple of {size}"


def uninitialised(found) -> str:
    """ "`s[t] += 1;` reads s[3], which nothing has written yet"."""
    return f"{found.quoted}reads {found.place}, which nothing has written yet"


def never_written(found) -> str:
    """ "nothing writes out[1000] or 23 other elements of out: elements 1000 to 1023"."""
    name = "an output" if found.array is None else found.name
    others = found.problem.count - 1
    more = f" or {plural(others, 'other element')} of {name}" if others > 0 else ""
    part = f": {found.problem.detail}" if found.problem.detail else ""
    return f"nothing writes {found.place or name}{more}{part}"


# ------------------------------------------------------------------------------------------------ two threads


def race(found) -> str:
    """ "`s[t] = x;` writes s[0], `y = s[0];` reads it, and nothing makes one wait for the other"."""
    where = found.place or "the same memory"
    order = "and nothing makes one wait for the other"
    if found.line == found.line2:
        verbs = dict.fromkeys(verb[:-1] for verb in sorted((found.verb, found.verb2), reverse=True))
        return f"{found.within}two threads {' and '.join(verbs)} {where}, {order}"
    first, second = found.quoted or "one thread ", found.quoted2 or "another thread "
    return f"{first}{found.verb} {where}, {second}{found.verb2} it, {order}"


def copy_race(found) -> str:
    """ "`y = s[0];` reads s[0] before the asynchronous copy of line 4 has been waited for: `…`", or what wrote."""
    if found.problem.write:
        who = "another one into the same place" if found.line == found.line2 else found.quoted2.strip()
        copy = f"{found.within}an asynchronous copy into {found.place}"
        return f"{copy} was still under way when {who or 'another line'} wrote it"
    copy = f"the asynchronous copy of line {found.line2}" if found.line2 else "an asynchronous copy"
    if found.line == found.line2:
        return f"{found.within}a thread reads {found.place} before an asynchronous copy has been waited for"
    return f"{found.quoted}reads {found.place} before {copy} has been waited for"


def barrier_divergence(found) -> str:
    """ "16 of the block's 64 threads never reach `__syncthreads();`"."""
    return f"{_some_threads(found)} never reach {found.quoted.rstrip() or 'a barrier'}{_others(found)}"


def early_return(found) -> str:
    """ "12 of the block's 64 threads returned before the barrier `__syncthreads();`"."""
    return f"{_some_threads(found)} returned before the barrier {found.quoted}".rstrip()


def different_barriers(found) -> str:
    """ "some threads of the block wait at `__syncthreads();` and others at line 9: `__syncthreads();`"."""
    there = f"line {found.line2}: {found.quoted2.rstrip()}" if found.line2 else "another one"
    return f"some threads of the block wait at {found.quoted or 'a barrier '}and others at {there}"


def deadlock(found) -> str:
    """ "`__syncwarp();` waits for lanes 0 to 31 of a warp, but not all of them come; some wait at line 9: …"."""
    lanes = found.problem.lanes
    if found.problem.detail.startswith(("arrivals", "bytes")):
        return hopper.stuck_barrier(found)
    if found.problem.detail:  # a barrier with a number and a count
        return f"{found.quoted or 'the kernel '}waits for {found.problem.detail}"
    if not lanes and found.problem.pc and not found.problem.line:
        return f"{found.quoted or 'the kernel '}waits for what no thread of this block or an earlier one will write"
    group = f"{lane_list(lanes)} of a warp" if lanes else "threads of the block"
    return f"{found.quoted or 'the kernel '}waits for {group}, but not all of them come{_others(found)}"


def inactive_lane(found) -> str:
    """ "`v = __shfl_sync(mask, v, 20);` reads from lane 20, which does not take part"."""
    problem, call = found.problem, found.quoted or "a warp function "
    mask = f"{lane_list(problem.lanes) or 'no lane'} (mask 0x{problem.lanes:08x})"
    if problem.detail == "read from an absent lane":
        return f"{call}reads from {lane_list(problem.lanes)}, which does not take part"
    if problem.detail == "mask without the caller":
        return f"{call}names {mask} but is called by another lane"
    if problem.detail == "lanes met in different calls":
        there = found.quoted2.rstrip() or "another call"
        return f"{call}names {mask}, but some of them were at another call then, line {found.line2}: {there}"
    if problem.detail == "warp is not full":
        return f"{call}takes all 32 lanes of a warp, but the block's last warp has fewer threads"
    if problem.detail == "another instruction":
        there = f"line {found.line2}: {found.quoted2.rstrip()}" if found.line2 else "another one"
        return (
            f"{call}is executed by some lanes of a warp while others execute {there}; all 32 must execute the same one"
        )
    if problem.detail == "lane ended without it":
        return f"{call}names {mask}, but one of them ended without taking part"
    return f"{call}names or reads a lane that does not take part{_in_brackets(found)}"


def _some_threads(found) -> str:
    """ "16 of the block's 64 threads"."""
    x, y, z = found.raw.block
    return f"{found.problem.absent or 'some'} of the block's {plural(x * y * z, 'thread')}"


def _others(found) -> str:
    return f"; some wait at line {found.line2}: {found.quoted2.rstrip()}" if found.line2 else ""


# ------------------------------------------------------------------------------------------------ values


def uninitialised_local(found) -> str:
    """ "`out[t] = sum;` may use sum, declared on line 9, before it has a value"."""
    verb, _, variable = (found.problem.detail or "uses a variable").rpartition(" ")
    declared = f", declared on line {found.line2}," if found.line2 not in (0, found.line) else ""
    return f"{found.quoted or 'the kernel '}{verb} {variable}{declared} before it has a value"


def bounds(found) -> str:
    """ "`tile[r][33] = x;` uses index 33 in an array of 32 elements (0 to 31)"."""
    numbers = re.search(r"(-?\d+).*?\[(\d+)\]", found.problem.detail)  # "33 'float [32]'"
    if not numbers:
        return f"{found.within}an index lies outside its array{_in_brackets(found)}"
    index, length = map(int, numbers.groups())
    elements = f"{plural(length, 'element')} (0 to {length - 1})"
    return f"{found.quoted or 'an access '}uses index {index} in an array of {elements}"


def division_by_zero(found) -> str:
    """ "`int i = a / n;` divides an integer by zero"."""
    or_else = f", {found.problem.detail}" if found.problem.detail else ""
    return f"{found.quoted or 'the kernel '}divides an integer by zero{or_else}"


def integer_overflow(found) -> str:
    """ "in `int i = row * columns;`, the product does not fit in the type `int`"."""
    operation, _, type_name = found.problem.detail.partition(" of ")  # "sum of 'int'"
    fits = f"the type `{type_name.strip(chr(39))}`" if type_name else "its integer type"
    return f"{found.within}the {operation or 'result'} does not fit in {fits}"


def shift(found) -> str:
    """ "in `m = (1u << n) - 1;`, 32 is not a valid distance for a shift of 32 bits"."""
    by, _, rest = found.problem.detail.partition(" ")  # "32 32 'unsigned int'"
    return f"{found.within}{by or 'this'} is not a valid distance for a shift of {rest.split(' ')[0] or 'so few'} bits"


def conversion(found) -> str:
    """ "in `int i = x;`, 3e+09 is not in the range of `int`"."""
    x, _, type_name = found.problem.detail.partition(" ")  # "3e+09 'int'"
    return f"{found.within}{x or 'a float'} is not in the range of `{type_name.strip(chr(39)) or 'int'}`"


def unsupported(found) -> str:
    """ "`grid.sync();` makes all blocks of the grid wait for each other"."""
    return f"{found.quoted or 'the kernel '}{found.problem.detail}"
