"""What CUDA forbids and the host's compiler does not mind: found in the text, so that a kernel that runs here runs on a
GPU too.
"""

import re

from llmc.cuda.emulator.compiling.refusals import is_suspicious
from llmc.cuda.emulator.compiling.source import bare_name, kernels
from llmc.cuda.emulator.compiling.text import enclosing, is_scope, line_at, mask, without_directives
from llmc.cuda.emulator.compiling.units import WORD, reached, units
from llmc.errors import KernelError

SHARED_VALUE = re.compile(r"\b__shared__\b[^;{}()=]*=")
ON_A_GPU = {"__device__", "__global__", "constexpr"}


def check_rules(code: str, names, options=()):
    """Raise KernelError for the first of: a shared array with a value, a kernel called like a function, a kernel that
    calls a function without `__device__`.
    """
    text = without_directives(mask(code))
    _no_value_in_shared_memory(text)
    if is_suspicious(code):  # with functions of the host, which may call anything
        return
    _no_call_of_a_kernel(code, text)
    if not any("default-device" in str(each) or "device-as-default" in str(each) for each in options):
        _no_function_of_the_host(code, text, names)


def _wrong(text, position, what):
    line = line_at(text, position)
    return KernelError(f"line {line}: {what}.", line)


def _no_value_in_shared_memory(text):
    if match := SHARED_VALUE.search(text):
        raise _wrong(
            text,
            match.start(),
            "a __shared__ variable cannot begin with a value; let threads write it, then `__syncthreads();`",
        )


def _no_call_of_a_kernel(code, text):
    for name in {bare_name(each.name) for each in kernels(code)}:
        for match in re.finditer(rf"(?<![.>:\w]){name}\s*(?:<(?!<)(?:(?!<<<)[^;(){{}}])*>)?\s*\(", text):
            before = text[: match.start()].rstrip()
            in_body = not all(is_scope(head) for head in enclosing(text, match.start()))
            if in_body and before[-1:] in ";{})=,(":
                raise _wrong(
                    text,
                    match.start(),
                    f"{name} is a kernel, which is launched from Python and not called; make what both need a "
                    "`__device__` function",
                )


def _no_function_of_the_host(code, text, names):
    pieces = units(text)
    defined = set(re.findall(r"^[ \t]*#[ \t]*define\s+(\w+)", code, re.MULTILINE))
    for i in sorted(set().union(*(reached(pieces, WORD.findall(name)) for name in names))):
        unit = pieces[i]
        head = text[unit.start : text.find("{", unit.start)]
        words = set(WORD.findall(head))
        if unit.function and "(" in head and "=" not in head.split("(")[0] and not words & (ON_A_GPU | defined):
            declared = any(each.names == unit.names and ON_A_GPU & each.uses for each in pieces)
            if not declared:
                name = next(iter(unit.names))
                raise _wrong(
                    text,
                    unit.start,
                    f"{name} is a function of the host, for it lacks `__device__`; write `__device__` in front of it",
                )
