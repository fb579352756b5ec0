"""16-bit weights, activations and gradients: what is rounded, what stays exact, and how far off the results are."""

import sys
import warnings

import numpy as np
import pytest

from llmc.backends import BACKENDS, reference
from llmc.backends.contract import WRITES
from llmc.backends.mixed import Mixed, random_bits, round_stochastically
from llmc.config import GPT2Config
from llmc.errors import UserError
from llmc.model import GPT2
from llmc.parity.cases import CASES
from llmc.precision import NAMES, bfloat16, find_precision

HOST = [name for name in BACKENDS if name != "cuda"]
LOW = ("bf16", "fp16")
EPSILON = {"bf16": 2.0**-8, "fp16": 2.0**-11}  # the largest relative error of one rounding
SMALL = GPT2Config(maxT=16, V=100, L=2, NH=2, C=16)


def build(case, backend, precision, **options):
    model = GPT2(case.config, backend, precision, **options)
    for name, values in case.weights().items():
        model.params[name][...] = values
    return model


def gradients(case, backend, precision, weights=None):
    """(loss, {name: gradient (float64)}); weights: {name: array}, those of the case by default."""
    model = build(case, backend, precision)
    for name, values in (weights or {}).items():
        model.params[name][...] = values
    model.loss_scale = 2.0**12 if model.precision.overflows else 1.0
    x, y = case.batch()
    loss = model.forward(x, y, dloss=1.0)
    model.backward()
    return loss, {name: grad.astype(np.float64) / model.loss_scale for name, grad in model.grads.items()}


def apart(a, b):
    """Euclidean distance, relative to b."""
    return np.linalg.norm(a - b) / np.linalg.norm(b)


# ------------------------------------------------------------------------------------------------------- data types


def test_where_every_number_is_kept():
    model = GPT2(SMALL, "numpy", "bf16")
    model.allocate(2, 8)
    low, exact = bfloat16(), np.dtype(np.float32)
    assert {v.dtype for buffer in (model.params, model.grads) for v in buffer.values()} == {low}
    assert {v.dtype for buffer in (model.m, model.v, model.master) for v in buffer.values()} == {exact}
    kept = {name for name, view in model._acts.items() if view.dtype == exact}
    norms = {f"{norm}_{number}" for norm in ("ln1", "ln2", "lnf") for number in ("mean", "rstd")}
    assert kept == {"encoded", "residual2", "residual3", "stats", "losses", *norms}
    assert {name for name, view in model._dacts.items() if view.dtype == exact} == {"dresidual"}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "tf32"])  # numpy has none; else it is as fp32
def test_a_model_without_16_bits_has_one_type_and_no_master(name):
    model, precision = GPT2(SMALL, "numpy", name), find_precision(name)
    model.allocate(2, 8)
    assert (model.master is None) == (not precision.is_mixed) == (len(model._acts.flats) == 1)
    assert GPT2(SMALL, "numpy", precision, master_weights=False).master is None


def test_what_cannot_be_is_one_sentence(monkeypatch):
    with pytest.raises(UserError, match="no precision 'fp4'; choose one of fp32, tf32, bf16, fp16, fp8, fp64"):
        GPT2(SMALL, "numpy", "fp4")
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(UserError, match="bf16 needs ml_dtypes; run `.*install ml_dtypes`"):
        find_precision("bf16")


# ---------------------------------------------------------------------------------------------------------- layers


def test_every_function_with_numbers_of_the_contract_is_rounded():
    plain = {"attention_stats_shape", "global_norm", "adamw_update"}
    fused = {"residual_layernorm_forward", "matmul_gelu_forward"}
    contract = {name for name, f in vars(reference).items() if callable(f) and f.__module__ == reference.__name__}
    assert {name for name in contract if not name.startswith("_")} == set(WRITES) | plain | fused


@pytest.mark.parametrize("precision", LOW)
def test_a_matmul_rounds_what_it_reads_and_what_it_writes_and_nothing_else(precision):
    rng, low = np.random.default_rng(0), find_precision(precision).weights
    x, w = (rng.standard_normal(shape).astype(low) for shape in ((2, 3, 70), (5, 70)))
    dout = rng.standard_normal((2, 3, 5)).astype(np.float32)  # as dresidual: not rounded yet
    dw = rng.standard_normal((5, 70)).astype(low)
    before = [array.copy() for array in (dout, x, w, dw)]
    dx = np.empty((2, 3, 70), low)
    Mixed(reference).matmul_backward(dx, dw, None, dout, x, w)
    assert all((now == then).all() for now, then in zip((dout, x, w), before))
    rounded, (x64, w64) = dout.astype(low).astype(np.float64), (a.astype(np.float64) for a in (x, w))
    right = rounded @ w64  # (2, 3, 70)
    assert (np.abs(dx.astype(np.float64) - right) <= EPSILON[precision] * np.abs(right) + 1e-5).all()
    right = before[3].astype(np.float64) + np.einsum("btk,btc->kc", rounded, x64)  # (5, 70)
    assert (np.abs(dw.astype(np.float64) - right) <= EPSILON[precision] * np.abs(right) + 1e-5).all()


