"""A step that runs ahead of the host: its graphs, its settings on the device, numbers that are read later.

On the emulator everything runs at once, by the same code, without graphs.
"""

import warnings
from math import inf, nan

import numpy as np
import pytest

from llmc import cuda, kernels
from llmc.backends import MATMUL, get_backend
from llmc.bench.step import training_step
from llmc.config import GPT2Config
from llmc.cuda import recorder
from llmc.kernels.cublas import matmul_row, row_fits, transpose
from llmc.model import GPT2
from llmc.precision import find_precision
from llmc.sampling import generate

SMALL = GPT2Config(maxT=40, V=300, L=2, NH=2, C=32)
cuda_backend = get_backend("cuda")
on_gpu = pytest.mark.skipif(cuda.device() != "gpu", reason="needs a GPU")


def draw(*shape, seed=0):
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def tokens(*shape, seed=0):
    return np.random.RandomState(seed).randint(0, SMALL.V, shape).astype(np.int32)


def small_model(backend="cuda"):
    model = GPT2(SMALL, backend)
    model.init_weights()
    return model


def bits(model):
    """Everything that a run goes on from."""
    return [cuda.asnumpy(buffer.flat).tobytes() for buffer in (model.params, model.grads, model.m, model.v)]


@pytest.fixture
def graphs():
    """A function that says whether to record from now on; graphs of other tests are gone."""
    before = recorder.graphs()
    recorder.forget()
    yield recorder.graphs
    recorder.graphs(before)


# ------------------------------------------------------------------------------------------------------ a run


def varied_run(model):
    """Losses and norms of steps with all that differs in a run: rates, accumulation, evaluation, another shape."""
    found = []
    for i in range(8):
        x, y = tokens(2, 24, seed=2 * i), tokens(2, 24, seed=2 * i + 1)
        losses = []
        for _ in range(1 + i % 2):  # micro-batches
            model.launch(x, y, dloss=1.0 / (1 + i % 2))
            losses.append(model.loss_later())
            model.backward()
        decay = 0.1 if i < 6 else 0.0
        norm = model.update(1e-3 * (i + 1), weight_decay=decay, zero_grad=True, max_norm=0.5 if i % 3 else inf)
        found += [norm(), *(loss() for loss in losses)]
        if i in (3, 5):
            found.append(model.loss(x, y))
            found.append(model.loss(tokens(3, 40), tokens(3, 40, seed=1)))
    return found


@on_gpu
@pytest.mark.parametrize("way", MATMUL)
def test_a_run_as_graphs_has_the_bits_of_one_without(graphs, way):
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what could not be recorded would warn
        for on in (True, False):
            graphs(on)
            model = small_model()
            model.backend.choose(way)
            found.append((varied_run(model), bits(model)))
            assert recorder.recorded() >= 6 or not on
    assert found[0] == found[1]


@on_gpu
def test_a_copy_that_is_dropped_keeps_its_memory():
    """Else the next tokens would wait in that memory on their way to the GPU, and be overwritten there."""
    work, tokens = cuda.xp.ones((4096, 4096), np.float32), np.arange(4096, dtype=np.int32)
    cuda.asarray(tokens)  # makes room for tokens of this size
    for _ in range(20):
        work = work @ work * np.float32(2**-12)  # (4096, 4096)   keeps the GPU busy
    cuda.asnumpy_later(work[0].view(np.int32))
    there = cuda.asarray(tokens)
    np.testing.assert_array_equal(cuda.asnumpy(there), tokens)


@on_gpu
def test_graphs_survive_that_scratch_memory_moves(graphs):
    graphs(True)
    model, other = small_model(), small_model()
    losses = [training_step(model, tokens(1, 8), tokens(1, 8, seed=1)) for _ in range(4)]
    whole = small_model()
    whole.forward(tokens(40, 40), tokens(40, 40), dloss=1.0)
    whole.backward()  # scratch memory grows
    cuda.xp.empty(1 << 20).fill(nan)  # takes what was freed
    losses += [training_step(model, tokens(1, 8), tokens(1, 8, seed=1)) for _ in range(4)]
    graphs(False)
    assert losses == [training_step(other, tokens(1, 8), tokens(1, 8, seed=1)) for _ in range(8)]


def test_a_run_is_that_of_the_other_backends():
    mine, theirs = (varied_run(small_model(name)) for name in ("cuda", "cpu"))
    assert mine == pytest.approx(theirs, rel=1e-5)


def test_clipping_on_the_way_has_the_bits_of_clipping_first():
    models = small_model(), small_model()
    for model in models:
        model.forward(tokens(2, 9), tokens(2, 9, seed=1), dloss=1.0)
        model.backward()
    norm = models[0].clip_gradients(0.3)
    models[0].update(1e-3, weight_decay=0.1, zero_grad=True)
    assert models[1].update(1e-3, weight_decay=0.1, zero_grad=True, max_norm=0.3)() == norm > 0.3
    assert bits(models[0]) == bits(models[1])


@pytest.mark.parametrize("wrong", [nan, inf, -inf])
def test_gradients_that_are_not_finite_change_nothing(wrong):
    model = small_model()
    training_step(model, tokens(2, 9), tokens(2, 9, seed=1))
    model.grads["fcw"][0, 0, 0] = wrong
    before = bits(model)
    norm = model.update(1e-3, weight_decay=0.1, zero_grad=True, max_norm=1.0)
    assert not np.isfinite(norm()) and bits(model) == before


def test_a_loss_that_is_read_later_is_that_of_its_batch():
    model, losses = small_model(), []
    for seed in range(3):
        model.launch(tokens(2, 9, seed=seed), tokens(2, 9, seed=seed + 1), dloss=1.0)
        losses.append(model.loss_later())
    expected = [model.forward(tokens(2, 9, seed=s), tokens(2, 9, seed=s + 1), dloss=1.0) for s in range(3)]
    assert [loss() for loss in losses] == expected


