"""Lesson 17: where to look for each kind of problem, and why numbers are not finite."""

import numpy as np

from llmc.course.old.checks.explain import WrongAnswer

# where to look; a test holds these titles against the headings of the lessons
SHUFFLE = 'lesson 13, section "3.4 · v3: the tree by warp shuffles"'
ONLINE = 'lesson 13, section "3.6 · v5: online"'
LOCKSTEP = 'lesson 13, section "6.2 · Inside a warp"'
EDGE = 'lesson 12, section "3 · Make it break: one too many"'
QUADS = 'lesson 13, section "3.7 · v6: 128-bit loads"'
CLASSIFIER = 'lesson 17, section "2.2 · Loss and gradient in one kernel"'
PADDING = 'lesson 05, section "5.2 · A padded vocabulary"'
GELU = 'lesson 17, section "2.5 · Bias and GELU"'
ARENA = 'lesson 17, section "3.2 · An arena"'
LATER = 'lesson 17, section "4.3 · Where waits hide"'
DECIDED = 'lesson 17, section "5.2 · What changes must lie in memory"'
REPLAY = DECIDED

_KERNEL = {
    "missing-syncwarp": LOCKSTEP,
    "inactive-lane": SHUFFLE,
    "out-of-bounds": EDGE,
    "misaligned": QUADS,
    "requests": QUADS,
}
CLASSIFIER_PROBLEMS = _KERNEL | {
    "race": CLASSIFIER,
    "never-written": CLASSIFIER,
    "sectors": ONLINE,
    "barriers": CLASSIFIER,
    "rewrites": CLASSIFIER,
}
GELU_PROBLEMS = _KERNEL | dict.fromkeys(("race", "never-written", "sectors", "rewrites", "barriers"), GELU)
ADAMW_PROBLEMS = _KERNEL | dict.fromkeys(("race", "never-written", "rewrites", "barriers"), REPLAY)

NOT_FINITE = {
    "losses": f"exp overflows above 88.7, log(0) is infinite, and infinity minus infinity is NaN; {ONLINE}",
    "the gradient": f"exp overflows above 88.7, and infinity minus infinity is NaN; {ONLINE}",
    "gelu_out": f"exp overflows above 88.7, and infinity times 0 or infinity over infinity is NaN; {GELU}",
    "d": f"exp overflows above 88.7, and infinity times 0 or infinity over infinity is NaN; {GELU}",
}


def finite(name, got):
    """WrongAnswer where an output holds a NaN or an infinity."""
    if not np.isfinite(got).all():
        raise WrongAnswer(f"{name} has NaN or infinite entries: {NOT_FINITE[name]}.")
