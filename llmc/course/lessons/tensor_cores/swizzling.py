"""Lesson 19: where a learner's `place` keeps the groups of each line, before a kernel is launched with it."""

import re

import numpy as np

from llmc.course.checks.explain import WrongAnswer
from llmc.course.kernel_checks import runs
from llmc.course.lessons.tensor_cores.places import SWIZZLED

LINES, GROUPS = 64, 8
NAMED = re.compile(r"\bplace\s*\(\s*int\b")
ALL = f"""
extern "C" __global__ void llmc_all_places(int* out)
{{
    for (int i = 0; i < {LINES} * {GROUPS}; i++) out[i] = place(i / {GROUPS}, i % {GROUPS});
}}
"""


def inspect_place(code):
    """WrongAnswer unless `place`, if there is one, keeps the eight groups of each line at its eight places."""
    if not isinstance(code, str) or "#error" in code or not NAMED.search(code):
        return
    places = np.zeros((LINES, GROUPS), np.int32)
    try:
        runs.emulate(code + ALL, "llmc_all_places", (1, 1, 1), (1, 1, 1), [places], outputs=(0,))
    except WrongAnswer:  # the launch of the whole kernel says why, with its line
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


def _wrong(text):
    return WrongAnswer(f"{text}\n→ Where to look: {SWIZZLED}.")
