"""The whole model: against PyTorch, fixtures that PyTorch wrote, and llm.c's own files; and its rules."""

import numpy as np
import pytest

from llmc.backends import BACKENDS
from llmc.checkpoints import read_debug_state, read_model
from llmc.config import GPT2Config, preset
from llmc.errors import UserError
from llmc.model import GPT2
from llmc.parity.cases import CASES
from llmc.parity.compare import read_losses, ten_losses
from llmc.tests.engine.finite_differences import assert_close, numeric_gradient

by_name = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


def build(case, backend, precision="fp32"):
    """The case's model with its weights, and its batch."""
    model = GPT2(case.config, backend, precision)
    for name, values in case.weights().items():
        model.params[name][...] = values
    return model, *case.batch()


def assert_same_run(model, x, y, logits, loss, grads, rtol):
    """Logits, loss and every gradient of one batch."""
    assert_close(model.logits(x)[..., : model.config.V], logits, rtol, "logits")
    assert model.loss(x, y) == pytest.approx(loss, rel=rtol)
    assert model.forward(x, y, dloss=1.0) == pytest.approx(loss, rel=rtol)
    model.backward()
    for name, expected in grads.items():
        if np.abs(expected).max() > 1e-12:  # with T = 1 nothing reaches the queries and keys
            assert_close(model.grads[name], expected, rtol, name)
        else:
            assert np.abs(model.grads[name]).max() < 1e-6


# ------------------------------------------------------------------------------------------ correctness


@by_name
def test_fixtures_written_by_pytorch(case, backend):
    """1e-5 relative for logits, loss and every gradient, 1e-4 for ten AdamW losses; needs no PyTorch."""
    expected = np.load(case.fixture)
    model, x, y = build(case, backend)
    grads = {name: expected["d" + name] for name in model.params}
    assert_same_run(model, x, y, expected["logits"], float(expected["loss"]), grads, 1e-5)
    for recipe in "AB":
        model, x, y = build(case, backend)
        losses = ten_losses(model, x, y, recipe)
        np.testing.assert_allclose(losses, expected["losses_" + recipe], atol=1e-4, rtol=0)


@by_name
@pytest.mark.parametrize(("precision", "rtol"), [("fp32", 1e-5), ("fp64", 1e-11)])
def test_pytorch(case, backend, precision, rtol):
    torch = pytest.importorskip("torch")
    from llmc.tests.engine import torch_gpt2

    model, x, y = build(case, backend, precision)
    torch_dtype = torch.float32 if precision == "fp32" else torch.float64
    run = torch_gpt2.loss_and_gradients(case.config, case.weights(), x, y, torch_dtype)
    assert_same_run(model, x, y, *run, rtol)
    for recipe in "AB":
        model, x, y = build(case, backend, precision)
        losses = ten_losses(model, x, y, recipe)
        expected = torch_gpt2.adamw_losses(case.config, case.weights(), x, y, torch_dtype, recipe)
        np.testing.assert_allclose(losses, expected, atol=1e-4 if precision == "fp32" else 1e-7, rtol=0)


def test_central_differences_through_the_whole_model(backend):
    case = CASES[2]
    model, x, y = build(case, backend, "fp64")
    model.forward(x, y, dloss=1.0)
    model.backward()
    for name in ("wte", "wpe", "ln1w", "qkvb", "attprojb", "ln2b", "fcb", "fcprojb", "lnfw", "lnfb"):
        used = slice(None, case.config.V) if name == "wte" else slice(None)
        numeric = numeric_gradient(lambda: model.loss(x, y), model.params[name][used], few=30)
        assert_close(model.grads[name][used], np.where(np.isnan(numeric), model.grads[name][used], numeric), 1e-6, name)


@pytest.mark.parametrize("recipe", ["A", "B"])
def test_files_made_by_llmc_itself(reference_dir, backend, recipe):
    folder = reference_dir / "llmc_small"
    model = read_model(folder / "model.bin", backend)
    state = read_debug_state(folder / "debug_state.bin", model.config)
    assert_same_run(model, state.x, state.y, state.logits, state.loss, state.grads, 1e-5)
    losses = ten_losses(model, state.x, state.y, recipe)
    for name, expected in read_losses(folder / "losses.json", recipe).items():
        np.testing.assert_allclose(losses, expected, atol=1e-5, rtol=0, err_msg=name)


# ------------------------------------------------------------------------------------------------ rules


def small(**changes):
    model = GPT2(GPT2Config(**{**dict(maxT=8, V=20, L=2, NH=2, C=8), **changes}))
    model.init_weights()
    return model


X = np.arange(8).reshape(2, 4)
Y = X + 1


def test_a_fresh_model_is_as_unsure_as_possible():
    model = GPT2(preset("tiny"))
    model.init_weights()
    x = np.random.RandomState(0).randint(0, 1024, (4, 64))
    assert model.loss(x, x[:, ::-1]) == pytest.approx(np.log(1024), abs=0.05)


