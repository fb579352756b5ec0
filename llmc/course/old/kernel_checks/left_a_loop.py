"""A loop with barriers that the threads of a block leave at different turns: who has left loads nothing for the others.

Hardware and emulator let a barrier pass once all threads that have not ended are there, so nothing is reported.
"""

import re

import numpy as np

from llmc.cuda.emulator.compiling.text import closing, line_at, statements
from llmc.cuda.emulator.findings.absences import NAME, thread_names
from llmc.cuda.emulator.findings.loops import BLOCK_BARRIER, end_after

LOOP = re.compile(r"\b(for|while)\s*\(")


def left_at_different_turns(report) -> list[str]:
    """A sentence about the first such loop: its condition is made from threadIdx, and its lines ran unequally often."""
    text = statements(report.raw.code)
    names = thread_names(text)
    for loop in LOOP.finditer(text):
        opening, end = loop.end() - 1, end_after(text, loop.start())
        head = text[opening + 1 : closing(text, opening)]
        condition = head.split(";")[1].strip() if loop[1] == "for" and head.count(";") == 2 else head
        asked = [name for name in dict.fromkeys(NAME.findall(condition)) if name in names]
        if not asked or not BLOCK_BARRIER.search(text, loop.end(), end) or _halves(text[loop.start() : end], asked):
            continue
        first, last = line_at(text, loop.start()), line_at(text, end - 1)
        if _unequal(report, first, last):
            return [
                f"The loop on line {first} has barriers, but `{condition}` depends on the thread, by `{asked[0]}`: "
                "threads that have left it take no part in what the block still does together there. Let all threads "
                "take all turns, and put an `if` around what only some should do."
            ]
    return []


def _halves(loop, names) -> bool:
    """Is it a tree, which threads leave once they have no part in it any more? Something else in it is halved."""
    halved = re.findall(r"(\w+)\s*(?:/=|>>=)", loop)
    return bool(halved) and not {*halved} & {*names}


def _unequal(report, first, last) -> bool:
    """Do some threads of a block write to shared memory more often in these lines than others that do it as well?"""
    trace = report.raw.trace
    if trace is None:
        return False
    inside = [pc for pc in np.unique(trace["pc"]) if first <= report.line_of(int(pc)) <= last]
    mine = trace[np.isin(trace["pc"], inside) & trace["write"].astype(bool) & (trace["argument"] < 0)]
    for block in np.unique(mine["block"]):
        if len(np.unique(np.unique(mine["thread"][mine["block"] == block], return_counts=True)[1])) > 1:
            return True
    return False
