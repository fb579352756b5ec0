"""Where no change explains a wrong array: which expression of the learner's function is the first to be wrong?"""

import io
import time
import warnings
from contextlib import redirect_stdout

import numpy as np

from llmc.course.old.checks.causes import glossary, replay_like
from llmc.course.old.checks.evidence import looked_into
from llmc.course.old.checks.silence import silent_libraries
from llmc.course.old.mutants.grafted import graft
from llmc.course.old.mutants.learners import learners
from llmc.course.old.mutants.solution import Solution
from llmc.course.own_names import learners_names

MORE = 3  # calls on other numbers, and as many of the check's own, that must say the same


def first_wrong(name, got) -> list[str]:
    """Sentences on the expression with whose right numbers the learner's function is right; [] where there is none."""
    check, last = looked_into(), replay_like(got)
    solution = check.solution() if check and last else None
    if not isinstance(solution, Solution):
        return []
    with silent_libraries(), redirect_stdout(io.StringIO()), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with learners_names():
            answer = learners(check.function)
        if answer is None:
            return []
        more = check.rehearsed(solution.function(time.thread_time() + solution.seconds))
        others = [replay for replay in check.replays if replay is not last[0]]
        found = graft(solution, answer, [last[0], *more[:MORE], *others[-MORE:]])
    if found is None:
        return []
    before = f"what makes {' or '.join(found.before)}"
    if found.ours == found.theirs:  # of other numbers
        where = f"before {found.theirs}, in {before}" if found.before else f"in what goes into {found.theirs}"
        return [
            f"{name} goes wrong {where}: with our solution's numbers your function is right.",
            *glossary(found.ours),
        ]
    where = f"in {found.theirs}{f', or in {before}' * bool(found.before)}"
    ours = f"with the numbers that our solution has there, those of {found.ours}, your function is right"
    return [f"{name} goes wrong {where}: {ours}.", *glossary(found.ours)]
