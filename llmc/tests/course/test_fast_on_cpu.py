"""Lesson 11: its reference against central differences, the finder of races, what is asked of kernels, one thread."""

from types import SimpleNamespace

import numba
import numpy as np
import pytest
from numba import njit, prange

from llmc.course import WrongAnswer, gradient_check
from llmc.course.checks.check import Tried
from llmc.course.checks.guards.threads import no_race
from llmc.course.lessons.fast_on_cpu import exercises, kernels, measuring
from llmc.course.races.find import find_races

HEAD = np.random.default_rng(11).normal(0.5, 1, (4, 9, 4))  # q, k, v, dout (T, hs)
ARRAYS = np.ones((5, 4)), np.arange(28.0).reshape(7, 4), np.array([3, 1, 3, 0, 1, 3, 2])  # (V, C), (N, C), (N,)
ADDED = np.array([ARRAYS[1][ARRAYS[2] == v].sum(axis=0) for v in range(5)])  # (V, C)


def test_gradients_of_a_head_are_derivatives():
    for at, gradient in enumerate(exercises.gradients(HEAD[3], *exercises.attention(*HEAD[:3]), *HEAD[:3])):
        out = lambda x, at=at: exercises.attention(*(x if i == at else HEAD[i] for i in range(3)))[0]  # noqa: E731
        assert gradient_check(out, HEAD[at], gradient, HEAD[3], report=False) < 1e-7


def by_row(table, rows, where):
    for n in prange(len(where)):
        table[where[n]] += rows[n]


def shared_scratch(table, rows, where):
    row = np.zeros(rows.shape[1])
    for v in numba.prange(len(table)):
        row[:] = rows[where == v].sum(axis=0)
        table[v] += row


def by_thread(table, rows, where, whole=False):
    parts, C = numba.get_num_threads(), rows.shape[1]
    for part in prange(parts):
        share = C // parts if whole else C / parts
        for c in range(int(part * share), int((part + 1) * share)):
            for n in range(len(where)):
                table[where[n], c] += rows[n, c]


def tables_of_threads(table, rows, where):
    own = np.zeros((numba.get_num_threads(), *table.shape))
    for n in prange(len(where)):
        own[numba.get_thread_id(), where[n]] += rows[n]
    table += own.sum(axis=0)


RACES = {by_row: "table", shared_scratch: "row", by_thread: "", tables_of_threads: ""}


@pytest.mark.parametrize("compiled", [False, True])
def test_races_are_found_where_they_are_and_only_there(compiled):
    for kernel, race in RACES.items():
        watch = find_races(njit(parallel=True)(kernel) if compiled else kernel, *ARRAYS)  # compiles nothing
        assert watch.loops == 1 and [found.array for found in watch.races] == [race] * bool(race)
        assert (ARRAYS[0] == 1).all() and (race or np.array_equal(watch.arguments[0], 1 + ADDED))  # copies were used
        if race:
            with pytest.raises(WrongAnswer, match="a race: turns 0 and"):
                no_race(watch)


def test_a_remainder_is_missed_with_three_threads_whatever_this_machine_has():
    check = SimpleNamespace(exercise=SimpleNamespace(adds="table"))
    given, after = dict(zip(("table", "rows", "where"), ARRAYS)), ({"table": 1 + ADDED}, {"table": ADDED})
    assert kernels.with_three_threads(Tried(check, by_thread, given, *after)) is None
    assert "three threads" in kernels.with_three_threads(Tried(check, lambda *a: by_thread(*a, True), given, *after))


def test_several_threads_are_asked_of_compiled_kernels_alone():
    def scatter(dwte, dwpe, dout, tokens):
        for c in prange(dout.shape[2]):
            for b in range(len(tokens)):
                dwte[tokens[b, 0], c] += 0.1 * dout[b, 0, c]

    arrays = *np.zeros((2, 5, 4), np.float32), np.ones((3, 1, 4), np.float32), np.array([[1], [0], [1]])
    shared = njit(parallel=True)(scatter)
    for each in (scatter, shared, lambda *given: shared(*given)):
        kernels.judge_threads(each, *arrays)
    with pytest.raises(WrongAnswer, match="all of your kernel runs on one thread"):
        kernels.judge_threads(njit(scatter), *arrays)
    with measuring.one_thread():
        assert numba.get_num_threads() == 1
