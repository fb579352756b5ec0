"""JSON from outside, which somebody may have edited, damaged or swapped: it is checked for its expected shape.

A shape describes what is allowed: a type (float also allows whole numbers, object allows anything), None, a tuple of
shapes of which one must fit, [shape] for a list, {str: shape} for an object with any names, or {"name": shape} for an
object with these entries and perhaps others; a missing entry counts as None.
"""

import json
import os
import sys

from llmc.errors import UserError
from llmc.files.reading import opened

LARGEST = 1 << 26  # bytes
DEEPEST = 100  # levels: what is written again must not exhaust Python's stack


class Damaged(UserError):
    """A file that can be read, but is not the JSON that it should be."""


def read_json(path, shape, advice="get a fresh copy", largest=LARGEST):
    """The value in a file. Raises Damaged, or UserError if it cannot be read; advice: what to do in either case."""
    with opened(path, advice) as file:
        size = min(os.fstat(file.fileno()).st_size, largest) + 1  # read() takes at once the memory that it is told
        return checked_json(file.read(size), path, shape, advice, largest)


def checked_json(raw, path, shape, advice, largest=LARGEST):
    """The same for contents already read from that file."""
    try:
        return parse_json(raw, shape, largest)
    except ValueError as error:
        raise Damaged(f"{path} is damaged: {error}; {advice}.") from None


def parse_json(raw, shape, largest=LARGEST):
    """The value in a bytes-like object. Raises ValueError with half a sentence that says what is wrong."""
    if len(raw) > largest:
        raise ValueError(f"it has more than {largest:,} bytes")
    try:
        raw = bytes(raw)
        value = json.loads(raw.decode(json.detect_encoding(raw)))
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    except ValueError:  # also bytes that are no text, and endless numbers
        raise ValueError("it is not JSON") from None
    _check_parts(value)
    wrong = _misfit(value, shape, "")
    if wrong is not None:
        raise ValueError(
            f"{wrong.lstrip('.')} is missing or has the wrong type" if wrong else "it holds something else"
        )
    return value


TOO_DEEP = f"it is nested more than {DEEPEST} levels deep"


def _check_parts(value):
    """Raise ValueError for numbers, texts and depths that JSON allows but nobody can use; works level by level."""
    level, depth = [value], 0
    while level:
        below = []
        for part in level:
            if isinstance(part, dict):
                below += part
                below += part.values()
            elif isinstance(part, list):
                below += part
            elif isinstance(part, str):
                if not part.isascii() and any("\ud800" <= c <= "\udfff" for c in part):
                    raise ValueError("it holds half a character (a lone surrogate)")
            elif part is not None and not abs(part) <= sys.float_info.max:
                raise ValueError("it holds a number that is not finite")
        level, depth = below, depth + 1
        if depth > DEEPEST and level:
            raise ValueError(TOO_DEEP)


def _misfit(value, shape, place):
    """Where a value first differs from a shape, such as ".cells[3].id"; None if it fits."""
    if isinstance(shape, tuple):
        found = [_misfit(value, one, place) for one in shape]
        return None if None in found else max(found, key=len)
    if shape is object or value is shape is None:
        return None
    if isinstance(shape, list) and isinstance(value, list):
        parts = ((each, shape[0], f"{place}[{i}]") for i, each in enumerate(value))
    elif isinstance(shape, dict) and isinstance(value, dict):
        names = value if str in shape else shape
        parts = (
            (value.get(name), shape.get(str, shape.get(name)), f"{place}.{ascii(name)[1:-1]:.40}") for name in names
        )
    else:
        return None if type(value) in ((int, float) if shape is float else (shape,)) else place
    return next((wrong for part in parts if (wrong := _misfit(*part)) is not None), None)
