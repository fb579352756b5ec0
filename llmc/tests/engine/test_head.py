"""Logits of a few sequences at a time: the losses and gradients of all at once, in less memory."""

from types import SimpleNamespace

import numpy as np
import pytest

from llmc import blocks, cuda
from llmc.backends import get_backend, reference
from llmc.backends.gpu_mixed import CudaMixed
from llmc.bench.step import training_step
from llmc.config import GPT2Config, preset
from llmc.cuda import recorder
from llmc.model import GPT2, training_buffers
from llmc.parity.cases import CASES
from llmc.precision import find_precision
from llmc.tests.kernels.mixed import gradients_near_pytorch

SHARED = GPT2Config(maxT=16, V=300, L=2, NH=2, C=8)  # gradients share the logits' memory; in those of CASES they do not
B, T = 5, 6
X, Y = np.random.RandomState(0).randint(0, SHARED.V, (2, B, T)).astype(np.int32)
EPSILON = {"bf16": 2.0**-8, "fp16": 2.0**-11}  # the largest relative error of one rounding
on_gpu = pytest.mark.skipif(cuda.device() != "gpu", reason="needs a GPU")


def holding(rows, backend=reference):
    """The same backend, which prefers so many rows of logits; it counts its calls."""
    found = get_backend(backend)
    found.HEAD_ROWS, found.classified, whole = rows, [], found.fused_classifier

    def fused_classifier(losses, logits, targets, dloss, V):
        found.classified.append(len(logits))
        whole(losses, logits, targets, dloss, V)

    found.fused_classifier = fused_classifier
    return found


def build(backend, precision="fp64", config=SHARED):
    model = GPT2(config, backend, precision)
    model.init_weights()
    return model


def step(model, accumulate, x=X, y=Y, wait=True):
    """The loss; the gradients are in the model."""
    model.grads_flat[...] = 7.0  # to be added to, or overwritten
    loss = (model.forward if wait else model.launch)(x, y, dloss=0.5)
    model.backward(accumulate=accumulate)
    return loss if wait else model.mean_loss()


def assert_near(got, wanted, digits=1e-13):
    np.testing.assert_allclose(got, wanted, rtol=0, atol=digits * np.abs(wanted).max())


@pytest.mark.parametrize("accumulate", [True, False])
@pytest.mark.parametrize("backend, precision, digits", [("numpy", "fp64", 1e-13), ("cpu", "fp32", 2e-6)])
@pytest.mark.parametrize("config", [SHARED, CASES[0].config], ids=["shared", "apart"])
@pytest.mark.parametrize("rows, parts", [(1, [1, 1, 1, 1, 1]), (2 * T, [2, 2, 1]), (4 * T, [3, 2]), (5 * T, [5])])
def test_losses_and_gradients_are_those_of_all_at_once(config, backend, precision, digits, accumulate, rows, parts):
    model, whole = (build(each, precision, config) for each in (holding(rows, backend), backend))
    assert bool(blocks.gradient_tables(config, B, T)[1]) == (config is SHARED)
    x, y = X % config.V, Y % config.V
    losses = [step(each, accumulate, x, y, wait=each is whole) for each in (model, whole)]
    assert model.backend.classified == parts
    assert_near(*losses, digits)
    assert_near(model.losses, whole.losses, digits)
    for name, grad in model.grads.items():
        assert_near(grad, whole.grads[name], digits)


def test_losses_may_be_asked_for_at_any_time():
    model = build(holding(2 * T), "fp32")
    loss = model.forward(X, Y, dloss=1.0)
    model.backward()
    gradients = model.grads_flat.copy()
    for ask in (model.mean_loss, lambda: model.loss_later()(), lambda: model.losses.mean(dtype=np.float64)):
        model.zero_grad()
        model.launch(X, Y, dloss=1.0)
        assert ask() == loss
        model.backward()
        assert ask() == loss
        np.testing.assert_array_equal(model.grads_flat, gradients)
    assert model.loss(X, Y) == loss


def test_a_step_that_does_not_wait_computes_logits_once():
    model = build(holding(2 * T))
    loss = step(model, False, wait=False)
    assert loss == model.losses.mean() == model.mean_loss()
    assert model.backend.classified == [2, 2, 1]


def test_without_targets_all_logits_are_there_and_without_dloss_few():
    model, whole = build(holding(2 * T)), build(reference)
    assert_near(model.loss(X, Y), whole.loss(X, Y))
    assert len(model._acts["logits"]) == 2
    before = model._acts.flat.size
    assert_near(model.logits(X), whole.logits(X))
    assert model._acts.flat.size == before + (B - 2) * T * SHARED.Vp
    for _ in range(2):  # in the larger memory, too
        assert_near(step(model, False), step(whole, False))
        assert_near(model.grads_flat, whole.grads_flat)


def test_a_layers_gradients_are_final_when_they_are_said_to_be():
    model, found = build(holding(T)), {}

    def final(layer):
        names = [p.name for p in model.table if p.stacked == (layer is not None)]
        buffer = model.grads if layer is None else model.grads.layer(layer)
        found[layer] = {name: buffer[name].copy() for name in names}

    model.forward(X, Y, dloss=1.0)
    model.backward(accumulate=False, final=final)
    assert list(found) == [1, 0, None]
    for layer, arrays in found.items():
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, model.grads[name] if layer is None else model.grads[name][layer])


