"""The one table of everything that can be found wrong in a launch. Reports, checks and numbering follow from it.

To add a kind: a row here, at the place that its gravity deserves, and a row at the same place in runtime/kinds.h (the
runtime does not compile while the two differ); then report it where the runtime sees it happen, with
`blank(worker, NEW_KIND)` and `report`. A new sentence goes into sentences.py if it depends on the problem, advice that
depends on the kernel's text into advice.py.
"""

from collections.abc import Callable
from typing import NamedTuple

from llmc.cuda.emulator.findings import (
    absences,
    advice,
    copy_advice,
    doers,
    fill_advice,
    hopper,
    places,
    race_advice,
    sentences,
)
from llmc.cuda.emulator.findings.doers import both_accesses, came_and_stayed_away, first_of_several, two
from llmc.cuda.emulator.findings.finding import Finding
from llmc.cuda.emulator.findings.pointers import invalid_pointer
from llmc.cuda.emulator.findings.sentences import said


class Kind(NamedTuple):
    """One kind of problem, and all that a report says about it."""

    name: str  # "out-of-bounds"
    title: str  # how its paragraph begins
    sentence: Callable[[Finding], str]  # what happened, without a full stop
    advice: str | Callable[[Finding], str]  # what to do about it
    doer: Callable[[Finding], str] = doers.first_to_do_it  # which thread did it
    place: Callable = places.place  # (raw, problem) -> where: "out[1024]"
    drawn: bool = False  # whether a picture of the accesses shows it
    note: bool = False  # allowed, but worth a look

    @property
    def in_cpp(self) -> str:
        """What runtime/kinds.h calls it: OUT_OF_BOUNDS."""
        return self.name.upper().replace("-", "_")

    def paragraph(self, found: Finding) -> str:
        """Everything about one problem of this kind: what happened and where, who did it, what to do about it."""
        title = self.title.format(space=found.problem.space)
        happened = f"{title}: kernel {found.raw.kernel}{found.on_lines}: {self.sentence(found)}."
        to_do = self.advice if isinstance(self.advice, str) else self.advice(found)
        return "\n".join(filter(None, [happened, self.doer(found), to_do]))


KINDS = (  # the gravest first
    Kind(
        "crash",
        "crash",
        sentences.crash,
        advice.crash,
    ),
    Kind(
        "bounds",
        "index outside a fixed array",
        sentences.bounds,
        advice.bounds,
        first_of_several,
        place=places.bare_index,
    ),
    Kind("out-of-bounds", "out of bounds", sentences.out_of_bounds, advice.out_of_bounds, first_of_several, drawn=True),
    Kind(
        "invalid-pointer",
        "invalid pointer",
        sentences.invalid_pointer,
        invalid_pointer,
        first_of_several,
    ),
    Kind("misaligned", "misaligned", sentences.misaligned, advice.misaligned, first_of_several),
    Kind(
        "stack-overflow",
        "stack overflow",
        said("a thread needs more stack than it has"),
        "Each thread has little memory of its own: end the recursion earlier, and keep large arrays in shared or "
        "global memory.",
    ),
    Kind(
        "division-by-zero",
        "division by zero",
        sentences.division_by_zero,
        "Find out for which thread the divisor is 0: often it is a size that was not passed, or an integer division "
        "such as `1 / n` that gave 0.",
        first_of_several,
    ),
    Kind(
        "integer-overflow",
        "integer overflow",
        sentences.integer_overflow,
        advice.integer_overflow,
    ),
    Kind("shift", "shift by too much", sentences.shift, advice.shift, first_of_several),
    Kind("conversion", "float that does not fit", sentences.conversion, advice.conversion, first_of_several),
    Kind(
        "assert",
        "assert",
        said("the assertion failed"),
        "The condition of your own `assert` was false for this thread: print the values in it with printf.",
    ),
    Kind(
        "missing-return",
        "no value returned",
        sentences.missing_return,
        "What the caller gets is whatever a register held: end every path through the function with `return`, or "
        "declare it void.",
        first_of_several,
    ),
    Kind(
        "unsupported",
        "not on the emulator",
        sentences.unsupported,
        hopper.unsupported_advice,
    ),
    Kind(
        "barrier-divergence",
        "barrier not reached by all",
        sentences.barrier_divergence,
        absences.barrier_divergence,
        came_and_stayed_away("ended without reaching it", "while {} waited there"),
    ),
    Kind(
        "deadlock",
        "deadlock",
        sentences.deadlock,
        hopper.deadlock_advice,
        two("waits", "but {} never comes"),
    ),
    Kind(
        "inactive-lane",
        "lane that takes no part",
        sentences.inactive_lane,
        absences.inactive_lane,
        doers.absent_lane,
    ),
    Kind(
        "part-of-a-warpgroup",
        "part of a warpgroup",
        hopper.part_of_a_warpgroup,
        "wgmma takes all 128 threads of a warpgroup, four warps, the first of which has a number that is a multiple of "
        "4: let all of them come to the same instruction.",
        hopper.group_threads,
    ),
    Kind("mbarrier", "mbarrier", hopper.mbarrier, hopper.mbarrier_advice, first_of_several),
    Kind("wrong-tile", "wrong tile", hopper.wrong_tile, hopper.wrong_tile_advice, first_of_several),
    Kind(
        "copy-race",
        "race with an asynchronous copy",
        sentences.copy_race,
        copy_advice.copy_race,
        doers.reader_and_copier,
        drawn=True,
    ),
    Kind("race", "race in {space} memory", sentences.race, race_advice.race, both_accesses, drawn=True),
    Kind(
        "missing-syncwarp",
        "race within a warp",
        sentences.race,
        race_advice.race_within_a_warp,
        both_accesses,
        drawn=True,
    ),
    Kind("missing-fence", "missing fence", hopper.missing_fence, hopper.missing_fence_advice),
    Kind("unfinished-product", "unfinished product", hopper.unfinished_product, hopper.unfinished_product_advice),
    Kind("never-waited-for", "never waited for", hopper.never_waited_for, hopper.never_waited_for_advice),
    Kind(
        "runaway",
        "no end in sight",
        sentences.runaway,
        advice.runaway,
        doers.running,
    ),
    Kind("uninitialised", "uninitialised", sentences.uninitialised, fill_advice.uninitialised),
    Kind(
        "never-written",
        "never written",
        sentences.never_written,
        "Which thread should write it, and does that thread reach a line that does?",
        doers.nobody,
        drawn=True,
    ),
    Kind(
        "uninitialised-local",
        "variable without a value",
        sentences.uninitialised_local,
        "A local variable starts with whatever its register held: give it a value where it is declared, such as "
        "`float sum = 0.0f;`. The compiler says so without knowing your data, so a check may rule it out.",
        doers.nobody,
        note=True,
    ),
    Kind(
        "early-return",
        "early return",
        sentences.early_return,
        "A GPU counts threads that have returned as arrived, so this works. It stops working as soon as one of them is "
        "needed after the barrier.",
        came_and_stayed_away("returned", "while {} waited"),
        note=True,
    ),
    Kind(
        "different-barriers",
        "different barriers",
        sentences.different_barriers,
        "A GPU may treat these two barriers as one, or hang: let all threads of the block wait at the same "
        "`__syncthreads()`.",
        doers.block_only,
        note=True,
    ),
    Kind("saturated", "float that does not fit", sentences.conversion, advice.conversion, first_of_several, note=True),
)
BY_NAME = {kind.name: kind for kind in KINDS}
GRAVITY = {kind.name: rank for rank, kind in enumerate(KINDS)}  # the smaller, the graver