def test_arrays_of_float32_alone_are_multiplied_in_float32():
    x, w = (np.random.default_rng(0).standard_normal(shape).astype(np.float32) for shape in ((1, 4, 9), (5, 9)))
    out = np.empty((1, 4, 5), np.float32)
    Mixed(reference).matmul_forward(out, x, w, None)
    assert (out == x @ w.T).all()


def test_what_overflows_float16_becomes_infinite_without_a_warning():
    dout = np.full((1, 2, 3), 1e6, np.float32)  # as a gradient of the residual stream with too large a loss scale
    x, w = np.ones((1, 2, 4), np.float16), np.ones((3, 4), np.float16)
    dx, dw = np.empty_like(x), np.zeros_like(w)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Mixed(reference).matmul_backward(dx, dw, None, dout, x, w)
    assert np.isinf(dx).all() and np.isinf(dw).all()


def test_in_place_stays_in_place():
    x, dout = (np.linspace(-3, 3, 50).astype(bfloat16()) for _ in range(2))
    apart_from = np.empty_like(dout)
    Mixed(reference).gelu_backward(apart_from, dout, x)
    Mixed(reference).gelu_backward(dout, dout, x)
    assert (dout == apart_from).all()


@pytest.mark.parametrize("precision", LOW)
@pytest.mark.parametrize("backend", HOST)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_loss_and_gradients_are_near_those_of_float64(case, backend, precision):
    exact, low = gradients(case, "numpy", "fp64"), gradients(case, backend, precision)
    assert abs(low[0] - exact[0]) < 4 * EPSILON[precision]
    for name, grad in exact[1].items():
        assert apart(low[1][name], grad) < 16 * EPSILON[precision], name


def test_as_near_to_float64_as_pytorchs_autocast_on_the_same_weights():
    torch = pytest.importorskip("torch")
    from llmc.tests.engine import torch_gpt2

    ratios = []
    for case in CASES:
        weights = {name: w.astype(bfloat16()).astype(np.float32) for name, w in case.weights().items()}
        exact = gradients(case, "numpy", "fp64", weights)[1]
        ours = gradients(case, "numpy", "bf16", weights)[1]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            theirs = torch_gpt2.loss_and_gradients(case.config, weights, *case.batch(), torch.float32)[2]
        ratios += [apart(ours[name], exact[name]) / apart(theirs[name], exact[name]) for name in exact]
    assert len(ratios) == 16 * len(CASES)
    assert np.exp(np.mean(np.log(ratios))) < 1.2


# ---------------------------------------------------------------------------------------------------------- update


def test_stochastic_rounding_takes_a_neighbour_and_is_right_on_average():
    bits = np.arange(2**16, dtype=np.uint32) << np.uint32(16) | np.arange(2**16, dtype=np.uint32)[::-1]
    for value in (1.001953125, -3.1, 1e-40, 65504.3, 1.0, 0.0, -0.0):
        exact = np.full(2**16, value, np.float32)
        found = round_stochastically(exact, bits).astype(np.float64)  # each of the 2^16 possible bits once
        assert found.min() <= exact[0] <= found.max() and len(np.unique(found)) == 1 + (found.min() < found.max())
        assert found.mean() == pytest.approx(float(exact[0]), rel=1e-12)
    special = np.array([np.nan, np.inf, -np.inf], np.float32)
    assert str(round_stochastically(special, np.full(3, 0xFFFF, np.uint32)).astype(float)) == "[ nan  inf -inf]"


def test_random_bits_belong_to_a_place_and_a_key():
    whole = random_bits(7, 0, 1000)
    assert (random_bits(7, 400, 100) == whole[400:500]).all()
    assert not (random_bits(8, 0, 1000) == whole).any()
    many = random_bits(3, 0, 1 << 16)
    assert abs((many & 0xFFFF).mean() / 0x7FFF - 1) < 0.01 and len(np.unique(many)) > 65_000
    each = [(many >> np.uint32(i) & 1).mean() for i in range(32)]
    assert max(abs(share - 0.5) for share in each) < 0.01


