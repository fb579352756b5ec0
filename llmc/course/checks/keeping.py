"""Mistakes that only several calls show: what a function keeps from one call to the next, and threads that race."""

import numpy as np

from llmc.course.checks import evidence
from llmc.course.mutants.kept import kept
from llmc.course.mutants.replay import arrays_in

UNSTEADY = (
    "Called again with the same arguments, your function gives other numbers: does it keep something from one call to "
    "the next, or do threads write to one place?"
)


def words(got, expected, start) -> str | None:
    """ "with `w` of an earlier call: …": what gives `got` in place of start + expected; None if nothing of the kind."""
    running = evidence.running()
    return running and kept(running.exercise, running.replays, got, expected, start)


def unsteady(got) -> list[str]:
    """A sentence if the call that made `got` gives other numbers each time; none otherwise, or if it is not known."""
    running = evidence.running()
    for replay in reversed(running.replays if running else ()):
        if any(np.may_share_memory(mine, got) for mine in arrays_in(replay.outputs or ())):
            return [] if replay.steady() else [UNSTEADY]
    return []
