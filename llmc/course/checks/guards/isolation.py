"""What a learner's function must not use while it is checked: llmc, since calling the finished layer is no answer.

Nor does it see the variables of check cells, where one that ignores an argument would find the right array:
`llmc.course.own_names`.
"""

import sys
import sysconfig
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from llmc.course.checks.messages.diagnosis import WrongAnswer
from llmc.course.compilation import paused_while_compiling

PACKAGE = Path(__file__).parents[3]  # …/llmc; not resolved, because code objects name their files as imported
COURSE = PACKAGE / "course"
TESTS = str(PACKAGE / "tests")  # which define answers of their own
FOREIGN = (str(PACKAGE), str(Path(np.__file__).parents[1]), sysconfig.get_path("stdlib"))  # not written by a learner
# what in llmc may run on an answer's behalf: this module, the arrays of `find_races`, what checks how long an answer
# takes, the marked np.empty, and what waits while Numba compiles
INSIDE = ("races/watched.py", "checks/guards/endless.py", "uncleared.py", "compilation.py", "mutation/program.py")
OPEN = (__file__, TESTS, *(str(COURSE / file) for file in INSIDE))


def is_foreign(filename) -> bool:
    """Is that file ours or a library's, and not a cell of the learner's?"""
    return filename.startswith(FOREIGN) and not filename.startswith(TESTS)


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
    """Watch nothing while Numba compiles: its hundreds of thousands of calls would take several times as long."""
    watch = sys.getprofile()
    sys.setprofile(None)
    return watch
