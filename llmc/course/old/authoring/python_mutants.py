"""Mutants of a solution in Python, given to its check as if a learner had written them."""

import ast
import time
import warnings
from contextlib import closing

from llmc.course.old.authoring.answers import Lesson
from llmc.course.old.authoring.tried import Tried, not_explained, sample
from llmc.course.old.mutants.python_source import mutants
from llmc.course.old.mutants.stoppable import TooLong, stoppable, ticking

SECONDS = 10  # of one mutant's loops; a check takes less than 1


def tried_python(lesson: Lesson, exercise: str, count=None):
    """Tried, one by one, for the mutants of a solution in Python; with count, for a sample of them."""
    tree = stoppable(ast.parse(lesson.answer_of[exercise]))
    total = sum(1 for _ in mutants(tree))
    wanted = sample(exercise, total, count)
    with closing(mutants(tree)) as found:
        for number, words in enumerate(found):
            if number in wanted:
                yield Tried(exercise, words, *_given(lesson, exercise, tree))


def _given(lesson, exercise, tree):
    """(accepted, message) of the exercise's check, with this answer in its cell."""
    namespace = {**lesson.namespace, **ticking(time.thread_time() + SECONDS)}
    try:
        with warnings.catch_warnings(), not_explained():
            warnings.simplefilter("ignore")
            exec(compile(tree, f"<mutant of {exercise}>", "exec"), namespace)
            return lesson.check(exercise, namespace, seed=1)
    except TooLong:
        return False, "its loops do not end"
    except Exception as error:  # the cell itself stops, as a learner's would
        return False, f"{type(error).__name__}: {error}"
