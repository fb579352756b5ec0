"""Do the checks refuse every mutant of every solution? Those that are accepted are holes, or right after all.

A mutant that is right after all is listed in `solutions/answers/equivalent.json`, with the reason:

    {"layernorm_forward": {"with `x` in place of `centred` in `centred * w`": "why the results are the same"}}
"""

import ast
import json
import random
import time
from contextlib import closing
from dataclasses import dataclass

from llmc.course.authoring.answers import Lesson
from llmc.course.mutants.python_source import mutants
from llmc.course.mutants.stoppable import TooLong, stoppable, ticking

SECONDS = 20  # of one mutant's loops; one that never ends is refused like a learner's


@dataclass(frozen=True)
class Tried:
    """What a check said about one mutant."""

    exercise: str
    words: str
    accepted: bool
    message: str

    @property
    def diagnosed(self) -> bool:
        """Does the message say more than that values are wrong?"""
        return " has wrong values" not in self.message


def equivalent(root) -> dict:
    """{exercise: {words: reason}} of the mutants that compute the same as the solution."""
    path = root / "solutions" / "answers" / "equivalent.json"
    return json.loads(path.read_text(encoding="utf-8"))


def tried(lesson: Lesson, exercise: str, count=None, seed=0):
    """Tried, one by one, for the mutants of a solution in Python; with count, for a sample that seed repeats."""
    source = lesson.answer_of[exercise]
    tree = stoppable(ast.parse(source))
    total = sum(1 for _ in mutants(tree))
    wanted = set(random.Random(f"{exercise} {seed}").sample(range(total), min(count or total, total)))
    with closing(mutants(tree)) as found:
        for number, words in enumerate(found):
            if number in wanted:
                yield Tried(exercise, words, *_given(lesson, exercise, tree))


def _given(lesson, exercise, tree):
    """(accepted, message) for the cell with this answer."""
    namespace = {**lesson.namespace, **ticking(time.thread_time() + SECONDS)}
    try:
        exec(compile(tree, f"<mutant of {exercise}>", "exec"), namespace)
        return lesson.check(exercise, namespace, seed=1)
    except TooLong:
        return False, "it never ends"
