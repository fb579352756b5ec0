"""Lesson 11: references and known mistakes against each other, the finder of races on kernels with races, measuring."""

import functools
import time

import numba
import numpy as np
import pytest
from numba import njit, prange

from llmc.course import gradient_check
from llmc.course.lessons.fast_on_cpu import attention_recompute as lean
from llmc.course.lessons.fast_on_cpu import fused as lesson
from llmc.course.lessons.fast_on_cpu import kernels, measuring
from llmc.course.old.checks.explain import WrongAnswer
from llmc.course.old.checks.no_race import no_race
from llmc.course.old.mutants.solution import solution_of
from llmc.course.races.find import find_races

RNG = np.random.default_rng(11)
Q, K, V, DOUT = RNG.normal(0.5, 1, (4, 9, 4))  # (T, hs) each
OUT, STATS = lean.forward(Q, K, V)  # (T, hs), (T,)
PEAK, BANDWIDTH = 3e11, 2e10
NBYTES = np.array([1e6, 2e6, 5e6, 1e7])  # (n,)
FLOPS, SECONDS = NBYTES * [0.3, 2, 40, 200], np.array([1e-3, 2e-3, 3e-3, 2e-2])  # (n,) each


def test_lean_backward_is_the_derivative_of_forward():
    gradients = lean.backward(DOUT, Q, K, V)
    for name, at in (("dq", 0), ("dk", 1), ("dv", 2)):
        forward = lambda x, at=at: lean.forward(*(x if i == at else a for i, a in enumerate((Q, K, V))))[0]  # noqa: E731
        assert gradient_check(forward, (Q, K, V)[at], getattr(gradients, name), DOUT, report=False) < 1e-7


def rooflines():
    """The roofline and its mistakes where both limits hold, where one does and where the other does, end to end.

    A mistake that asks once for the whole call differs from one that never asks only in calls of one kind.
    """
    calls = [
        (FLOPS[which], NBYTES[which], SECONDS[which], PEAK, BANDWIDTH) for which in (slice(4), slice(2), slice(2, 4))
    ]
    expected = lesson.Roof(*map(np.concatenate, zip(*(lesson.roofline(*call) for call in calls))))
    known = [lesson.roofline_mistakes(*call) for call in calls]
    return expected, {
        name: {
            words: (np.concatenate([np.atleast_1d(table[name][words][0]) for table in known]), where)
            for words, (_, where) in wrongs.items()
        }
        for name, wrongs in known[0].items()
    }


def tables():
    """(expected, {sentence: wrong array}) of every output of every exercise."""
    for expected, known in (
        (lesson.cost(7, 33, 2), lesson.cost_mistakes(7, 33, 2)),
        rooflines(),
        (lean.backward(DOUT, Q, K, V), lean.mistakes(lean.backward(DOUT, Q, K, V), DOUT, OUT, STATS, Q, K, V)),
    ):
        for name in expected._fields:
            yield np.asarray(getattr(expected, name)), known[name]
    x1, x2 = RNG.normal(0.02, 0.01, (2, 5, 7))  # (N, C) each; a variance so small that eps shows
    x1[0], x2[0] = 0.1 * x1[0], 0.1 * x2[0]  # and one below eps
    w, b = RNG.normal(2, 1, (2, 7))  # (C,) each
    normed, known = lesson.residual_layernorm(x1, x2, w, b), lesson.residual_layernorm_mistakes(x1, x2, w, b)
    for name in normed._fields:
        yield getattr(normed, name), known[name]


def test_every_known_mistake_is_wrong_and_unlike_the_others():
    for expected, wrongs in tables():
        arrays = [expected, *(np.asarray(array) for array, _ in wrongs.values())]
        for i, one in enumerate(arrays):
            assert one.shape == expected.shape
            for k, other in enumerate(arrays[:i]):
                far = np.abs(one - other).max() > 3e-4 * np.abs(one).max()
                assert far, ([None, *wrongs][i], [None, *wrongs][k])


def test_dk_and_dv_of_the_last_block_are_recognised():
    p = np.exp(np.where(np.tril(np.ones((9, 9))) > 0, Q @ K.T / 2 - STATS[:, None], -np.inf))  # (T, T)
    last = np.arange(9) >= 8  # blocks of 4: the last one holds query 8 alone
    gradients = lean.backward(DOUT, Q, K, V)._replace(dv=(p * last[:, None]).T @ DOUT)
    known = lean.mistakes(gradients, DOUT, OUT, STATS, Q, K, V)
    text = "what the last block of 1 queries adds: the earlier blocks are lost"
    assert np.allclose(known["dv"][text][0], gradients.dv) and known["dk"][text][0].shape == (9, 4)


