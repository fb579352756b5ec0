"""Where no known mistake fits: is a result wrong exactly where the numbers that it is made of are large?"""

import numpy as np

from llmc.course.old.checks.case import Case

FEW = 6  # entries on either side; fewer of them may be parted by chance
SIDES = (
    ("|{}| is above {:.3g}", np.abs),
    ("{} is above {:.3g}", lambda x: x),
    ("{} is below {:.3g}", lambda x: -x),
)


def beyond(case: Case, inputs: dict) -> list[str]:
    """A sentence about an input of the same shape whose size parts the wrong entries from the right ones; else none.

    inputs: {name: value} of the call's arguments.
    """
    scale = np.abs(case.expected[np.isfinite(case.expected)]).max(initial=0.0)
    wrong = ~(np.abs(case.got - case.expected) <= case.rounding * scale)
    if min(wrong.sum(), (~wrong).sum()) < FEW:
        return []
    for name, x in inputs.items():
        if isinstance(x, np.ndarray) and x.dtype.kind == "f" and x.shape == case.got.shape and np.isfinite(x).all():
            for words, size in SIDES:
                limit = size(x)[~wrong].max()
                if size(x)[wrong].min() > limit == 0 and size is np.abs:  # a mask, not a size
                    return [f"It is wrong exactly where {name} is not 0."]
                if size(x)[wrong].min() > limit:
                    where = words.format(name, -limit if "below" in words else limit)
                    return [f"It is wrong exactly where {where}, and right everywhere else."]
    return []
