"""What a check says of a race. Importing this does not import Numba: an answer without it has no threads to watch."""

import sys

from llmc.course.checks.explain import WrongAnswer

RACE = 'lesson 11, section "9.1 · A race"'  # a test compares this title with the headings of that notebook


def no_race(watch):
    """Raise WrongAnswer if `find_races` saw a race; None, when it could not look, is no evidence."""
    if watch is not None and watch.races:
        raise WrongAnswer(
            f"a race: {watch.races[0]}. Numba may run both at the same time, and then one of the two is lost.\n"
            f"→ Where to look: {RACE}."
        )


def no_race_in(function, *arguments):
    """The same for this call, which runs in plain Python, with three threads: use small arrays."""
    if "numba" in sys.modules:
        from llmc.course.races.find import find_races

        no_race(find_races(function, *arguments))
