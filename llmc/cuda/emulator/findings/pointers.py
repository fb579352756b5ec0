"""Advice on a pointer that leads to no array of the launch."""

import re

from llmc.cuda.emulator.findings.places import source_line

USUAL = (
    "The pointer is null, was never set, was moved far outside its array, or leads to another thread's variable: look "
    "at how it is computed, above all at the factors of the index."
)
SHARED = (
    "This instruction takes an address in shared memory, which a pointer is not: pass "
    "`(unsigned)__cvta_generic_to_shared(p)`."
)
FIRST = 1 << 16  # no array begins below
REACH = 1 << 32  # bytes after an address that still belong to it


def invalid_pointer(found) -> str:
    """Whether the address came with a struct or an array of addresses, and no variable holds an array there; or is no
    address in shared memory where PTX takes one.
    """
    line = source_line(found.raw.code, found.line)
    if re.search(r"\basm\b.*\.shared", line) and "__cvta_generic_to_shared" not in line:
        return SHARED
    for argument in found.raw.arguments:
        if _holds(argument, found.problem.offset):
            return (
                f"The address is in {argument.name}, but no variable of the functions that are running holds an "
                "array at that place: keep the array in a variable until the launch, and take x.ctypes.data."
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
    words = argument.words()
    return bool(((words <= address) & (address - words < REACH)).any()) if address >= FIRST else False