# ----------------------------------------------------------------------------------------------------------- memory


def test_how_many_sequences_there_is_room_for():
    d12 = preset("d12")

    def room(rows, B, T, config=d12):
        backend = SimpleNamespace(HEAD_ROWS=rows)
        return blocks.sequences_at_once(config, backend, B, T)

    assert [room(1 << 14, n, 1024) for n in (1, 8, 16, 17, 32, 64)] == [1, 8, 16, 16, 16, 16]
    assert [room(1 << 14, n, 100) for n in (163, 164)] == [163, 163] and room(1000, 4, 1024) == 1
    assert room(None, 64, 1024) == 64  # a backend that does not say is as before
    assert room(1 << 14, 512, 1024) == 55  # of which logits are as large as the gradients that share their memory
    assert room(1, 9, 16, CASES[0].config) == 1  # none do


@pytest.mark.parametrize("name", ["tiny", "d12", "d24", "d48"])
def test_gradients_fit_into_the_logits_memory_and_more_sequences_need_more(name):
    config, sizes = preset(name), []
    for n in range(1, 200):
        at_once = blocks.sequences_at_once(config, CudaMixed, n, config.maxT)
        shared = sum(np.prod(tensor.shape) for tensor in blocks.gradient_tables(config, n, config.maxT)[1])
        assert shared <= at_once * config.maxT * config.Vp
        sizes.append(at_once)
    assert sizes == sorted(sizes) and sizes[0] == 1


@pytest.mark.parametrize("n, pytorchs, gb", [(32, 16.1, 14.9), (64, 30.6, 26.2)])
def test_a_step_in_16_bits_takes_less_memory_than_pytorchs(n, pytorchs, gb):
    """pytorchs: what torch.compile's takes on an H200, in GB."""
    kept = training_buffers(preset("d12"), "cuda", n, 1024, "bf16", recompute=0)
    total = sum(buffer.nbytes for buffer in kept.values()) / 1e9
    assert total == pytest.approx(gb, abs=0.05) and total < pytorchs


# ---------------------------------------------------------------------------------------------------------- 16 bits


@pytest.fixture
def rows(monkeypatch):
    """A function that makes the "cuda" backend hold so many rows of logits in 16 bits."""
    return lambda n: monkeypatch.setattr(CudaMixed, "HEAD_ROWS", n)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("case", [case for case in CASES if case.B > 1], ids=lambda case: case.name)
def test_gradients_in_parts_are_near_those_of_pytorch_in_float64(rows, case, precision):
    rows(1)
    assert len(gradients_near_pytorch(case, precision, accumulate=False)._acts["logits"]) == 1 < case.B


def test_steps_in_parts_in_16_bits_are_steps_like_others_and_the_same_each_time(rows):
    found = []
    for n in (B * T, 2 * T, 2 * T):
        rows(n)
        model = build("cuda", "bf16")
        found.append([training_step(model, X, Y) for _ in range(6)])
    assert found[1] == found[2] and found[1] == pytest.approx(found[0], abs=2e-3)


@on_gpu
def test_steps_in_parts_as_graphs_have_the_bits_of_those_without(rows):
    rows(2 * T)
    before, found = recorder.graphs(), []
    try:
        for on in (True, False):
            recorder.forget()
            recorder.graphs(on)
            model = build("cuda", "bf16")
            losses = []
            for i in range(4):
                losses.append((model.launch if i % 2 else model.forward)(X, Y))
                model.backward(accumulate=False)
                losses += [model.mean_loss(), model.update(1e-3, max_norm=1.0)(), model.loss(X, Y)]
            found.append((losses, cuda.asnumpy(model.params.flat).tobytes()))
            assert recorder.recorded() >= 4 or not on
    finally:
        recorder.graphs(before)
    assert found[0] == found[1]


@on_gpu
def test_gradients_of_gpt2_in_parts_are_as_near_to_float32_as_those_of_all_at_once(rows):
    config, draw = preset("d12"), np.random.RandomState(0)
    x, y = draw.randint(0, config.V, (2, 8, 256)).astype(np.int32)
    exact = GPT2(config, "cuda", "fp32")
    exact.init_weights()
    for array in exact.params.values():
        array[...] = array.astype(find_precision("bf16").weights).astype(np.float32)
    exact.forward(x, y, dloss=1.0)
    exact.backward()
    wanted = {name: cuda.asnumpy(grad).astype(np.float64) for name, grad in exact.grads.items()}
    off = []
    for n in (1 << 14, 512):
        rows(n)
        model = build("cuda", "bf16", config)
        model.launch(x, y, dloss=1.0)
        model.backward(accumulate=False)
        got = {name: cuda.asnumpy(grad).astype(np.float64) for name, grad in model.grads.items()}
        off.append({name: np.linalg.norm(got[name] - w) / np.linalg.norm(w) for name, w in wanted.items()})
    for name, apart in off[1].items():
        assert apart < 1.5 * off[0][name] + EPSILON["bf16"], name
