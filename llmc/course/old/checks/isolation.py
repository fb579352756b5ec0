"""What a learner's function must not use while it is checked: llmc, since a call of the finished layer is no answer.

Nor does it see the variables of check cells, where one that ignores an argument would find the right array:
`llmc.course.own_names`.
"""

import sys
from contextlib import contextmanager
from pathlib import Path

from llmc.course.compilation import paused_while_compiling
from llmc.course.old.checks.explain import WrongAnswer

PACKAGE = Path(__file__).parents[3]  # …/llmc; not resolved, because code objects name their files as imported
COURSE = PACKAGE / "course"
# this module itself; tests, which define answers of their own; arrays that an answer kept from `find_races`; what a
# mutant calls: it was refused for that, whatever its mistake; what looks how long an answer takes; np.empty, marked;
# what waits while Numba compiles
MUTANTS = ("old/mutants/stoppable.py", "old/mutants/one_by_one.py", "old/mutants/outdated.py")
INSIDE = ("races/watched.py", "old/checks/endless.py", "uncleared.py", "compilation.py", *MUTANTS)
OPEN = (__file__, *map(str, (PACKAGE / "tests", *(COURSE / file for file in INSIDE))))


@contextmanager
def without_llmc(given=()):
    """Raise WrongAnswer as soon as a function of llmc is called, however it was imported.

    given: functions on whose behalf llmc may be called.
    """
    codes = {function.__code__ for function in given}

    def watch(frame, event, argument):
        file = frame.f_code.co_filename
        if (
            event == "call"
            and file.startswith(str(PACKAGE))
            and not file.startswith(OPEN)
            and not _within(frame if frame.f_back else sys._getframe(1), codes)  # Numba's own frames have no caller
        ):
            name = f"{frame.f_globals.get('__name__')}.{frame.f_code.co_name}".removesuffix(".<module>")
            raise WrongAnswer(f"your code uses {name}. Write it yourself: this checks your own code.")

    previous = sys.getprofile()
    sys.setprofile(watch)
    try:
        with paused_while_compiling(_unwatched, sys.setprofile):
            yield
    finally:
        sys.setprofile(previous)


def _within(frame, codes) -> bool:
    """Has one of these called what runs in the frame, or what called it?"""
    while codes and frame is not None:
        if frame.f_code in codes:
            return True
        frame = frame.f_back
    return False


def _unwatched():
    """Watch nothing while Numba compiles: its hundred thousands of calls would take several times as long."""
    watch = sys.getprofile()
    sys.setprofile(None)
    return watch
