"""Mutants of a solution in CUDA C, given to its check as if a learner had written them."""

from llmc.course.old.authoring.answers import Answer, Lesson
from llmc.course.old.authoring.tried import Tried, not_explained, sample
from llmc.course.old.kernel_checks.runs import patience
from llmc.course.old.mutants.cuda_source import mutants

SECONDS = 2  # of one launch; a mutant that never ends is refused like a learner's


def tried_cuda(lesson: Lesson, exercise: str, count=None):
    """Tried, one by one, for the mutants of a solution in CUDA C; with count, for a sample of them."""
    found = mutants(lesson.namespace[exercise])
    for number in sorted(sample(exercise, len(found), count)):
        words, mutant = found[number]
        with patience(SECONDS), not_explained():
            outcome = lesson.give(Answer(exercise, lambda solution, mutant=mutant: mutant, says=""), seed=1)
        yield Tried(exercise, words, outcome.accepted, outcome.message)
