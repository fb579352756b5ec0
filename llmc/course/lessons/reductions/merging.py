"""Lesson 13: what the learner's `merge` makes of parts whose moments are known, asked in a launch of its own."""

from contextlib import suppress

import numpy as np

from llmc.course.lessons.reductions.lanes import merge
from llmc.course.old.checks import evidence
from llmc.course.old.checks.explain import WrongAnswer
from llmc.course.old.kernel_checks.runs import emulate

ASK = """
extern "C" __global__ void ask_merge(float* made, const float* parts, int pairs)
{
    for (int k = 0; k < pairs; k++, made += 3, parts += 6) {
        Moments m = merge(Moments{parts[0], parts[1], parts[2]}, Moments{parts[3], parts[4], parts[5]});
        made[0] = m.count, made[1] = m.mean, made[2] = m.squares;
    }
}
"""
EMPTY = (0, 0, 0)
PAIRS = (EMPTY, (1, 2, 0)), ((2, 2, 1), (1, 5, 0)), ((2, 2, 1), (2, 4, 3)), ((2, 2, 1), EMPTY), (EMPTY, EMPTY)


def asked() -> str:
    """A sentence about the first of PAIRS that `merge` gets wrong, or that it gets none wrong; "" if it cannot run."""
    call = evidence.last_call() if evidence.is_explaining() else None
    if call is None or not call.report:
        return ""
    parts, made = np.array(PAIRS, np.float32), np.zeros((len(PAIRS), 3), np.float32)
    with suppress(WrongAnswer):
        emulate(call.report.raw.code + ASK, "ask_merge", (1,), (1,), [made, parts, len(PAIRS)])
        for (a, b), got in zip(PAIRS, made):
            right = merge(a, b)
            if not np.allclose(got, right, rtol=1e-4, atol=1e-4):
                return (
                    f"`merge({_part(a)}, {_part(b)})` gives {_part(got)}, and should give {_part(right)}: count, mean "
                    "and squares."
                )
        return "`merge` itself is right, also for empty parts."
    return ""


def _part(moments) -> str:
    """ "{2, 4.5, 0}"."""
    return "{" + ", ".join(f"{number:.4g}" for number in moments) + "}"
