"""One thing at a time: for which of many small calls is a learner's function right, and what do the others share?

A sentence from here tells the outcome of calls that were made. It does not guess at the cause.
"""

import io
from contextlib import redirect_stdout

import numpy as np

from llmc.course.own_names import learners_names

MOST = 4  # names that a sentence lists


def outcome(function, *arguments):
    """What the learner's function returns; the exception, if it raises one."""
    try:
        with learners_names(), redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
            return function(*arguments)
    except Exception as error:
        return error


def told_apart(right, did) -> str | None:
    """ "inf and -inf are noticed in each of grads[0] and grads[1], nan in neither": a sentence, or None.

    right: {(what, where): did it go well?} of calls that differ in what is in them and in where it is. did: words for
    going well, "noticed".
    """
    whats, wheres = (list(dict.fromkeys(key[k] for key in right)) for k in (0, 1))
    if all(right.values()) or not any(right.values()):
        return None
    by_what = {w: {right[w, p] for p in wheres if (w, p) in right} for w in whats}
    if all(len(seen) == 1 for seen in by_what.values()):
        good, bad = ([w for w, seen in by_what.items() if seen == {flag}] for flag in (True, False))
        return f"{listed(good)} {_is(good)} {did}, and {listed(bad)} {_is(bad)} not"
    by_where = {p: {right[w, p] for w in whats if (w, p) in right} for p in wheres}
    if all(len(seen) == 1 for seen in by_where.values()):
        good, bad = ([p for p, seen in by_where.items() if seen == {flag}] for flag in (True, False))
        return f"in {listed(good)} {listed(whats, 'or')} is {did}, and in {listed(bad)} it is not"
    bad = [f"{w} in {p}" for (w, p), flag in right.items() if not flag]
    return f"{listed(bad)} {_is(bad)} not {did}, and the rest is"


def listed(names, last="and") -> str:
    """ "a, b and c"; of many the first ones."""
    names = [*map(str, names)]
    if len(names) > MOST:
        return f"{', '.join(names[:MOST])} and {len(names) - MOST} more"
    return f" {last} ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _is(names) -> str:
    return "is" if len(names) == 1 else "are"
