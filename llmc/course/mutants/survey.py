"""Do the checks refuse every mutant of every solution? One that is accepted is a hole, or right after all.

Mutants that are right after all are listed in `solutions/answers/equivalent.json`, each with the reason:

    {"layernorm_forward": {"with `x` in place of `centred` in `centred * w`": "why the results are the same"}}
"""

import ast
import json
import random
import time
import warnings
from contextlib import closing
from typing import NamedTuple

from llmc.course.authoring.answers import Lesson
from llmc.course.checks import evidence
from llmc.course.mutants.python_source import mutants
from llmc.course.mutants.stoppable import TooLong, stoppable, ticking

SECONDS = 20  # of one mutant's loops


class Tried(NamedTuple):
    """What a check said about one mutant."""

    exercise: str
    words: str
    accepted: bool
    message: str


def equivalent(root) -> dict:
    """{exercise: {words: reason}} of the mutants that are as right as the solution."""
    return json.loads((root / "solutions" / "answers" / "equivalent.json").read_text(encoding="utf-8"))


def tried(lesson: Lesson, exercise: str, count=None, seed=0):
    """Tried, one by one, for the mutants of a solution in Python; with count, for a sample that seed repeats."""
    tree = stoppable(ast.parse(lesson.answer_of[exercise]))
    total = sum(1 for _ in mutants(tree))
    wanted = set(random.Random(f"{exercise} {seed}").sample(range(total), min(count or total, total)))
    with closing(mutants(tree)) as found:
        for number, words in enumerate(found):
            if number in wanted:
                yield Tried(exercise, words, *_given(lesson, exercise, tree))


def _given(lesson, exercise, tree):
    """(accepted, message) of the exercise's check, with this answer in its cell."""
    namespace = {**lesson.namespace, **ticking(time.thread_time() + SECONDS)}
    was = evidence.explaining(False)  # which mutant it is, is known
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(tree, f"<mutant of {exercise}>", "exec"), namespace)
            return lesson.check(exercise, namespace, seed=1)
    except TooLong:
        return False, "its loops do not end"
    except Exception as error:  # the cell itself stops, as a learner's would
        return False, f"{type(error).__name__}: {error}"
    finally:
        evidence.explaining(was)
