"""Lesson 15: does a kernel multiply while copies are on their way? Its helpers write down when they are called.

The check makes a second text of the answer, in which `copy_async`, `end_batch`, `wait_but` and `multiply` each leave a
note, and lets thread 0 of block 0 run it on the emulator. What has been copied is used at once, or in the background of
other work: the order of the notes shows it. A slice is two copies of this thread, one of a and one of b.
"""

import re

import numpy as np

from llmc.course.lessons.matmul_kernels.places import BACKGROUND
from llmc.course.old.kernel_checks.demands import Wasteful
from llmc.course.old.kernel_checks.runs import SECONDS, patience
from llmc.errors import KernelError

COPY, END, MULTIPLY, WAIT = 1, 2, 3, 100  # a wait is noted as 100 and how many batches may still be on their way
MOST = 4096
NOTES = f"""
__device__ int notes[{MOST}];
__device__ int noted;
__device__ void note(int what)
{{
    if (blockIdx.x + threadIdx.x == 0 && noted < {MOST}) notes[noted++] = what;
}}
"""
HEADS = {"copy_async": str(COPY), "end_batch": str(END), "multiply": str(MULTIPLY), "wait_but": f"{WAIT} + BATCHES"}


def with_notes(code) -> str | None:
    """The text whose helpers leave notes; None if it has not all of them."""
    for name, what in HEADS.items():
        code, count = re.subn(rf"(__device__ void {name}\([^;{{}}]*\{{)", rf"\1 note({what});", code)
        if count != 1:
            return None
    return NOTES + code


def notes(code, kernel, grid, block, arguments) -> list[int]:
    """What thread 0 of block 0 noted, in order; [] where the text has not all helpers."""
    from llmc.cuda.emulator.modules import RawModule

    text = with_notes(code)
    if text is None:
        return []
    try:
        module = RawModule(code=text, options=("-std=c++17",), check=False)
        with patience(SECONDS):
            module.get_function(kernel)((grid,), (block,), tuple(arguments))
    except KernelError:  # a `note` of the learner's own, for instance
        return []
    noted = np.ndarray((1,), np.int32, module.get_global("noted"))[0]
    return np.ndarray((MOST,), np.int32, module.get_global("notes"))[:noted].tolist()


def in_the_background(noted) -> list[bool]:
    """Of each copy, was it on its way during a multiplication?"""
    ends, multiplied = 0, []
    copies = []  # (position, its batch)
    done = {}  # {batch: position of the first wait that lets it not pass}
    for place, what in enumerate(noted):
        if what == COPY:
            copies.append((place, ends))
        elif what == END:
            ends += 1
        elif what == MULTIPLY:
            multiplied.append(place)
        else:
            for batch in range(ends - (what - WAIT)):
                done.setdefault(batch, place)
    return [any(a < m < done.get(batch, a) for m in multiplied) for a, batch in copies]


def demand(code, kernel, grid, block, arguments, slices):
    """Wasteful unless all of the slices but the first come while the threads multiply."""
    noted = notes(code, kernel, grid, block, arguments)
    hidden = in_the_background(noted)
    if noted and sum(hidden) < 2 * (slices - 1):
        whole = sum(a and b for a, b in zip(hidden[::2], hidden[1::2]))
        half = sum(hidden) - 2 * whole
        also = f" Of {half} others, only one of the two copies that a thread makes does: `wait_but<n>` waits for all "
        also += "batches but the last n, and a slice may be more than one."
        waited = (
            " `wait_but<0>` waits for all that has been asked for: for the next slice, too, if it was before the wait."
        )
        raise Wasteful(
            f"right, but only {whole} of {slices} slices come in the background of a multiplication; the goal is all "
            f"but the first.{also if half else waited}\n"
            f"→ Where to look: {BACKGROUND}."
        )
