"""What a call leaves for the next one, which is told only where it shows."""

import numpy as np

from llmc.course.old.checks.leftovers import after_large, of_same_call
from llmc.course.old.mutants.replay import Replay


def sums(x, out=None):
    return x.sum(axis=0)


def a_call(function, *arguments, buffers=()):
    replay = Replay.of(arguments, {})
    replay.buffers = list(buffers)
    replay.outputs = replay.run(function)
    return replay


def test_a_rest_that_only_large_numbers_show_is_told():
    def off(x, rest={}):  # noqa: B006
        before = rest.get("excess", 0)
        rest["excess"] = x[0] * 1e-9
        return x.sum(axis=0) - before

    x = np.ones((5, 3), np.float32)
    off(x), off(x)
    said = after_large(off, sums, a_call(off, x))
    assert "after a call with very large numbers" in said and "in its default argument `rest`" in said


def test_what_is_computed_anew_is_not():
    def kept_by_content(x, known={}):  # noqa: B006
        return known.setdefault(x.tobytes(), x.sum(axis=0))

    x = np.ones((5, 3), np.float16)
    assert after_large(kept_by_content, sums, a_call(kept_by_content, x)) is None
    assert after_large(sums, sums, a_call(sums, np.arange(3))) is None, "there are no floats"
    assert after_large(sums, sums, a_call(sums, np.zeros(3))) is None, "0 times anything is 0"


def test_a_result_that_the_check_has_changed_since_is_no_rest():
    replay = a_call(sums, np.ones((5, 3)))
    replay.outputs[0] += 7
    assert after_large(sums, sums, replay) is None


def test_a_buffer_is_written_and_an_input_is_not():
    def into(x, out):
        assert not x.flags.writeable and out.flags.writeable
        out[...] = x.sum(axis=0)

    replay = a_call(lambda x, out: None, np.ones((5, 3)), np.zeros(3), buffers=(False, True))
    replay.outputs[1][...] = 5
    assert after_large(into, into, replay) is None


def test_a_call_that_stops_on_large_numbers_tells_nothing():
    def careful(x):
        assert np.abs(x).max() < 100
        return x.sum(axis=0)

    assert after_large(careful, sums, a_call(careful, np.ones((5, 3)))) is None


def test_the_same_call_made_again():
    def grows(items, seen=[]):  # noqa: B006
        seen.extend(items)
        return list(seen)

    got = grows([1, 2])
    assert "in its default argument `seen`" in of_same_call(grows, ([1, 2],), got)
    assert of_same_call(sorted, ([2, 1],), [1, 2]) is None
    rng = np.random.default_rng(0)
    by_chance = of_same_call(lambda items: rng.permutation(items), (list(range(9)),), list(range(9)))
    assert by_chance.endswith("or does chance play a part?")
