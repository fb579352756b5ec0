"""Lesson 25's trials, stored runs and table, and its imitated tensor core."""

import numpy as np
import pytest

from llmc.course.exercises.layout import checkout
from llmc.course.lessons.fp8_training import results, sums, trials
from llmc.course.lessons.number_formats.formats import E4M3, rounded


def test_scales_reach_the_largest_number_along_their_axis():
    x = np.random.default_rng(1).standard_normal((5, 300)).astype(np.float32) * np.float32(1e-5)
    for axis in (0, 1):
        assert np.allclose(np.abs(x * trials.by_row(x, E4M3, axis)).max(axis=axis), 448)
    assert np.array_equal(trials.quantised(x, 2.0**20, E4M3), (rounded(x * 2.0**20, E4M3) / 2.0**20).astype(np.float32))


def test_stored_curves_are_those_of_the_runs():
    found = dict(np.load(trials.FILE))
    assert found.keys() == trials.CURVES.keys() and {len(losses) for losses in found.values()} == {trials.STEPS}
    for name in ("fp8, amax of before", "fp8, gradients not scaled"):
        precision, backend = trials.CURVES[name]
        assert np.allclose(trials.train(precision, backend(), shown=3)[0], found[name][:3], atol=2e-3)


def test_static_scales_are_those_of_the_backend():
    weights = trials.GPT2(trials.preset("tiny"), "numpy")
    weights.init_weights(42)
    batch, eight = trials.batches().next_batch(), trials.Eight()
    ways = ("fp32", "numpy"), ("bf16", eight), ("fp8", "numpy")
    exact, *both = (trials.gradients(weights.params_flat, batch, *how) for how in ways)
    mine, its = (np.linalg.norm(each - exact) / np.linalg.norm(exact) for each in both)  # GELU is rounded once or twice
    assert 0.02 < mine < 0.15 and mine == pytest.approx(its, rel=0.1)
    assert {name for name, _ in eight.seen} == {"qkv", "attproj", "fc", "fcproj", "logits"} and len(eight.seen) == 9


def test_the_imitated_tensor_core():
    one, total = np.ones((1, 1), np.float32), np.zeros((1, 1), np.float32)
    for large, small, wanted in ((1.0, 2.0**-13, 1 + 2.0**-13), (1.0, 2.0**-14, 1.0), (-1.0, -(2.0**-14), -1.0)):
        a = np.float32([[large, small]])  # (1, 2): the largest addend has 14 bits, and what lies below is cut off
        assert sums.tensor_core(total, a, np.ones_like(a)) == wanted == sums.tensor_core(a[:, :1], a[:, 1:], one)
    with pytest.raises(ValueError, match="up to 32 numbers of k at once, not 33"):
        sums.tensor_core(total, *np.ones((2, 1, 33), np.float32))
    a, b = (rounded(np.random.default_rng(k).standard_normal((3, 200)), E4M3).astype(np.float32) for k in (1, 2))
    exact = a.astype(np.float64) @ b.T
    off = [np.abs(sums.product(a, b, every) - exact).max() for every in (None, 32)]
    assert 0 < off[1] < off[0] < 3e-2 and np.array_equal(sums.product(a, b), sums.product(a, b, 500))


def test_results():
    found = results.stored(checkout() / "notebooks" / results.STORED)
    assert {row["by"] for row in found["products"]} == results.BY.keys()
    steps = results.stored(checkout() / "notebooks" / results.STEPS_STORED)
    assert {row["model"] for row in steps} <= {*results.MODELS}
    assert {"PyTorch, bf16", "llmc, bf16", "llmc, fp8"} <= {row["who"] for row in steps}


def test_products_and_their_errors_on_the_emulator(monkeypatch):
    monkeypatch.setattr(results.cuda, "device", lambda: "emulator")
    a, b, out = results.eight(64, 128, seed=1), results.eight(64, 128, seed=2), results.zeros(64, 64)
    exact = np.matmul(*(results.cuda.asnumpy(codes).view(results.e4m3()).astype(np.float64) for codes in (a, b.T)))
    for multiply in (results.by_us, results.unpromoted):
        multiply(out, a, b)
        assert results.distance(results.cuda.asnumpy(out), exact) == pytest.approx(1.6e-3, abs=2e-4)
