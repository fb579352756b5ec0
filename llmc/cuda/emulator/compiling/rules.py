"""What CUDA forbids and the host's compiler does not mind: found in the text, so that a kernel that runs here runs on a
GPU too.
"""

import re

from llmc.cuda.emulator.compiling.refusals import is_suspicious
from llmc.cuda.emulator.compiling.source import bare_name, kernels
from llmc.cuda.emulator.compiling.text import enclosing, is_scope, line_at, mask, without_directives
from llmc.cuda.emulator.compiling.units import WORD, reached, units
from llmc.errors import KernelError

STATEMENTS = re.compile(r"\(\s*\{[^{}]*;")  # in an expression: int n = ({ int k = 1; k + 1; });
SHARED_VALUE = re.compile(r"\b__shared__\b[^;{}()=]*=")
ON_A_GPU = {"__device__", "__global__", "constexpr"}
OF_BOTH = "expect unreachable assume bit_cast isnan LINE FILE FUNCTION offsetof addressof launder is_constant_evaluated"
OF_THE_HOST = {  # what CUDA's compiler does not know: what to write instead
    r"thread_local": "a local variable is each thread's own",
    r"__u?int128(?:_t)?": "keep the number in two 64-bit ones",
    r"__typeof__|typeof": "write `auto`, or `decltype(x)`",
    r"register": "leave the word out",
    r"_Float16|__fp16": "write `__half` from <cuda_fp16.h>",
    rf"__builtin_(?!(?:{OF_BOTH.replace(' ', '|')})\b)\w+": "write CUDA's own function, such as __popc or fabsf",
    r"__(?:FLT|DBL|INT|LONG|LONG_LONG|SCHAR|SHRT)_\w+__": "write FLT_MAX, INT_MAX and the like",
}


def check_rules(code: str, names, options=()):
    """Raise KernelError for the first of: a shared array with a value, a kernel called like a function, a kernel that
    calls a function without `__device__`.
    """
    text = without_directives(mask(code))
    _no_value_in_shared_memory(text)
    if match := STATEMENTS.search(text):
        raise _wrong(text, match.start(), "CUDA's compiler does not know `({ … })`; write a `__device__` function")
    for words, instead in OF_THE_HOST.items():
        if match := re.search(rf"\b(?:{words})\b", text):
            raise _wrong(text, match.start(), f"CUDA's compiler does not know {match.group()}; {instead}")
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
            "a __shared__ variable cannot have an initial value; let threads write it, then `__syncthreads();`",
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
    hosts, pieces = host_functions(code), units(text)
    for i in sorted(set().union(*(reached(pieces, WORD.findall(name)) for name in names))):
        if pieces[i] in hosts:
            name = next(iter(pieces[i].names))
            raise _wrong(
                text,
                pieces[i].start,
                f"{name} is a host function, because it lacks `__device__`; write `__device__` in front of it",
            )


def host_functions(code: str) -> list:
    """The units of the text that are functions, but not a GPU's; a macro may say what it likes."""
    text = without_directives(mask(code))
    pieces, found = units(text), []
    defined = set(re.findall(r"^[ \t]*#[ \t]*define\s+(\w+)", code, re.MULTILINE))
    for unit in pieces:
        head = text[unit.start : text.find("{", unit.start)]
        words = set(WORD.findall(head))
        if unit.function and "(" in head and "=" not in head.split("(")[0] and not words & (ON_A_GPU | defined):
            if not any(each.names == unit.names and ON_A_GPU & each.uses for each in pieces):
                found.append(unit)
    return found
