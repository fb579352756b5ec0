"""Do the checks refuse every mutant of every solution? One that is accepted is a hole, or right after all.

    python -m llmc.course.old.authoring.mutants [11 …] [--count 50]

prints a line for each exercise and one for each hole, and exits with status 1 if there is one; a lesson takes
minutes. Mutants that are right after all are listed in `solutions/answers/equivalent.json`, each with the reason:

    {"layernorm_forward": {"with `x` in place of `centred` in `centred * w`": "why the results are the same"}}
"""

import argparse
import ast
import sys

from llmc.course.exercises.layout import checkout
from llmc.course.old.authoring.answers import Lesson, lessons
from llmc.course.old.authoring.cuda_mutants import tried_cuda
from llmc.course.old.authoring.python_mutants import tried_python
from llmc.course.old.authoring.tried import equivalent, is_listed
from llmc.course.old.mutants import cuda_source, python_source
from llmc.course.old.mutants.stoppable import stoppable


def tried(lesson: Lesson, exercise: str, count=None):
    """Tried, one by one, for the mutants of an exercise's solution; with count, for a sample of them."""
    in_cuda = isinstance(lesson.namespace[exercise], str)
    return (tried_cuda if in_cuda else tried_python)(lesson, exercise, count)


def all_words(lesson: Lesson, exercise: str) -> list[str]:
    """The words of every mutant of an exercise's solution."""
    if isinstance(lesson.namespace[exercise], str):
        return [words for words, _ in cuda_source.mutants(lesson.namespace[exercise])]
    return list(python_source.mutants(stoppable(ast.parse(lesson.answer_of[exercise]))))


def main(argv=None) -> int:
    """Print a line for each exercise, and one for each mutant that its check accepts."""
    parser = argparse.ArgumentParser(
        prog="llmc.course.old.authoring.mutants", description="Do the checks refuse small mistakes?"
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
            holes += _print(exercise, list(tried(lesson, exercise, options.count)), listed.get(exercise, {}))
    return 1 if holes else 0


def _print(exercise, outcomes, reasons) -> int:
    """One row; how many holes there are."""
    accepted = [outcome.words for outcome in outcomes if outcome.accepted]
    holes = [words for words in accepted if not is_listed(words, reasons)]
    refused, right = len(outcomes) - len(accepted), len(accepted) - len(holes)
    print(f"{exercise:<34}{len(outcomes):>9}{refused:>9}{right:>17}{len(holes):>7}", flush=True)
    for words in holes:
        print(f"    accepted {words}")
    return len(holes)


if __name__ == "__main__":
    sys.exit(main())
