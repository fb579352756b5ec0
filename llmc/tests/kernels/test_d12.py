"""GPT-2 124M on a GPU: the "cuda" backend against PyTorch in float64, at the size that people train. Skipped elsewhere.

Ten losses to 1e-5 in float32 and to 1e-2 with TF32, every gradient to 1e-5 of its largest element.
"""

import numpy as np
import pytest

from llmc import cuda
from llmc.config import preset
from llmc.model import GPT2
from llmc.parity.compare import RECIPES

torch = pytest.importorskip("torch")
if cuda.device() != "gpu" or not torch.cuda.is_available():
    pytest.skip("needs a GPU, for us and for PyTorch", allow_module_level=True)

from llmc.tests.engine import torch_gpt2  # noqa: E402

B, T = 2, 1024


@pytest.fixture(scope="module")
def run():
    """A fresh model, a batch, and PyTorch's loss, gradients and ten losses of recipe A."""
    model = GPT2(preset("d12"), "cuda")
    model.init_weights()
    values = {name: cuda.asnumpy(p) for name, p in model.params.items()}
    tokens = np.random.RandomState(0).randint(0, model.config.V, (B, T + 1)).astype(np.int32)
    x, y = np.ascontiguousarray(tokens[:, :-1]), np.ascontiguousarray(tokens[:, 1:])  # (B, T) both
    with torch.device("cuda"):
        _, loss, grads = torch_gpt2.loss_and_gradients(model.config, values, x, y, torch.float64)
        losses = torch_gpt2.adamw_losses(model.config, values, x, y, torch.float64, "A")
    return model, values, x, y, loss, grads, losses


def ten_losses(model, values, x, y):
    """Ten losses as PyTorch's are measured: from the same weights, each before its update."""
    for name, p in model.params.items():
        p[...] = cuda.asarray(values[name])
    model.zero_optimizer()
    losses = []
    for _ in range(10):
        model.zero_grad()
        losses.append(model.forward(x, y, dloss=1.0))
        model.backward()
        model.update(**RECIPES["A"])
    return np.array(losses)


@pytest.mark.parametrize("way", ["cublas", "own"])
def test_gradients(run, way):
    model, _, x, y, loss, grads, _ = run
    model.backend.choose(way)
    model.zero_grad()
    assert model.forward(x, y, dloss=1.0) == pytest.approx(loss, abs=1e-5)
    model.backward()
    model.backend.choose()
    worst = {}
    for name, wanted in grads.items():
        worst[name] = np.abs(cuda.asnumpy(model.grads[name]) - wanted).max() / np.abs(wanted).max()
    print({name: f"{error:.1e}" for name, error in worst.items()})
    assert max(worst.values()) <= 1e-5, worst


@pytest.mark.parametrize("precision, tolerance", [("fp32", 1e-5), ("tf32", 1e-2)])
def test_ten_losses(run, precision, tolerance):
    model, values, x, y, _, _, losses = run
    model = model if precision == "fp32" else GPT2(model.config, "cuda", precision)
    errors = np.abs(ten_losses(model, values, x, y) - losses)
    print(f"{precision}: largest error of ten losses {errors.max():.1e}")
    assert errors.max() <= tolerance
