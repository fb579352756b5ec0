"""`python -m llmc.course.mutants [11 …] [--count 50]`: run the checks on mutants of the solutions; which get through?

It takes about a minute a lesson. Exit status 1 if a check accepts a mutant that `equivalent.json` does not list.
"""

import argparse
import sys

from llmc.course.authoring.answers import Lesson, lessons
from llmc.course.exercises.layout import checkout
from llmc.course.mutants.survey import equivalent, tried


def main(argv=None) -> int:
    """Print a line for each exercise, and one for each mutant that its check accepts."""
    parser = argparse.ArgumentParser(prog="llmc.course.mutants", description="Do the checks refuse small mistakes?")
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
