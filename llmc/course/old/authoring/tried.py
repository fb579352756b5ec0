"""What a check said about a mutant of its exercise's solution, and which mutants are right after all."""

import json
import random
from contextlib import contextmanager
from typing import NamedTuple

from llmc.course.old.checks import evidence


class Tried(NamedTuple):
    """What a check said about one mutant."""

    exercise: str
    words: str
    accepted: bool
    message: str


@contextmanager
def not_explained():
    """Which mutant it is, is known: no check looks for it."""
    was = evidence.explaining(False)
    try:
        yield
    finally:
        evidence.explaining(was)


def equivalent(root) -> dict:
    """{exercise: {words: reason}} of the mutants that are as right as the solution; "words …" is all that begin so."""
    return json.loads((root / "solutions" / "answers" / "equivalent.json").read_text(encoding="utf-8"))


def is_listed(words, reasons) -> bool:
    """Is a mutant among those with a reason?"""
    return any(covers(listed, words) for listed in reasons)


def covers(listed, words) -> bool:
    """Does an entry of that table mean a mutant with these words?"""
    return words.startswith(listed.removesuffix("…")) if listed.endswith(" …") else words == listed


def sample(exercise, total, count=None) -> set:
    """Numbers of the mutants to try, the same ones every time; all without a count."""
    return set(random.Random(exercise).sample(range(total), min(count or total, total)))
