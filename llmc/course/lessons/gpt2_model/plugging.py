"""Lesson 07: a learner's layers inside the model."""

from contextlib import contextmanager
from difflib import get_close_matches

from llmc.course.old.checks.explain import WrongAnswer
from llmc.errors import UserError


@contextmanager
def in_their_code():
    """Around the use of `learner_backend` in a check: an error in a learner's function is reported as such.

    What a function raised comes out unchanged; a wrong return value comes out as a plain sentence.
    """
    try:
        yield
    except UserError as error:
        if isinstance(error.__cause__, Exception):
            raise error.__cause__ from None
        raise WrongAnswer(str(error)) from None


def stranger(names, known):
    """A sentence about the first unknown name, with the one that may be meant; None when all are known."""
    for name in names:
        if name not in known:
            close = get_close_matches(str(name), known, n=1)
            return f"{name!r} is not one of LAYERS, so it would not be used" + f"; {close[0]!r} is one" * bool(close)
    return None
