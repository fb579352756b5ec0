"""The records that Python and the runtime both read, field by field as in runtime/records.h.

`agreement` says so to the C++ compiler: static_asserts that are compiled with the runtime. A field that lies elsewhere
in C++ than here, or a kind of problem that only one side knows, stops the emulator before its first launch, and the
message names it.
"""

from ctypes import Structure, c_char, c_int32, c_int64, c_uint32, c_uint64, c_void_p, sizeof

from llmc.cuda.emulator.findings.kinds import KINDS

SPACES = ("", "global", "shared")
CONSTANTS = {
    **{"READS": 0, "WRITES": 1, "UPDATES": 2},  # what an access does to its place
    **{"TOO_LONG": 2, "BY_USER": 3},  # why a launch ends early
    "NOBODY": 0xFFFFFFFF,  # in place of a thread or a block
    **{"NO_ARGUMENT": -1, "STATIC_SHARED": -2},  # in place of an argument's index
    "MOST_ARRAYS": 64,  # of a checked launch
    "MOST_TRACED": 1 << 16,  # accesses; a launch with more of them has no trace
}


def fields(kind, names):
    """[("line", c_int32), …] for the names in a text."""
    return [(name, kind) for name in names.split()]


class Options(Structure):
    """A launch."""

    _fields_ = [
        *fields(c_void_p, "entry arguments anchor"),
        *fields(c_uint32 * 3, "grid block"),
        *fields(c_uint64, "shared"),  # bytes of dynamic shared memory
        *fields(c_int32, "checked measured workers first"),  # first: end at the first problem
    ]


class Problem(Structure):
    """What went wrong at one place in the code, or at a pair of places; blocks and threads are linear."""

    _fields_ = [
        *fields(c_int32, "kind space argument line line2 write write2 size"),
        *fields(c_int64, "pc pc2 offset count"),
        *fields(c_uint32, "block thread block2 thread2 lanes absent"),
        *fields(c_char * 88, "detail"),
    ]


class Counted(Structure):
    """All that one load or store instruction did."""

    _fields_ = [
        *fields(c_int64, "pc requests lanes sectors passes ideal worst"),
        *fields(c_int32, "space argument size write atomic"),
    ]


class Traced(Structure):
    """One access."""

    _fields_ = [
        *fields(c_int64, "pc offset"),
        *fields(c_uint32, "block thread"),
        *fields(c_int32, "argument size write space"),
    ]


class Span(Structure):
    """Where an array lies, and how many elements it has."""

    _fields_ = [*fields(c_void_p, "data"), *fields(c_uint64, "size")]


class Outcome(Structure):
    """What a launch leaves behind, readable until it is released."""

    _fields_ = [
        *fields(c_uint64, "barriers shuffles blocks_run lost_threads unprinted"),
        *fields(Span, "problems counts trace printed excused"),
    ]


RECORDS = (Options, Problem, Counted, Traced, Span, Outcome)
HEAD = '#include "kinds.h"\n#include "records.h"\n#include <cstddef>\n#include <type_traits>\n'


def agreement() -> str:
    """C++ that does not compile unless runtime/records.h and runtime/kinds.h say the same as Python."""
    facts = [fact for record in RECORDS for fact in _layout(record)]
    facts += [(name, f"{name} == {value}") for name, value in CONSTANTS.items()]
    facts += [(space.upper(), f"{space.upper()} == {i}") for i, space in enumerate(SPACES) if space]
    facts += [(kind.in_cpp, f"{kind.in_cpp} == {i}") for i, kind in enumerate(KINDS)]
    facts += [("the number of kinds", f"NUMBER_OF_KINDS == {len(KINDS)}")]
    asserts = (f'static_assert({fact}, "Python and C++ disagree about {what}");\n' for what, fact in facts)
    return HEAD + "".join(asserts)


def _layout(record):
    """(name, what must hold in C++) of a record and of each of its fields."""
    name = record.__name__
    yield name, f"sizeof({name}) == {sizeof(record)}"
    for field, kind in record._fields_:
        place = f"offsetof({name}, {field}) == {getattr(record, field).offset}"
        yield f"{name}.{field}", f"std::is_same_v<decltype({name}::{field}), {_in_cpp(kind)}> && {place}"


def _in_cpp(kind) -> str:
    """What C++ calls a type: "uint32_t[3]" for c_uint32 * 3."""
    if issubclass(kind, Structure):
        return kind.__name__
    if hasattr(kind, "_length_"):
        return f"{_in_cpp(kind._type_)}[{kind._length_}]"
    if kind in (c_char, c_void_p):
        return {c_char: "char", c_void_p: "void*"}[kind]
    return f"{'u' * kind._type_.isupper()}int{8 * sizeof(kind)}_t"