@on_gpu
def test_sampling_as_graphs_gives_the_same_ids(graphs):
    ids = []
    for on in (True, False):
        graphs(on)
        ids.append(list(generate(small_model(), [7, 8], 30, temperature=0.7)))
    assert ids[0] == ids[1]


def test_a_start_on_the_device_is_a_start():
    NH, hs, T = 2, 16, 70
    cache, qkv = draw(2, 1, NH, T, hs), draw(1, 1, 3 * NH * hs, seed=1)
    for start in (0, 1, 63, 64, 69):
        found = []
        for given in (start, cuda.asarray(np.array([start], np.int32))):
            out, kept = cuda.asarray(np.full((1, 1, NH * hs), nan, np.float32)), cuda.asarray(cache.copy())
            cuda_backend.attention_cached(out, kept, cuda.asarray(qkv), NH, given)
            found.append((cuda.asnumpy(out).tobytes(), cuda.asnumpy(kept).tobytes()))
        assert found[0] == found[1]


# --------------------------------------------------------------------------------------------- the recorder


def test_on_the_emulator_work_is_just_done(graphs):
    calls = []
    if cuda.device() == "emulator":
        for _ in range(3):
            recorder.repeat("key", [], lambda: calls.append(1))
        assert len(calls) == 3 and recorder.recorded() == 0


@on_gpu
def test_work_is_recorded_the_second_time_and_found_by_key_and_arrays(graphs):
    graphs(True)
    array, other, calls = cuda.xp.zeros(3), cuda.xp.zeros(3), []

    def add(to):
        calls.append(1)
        to += 1

    for _ in range(5):
        recorder.repeat("key", [array], lambda: add(array))
    assert len(calls) == 2 and array.tolist() == [5, 5, 5] and recorder.recorded() == 1
    recorder.repeat("key", [other], lambda: add(other))
    recorder.repeat("another", [array], lambda: add(array))
    assert len(calls) == 4 and recorder.recorded() == 1


@on_gpu
def test_what_cannot_be_recorded_runs_with_a_warning(graphs):
    graphs(True)
    array, seen = cuda.xp.zeros(3), []
    recorder.repeat("waits", [array], lambda: seen.append(float(array.sum())))
    with pytest.warns(UserWarning, match="without one"):
        recorder.repeat("waits", [array], lambda: seen.append(float(array.sum())))
    assert recorder.repeat("waits", [array], lambda: seen.append(float(array.sum()))) is None and len(seen) == 3
    assert float(cuda.xp.ones(3).sum()) == 3.0  # the GPU is as it was


def test_scratch_memory_that_grows_has_moved():
    before = kernels.scratch_moves()
    for size in (8, 8, 4):
        kernels.scratch("of this test", (size,))
    assert kernels.scratch_moves() == before
    kernels.scratch("of this test", (9,))
    assert kernels.scratch_moves() == before + 1


# ------------------------------------------------------------------------------------------------- products


@pytest.mark.parametrize("N, C", [(1, 1), (5, 7), (33, 64), (64, 68), (130, 132), (127, 129)])
@pytest.mark.parametrize("version", [1, 2])
def test_transpose(N, C, version):
    x, out = draw(N, C), cuda.asarray(np.full((C, N), nan, np.float32))
    transpose(out, cuda.asarray(x), version)
    np.testing.assert_array_equal(cuda.asnumpy(out), x.T)


@pytest.mark.parametrize("N, K", [(1, 4), (9, 8), (33, 132), (130, 768)])
def test_matmul_row(N, K):
    x, w, b = draw(1, 1, K), draw(N, K, seed=1), draw(N, seed=2)
    for bias in (None, b):
        out = cuda.asarray(np.full(N, nan, np.float32))
        matmul_row(out, cuda.asarray(x), cuda.asarray(w), None if bias is None else cuda.asarray(bias))
        expected = w.astype(np.float64) @ x[0, 0] + (0.0 if bias is None else bias)
        assert np.abs(cuda.asnumpy(out) - expected).max() <= 1e-6 * np.abs(w @ x[0, 0]).max() + 1e-6


def test_matmul_row_takes_one_row_of_whole_words():
    w = cuda.asarray(draw(5, 8))
    assert row_fits(cuda.asarray(draw(1, 1, 8)), w)
    assert not row_fits(cuda.asarray(draw(1, 2, 8)), w)
    assert not row_fits(cuda.asarray(draw(1, 1, 6)), cuda.asarray(draw(5, 6)))


@on_gpu
@pytest.mark.parametrize("N, C_in, C_out", [(1, 5, 3), (5, 7, 3), (33, 48, 20), (64, 132, 36), (512, 256, 768)])
def test_products_in_tf32_are_those_of_float32_but_for_rounding(N, C_in, C_out):
    x, w, dout = (cuda.asarray(a) for a in (draw(1, N, C_in), draw(C_out, C_in, seed=1), draw(1, N, C_out, seed=2)))
    b, found = cuda.asarray(draw(C_out, seed=3)), []
    for backend in (cuda_backend, get_backend("cuda", find_precision("tf32"))):
        out, dx, dw = (cuda.xp.full(shape, nan, "float32") for shape in (dout.shape, x.shape, w.shape))
        dw.fill(1.0)
        backend.matmul_forward(out, x, w, b)
        backend.matmul_backward(dx, dw, None, dout, x, w)
        found.append([cuda.asnumpy(array) for array in (out, dx, dw)])
    for exact, rounded in zip(*found, strict=True):
        assert np.abs(exact - rounded).max() <= 3e-3 * np.abs(exact).max()
