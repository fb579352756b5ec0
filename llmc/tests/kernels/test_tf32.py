"""The precision "tf32": it belongs to a model, rounds the factors of products and nothing else, and says where not."""

import numpy as np
import pytest

from llmc import cuda
from llmc.backends import MATMUL, get_backend
from llmc.bench.step import training_step
from llmc.cuda import recorder
from llmc.errors import UserError
from llmc.kernels import cublas, tensor_cores
from llmc.model import GPT2
from llmc.parity.cases import CASES
from llmc.precision import find_precision
from llmc.sampling import generate

if not tensor_cores.has_tf32(cuda.device()):
    pytest.skip("needs a GPU that multiplies in TF32, or the emulator", allow_module_level=True)

TF32 = find_precision("tf32")
APART = 1e-2  # of a gradient's length: what rounding every factor to 11 significant bits may cost
CASE = next(case for case in CASES if case.name == "odd")


@pytest.fixture(params=MATMUL)
def way(request):
    """Matmuls by the library, by our kernels, by the faster of both."""
    return request.param


def build(precision, backend="cuda", case=CASE, way="fastest"):
    model = GPT2(case.config, backend, precision)
    model.backend.choose(way)
    for name, values in case.weights().items():
        model.params[name][...] = model.backend.from_numpy(values.astype(model.precision.weights))
    return model


def gradients(model, case=CASE):
    """(loss, {name: gradient (float64)})."""
    model.zero_grad()
    loss = model.forward(*case.batch(), dloss=1.0)
    model.backward()
    return loss, {name: cuda.asnumpy(grad).astype(np.float64) for name, grad in model.grads.items()}


def apart(a, b):
    """Euclidean distance, relative to b."""
    return np.linalg.norm(a - b) / np.linalg.norm(b)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_loss_and_gradients_are_near_those_of_float64_and_rounded(case, way):
    exact, rounded = gradients(build("fp64", "numpy", case), case), gradients(build("tf32", case=case, way=way), case)
    assert 1e-7 < abs(rounded[0] - exact[0]) < 1e-3
    for name, grad in exact[1].items():
        assert apart(rounded[1][name], grad) < APART, name
    assert max(apart(rounded[1][name], grad) for name, grad in exact[1].items()) > 1e-5


def test_two_models_of_one_process_keep_their_precision(way):
    """Each has the bits that it has alone, also where a step is recorded as graphs and the two take turns."""

    def losses(models):
        return [[training_step(model, *CASE.batch()) for _ in range(4)] for model in models]

    alone = [losses([build(precision, way=way)])[0] for precision in ("fp32", "tf32")]
    models = [build(precision, way=way) for precision in ("fp32", "tf32")]
    together = [[training_step(model, *CASE.batch()) for model in models] for _ in range(4)]
    assert list(zip(*together)) == [tuple(each) for each in alone]
    assert alone[0] != alone[1]


def test_recordings_of_one_precision_are_not_those_of_the_other(monkeypatch):
    keys = []
    monkeypatch.setattr(recorder, "repeat", lambda key, arrays, work: keys.append(key))
    monkeypatch.setattr(recorder, "graphs", lambda: True)  # whatever ran before in this process
    for precision in ("fp32", "tf32", "tf32"):
        backend = get_backend("cuda", find_precision(precision))
        backend.choose("own")  # what the emulator's recorder sees, too
        backend.repeat(("forward", 1), [np.zeros(1, np.float32)], None)
    assert keys[0] != keys[1] == keys[2]


def test_a_model_in_tf32_samples_with_and_without_a_cache():
    texts = [list(generate(build("tf32"), [1, 2], 8, temperature=0, cache=cache)) for cache in (True, False)]
    assert texts[0] == texts[1]


def test_what_has_no_tf32_says_so_in_one_sentence(monkeypatch):
    for name in ("numpy", "cpu"):
        with pytest.raises(UserError, match=f"^the {name} backend does not compute in tf32; use cuda"):
            GPT2(CASE.config, name, "tf32")
    with pytest.raises(UserError, match="^this backend does not compute in tf32"):
        get_backend(object(), TF32)
    backend = get_backend("cuda")
    monkeypatch.setattr(cuda, "device", lambda: "gpu")
    monkeypatch.setattr(tensor_cores, "compute_capability", lambda kind: 75)
    with pytest.raises(UserError, match=r"^tf32 needs a GPU of compute capability 8\.0 or more, .* 7\.5; use fp32"):
        backend.in_precision(TF32)


def test_numpys_products_round_to_the_nearest_of_11_significant_bits():
    half = 2.0**-11  # of the gap between 1 and the next number
    values = np.array([1 + half, 1 + half - 2.0**-23, -1 - half, 3e-39, np.inf, -np.inf, np.nan], np.float32)
    found = cublas.to_tf32(values)
    assert str(found[[0, 1, 2, 4, 5, 6]].tolist()) == str([1 + 2 * half, 1.0, -1 - 2 * half, np.inf, -np.inf, np.nan])
    assert abs(found[3] - values[3]) <= 2.0**-137  # half a step of subnormal numbers: 2^-126 · 2^-10 / 2
    many = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    assert (cublas.to_tf32(many).view(np.uint32) & 0x1FFF == 0).all()
    assert np.abs(cublas.to_tf32(many) / many - 1).max() <= 2.0**-11
