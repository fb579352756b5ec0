"""Lessons 02 and 03: does an answer that uses threads race? The watch itself is lesson 11's."""

import sys


def no_race(function, *arguments):
    """Raise WrongAnswer if threads of this function write to one place; without Numba there are none to look at."""
    if "numba" in sys.modules:
        from llmc.course.lessons.fast_on_cpu import kernels, races

        kernels.no_race(races.find_races(function, *arguments))