def test_a_roofline_of_nothing_to_compute():
    roof = lesson.roofline(0.0, 8e6, 1e-3, PEAK, BANDWIDTH)
    assert roof.attainable == 0 and roof.share == pytest.approx(0.4)


# -------------------------------------------------------------------------------------------------------- races


def by_row(table, rows, where):
    for n in prange(len(where)):
        for c in range(rows.shape[1]):
            table[where[n], c] += rows[n, c]


def by_row_at_once(table, rows, where):
    for n in numba.prange(len(where)):
        table[where[n]] += rows[n]


def by_channel(table, rows, where):
    for c in prange(rows.shape[1]):
        for n in range(len(where)):
            table[where[n], c] += rows[n, c]


def by_thread(table, rows, where):
    parts, C = numba.get_num_threads(), rows.shape[1]
    for part in prange(parts):
        for n in range(len(where)):
            table[where[n], part * C // parts : (part + 1) * C // parts] += rows[
                n, part * C // parts : (part + 1) * C // parts
            ]


def tables_of_threads(table, rows, where):
    own = np.zeros((numba.get_num_threads(), table.shape[0], table.shape[1]), table.dtype)
    for n in prange(len(where)):
        own[numba.get_thread_id(), where[n]] += rows[n]
    for part in range(len(own)):
        table += own[part]


def reduction(table, rows, where):
    total = np.zeros_like(table)
    for n in prange(len(where)):
        one = np.zeros_like(table)
        one[where[n]] = rows[n]
        total += one
    table += total


def shared_scratch(table, rows, where):
    row = np.zeros(rows.shape[1], rows.dtype)
    for v in prange(len(table)):
        row[:] = 0
        for n in range(len(where)):
            if where[n] == v:
                row += rows[n]
        table[v] += row


def neighbours(table, rows, where):
    for v in prange(len(table) - 1):
        table[v, 0] = table[v + 1, 0]


RACES = {by_row: "table", by_row_at_once: "table", shared_scratch: "row", neighbours: "table"}
SAFE = (by_channel, by_thread, tables_of_threads, reduction)


@pytest.mark.parametrize("kernel", [*RACES, *SAFE], ids=lambda kernel: kernel.__name__)
@pytest.mark.parametrize("compiled", [False, True])
def test_races_are_found_where_they_are_and_only_there(kernel, compiled):
    table, rows = np.ones((5, 4), np.float32), np.arange(28, dtype=np.float32).reshape(7, 4)  # (V, C), (N, C)
    where = np.array([3, 1, 3, 0, 1, 3, 2])  # (N,)
    watch = find_races(njit(parallel=True)(kernel) if compiled else kernel, table, rows, where)  # compiles nothing
    assert watch.loops == 1 and [race.array for race in watch.races] == ([RACES[kernel]] if kernel in RACES else [])
    assert (table == 1).all()  # copies were used
    if kernel in SAFE:
        np.add.at(table, where, rows)
        assert np.array_equal(watch.arguments[0], table)


def test_a_race_is_named_by_its_place_and_turns():
    watch = find_races(by_row, np.zeros((3, 2)), np.ones((4, 2)), np.array([2, 0, 1, 0]))
    assert str(watch.races[0]) == "turns 1 and 3 of the prange both read and write table[0, 0]"
    with pytest.raises(WrongAnswer, match="a race: turns 1 and 3"):
        no_race(watch)


def test_an_index_outside_of_its_array_is_told_with_its_line():
    def too_far(out, x):
        for part in prange(2):
            for c in range(part * 2, part * 2 + 2):
                out[c] = x[c]

    watch = find_races(njit(parallel=True)(too_far), np.zeros(3), np.ones(3))
    assert "`out[c] = x[c]`, index 3 is out of bounds for axis 0 with size 3" in watch.outside
    with pytest.raises(WrongAnswer, match="an index outside of its array: in line"):
        no_race(watch)


def test_a_helper_kernel_is_watched_and_what_python_cannot_run_is_not():
    helper = njit(parallel=True)(by_row)

    def calls_it(table, rows, where):
        helper(table, rows, where)

    def cannot(table, rows, where):
        raise ValueError

    arguments = np.zeros((3, 2)), np.ones((4, 2)), np.array([2, 0, 1, 0])
    assert find_races(calls_it, *arguments).races and find_races(cannot, *arguments) is None
    no_race(None)


