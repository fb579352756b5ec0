"""Why lanes meet in one bank of shared memory: how far apart their numbers lie, from the accesses of one warp."""

import math
import re

import numpy as np

from llmc.course.old.kernel_checks.given import behind
from llmc.cuda.emulator.compiling.text import statements

BANKS, EIGHT = 32, 8


def conflict(report) -> str:
    """A sentence about the line with the most extra passes; "" where the launch was not recorded."""
    uses = [use for use in report.lines if use.space == "shared" and use.passes > use.ideal]
    accesses = [a for a in report.raw.accesses if a.space == "shared" and a.passes > a.ideal]
    if report.raw.trace is None or not uses or not accesses:
        return ""
    worst = max(accesses, key=lambda a: a.passes - a.ideal)
    if worst.size == 16:
        return " ".join(filter(None, [_of_eight(report, worst), behind(report.raw.code, report.line_of(worst.pc))]))
    found = _of_a_warp(report, worst)
    if not found or worst.size != 4:
        return ""
    places = found[0]
    line, verb = report.line_of(worst.pc), "writes" if worst.write else "reads"
    apart = np.unique(np.diff(places))
    if len(apart) > 1 or len(places) < BANKS:
        return _two_lanes(places, line, verb)
    stride = abs(int(apart[0]))
    banks = BANKS // math.gcd(stride, BANKS)
    into = "the same bank" if banks == 1 else f"only {banks} of the {BANKS} banks"
    told = f"In line {line}, where a warp {verb} shared memory, neighbouring lanes are {stride} floats apart"
    others = sorted({_stride(each) for each in [*found, *_of_all_warps(report, worst)]} - {0, stride})
    if others:  # so it is no row of an array
        apart = ", ".join(map(str, others[:3])) + ", …" * (len(others) > 3)
        mend = f"At other turns they are {apart} apart. Let neighbouring lanes take neighbouring numbers at every turn."
    elif _sized_by_the_launch(report.raw.code):  # which may have no room for longer rows
        mend = f"Let neighbouring lanes take neighbouring numbers (or rows be {stride + 1} long, if there is room)."
    else:
        odd = f"With an odd distance, {stride + 1}, they fall into all {BANKS}"
        mend = f"{odd}: if it is the length of a row of the array, let the row be that long."
    return f"{told}: they fall into {into}. {mend}"


def _sized_by_the_launch(code) -> bool:
    """Does the launch choose the size of the shared memory?"""
    return bool(re.search(r"\bextern\s+__shared__", statements(code)))


def _stride(places) -> int:
    """How far apart neighbouring lanes are; 0 if not all are equally far."""
    apart = np.unique(np.diff(places))
    return abs(int(apart[0])) if len(apart) == 1 else 0


def _of_eight(report, access) -> str:
    """Eight lanes are served at once, with 16 bytes each: at which places of their lines of 128 bytes?"""
    line, verb = report.line_of(access.pc), "write" if access.write else "read"
    told = f"In line {line}, eight lanes at a time {verb} 16 bytes each, which fill the {BANKS} banks once"
    trace = report.raw.trace
    mine = np.sort(trace[(trace["pc"] == access.pc) & (trace["argument"] < 0)], order="step")
    for first in range(0, len(mine) - EIGHT + 1, EIGHT):
        places = mine["offset"][first : first + EIGHT] // access.size % EIGHT
        many = len(np.unique(places))
        if many < EIGHT:
            which = f"of the eight places of a line, they take only {many}: {', '.join(map(str, places))}"
            return f"{told}, but {f'all take the same place of a line, {places[0]}' if many == 1 else which}."
    return f"{told}, but {access.passes / access.ideal:.2g} of these eight want the same four banks."


def _two_lanes(places, line, verb) -> str:
    """Two lanes that want different numbers of one bank."""
    for lane, place in enumerate(places):
        for other in range(lane):
            if places[other] != place and (place - places[other]) % BANKS == 0:
                return (
                    f"In line {line}, where a warp {verb} shared memory, lanes {other} and {lane} are "
                    f"{abs(int(place - places[other]))} floats apart, a multiple of {BANKS}: both want bank "
                    f"{int(place) % BANKS}."
                )
    return ""


def _of_a_warp(report, access) -> list:
    """Which float each lane of a warp asks for, in each such access of the first warp that has several passes."""
    for lanes in _lanes_of_warps(report, access):
        every = _by_turns(lanes, "offset")
        if len({len(lane) for lane in lanes}) == 1 and _passes(every[0] // 4) > 1:
            return [places // 4 for places in every]
    return []


def _of_all_warps(report, access):
    """The same for each turn of every warp whose lanes drop out one after another, as in a tree."""
    for lanes in _lanes_of_warps(report, access):
        steps = _by_turns(lanes, "step")
        if all(one.max() < next_one.min() for one, next_one in zip(steps, steps[1:])):
            yield from (places // 4 for places in _by_turns(lanes, "offset"))


def _lanes_of_warps(report, access):
    """The recorded accesses of each lane, a list for each warp."""
    trace = report.raw.trace
    mine = np.sort(trace[(trace["pc"] == access.pc) & (trace["argument"] < 0)], order="step")
    warps = mine["block"] * 64 + mine["thread"] // BANKS  # at most 32 warps a block
    for warp in np.unique(warps):
        rows = mine[warps == warp]
        lanes = [rows[rows["thread"] % BANKS == lane] for lane in range(BANKS)]
        yield [lane for lane in lanes if len(lane)]


def _by_turns(lanes, field) -> list:
    """That field of the lanes' first accesses, of their second ones, …"""
    turns = max(map(len, lanes))
    return [np.array([lane[turn][field] for lane in lanes if len(lane) > turn]) for turn in range(turns)]


def _passes(places) -> int:
    """How often the busiest bank is asked, each number once."""
    return int(np.bincount(np.unique(places) % BANKS).max(initial=0))