@pytest.mark.parametrize("backend", HOST)
def test_small_updates_are_lost_by_rounding_to_the_nearest_and_not_here(backend):
    model = GPT2(SMALL, backend, "bf16", master_weights=False)
    model.params.flat[...] = 1.0  # the next smaller bfloat16 is 1 - 2^-8
    for _ in range(50):
        model.grads.flat[...] = 1.0
        model.update(2e-5, eps=0.0)
    assert model.params.flat.astype(np.float64).mean() == pytest.approx(1 - 50 * 2e-5, abs=1e-4)
    nearest = np.ones(1, bfloat16())
    for _ in range(50):
        nearest = (nearest.astype(np.float32) - np.float32(2e-5)).astype(bfloat16())
    assert nearest[0] == 1


@pytest.mark.parametrize("backend", HOST)
def test_master_weights_are_trained_and_the_weights_are_their_rounding(backend):
    model = build(CASES[0], backend, "bf16")
    exact = build(CASES[0], backend, "fp32")
    exact.params.flat[...] = model.params.flat  # the same, rounded
    grads = np.random.default_rng(0).standard_normal(model.grads.flat.size).astype(bfloat16())
    for _ in range(3):
        for each in (model, exact):
            each.grads.flat[...] = grads
        norm = exact.global_norm()
        assert model.global_norm() == pytest.approx(norm, rel=1e-6)
        model.update(1e-3, weight_decay=0.1, max_norm=norm / 2, zero_grad=True)
        exact.update(1e-3, weight_decay=0.1, max_norm=norm / 2, zero_grad=True)
    assert not model.grads.flat.any()
    np.testing.assert_allclose(model.master.flat, exact.params.flat, rtol=2e-6, atol=1e-8)
    gap = np.abs(model.params.flat.astype(np.float32) - model.master.flat)
    assert (gap <= 2 * EPSILON["bf16"] * np.abs(model.master.flat) + 1e-30).all() and gap.any()
    model.zero_optimizer()  # as init_weights does: the master weights begin with the weights again
    model.update(0.0)
    assert (model.master.flat == model.params.flat).all()


@pytest.mark.parametrize("wrong", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("master", [True, False])
def test_gradients_that_are_not_finite_change_nothing(wrong, master):
    model = build(CASES[0], "numpy", "bf16", master_weights=master)
    buffers = [buffer for buffer in (model.params, model.grads, model.m, model.v, model.master) if buffer is not None]
    model.grads.flat[...] = 0.5
    model.update(1e-3, max_norm=1.0)
    model.grads.flat[7] = wrong
    before = [buffer.flat.tobytes() for buffer in buffers]
    norm = model.update(1e-3, max_norm=1.0, weight_decay=0.1, zero_grad=True)
    assert not np.isfinite(norm())
    assert before == [buffer.flat.tobytes() for buffer in buffers]


def test_equal_runs_give_equal_bits_and_every_step_other_ones():
    def run():
        model = build(CASES[0], "numpy", "bf16")
        x, y = CASES[0].batch()
        for _ in range(3):
            model.forward(x, y, dloss=1.0)
            model.backward()
            model.update(1e-3, zero_grad=True)
        return model.params.flat.tobytes() + model.master.flat.tobytes()

    assert run() == run()


def test_float16_loses_small_gradients_unless_the_loss_is_scaled():
    case = CASES[0]
    model = build(case, "numpy", "fp16")
    x, y = case.batch()
    lost, norms = [], []
    for scale in (1.0, 2.0**12):
        model.loss_scale = scale
        model.zero_grad()
        model.forward(x, y, dloss=1e-4)
        model.backward()
        lost.append(int((model.grads["fcw"] == 0).sum()))
        norms.append(model.global_norm())
    assert lost[0] > 10 * lost[1]
    exact = build(case, "numpy", "fp32")
    exact.forward(x, y, dloss=1e-4)
    exact.backward()
    assert norms[1] == pytest.approx(exact.global_norm(), rel=1e-2)


@pytest.mark.parametrize("precision", LOW)
def test_ten_steps_lower_the_loss_as_in_float32(precision):
    losses = {}
    for name in ("fp32", precision):
        model, (x, y) = build(CASES[0], "numpy", name), CASES[0].batch()
        model.loss_scale = 2.0**10 if model.precision.overflows else 1.0
        losses[name] = []
        for _ in range(10):
            losses[name].append(model.forward(x, y, dloss=1.0))
            model.backward()
            model.update(1e-3, zero_grad=True, max_norm=1.0)
    assert losses[precision][-1] < losses[precision][0] - 0.1
    np.testing.assert_allclose(losses[precision], losses["fp32"], atol=0.05)  # llm.c's tolerance for bfloat16