def test_float64_in_a_kernel_is_counted():
    half = np.float32(0.5)

    @njit
    def bare(out, x):
        for i in range(x.size):
            out[i] = 0.1 * x[i]

    @njit
    def clean(out, x):
        for i in range(x.size):
            out[i] = half * x[i]

    @njit
    def returns(out, x):  # Numba turns what it returns into a float of Python, and computes nothing with it
        return x[0] * half

    x = np.ones(4, np.float32)
    for kernel in (bare, clean, returns):
        kernel(np.empty_like(x), x)
    assert kernels.float64_operations(returns) == 0
    assert kernels.float64_operations(bare) > 0 == kernels.float64_operations(clean)
    assert "float64" in kernels.float64_note(bare) and kernels.float64_note(clean) == kernels.float64_note(max) == ""


def one_turn(table, rows, where):
    for _ in prange(1):
        for n in range(len(where)):
            table[where[n]] += rows[n]


def test_a_kernel_on_one_thread_is_noticed():
    table, rows, where = np.zeros((50, 64)), np.ones((5000, 64)), np.arange(5000) % 50
    few = np.zeros((5, 4)), np.ones((7, 4)), np.arange(7) % 5
    for kernel, threads in (
        (njit(parallel=True)(by_channel), 3),
        (njit("void(f8[:,::1], f8[:,::1], i8[::1])", parallel=True)(by_channel), 3),
        (njit(by_channel), 0),  # without parallel=True, prange is range
        (njit(parallel=True)(one_turn), 1),
    ):
        watch = find_races(functools.partial(kernel), *few)
        assert watch.threads == threads
        assert not (threads > 1 and kernels.on_one_thread(watch, lambda k=kernel: k(table, rows, where)))
    assert kernels.on_one_thread(find_races(njit(by_channel), *few), lambda: njit(by_channel)(table, rows, where))
    assert kernels.compiled(functools.partial(kernel)) and not kernels.compiled(by_channel)


def test_repeated_runs_start_from_the_same_numbers():
    calls = []

    def adds(table, one):
        calls.append(table.copy())
        table += one * len(calls)

    times, different, outputs = kernels.repeat(adds, [np.ones(3)], 1, times=4)
    assert (times, different) == (4, 4) and all((held == 1).all() for held in calls) and (outputs[0] == 5).all()


def test_values_in_another_order_are_named():
    expected = lesson.cost(7, 33, 2)
    flops, apart, fused, intensity = expected
    with pytest.raises(WrongAnswer, match="another order: return flops, separate_bytes, .*not flops, fused_bytes"):
        lesson.in_order((flops, fused, apart, intensity), expected)
    for got in (tuple(expected), ("a", None, 1, 2)):
        assert lesson.in_order(got, expected) == got


def test_many_positions_have_the_same_reference():
    for name in lean.Gradients._fields:
        few, many = lean.backward(DOUT, Q, K, V), lean.backward_of_many(DOUT, Q, K, V)
        assert np.allclose(getattr(few, name), getattr(many, name), rtol=1e-9)


# ----------------------------------------------------------------------------------------------------- measuring


def test_one_thread_is_one_thread_and_only_inside():
    before = numba.get_num_threads()
    with pytest.raises(ValueError), measuring.one_thread():
        assert numba.get_num_threads() == 1
        raise ValueError
    assert numba.get_num_threads() == before


def test_processor_seconds_tells_long_from_short_and_does_not_count_sleep():
    short, long, asleep = measuring.processor_seconds(
        lambda: sum(range(20_000)), lambda: sum(range(400_000)), lambda: time.sleep(0.05)
    )
    assert 4 * short < long
    assert asleep < 0.03 or measuring.CLOCK is time.perf_counter


def test_a_ratio_in_words():
    words = [measuring.times_as_fast(ratio) for ratio in (3.14, 1.05, 1.02, 0.97, 0.5)]
    assert words == ["3.1 times as fast", "1.1 times as fast", *2 * ["about as fast"], "slower, 2.0 times the time"]


def test_solutions_run_as_plain_python_with_their_float32_constants():
    solution = solution_of("residual_layernorm_forward")
    x1, x2, w, b = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 4)), RNG.normal(size=4), RNG.normal(size=4)
    arguments = [array.astype(np.float32) for array in (x1, x2, w, b)]
    residual, out, mean, rstd = (np.empty(shape, np.float32) for shape in ((3, 4), (3, 4), 3, 3))
    solution.function(time.thread_time() + 5)(residual, out, mean, rstd, *arguments)
    assert np.allclose(residual, x1 + x2, atol=1e-5) and np.allclose(mean, (x1 + x2).mean(axis=1), atol=1e-5)
