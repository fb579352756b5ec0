"""Lessons 10 and 22: which settings does a learner's function try, and does it return the best of them?"""

import inspect
from contextlib import contextmanager


@contextmanager
def noted(c, function, train):
    """Let the learner's function call `train`, and give a list of ((setting, …), score), one for each such call.

    c: the check. train: a function of the notebook's, whose first result is a score; less is better.
    """
    runs, variables, name = [], getattr(function, "__globals__", {}), train.__name__

    def noting(*values, **settings):
        result = train(*values, **settings)
        bound = inspect.signature(train).bind(*values, **settings)
        bound.apply_defaults()
        runs.append((tuple(bound.arguments.values()), float(result[0])))
        return result

    c.may_call(train, noting)
    variables[name] = noting
    try:
        yield runs
    finally:
        variables[name] = train


def not_the_least(runs, chosen, what) -> str:
    """A sentence if the chosen settings were tried, and others that were tried, too, had a lower score; else "".

    runs: what `noted` gives. chosen: (setting, …), all that come first among the arguments. what: a word for scores.
    """
    n = len(chosen)
    ours = [(settings[n:], score) for settings, score in runs if settings[:n] == tuple(chosen)]
    rest, score = ours[-1] if ours else ((), 0)
    scores = {each[:n]: s for each, s in runs if ours and each[n:] == rest and s == s}  # not NaN
    least = min(scores.values(), default=score)
    if not least < score:
        return ""
    which = f"the largest {what}, {score:.3f}" if score >= max(scores.values()) else f"a {what} of {score:.3f}"
    tried = f"of {len(scores)} settings that your function tries it returns those with {which}"
    return f"{tried}, and the smallest is {least:.3f}"
