"""Which arrays do the names of a function hold when they hold most? Watched line by line, in one more call."""

import sys

import numpy as np

from llmc.course.own_names import among_learners_names

LINES = 5000  # that are watched
MANY = 5  # arrays that are named
LITTLE = 0.1  # of the largest: smaller ones are not named


def said_of_names(function, call) -> str:
    """ "Where it holds most, its names hold `q` (0.4 MB), `s` (0.2 MB)." or "". call(): a call of the function.

    Neither arguments nor what is returned count.
    """
    code = getattr(function, "__code__", None)
    watched = _Watched(code)
    previous = sys.gettrace()
    sys.settrace(watched.enter)
    try:
        among_learners_names(call)()
    finally:
        sys.settrace(previous)
    most = max(watched.held, key=lambda held: sum(size for name, size in held.values()), default={})
    own = {}  # {name: bytes}, a list's together
    for key, (name, size) in most.items():
        if (key, size) not in watched.returned:
            own[name] = own.get(name, 0) + size
    sizes = sorted(own.items(), key=lambda held: -held[1])
    named = [f"`{name}` ({size / 1e6:.2g} MB)" for name, size in sizes[:MANY] if size > LITTLE * sizes[0][1]]
    return f" Where it holds most, its names hold {', '.join(named)}." if named else ""


class _Watched:
    """held: for each line of the function {id of an array: (name, bytes)}. returned: ids and bytes of what it returned.

    An id alone may have been that of another array before.
    """

    def __init__(self, code):
        self.code, self.held, self.returned = code, [], set()

    def enter(self, frame, event, argument):
        return self.line if frame.f_code is self.code else None

    def line(self, frame, event, argument):
        if event == "return":
            owner = _owner(argument)
            self.returned |= {(id(owner), getattr(owner, "nbytes", 0))}
        if len(self.held) < LINES:
            self.held.append(_arrays_of(frame))
        return self.line


def _arrays_of(frame) -> dict:
    """{id: (name, bytes)} of the arrays behind the variables, and in their lists, without those of the arguments."""
    names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
    owners = [(name, _owner(each)) for name, value in frame.f_locals.items() for each in _arrays_in(value)]
    given = {id(owner) for name, owner in owners if name in names}
    return {id(owner): (name, owner.nbytes) for name, owner in reversed(owners) if id(owner) not in given}


def _arrays_in(value) -> list:
    """An array, or those in a list, a tuple or a dict of them."""
    if isinstance(value, dict):
        value = list(value.values())
    several = value if isinstance(value, (list, tuple)) else [value]
    return [each for each in several if isinstance(each, np.ndarray)]


def _owner(array):
    """The array whose memory this is a part of."""
    while isinstance(getattr(array, "base", None), np.ndarray):
        array = array.base
    return array
