"""What mutants of a kernel's solution would give, without compiling them: its model, run by `masked`."""

import ast
import copy
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from llmc.course.old.checks.evidence import Evidence, is_explaining
from llmc.course.old.checks.second_draw import launches
from llmc.course.old.kernel_checks.attention_kernels_models import MODELS as ATTENTION_KERNELS
from llmc.course.old.kernel_checks.backward_kernels_models import MODELS as BACKWARD_KERNELS
from llmc.course.old.kernel_checks.first_kernels_models import MODELS as FIRST_KERNELS
from llmc.course.old.kernel_checks.gpu_training_models import MODELS as GPU_TRAINING
from llmc.course.old.kernel_checks.in_c import can_be_said, names_a_stranger, quotes_their_loop
from llmc.course.old.kernel_checks.masked import Launch
from llmc.course.old.kernel_checks.matmul_kernels_models import MODELS as MATMUL_KERNELS
from llmc.course.old.kernel_checks.reductions_models import MODELS as REDUCTIONS
from llmc.course.old.kernel_checks.seen import Seen
from llmc.course.old.kernel_checks.slips import slips
from llmc.course.old.kernel_checks.threads import memories
from llmc.course.old.kernel_checks.words import races_in_shared
from llmc.course.old.mutants.replay import Replay
from llmc.course.old.mutants.search import first_mutant
from llmc.course.old.mutants.stoppable import stoppable
from llmc.cuda.emulator.compiling.text import mask

MATCHED = {"never-written", "out-of-bounds", "race"}  # what `cause` can find
MODELS = FIRST_KERNELS | REDUCTIONS | BACKWARD_KERNELS | MATMUL_KERNELS | ATTENTION_KERNELS | GPU_TRAINING
WIDER = re.compile(r"with `(.+) (?:>|(<=)) (.+)` in place of `\1 (?(2)<|>=) \3`")  # `row > N` for `row >= N`

UNBRACKETED = re.compile(r"with `(.+ //) (.+)` in place of `\1 \(\2\)`")  # `i / T * C` for `i / (T * C)`
CHANGED = re.compile(r" in `([^`]+)`")
LONG_PIECE = re.compile(r" in `([^`]{12,})`$")
LEFT_OUT = re.compile(r"without the (?:condition|line) `([^`]+)`(?: in front of `[^`]+`)?")


@dataclass(frozen=True)
class Model:
    """A kernel's solution in Python; tree: with loops that can be stopped. names: of the kernel's parameters.

    more: mistakes that only kernels have.
    """

    exercise: str
    tree: ast.Module
    names: tuple[str, ...]
    more: Callable = slips
    seconds: float = 3.0
    of_arrays: bool = False

    def function(self, deadline: float):
        """The kernel that the tree defines now, a function of grid, block and arguments; TooLong at `deadline`."""
        functions = {node.name: node for node in self.tree.body}

        def launch(grid, block, *arguments):
            threads = Launch(grid, block, lambda: time.thread_time() > deadline)
            threads.run(functions, self.exercise, memories(self.names, arguments))
            return threads

        return launch


@lru_cache
def model_of(exercise: str) -> Model | None:
    """None for a kernel that has no model."""
    if exercise not in MODELS:
        return None
    tree = stoppable(ast.parse(MODELS[exercise]))
    return Model(exercise, tree, tuple(a.arg for a in tree.body[0].args.args))


