"""GPT-2 in 16 bits on the "cuda" backend: next to PyTorch, to NumPy and to itself."""

import numpy as np
import pytest

from llmc import cuda
from llmc.backends import get_backend
from llmc.backends.gpu_mixed import CudaMixed
from llmc.bench.step import training_step
from llmc.blocks import RECOMPUTE
from llmc.checkpoints.model_file import read_model, write_model
from llmc.checkpoints.optimizer_state import TrainState, read_optimizer_state, write_optimizer_state
from llmc.config import GPT2Config, preset
from llmc.model import GPT2
from llmc.parity.cases import CASES
from llmc.precision import find_precision
from llmc.sampling import generate
from llmc.tests.kernels.mixed import GAP, PRECISIONS, backend, gradients_near_pytorch, on_gpu, tokens

SMALL = GPT2Config(maxT=40, V=300, L=2, NH=2, C=32)
X, Y = tokens(2, 12, V=300), tokens(2, 12, V=300, seed=1)


def build(precision, config=SMALL, name="cuda", **options):
    model = GPT2(config, name, precision, **options)
    model.init_weights()
    return model


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_model_of_16_bits_takes_this_backend(precision):
    model = build(precision)
    assert isinstance(model.backend, CudaMixed) and get_backend(backend, model.precision) is backend
    assert precision in backend.PRECISIONS and "master weights" in model.memory_plan(2, 12)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_loss_and_gradients_are_near_those_of_pytorch_in_float64(case, precision):
    gradients_near_pytorch(case, precision)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_ten_losses_are_the_numpy_backends(precision):
    """Both take almost the same steps, and the first one rounds the weights by the same random bits."""
    losses, weights, moments = [], [], []
    for name in ("numpy", "cuda"):
        model = build(precision, name=name)
        model.loss_scale = 2.0**10 if model.precision.overflows else 1.0
        losses.append([])
        for step in range(10):
            losses[-1].append(model.forward(X, Y, dloss=1.0))
            model.backward()
            model.update(1e-3, weight_decay=0.1, zero_grad=True, max_norm=50.0)
            if step == 0:
                weights.append(cuda.asnumpy(model.params.flat).copy())
                moments.append(cuda.asnumpy(model.m.flat).copy())
    assert losses[1] == pytest.approx(losses[0], abs=2e-3) and losses[1][-1] < losses[1][0] - 0.1
    assert (weights[0] == weights[1]).mean() > 0.98
    assert np.linalg.norm(moments[1] - moments[0]) < 1e-2 * np.linalg.norm(moments[0])


@pytest.mark.parametrize("master_weights", [True, False])
def test_two_runs_give_the_same_bits_also_across_a_checkpoint(tmp_path, master_weights):
    def steps(model, n):
        for _ in range(n):
            training_step(model, X, Y)
        return [cuda.asnumpy(b.flat).tobytes() for b in (model.params, model.m, model.v, model.master) if b is not None]

    whole, first = (build("bf16", master_weights=master_weights) for _ in range(2))
    steps(first, 2)
    write_model(tmp_path / "model.bin", first)
    write_optimizer_state(tmp_path / "state.bin", first, TrainState(2))
    second = read_model(tmp_path / "model.bin", "cuda", "bf16", master_weights)
    read_optimizer_state(tmp_path / "state.bin", second)
    assert steps(second, 2) == steps(whole, 4) == steps(first, 2)


def test_what_is_computed_again_has_the_same_bits():
    found = {}
    for recompute in RECOMPUTE:
        model = build("bf16", recompute=recompute)
        training_step(model, X, Y)
        found[recompute] = cuda.asnumpy(model.params.flat).tobytes()
    assert found[0] == found[3] and found[1] == found[2]
    assert found[0] == found[1] or cuda.device() == "gpu"  # where cuBLAS computes GELU, unless it must again


def test_gradients_accumulate_and_are_clipped():
    model = build("bf16")
    norms = []
    for _ in range(2):
        model.forward(X, Y, dloss=0.5)
        model.backward()
        norms.append(model.global_norm())
    assert norms[1] == pytest.approx(2 * norms[0], rel=1e-2)
    assert model.clip_gradients(0.1) == norms[1] and model.global_norm() == pytest.approx(0.1, rel=1e-2)


def test_sampling_with_the_cache_gives_the_ids_of_sampling_without():
    ids = [list(generate(build("bf16"), [7, 8], 6, temperature=0.7, window=10, cache=cache)) for cache in (True, False)]
    assert ids[0] == ids[1]


@pytest.mark.skipif(cuda.device() == "gpu", reason="what the emulator has to say")
def test_no_kernel_of_a_step_gets_a_diagnosis(monkeypatch):
    monkeypatch.setenv("LLMC_CHECK", "1")
    model = build("bf16", CASES[0].config)
    training_step(model, *CASES[0].batch())
    model.clip_gradients(0.1)


# ------------------------------------------------------------------------------------------------ on a GPU only


@on_gpu
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_step_allocates_nothing(precision):
    model = build(precision)
    for _ in range(3):
        training_step(model, X, Y)
    pool = cuda.xp.get_default_memory_pool()
    before = pool.total_bytes()
    for _ in range(3):
        training_step(model, X, Y)
    assert pool.total_bytes() == before


@on_gpu
@pytest.mark.parametrize("precision", PRECISIONS)
def test_gpt2_124m_is_near_float32(precision):
    """Loss and gradients from the same weights, rounded; the tolerances of the small models."""
    x, y = tokens(2, 256, V=50257), tokens(2, 256, V=50257, seed=1)
    losses, grads, epsilon = [], [], GAP[find_precision(precision).weights.name] / 2
    for name in (precision, "fp32"):
        model = build(name, preset("d12"))
        for parameter in model.params.values():
            rounded = cuda.asnumpy(parameter).astype(find_precision(precision).weights)
            parameter[...] = cuda.asarray(rounded.astype(parameter.dtype))
        model.loss_scale = 2.0**12 if model.precision.overflows else 1.0
        losses.append(model.forward(x, y, dloss=1.0))
        model.backward()
        scale = model.loss_scale
        grads.append({key: cuda.asnumpy(grad).astype(np.float64) / scale for key, grad in model.grads.items()})
    assert abs(losses[0] - losses[1]) < 4 * epsilon
    for name, wanted in grads[1].items():
        assert np.linalg.norm(grads[0][name] - wanted) < 16 * epsilon * np.linalg.norm(wanted), name
