"""Advice on a pointer that leads to no array of the launch."""

import re

import numpy as np

from llmc.cuda.emulator.findings.places import source_line

USUAL = (
    "The pointer is null, was never set, or was moved far outside its array: look at how it is computed, above all at "
    "the factors of the index."
)
SHARED = (
    "This instruction takes an address in shared memory, which a pointer is not: pass "
    "`(unsigned)__cvta_generic_to_shared(p)`."
)
REACH = 1 << 32  # bytes behind an address that still belong to it
FIRST = 1 << 16  # no array begins below
MOST = 1 << 20  # bytes of an argument that are searched


def invalid_pointer(found) -> str:
    """Whether the address came with a structure or an array of addresses, which a checked launch does not follow; or is
    no address in shared memory where PTX takes one.
    """
    line = source_line(found.raw.code, found.line)
    if re.search(r"\basm\b.*\.shared", line) and "__cvta_generic_to_shared" not in line:
        return SHARED
    for argument in found.raw.arguments:
        if _holds(argument, found.problem.offset):
            return (
                f"The address stands in {argument.name}. A checked launch knows only arrays that are arguments "
                "themselves: pass that array as one, or launch the kernel with check=False, where an array's own "
                "address (x.ctypes.data) may be followed."
            )
    return _of_null(found) or USUAL


def _of_null(found) -> str:
    """A sentence if the address is hardly more than 0, and the line names the one argument that is null; else ""."""
    null = [each.name for each in found.raw.arguments if each.array is None and each.packed is None]
    if len(null) != 1 or not 0 <= found.problem.offset < FIRST or not re.search(rf"\b{null[0]}\b", found.quoted):
        return ""
    return f"`{null[0]}` is null in this launch. Where that is allowed, test it before you use it: `if ({null[0]})`."


def _holds(argument, address) -> bool:
    """Whether one of the argument's 8-byte words is this address, or lies a little before it."""
    if argument.array is not None and argument.array.nbytes <= MOST:
        data = argument.array.tobytes()
    else:
        data = argument.packed or b""
    words = np.frombuffer(data[: len(data) // 8 * 8], np.uint64)
    words = words[words >= FIRST]
    return bool(((words <= address) & (address - words < REACH)).any()) if address >= FIRST else False
