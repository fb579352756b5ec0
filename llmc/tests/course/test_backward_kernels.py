"""Lesson 14's references; its sums in many orders, its counts and times."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from llmc.backends import get_backend
from llmc.course.lessons.backward_kernels import exercises, measured, orders
from llmc.course.lessons.layernorm.rows import backward
from llmc.course.lessons.reductions import ladders
from llmc.cuda import inspect
from llmc.kernels import kernel

MEASURED = Path(__file__).resolve().parents[3] / "notebooks" / ladders.TABLE
RNG = np.random.default_rng(14)


def test_sums_of_blocks_are_gradients_and_any_division_is_right():
    dout, x = RNG.normal(0.5, 1, (11, 12)).astype(np.float32), RNG.normal(3, 2, (11, 12)).astype(np.float32)
    _, *right = backward(dout[None], x[None], np.ones(12))  # dw, db (C,)
    of_rows, of_warps = exercises.down_columns(dout, x, 3), exercises.down_columns(dout, x, 2, warps=8)
    assert all(np.allclose(sums.sum(axis=0), right, atol=1e-4) for sums in (of_rows, of_warps))
    other = np.stack([of_rows.sum(axis=0), 0 * of_rows[0], 0 * of_rows[0]])  # (blocks, 2, C)
    for got, accepted in ((other, True), (2 * other, False)):
        tried = SimpleNamespace(got={"partial": got}, expected={"partial": of_rows})
        assert exercises.any_division(tried) is None and (tried.expected["partial"] is got) == accepted
    order, starts = exercises.buckets(np.array([5, 3, 5, 9, 5], np.int32))
    assert order.tolist() == [1, 0, 2, 4, 3] and starts.tolist() == [0, 1, 4, 5]  # as the exercise says


def test_another_function_in_a_backend():
    backend = get_backend("numpy")
    other = orders.with_another(backend, encoder_backward=lambda *arguments: None)
    right, wrong = orders.trained_gpt2(backend, steps=3), orders.trained_gpt2(other, steps=3)
    assert right[0] == wrong[0] and right[2] != wrong[2]


def test_an_order_decides_the_sum_and_a_fixed_one_repeats_a_training():
    numbers = RNG.normal(0, 1, 512).astype(np.float32)
    found = orders.in_orders(numbers, 100, np.random.default_rng(1))
    assert found.dtype == np.float32 and len(np.unique(found)) > 5
    assert orders.ulps(np.nextafter(np.float32(3), np.float32(4)), 3.0) == 1
    a, b, c = (orders.trained(order, 0.5, 20) for order in (np.arange, np.arange, np.random.default_rng(1).permutation))
    assert np.array_equal(a, b) and not np.array_equal(a, c) and np.allclose(a, c, atol=1e-5)


def test_counts_of_llmcs_own_kernel():
    """What exercise 6 says of it."""
    N, C = 16, 768
    x = RNG.normal(3, 2, (N, C)).astype(np.float32)
    own = kernel("layernorm_backward", "layernorm_backward_partial_v5", "QUADS=6")
    dx, partial = np.zeros((N, C), np.float32), np.zeros((1, 2, C), np.float32)
    arguments = (dx, partial, x[::-1].copy(), x, x[0].copy(), *exercises.statistics(x), np.int32(N), np.int32(C))
    report = inspect(own, (1,), (256,), arguments, shared_mem=8 * C)
    requests = sum(use.requests for use in report.lines if use.space == "global")
    assert report.ok and (report.sectors / N, requests / N) == (494, 32.75)
    found = ladders.count([report], N * C, ["x"])
    assert (found.own, found.needed, found.atomics, found.shared_atomics) == (N * C // 8, N * C / 8, 0, 0)


@pytest.mark.skipif(not MEASURED.exists(), reason="no stored measurements")
def test_the_stored_measurements_say_what_the_lesson_says():
    stored, order = ladders.stored(MEASURED), measured.stored(MEASURED.parents[1] / measured.STORED)
    for name, last, fixed in (("bias_backward", 4, (1, 3, 4)), ("layernorm_backward", 5, (4, 5))):
        assert stored[name].best() == f"v{last}" and "other bits" in str(stored[name])
        assert all(order["runs"][f"{name}_v{v}"]["different"] == 1 for v in fixed)
    assert order["runs"]["layernorm_backward_v1"]["different"] > 1


def test_what_is_measured():
    found = measured.measure(small=True)
    assert found["losses"]["fixed"][0] == found["losses"]["fixed"][1] and len(found["losses"]["atomics"][0]) == 2
    assert found["runs"]["bias_backward_v4"]["different"] == 1 and len(found["runs"]) == 9
    assert json.loads(json.dumps(found)) == found and measured.stored("nowhere.json") is None
