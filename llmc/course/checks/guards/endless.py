"""An answer that does not come to an end, and one that the Stop button ended: in which line was it?

A check counts the processor time of its thread, because a busy machine does not make an answer endless. It works
only in the main thread, where there is `signal.setitimer`; compiled code ends when it likes, and nothing is said then.
"""

import ast
import linecache
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from llmc.course.checks.guards.isolation import is_foreign

COMPILER = str(Path(np.__file__).parents[1] / "numba")
SECONDS = 180.0  # of processor time that one call of the learner's function may take
TICK = 1.0  # seconds between two looks at a call that has taken longer
_open = []  # the Limit of the check whose block is running; or none


class StillRunning(BaseException):
    """A call has not come to an end. No `except Exception` of the learner's may catch it."""

    def __init__(self, seconds):
        super().__init__(f"still running after {seconds:.0f} s")
        self.seconds = seconds


class Stopped(KeyboardInterrupt):
    """The learner has stopped a check. A notebook shows this sentence in place of a traceback."""

    def _render_traceback_(self, *unused):
        return str(self).splitlines()


class Limit:
    """The time limit of a check's calls, from `start` to `stop`. cell: the frame of the check cell."""

    def __init__(self, cell):
        self.cell, self.began, self.began_wall, self.late = cell, time.thread_time(), time.perf_counter(), False
        self.before = None  # the handler that was there before; None while this one is not in place

    def start(self):
        """Begin to count, unless something else already does."""
        mine = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
        if mine and not any(signal.getitimer(signal.ITIMER_VIRTUAL)):
            self.before = signal.signal(signal.SIGVTALRM, self._look) or signal.SIG_DFL
            signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS, TICK)
        _open.append(self)

    def stop(self):
        """Leave everything as it was."""
        _open.remove(self)
        if self.before is not None:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, self.before)
            self.before = None

    def begin(self):
        """The learner's function is called."""
        self.began, self.began_wall, self.late = time.thread_time(), time.perf_counter(), False

    def _look(self, number, frame):
        """Raise StillRunning in the learner's code if it was also running at the last look, after all these seconds.

        A call that has just left compiled code may be about to end.
        """
        taken = time.thread_time() - self.began
        if taken < SECONDS or not self._is_the_learners(frame):
            self.late = False
        elif not self.late:
            self.late = True
        else:
            self.late = False
            raise StillRunning(taken)

    def _is_the_learners(self, frame) -> bool:
        """Is the learner's code running, and nothing of ours on its behalf? Numba may compile as long as it must."""
        while frame is not None and frame is not self.cell:
            file = frame.f_code.co_filename
            if not is_foreign(file):
                return not file.endswith(", edited>")  # what the search for a mistake runs has a limit of its own
            if file.startswith(COMPILER):
                return False
            frame = frame.f_back
        return False


def begin():
    """Tell the running check, if there is one, that the learner's function is called."""
    if _open:
        _open[-1].begin()


def where(frames) -> str:
    """ "in line 7, `i += 2`, of the loop `while i < n`": where the innermost (frame, line) is; perhaps in no loop.

    frames: those of the learner's functions, the innermost last.
    """
    frame, line = frames[-1]
    code = linecache.getline(frame.f_code.co_filename, line).strip()
    said = f"in line {line}, `{code}`" if code else f"in line {line}"
    loop = next((found for each in reversed(frames) if (found := _loop_around(*each))), None)
    return f"{said}, of the loop `{loop}`" if loop and f"`{loop}:`" not in said else said


def _loop_around(frame, line) -> str | None:
    """The innermost `while` that a line lies in; None without one."""
    with suppress(SyntaxError):
        tree = ast.parse("".join(linecache.getlines(frame.f_code.co_filename)))
        loops = [node for node in ast.walk(tree) if isinstance(node, ast.While)]
        around = [node for node in loops if node.lineno <= line <= node.end_lineno]
        return f"while {ast.unparse(max(around, key=lambda node: node.lineno).test)}" if around else None
    return None
