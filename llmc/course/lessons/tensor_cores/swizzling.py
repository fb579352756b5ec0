"""Lesson 19: where a learner's `place` keeps the groups of each line, and which of them its lanes ask for."""

import re

import numpy as np

from llmc.course.lessons.tensor_cores.places import SWIZZLED
from llmc.course.old.checks.explain import WrongAnswer
from llmc.course.old.kernel_checks import runs
from llmc.errors import KernelError

LINES, GROUPS = 64, 8
NAMED = re.compile(r"\bplace\s*\(\s*int\b")
ALL = f"""
extern "C" __global__ void llmc_all_places(int* out)
{{
    for (int i = 0; i < {LINES} * {GROUPS}; i++) out[i] = place(i / {GROUPS}, i % {GROUPS});
}}
"""
LOADS = re.compile(r"(__device__ void load_turned\([^;{}]*\brow\)\s*\{)")
LANES, CALLS = 128, 4  # of a block, and how often each calls load_turned
NOTES = f"""
__device__ int calls[{LANES}];
__device__ int taken[{LANES} * {CALLS}];
__device__ void note(const void* row)
{{
    int call = calls[threadIdx.x]++;
    if (call < {CALLS}) taken[threadIdx.x * {CALLS} + call] = *(const unsigned short*)row;
}}
"""


def inspect_place(code):
    """WrongAnswer unless `place`, if there is one, keeps the eight groups of each line at its eight places."""
    places = _places(code)
    if places is None:
        return
    outside = np.argwhere((places < 0) | (places >= GROUPS))
    if len(outside):
        line, group = outside[0]
        count = f"{len(outside)} of its {places.size} values are" if len(outside) > 1 else "This one value is"
        raise _wrong(
            f"place({line}, {group}) is {places[line, group]}, but a line has the places 0 to {GROUPS - 1}. "
            f"{count} outside."
        )
    for line, row in enumerate(places):
        for group in range(GROUPS):
            before = np.flatnonzero(row[:group] == row[group])
            if len(before):
                raise _wrong(
                    f"place({line}, {before[0]}) and place({line}, {group}) are both {row[group]}: two groups of a "
                    f"line are kept at one place, and the second overwrites the first. The groups 0 to {GROUPS - 1} of "
                    f"line {line} go to {', '.join(map(str, row))}."
                )


def _places(code):
    """(LINES, GROUPS) what `place` gives; None if there is none, or it does not run."""
    if not isinstance(code, str) or "#error" in code or not NAMED.search(code):
        return None
    places = np.zeros((LINES, GROUPS), np.int32)
    try:
        runs.emulate(code + ALL, "llmc_all_places", (1, 1, 1), (1, 1, 1), [places], outputs=(0,))
    except WrongAnswer:  # the launch of the whole kernel says why, with its line
        return None
    return places


def wrongly_taken(code) -> str | None:
    """A sentence about the first group that a lane asks for and should not; None if there is none, or it is unknown."""
    taken = _taken(code)
    if taken is None:
        return None
    warp, lane, call = np.ogrid[: LANES // 32, :32, :CALLS]
    square = 16 * warp + CALLS * call + lane // 8
    line, group = square // 8 * 8 + lane % 8, square % 8  # (4, 32, 4) each
    off = np.argwhere((taken // GROUPS != line) | (taken % GROUPS != group))
    if not len(off):
        return None
    at = tuple(min(off.tolist(), key=lambda found: (found[0], found[2], found[1])))  # in the order of the calls
    number, mine = int(square[at[0], at[1], at[2]]), divmod(int(taken[at]), GROUPS)
    wanted = int(line[at]), int(group[at])
    lines_right = bool((taken // GROUPS == line).all())
    rest = ". In all calls the line of the tile is right, and only the place in it is not" * lines_right
    places = _places(code) if lines_right else None
    known = "" if places is None else f": place{wanted} is {places[wanted]}, and place{mine} is {places[mine]}"
    return (
        f"in warp {at[0]}, call {at[2]} of load_turned, lane {at[1]} should say where line {wanted[0]}, group "
        f"{wanted[1]} is kept, for line {at[1] % 8} of square {number}. It takes the place of line {mine[0]}, group "
        f"{mine[1]}{known}{rest}"
    )


def _taken(code):
    """(warps, lanes, calls): 8 · line + group of what each lane asks for; None if that cannot be noted."""
    from llmc.cuda.emulator.modules import RawModule

    code, count = LOADS.subn(r"\1 note(row);", code)
    if count != 1:
        return None
    a, turned = np.zeros((LINES, 8 * GROUPS), np.uint16), np.zeros((8 * GROUPS, LINES), np.uint16)
    a[...] = np.repeat(np.arange(LINES * GROUPS).reshape(LINES, GROUPS), 8, axis=1)
    try:
        module = RawModule(code=NOTES + code, options=("-std=c++17",), check=False)
        calls = np.ndarray((LANES,), np.int32, module.get_global("calls"))
        taken = np.ndarray((LANES // 32, 32, CALLS), np.int32, module.get_global("taken"))
        calls[...] = 0  # the same text is one module
        with runs.patience(runs.SECONDS):
            module.get_function("swizzle")((1,), (LANES,), (turned, a, np.int32(LINES), np.int32(8 * GROUPS)))
    except KernelError:  # a name of the learner's own, for instance
        return None
    return taken.copy() if (calls == CALLS).all() else None


def _wrong(text):
    return WrongAnswer(f"{text}\n→ Where to look: {SWIZZLED}.")
