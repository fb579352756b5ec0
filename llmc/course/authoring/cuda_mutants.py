"""Do the checks refuse every mutant of every kernel? Those that are accepted are holes, or right after all.

A mutant that is right after all is listed in `solutions/answers/equivalent_kernels.json`, with the reason:

    {"tree_sum": {"`1` in place of `0`, line 21": "every thread can write the sum"}}
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

from llmc.course.authoring.answers import Answer, Lesson
from llmc.course.kernel_checks.runs import patience
from llmc.course.mutants.cuda_source import mutants

SECONDS = 2  # of one launch; a mutant that never ends is refused like a learner's


@dataclass(frozen=True)
class TriedKernel:
    """What a check said about one mutant."""

    exercise: str
    words: str
    accepted: bool
    message: str

    @property
    def diagnosed(self) -> bool:
        """Does the message say more than that values are wrong?"""
        return " has wrong values" not in self.message


def equivalent_kernels(root) -> dict:
    """{exercise: {words: reason}} of the mutants that compute the same as the solution."""
    path = root / "solutions" / "answers" / "equivalent_kernels.json"
    return json.loads(path.read_text(encoding="utf-8"))


def survey_kernels(lesson: Lesson, count=None, seed=0) -> Iterator[TriedKernel]:
    """One by one, the mutants of every exercise in CUDA C; with count, for a sample of each that seed repeats."""
    for exercise in lesson.check_of:
        if isinstance(lesson.namespace[exercise], str):
            yield from tried_kernels(lesson, exercise, count, seed)


def tried_kernels(lesson: Lesson, exercise: str, count=None, seed=0) -> Iterator[TriedKernel]:
    """The same for one exercise."""
    found = mutants(lesson.namespace[exercise])
    random_order = random.Random(f"{exercise} {seed}")
    for words, mutant in found if count is None else random_order.sample(found, min(count, len(found))):
        with patience(SECONDS):
            outcome = lesson.give(Answer(exercise, lambda solution, mutant=mutant: mutant, says=""), seed=1)
        yield TriedKernel(exercise, words, outcome.accepted, outcome.message)