def test_gradients_accumulate_and_micro_batches_equal_the_large_batch():
    model = small()
    x, y = np.concatenate([X, X + 5]), np.concatenate([Y, Y + 5])
    loss = model.forward(x, y, dloss=1.0)
    model.backward()
    whole = {name: g.copy() for name, g in model.grads.items()}
    model.zero_grad()
    parts = 0.0
    for rows in (slice(0, 2), slice(2, 4)):
        parts += model.forward(x[rows], y[rows], dloss=0.5) / 2
        model.backward()
    assert parts == pytest.approx(loss, rel=1e-6)
    for name, expected in whole.items():
        assert_close(model.grads[name], expected, 1e-5, name)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_first_gradients_of_a_step_replace_all_that_was_there(backend, precision):
    model = GPT2(GPT2Config(maxT=8, V=20, L=2, NH=2, C=8), backend, precision)
    model.init_weights()
    results = []
    for wrong in (None, np.nan):
        if wrong is None:
            model.zero_grad()
        else:
            model.grads_flat[...] = wrong
        for micro_batch in range(2):
            model.forward(X, Y, dloss=0.5)  # fewer positions than wpe has, and not all tokens
            model.backward(accumulate=micro_batch > 0 or wrong is None)
        results.append(model.backend.to_numpy(model.grads_flat).astype(np.float32))
    assert np.array_equal(*results) and np.abs(results[0]).max() > 0.01


def test_padding_rows_stay_zero_whatever_the_optimizer_does():
    model = small()
    for _ in range(3):
        model.zero_grad()
        model.forward(X, Y, dloss=1.0)
        model.backward()
        model.update(1e-1, weight_decay=0.1, decay="all")
    assert model.config.Vp > model.config.V
    assert not model.params["wte"][model.config.V :].any()


def test_weight_decay_reaches_matrices_only_unless_told():
    for decay, shrunk in (("matrices", {"wte", "wpe", "qkvw", "attprojw", "fcw", "fcprojw"}), ("all", None)):
        model = small()
        model.params_flat[...] = 1.0
        model.zero_grad()
        model.update(0.5, weight_decay=0.5, decay=decay)
        changed = {name for name, p in model.params.items() if (p != 1.0).any()}
        assert changed == (shrunk or set(model.params))


def test_clipping_scales_to_the_limit_and_leaves_small_gradients_alone():
    model = small()
    model.forward(X, Y, dloss=1.0)
    model.backward()
    norm = model.clip_gradients(1e9)
    assert model.global_norm() == norm
    assert model.clip_gradients(norm / 2) == norm
    assert model.global_norm() == pytest.approx(norm / 2, rel=1e-5)


def test_training_reduces_the_loss_and_is_reproducible_bit_for_bit():
    def run():
        model = small()
        losses = []
        for _ in range(20):
            model.zero_grad()
            losses.append(model.forward(X, Y, dloss=1.0))
            model.backward()
            model.update(1e-2)
        return losses

    first, second = run(), run()
    assert first == second
    assert first[-1] < 0.5 * first[0]


def test_backward_needs_its_own_forward():
    model = small()
    for prepare in (lambda: None, lambda: model.logits(X), lambda: model.loss(X, Y)):
        prepare()
        with pytest.raises(UserError, match="backward needs forward"):
            model.backward()
    model.forward(X, Y, dloss=1.0)
    model.backward()
    with pytest.raises(UserError, match="backward needs forward"):
        model.backward()


def test_a_failed_forward_leaves_nothing_for_backward():
    model = small()
    model.forward(X, Y, dloss=1.0)
    with pytest.raises(UserError):
        model.logits(X + 100)
    model.logits(X)
    with pytest.raises(UserError, match="backward needs forward"):
        model.backward()


@pytest.mark.parametrize(
    ("tokens", "targets", "words"),
    [
        (X + 20, None, "tokens hold 27, but this model knows only token ids 0 to 19"),
        (X - 1, None, "tokens hold -1"),
        (X, Y + 100, "targets hold 108"),
        (np.zeros((1, 9), int), None, "T=9 must be between 1 and this model's maxT=8"),
        (np.zeros(4, int), None, r"whole numbers \(B, T\)"),
        (np.zeros((0, 4), int), None, "whole numbers"),
        (X * 1.0, None, "whole numbers .* not float64"),
        (X, Y[:, :3], "targets must have the shape of the tokens"),
    ],
)
def test_bad_batches_are_refused_in_one_sentence(tokens, targets, words):
    with pytest.raises(UserError, match=words):
        small().loss(tokens, targets)


# ----------------------------------------------------------------------------------------------- memory


def buffers(model):
    """The flat arrays behind everything the model holds."""
    return [part.flat for part in (model.params, model.grads, model.m, model.v, model._acts, model._dacts)]


def test_buffers_are_allocated_once_and_shared_by_smaller_batches():
    model = small()
    model.allocate(4, 8)
    before = [id(buffer) for buffer in buffers(model)]
    for B, T in ((4, 8), (2, 3), (4, 8)):
        x = np.ones((B, T), int)
        model.forward(x, x, dloss=1.0)
        model.backward()
        model.update(1e-3)
    assert [id(buffer) for buffer in buffers(model)] == before


def test_parameters_are_views_in_file_order():
    model = small()
    flat = np.concatenate([model.params[p.name].reshape(-1) for p in model.table])
    np.testing.assert_array_equal(flat, model.params_flat)
    model.params_flat[0] = 7.0
    assert model.params["wte"][0, 0] == 7.0


def test_memory_plan_adds_up():
    model = GPT2(preset("gpt2", L=1))
    plan = model.memory_plan(B=4, T=64)
    n = model.config.num_parameters_padded
    assert f"{4 * n / 2**20:,.2f} MiB" in plan
    assert "qkv          (1, 4, 64, 2304)" in plan
    total = float(plan.splitlines()[-1].split()[1].replace(",", ""))
    model.allocate(4, 64)
    assert total == pytest.approx(sum(buffer.nbytes for buffer in buffers(model)) / 2**20, abs=0.01)
    assert model.memory_plan() == plan
    with pytest.raises(UserError, match="T=4096"):
        model.memory_plan(B=1, T=4096)
