"""Lesson 16: what a right kernel may ask for, counted by the emulator."""

import re

from llmc.course.old.checks.explain import WrongAnswer
from llmc.course.old.kernel_checks import components
from llmc.course.old.kernel_checks.demands import Wasteful

OF_LLMC = "0.78 and 1,040"  # attention_forward_v5, one head with T = 64, hs = 32; a test counts them again


def by_all_lanes(report, where):
    """Wasteful if most lanes of the warps idle: one lane does what 32 could share."""
    reads = [use for use in report.lines if use.space == "global" and not use.write]
    requests, lanes, sectors = (sum(getattr(use, what) for use in reads) for what in ("requests", "lanes", "sectors"))
    if lanes < 4 * requests:
        raise _wasteful(report, f"a request of a warp is for {lanes / requests:.1f} numbers on average", where)
    if sectors < 1.15 * requests:
        each = f"{lanes / requests:.0f} lanes and gets {sectors / requests:.1f} sectors of 8 numbers"
        raise _wasteful(report, f"a request of a warp is for {each} on average", where)


def keys_read_once(report, blocks, tiles, queries, where):
    """Wasteful if the warps of a block read a tile's keys and values from global memory each for themselves.

    tiles: of 32 rows, that all blocks need together. queries: of all blocks.
    """
    needed = (2 * tiles * 32 * 32 + queries * 32) // 8  # sectors: keys and values, and each query once
    reads = sum(use.sectors for use in report.lines if use.space == "global" and not use.write)
    if reads > 1.2 * needed:
        who = "1 block reads" if blocks == 1 else f"{blocks} blocks read"
        sentence = f"{who} {reads:,} sectors from global memory, where {needed:,} are enough"
        raise _wasteful(report, sentence, where)


def tiles_are_shared(report, most, where):
    """Wasteful if one block of two warps moves more sectors than `most`, and has nothing in shared memory."""
    if components.sectors(report) > most and not components.shared_requests(report):
        keys_read_once(report, blocks=1, tiles=2, queries=64, where=where)


def without_shuffles(source, where):
    """WrongAnswer if CUDA source moves numbers from lane to lane: the emulator counts no shuffles."""
    if "shfl" in re.sub(r"//.*|/\*(?:.|\n)*?\*/", "", source):
        sentence = "a shuffle serves 32 lanes, as a request to shared memory does, but it is not counted here"
        raise WrongAnswer(f"{sentence}: find a way without `__shfl`.\n→ Where to look: {where}.")


def requests(report) -> int:
    """Requests of a warp to shared memory."""
    return components.shared_requests(report)


def _wasteful(report, sentence, where):
    """Right, but; with the counts of every line."""
    return Wasteful("\n".join([f"right, but {sentence}.", report.table(), f"→ Where to look: {where}."]))
