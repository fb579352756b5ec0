"""fp8 on NumPy, the readable one: what is rounded, by which power of two, and how far off the results are."""

import sys

import ml_dtypes
import numpy as np
import pytest

from llmc.backends import get_backend
from llmc.backends.fp8 import FEW, GRADIENTS, gradient_scale, rounded
from llmc.bench.step import training_step
from llmc.blocks import RECOMPUTE
from llmc.config import GPT2Config
from llmc.errors import UserError
from llmc.model import GPT2
from llmc.parity.cases import CASES
from llmc.precision import bfloat16, e4m3, e5m2, find_precision
from llmc.sampling import generate

SMALL = GPT2Config(maxT=40, V=300, L=2, NH=2, C=32)
X, Y = (np.random.RandomState(seed).randint(0, 300, (2, 20)).astype(np.int32) for seed in (0, 1))
EPSILON = 2.0**-3  # the largest relative error of one rounding to e5m2


def build(precision="fp8", config=SMALL, name="numpy", **options):
    model = GPT2(config, name, precision, **options)
    model.init_weights()
    return model


def test_rounding_keeps_what_the_format_has_and_stops_at_its_largest_number():
    x = np.array([0.0, 1.0, -1.125, 13.9, 1e30, -1e30, np.inf, np.nan, 2.0**-15], np.float32).astype(bfloat16())
    got = rounded(x, e4m3(), 32.0).astype(np.float32)  # (9,)
    np.testing.assert_array_equal(got, np.float32([0.0, 1.0, -1.125, 14.0, 14.0, -14.0, 14.0, np.nan, 0.0]))
    every = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e5m2).astype(np.float32)  # (256,)
    every = every[np.isfinite(every)].astype(bfloat16()) / np.float32(512).astype(bfloat16())  # (248,)
    np.testing.assert_array_equal(rounded(every, e5m2(), 512.0), every)


@pytest.mark.parametrize("dloss", [1.0, 1 / 3, -1 / 40, 1 / 32768, 1e-12])
def test_gradients_are_scaled_by_a_power_of_two_that_brings_the_weight_of_a_token_to_the_same_place(dloss):
    scale = gradient_scale(dloss)
    assert np.frexp(scale)[0] == 0.5 and GRADIENTS <= abs(dloss) * scale < 2 * GRADIENTS
    assert gradient_scale(0.0) == GRADIENTS


def test_what_only_matmuls_read_has_8_bits_and_nothing_else():
    model = build()
    model.allocate(2, 20)
    kept = {name: view.dtype for name, view in [*model._acts.items(), *model._dacts.items()]}
    assert {name for name, dtype in kept.items() if dtype == e4m3()} == {"ln1", "ln2", "fch_gelu"}
    assert {name for name, dtype in kept.items() if dtype == e5m2()} == {"dqkv", "dfch"}
    assert "float8_e4m3fn" in model.memory_plan(2, 20)
    assert model.params_flat.dtype == model.grads_flat.dtype == bfloat16() and model.master is not None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_loss_and_gradients_are_as_near_to_pytorchs_in_float64_as_8_bits_allow(case):
    expected, model = np.load(case.fixture), GPT2(case.config, "numpy", "fp8")
    for name, values in case.weights().items():
        model.params[name][...] = values
    assert abs(model.forward(*case.batch(), dloss=1.0) - float(expected["loss"])) < EPSILON / 2
    model.backward()
    wanted = np.concatenate([expected["d" + name].ravel() for name in model.grads])  # (n,)
    got = [grad.astype(np.float64)[: len(expected["d" + name])].ravel() for name, grad in model.grads.items()]
    apart = np.linalg.norm(np.concatenate(got) - wanted) / np.linalg.norm(wanted)
    assert apart < 2 * EPSILON and apart > EPSILON / 8  # it is not bf16 by another name


def test_half_the_weight_is_half_the_gradient_to_the_bit():
    found = []
    for dloss in (1.0, 0.5):
        model = build()
        model.forward(X, Y, dloss=dloss)
        model.backward()
        found.append(model.grads["qkvw"].astype(np.float32) / np.float32(dloss))
    np.testing.assert_array_equal(*found)


def test_what_is_computed_again_has_the_same_bits():
    found = set()
    for recompute in RECOMPUTE:
        model = build(recompute=recompute)
        training_step(model, X, Y)
        found.add(model.params_flat.tobytes())
    assert len(found) == 1


def test_a_run_learns_as_in_bf16_and_continues_to_the_bit():
    losses = {}
    for precision in ("bf16", "fp8", "fp8 again"):
        model = build(precision.split()[0])
        losses[precision] = [training_step(model, X, Y) or model.mean_loss() for _ in range(20)]
    assert losses["fp8"] == losses["fp8 again"] and losses["fp8"] != losses["bf16"]
    assert losses["fp8"][-1] == pytest.approx(losses["bf16"][-1], rel=2e-2) and losses["fp8"][-1] < losses["fp8"][0]


def test_a_few_rows_stay_in_16_bits():
    be, low = get_backend("numpy", find_precision("fp8")), get_backend("numpy", find_precision("bf16"))
    draw = np.random.RandomState(0)
    w = draw.standard_normal((8, 32)).astype(bfloat16())
    for rows in (FEW, FEW + 1):
        x = draw.standard_normal((1, rows, 32)).astype(bfloat16())
        outs = [np.zeros((1, rows, 8), bfloat16()) for _ in range(2)]
        for backend, out in zip((be, low), outs, strict=True):
            backend.matmul_forward(out, x, w, None)
        assert np.array_equal(*outs) == (rows == FEW)


def test_sampling_gives_tokens():
    assert len(list(generate(build(), [7, 8], 6, temperature=0.7, window=10))) == 6


def test_a_number_that_is_no_number_stays_one():
    model = build()
    model.params["wte"][:4] = np.nan
    assert np.isnan(model.forward(X % 4, Y, dloss=1.0))


def test_fp8_needs_ml_dtypes(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(UserError, match="fp8 needs ml_dtypes"):
        e4m3()
