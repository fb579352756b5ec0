"""A change after which a loop of the learner's makes no turn goes around a mistake: what the loop does is left out."""

import ast
import time
from contextlib import suppress


def turning(program, calls) -> set:
    """(function, line) of the loops that make a turn in one of the calls, with the program's tree as it is now.

    calls: functions of a function, which make a call of it. Loops that Numba compiles are not seen.
    """
    seen = set()
    for call in calls:
        with suppress(Exception):
            call(program.function(time.thread_time() + program.seconds, seen))
    return seen


def stands_still(program, before, calls) -> bool:
    """Is there a loop, with the tree as it is now, that made a turn before, and makes none in any of the calls?"""
    here = {
        (function.name, loop.lineno)
        for function in ast.walk(program.tree)
        if isinstance(function, ast.FunctionDef)
        for loop in ast.walk(function)
        if isinstance(loop, (ast.For, ast.While))
    }
    return bool((before & here) - turning(program, calls))
