"""Lesson 19: what a ring of stages must compute, known mistakes, and how far its producer runs ahead."""

import re

import numpy as np

from llmc.course.lessons.tensor_cores.places import NO_PHASE, ROLES
from llmc.course.old.kernel_checks.demands import Wasteful
from llmc.course.old.kernel_checks.runs import SECONDS, patience
from llmc.errors import KernelError

STAGES, N, THREADS = 3, 128, 160


def halved(x):
    """(blocks, 128) of x (blocks, rounds, 128): each line counts half as much as the next."""
    return _weighed(x, 0.5)


def _weighed(x, factor):
    """Each line counts `factor` times as much as the next."""
    weights = factor ** np.arange(x.shape[1])[::-1]  # (rounds,)
    return np.einsum("r,brn->bn", weights, x.astype(np.float64)).astype(np.float32)


def mistakes(x) -> dict:
    """Known wrong results: {"…": (array (blocks, 128), where to look)}."""
    known = {
        "the sum without halving": (x.sum(axis=1), ROLES),
        "the sum with each new line halved, too: only `total`, which was there before it, counts half": (
            halved(x) / 2,
            ROLES,
        ),
        "the sum with the new line halved in place of `total`": (x.sum(axis=1) / 2, ROLES),
        "the sum with `total` doubled in place of halved": (_weighed(x, 2.0), ROLES),
        "the sum with a quarter of `total` in place of half of it": (_weighed(x, 0.25), ROLES),
        "the mean of the lines": (x.mean(axis=1), ROLES),
        "the sum of the first line again and again": (halved(x[:, :1] + 0 * x), ROLES),
    }
    if x.shape[1] > 1:
        known["the sum with the lines the other way round"] = (halved(x[:, ::-1]), ROLES)
        known["the sum without its last line"] = (halved(x[:, :-1]), ROLES)
    if x.shape[1] > STAGES + 1:
        earlier = x[:, [max(0, r - STAGES) for r in range(x.shape[1])]]
        known["the sum with each line taken from the lap before"] = (halved(earlier), NO_PHASE)
    return {words: (array.astype(np.float32), where) for words, (array, where) in known.items()}


# ------------------------------------------------------------------------------------------------- how far ahead

NOTES = f"""
__device__ int asked, arrived;
__device__ int ahead;
__device__ int waited;
__device__ void* newest;
__device__ void note_asked(void* there) {{ newest = there, ahead = max(ahead, ++asked - arrived / {N}); }}
__device__ void note_wait(void* barrier) {{ waited += threadIdx.x < 32 && barrier == newest; }}
__device__ void note_arrived() {{ atomicAdd(&arrived, 1); }}
"""
COUNTS = ("ahead", "waited", "asked", "arrived")
LAUNCHES = 3
HEADS = {"expect": "note_asked(barrier);", "arrive": "note_arrived();", "wait": "note_wait(barrier);"}


def lines_ahead(code, kernel, rounds=9) -> tuple[int, bool]:
    """(the most lines that one block had asked for and not used up yet, does its producer wait for each to arrive?)

    On the emulator; 0 where that is not known.
    """
    from llmc.cuda.emulator.modules import RawModule

    for name, note in HEADS.items():
        code, count = re.subn(rf"(__device__ void {name}\([^;{{}}]*\{{)", rf"\1 {note}", code)
        if count != 1:
            return 0, False
    x, result = np.ones((1, rounds, N), np.float32), np.zeros((1, N), np.float32)
    found = []
    try:
        module = RawModule(code=NOTES + code, options=("-std=c++17",), check=False)
        counts = [np.ndarray((1,), np.int32, module.get_global(name)) for name in COUNTS]
        while len(found) < LAUNCHES and max(found, default=(0, 0))[0] < STAGES:  # a busy machine may hold it up
            for count in counts:
                count[0] = 0  # the same text is one module
            with patience(SECONDS):
                module.get_function(kernel)((1,), (THREADS,), (result, x, np.int32(rounds)))
            found.append((int(counts[0][0]), bool(counts[1][0] > rounds // 2)))
    except KernelError:  # a name of the learner's own, for instance
        return 0, False
    return max(found)


def demand(code, c, kernel="ring_of_stages"):
    """Wasteful if the producer leaves stages empty; else c gets a sentence for the line of success."""
    ahead, one_by_one = lines_ahead(code, kernel)
    if one_by_one:
        raise Wasteful(
            "right, but only one copy is under way at a time: the producer waits until the line that it has just asked "
            "for is there. That is for the consumers to do; the producer waits only for its stage to be free.\n"
            f"→ Where to look: {ROLES}."
        )
    if 0 < ahead < STAGES:
        raise Wasteful(
            f"right, but never more than {ahead} of {STAGES} stages held a line at once. A copy may begin as soon as "
            "the line that was in its stage before is used up.\n"
            f"→ Where to look: {ROLES}."
        )
    if ahead:
        c.say(f"The producer runs {ahead} lines ahead.")
