"""Do the checks refuse every mutant of every solution? One that is accepted is a hole, or right after all.

    python -m llmc.course.authoring.mutants [11 …] [--count 50]

prints a line for each exercise and one for each hole, and exits with status 1 if there is one; a lesson takes about a
minute. Mutants that are right after all are listed in `solutions/answers/equivalent.json`, each with the reason:

    {"layernorm_forward": {"with `x` in place of `centred` in `centred * w`": "why the results are the same"}}
"""

import argparse
import ast
import json
import random
import sys
import time
import warnings
from contextlib import closing
from typing import NamedTuple

from llmc.course.authoring.answers import Lesson, lessons
from llmc.course.checks import evidence
from llmc.course.exercises.layout import checkout
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


def main(argv=None) -> int:
    """Print a line for each exercise, and one for each mutant that its check accepts."""
    parser = argparse.ArgumentParser(
        prog="llmc.course.authoring.mutants", description="Do the checks refuse small mistakes?"
    )
    parser.add_argument("lessons", nargs="*", help="their numbers or names (11); all, if none is given")
    parser.add_argument("--count", type=int, help="how many mutants of each solution; all, if not given")
    options, root = parser.parse_args(argv), checkout()
    wanted = [name for name in lessons(root) if not options.lessons or name.startswith(tuple(options.lessons))]
    if not wanted:
        parser.error(f"no lesson {' or '.join(options.lessons)} has exercises")
    listed, holes = equivalent(root), 0
    print(f"{'exercise':<34}{'mutants':>9}{'refused':>9}{'right after all':>17}{'holes':>7}")
    for name in wanted:
        lesson = Lesson(root, name)
        for exercise in lesson.check_of:
            holes += _print(exercise, _outcomes(lesson, exercise, options.count), listed.get(exercise, {}))
    return 1 if holes else 0


def _outcomes(lesson, exercise, count):
    return [] if isinstance(lesson.namespace[exercise], str) else list(tried(lesson, exercise, count))


def _print(exercise, outcomes, reasons) -> int:
    """One row; how many holes there are."""
    accepted = [outcome.words for outcome in outcomes if outcome.accepted]
    holes = [words for words in accepted if words not in reasons]
    refused, right = len(outcomes) - len(accepted), len(accepted) - len(holes)
    print(f"{exercise:<34}{len(outcomes):>9}{refused:>9}{right:>17}{len(holes):>7}", flush=True)
    for words in holes:
        print(f"    accepted {words}")
    return len(holes)


if __name__ == "__main__":
    sys.exit(main())
