"""What the running check has seen: the calls it made, with which a wrong array can be traced to a mistake."""

from collections import deque

from llmc.course.mutants.kept import kept_between
from llmc.course.mutants.recognise import recognised
from llmc.course.mutants.replay import Replay, outputs_of

CALLS = 4  # of a check, the last ones, that a wrong array may have come from; a check may make thousands
_open = []  # the Evidence of the check whose block is running, innermost last
_explaining = True


class Evidence:
    """The calls of one check. `words` of the running one says which change of the solution gives a wrong array."""

    def __init__(self, exercise):
        self.exercise = exercise
        self.replays = deque(maxlen=CALLS)

    def __enter__(self):
        _open.append(self)

    def __exit__(self, *unused):
        _open.remove(self)

    def before(self, arguments, options):
        """The copy of a call that is about to be made; None where it cannot be made again."""
        return Replay.of(arguments, options)

    def after(self, replay, result, arguments, options):
        """Note what that call returned and wrote."""
        if replay is not None:
            replay.outputs = outputs_of(result, arguments, options)
            self.replays.append(replay)


def remains(got, expected, start) -> str | None:
    """ "with `w` of an earlier call: …": what gives `got`, if the function keeps something between calls, or rounds."""
    running = _open[-1] if _open and _explaining else None
    return running and kept_between(running.exercise, running.replays, got, expected, start)


def explaining(on: bool) -> bool:
    """Whether `words` looks for mutants, which takes up to seconds; returns what it was before."""
    global _explaining
    was, _explaining = _explaining, on
    return was


def words(got, expected, start) -> str | None:
    """ "without the term `through_mean`": how the solution must be changed to give `got` instead of start + expected.

    None outside of a check, and when no small change does.
    """
    if not (_open and _explaining):
        return None
    return recognised(_open[-1].exercise, _open[-1].replays, got, expected, start)