class KernelEvidence(Evidence):
    """Launches of one check; of each size, the first one is kept."""

    def __init__(self, exercise):
        super().__init__(exercise, lambda solution: [each for each in self._afresh() if not each.report.problems])
        self._sizes = {}  # {grid, block and scalars: its first launch}

    def after(self, replay, result, arguments, options):
        super().after(replay, result, arguments, options)
        if replay is not None:
            self._sizes.setdefault(tuple(a for a in arguments if not isinstance(a, np.ndarray)), replay)

    def of_all_sizes(self) -> list[Replay]:
        """The first launch of each size, and the last ones."""
        return [*{id(each): each for each in (*self._sizes.values(), *self.replays)}.values()]

    def _afresh(self) -> list[Replay]:
        """Launches of the learner's kernel on other numbers."""
        return [each for each in launches(self.check) if each.report] if self.check else []

    def solution(self):
        return model_of(self.exercise)

    def cause(self, replay, report, launch=None) -> str | None:
        """Words of the mutant whose launch goes wrong in every respect like `replay`, of which this is the report.

        launch(grid, block, arguments): launches the learner's kernel and returns the report. A race tells little of
        what led to it, so then the mutant must also go wrong like it in a launch of another size. What the check
        launches besides, on other numbers, must go like it, too: two mistakes are often alike at one size.
        """
        solution = self.solution() if is_explaining() else None
        if solution is None or replay is None or not {problem.kind for problem in report.problems} <= MATCHED:
            return None
        if races_in_shared(report):  # a model has no barriers
            return None
        seen = Seen(solution.names, replay.arguments[2:], replay.arrays, report)
        earlier = [each for each in self.of_all_sizes() if each is not replay and each.arrays]  # which were right
        fresh = self._seen_afresh(solution.names)
        other = _smaller(solution, replay, launch) if launch and seen.raced else None
        source = ast.unparse(solution.tree)

        def likely(words):
            sayable = _too_far(words) if seen.outside else can_be_said(words)
            code = report.raw.code
            return (
                sayable
                and _of_our_own(words, source)
                and not names_a_stranger(words, code)
                and not quotes_their_loop(words, code)
                and not _has_it(words, code, source)
            )

        def fits(function):
            others = [(each, Seen(solution.names, each.arguments[2:], each.arrays)) for each in earlier]
            others += [*fresh, *[other] * (other is not None)]
            return _alike(function, replay, seen) and all(_alike(function, *each) for each in others)

        with np.errstate(all="ignore"):
            return first_mutant(solution, fits, likely)

    def _seen_afresh(self, names) -> list[tuple]:
        """[(replay, what was seen)] of launches on other numbers, with problems that a model can have."""
        found = [(each, {problem.kind for problem in each.report.problems}) for each in self._afresh()]
        return [
            (each, Seen(names, each.arguments[2:], each.arrays, each.report if kinds else None, roughly=bool(kinds)))
            for each, kinds in found
            if kinds <= MATCHED and each.arrays
        ]


def _smaller(solution, replay, launch):
    """(replay, what was seen) of the learner's kernel in a launch with one block less; None with one block."""
    (blocks, *rest), block, *arguments = copy.deepcopy(replay.arguments)
    if blocks == 1:
        return None
    grid, after = (blocks - 1, *rest), copy.deepcopy(arguments)
    report = launch(grid, block, after)
    return Replay.of((grid, block, *arguments), {}), Seen(solution.names, arguments, after, report, exact=True)


def _alike(function, replay, seen) -> bool:
    """Does this kernel leave what was seen after that launch?"""
    arguments = copy.deepcopy(replay.arguments)
    return seen.like(function(*arguments), arguments[2:])


def _has_it(words, code, source) -> bool:
    """Has the learner's text what the change leaves out, or the piece that it changes, as often as ours?

    Then the mistake is in another place.
    """
    found = LEFT_OUT.fullmatch(words) or LONG_PIECE.search(words)
    if not found:
        return False
    theirs, ours, line = ("".join(text.split()).replace("//", "/") for text in (mask(code), source, found[1]))
    return theirs.count(line) >= ours.count(line) > 0


def _of_our_own(words, source) -> bool:
    """Is every piece that is changed one of the solution's, not of what another change has made of it?"""
    return all(" … " in piece or piece in source for piece in CHANGED.findall(words))


def _too_far(words) -> bool:
    """Is something left out, an offset added twice, brackets lost, or one thread too many let through?

    Of an access outside only the first index is known, which other mistakes hit by chance.
    """
    likely = words.startswith("without") or "added twice" in words or WIDER.match(words) or UNBRACKETED.match(words)
    return bool(likely) and " and " not in words and can_be_said(words)
