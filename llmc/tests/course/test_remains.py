"""What outlasts a call, in a global or an attribute: the same call then gives something else after others."""

import codecs
import linecache

import numpy as np
import pytest

from llmc.course.old.checks.containers import Containers
from llmc.course.old.checks.explain import WrongAnswer
from llmc.course.old.checks.lengths import times_a_length
from llmc.course.old.checks.remains import what_remains
from llmc.course.old.mutants.replay import Replay

CALLS = [Replay.of(([b"a\xc3"],), {}), Replay.of(([b"\xa9", b"b"],), {}), Replay.of(([],), {})]


def defined(text):
    """The function `answer` of this text, as a notebook's cell defines it."""
    name = f"<remains {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names = {"__name__": "__main__", "np": np, "codecs": codecs}
    exec(compile(text, name, "exec"), names)
    return names["answer"]


@pytest.mark.parametrize(
    "text, where",
    [
        (
            "reader = codecs.getincrementaldecoder('utf-8')('replace')\n"
            "def answer(parts):\n    return ''.join(reader.decode(part) for part in parts)\n",
            "in the global `reader`",
        ),
        (
            "left = b''\ndef answer(parts):\n    global left\n    left += b''.join(parts)\n    return left\n",
            "in the global `left`",
        ),
        (
            "seen = []\ndef note(part):\n    seen.append(part)\n    return len(seen)\n"
            "def answer(parts):\n    return [note(part) for part in parts]\n",
            "in the global `seen`",
        ),
        (
            "def answer(parts):\n    answer.count = getattr(answer, 'count', 0) + len(parts)\n    return answer.count\n"
            "answer.count = 0\n",
            "in `answer.count`",
        ),
        ("def answer(parts):\n    return b''.join(parts)\n", None),
        ("known = {}\ndef answer(parts):\n    return known.setdefault(len(parts), len(parts))\n", None),  # right
        ("rng = np.random.default_rng(0)\ndef answer(parts):\n    return rng.random()\n", None),  # chance
    ],
)
def test_what_is_kept_is_named(text, where):
    said = what_remains(defined(text), CALLS)
    assert said is None if where is None else where in said


@pytest.mark.parametrize(
    "wrong, words",
    [
        (lambda x: x.mean(axis=1).sum(), "is 3 times what it should be, the length of axis 0 of `x`"),
        (lambda x: x.sum(), "is 12 times what it should be, the number of entries of `x`"),
        (lambda x: x.mean() / x.shape[1], "is 1/4 of what it should be, with the length of axis 1 of `x`"),
        (lambda x: 2 * x.mean(), "is 2 times what it should be, here and in other calls"),
        (lambda x: x.mean() + x[0, 0], None),
        (lambda x: x.mean(), None),
    ],
)
def test_a_number_that_is_as_many_times_too_large_as_an_axis_is_long(wrong, words):
    rng = np.random.default_rng(0)
    first, *more = (Replay.of((rng.random(shape),), {}) for shape in ((3, 4), (2, 5), (5, 2)))
    said = times_a_length("loss", wrong(*first.arguments), wrong, lambda: lambda x: x.mean(), first, more)
    assert said is None if words is None else words in said


def test_another_order_of_a_list_is_said():
    items = [object(), object(), [1]]
    containers = Containers([("net", items)], [])
    items.reverse()
    with pytest.raises(WrongAnswer, match="in another order"):
        containers.inspect()
