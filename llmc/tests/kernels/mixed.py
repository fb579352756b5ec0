"""The kernels for numbers of 16 bits next to their referee, backends/mixed.py on NumPy: the same calls to both."""

import numpy as np
import pytest

from llmc import cuda
from llmc.backends import get_backend, mixed, reference
from llmc.model import GPT2
from llmc.precision import find_precision

PRECISIONS = ("bf16", "fp16")
GAP = {"bfloat16": 2.0**-7, "float16": 2.0**-10}  # from 1 to the next number: no gap is larger, relative to its numbers
EXACT = 1e-5  # of the largest element: what float32 allows
referee = mixed.Mixed(reference)
backend = get_backend("cuda", find_precision("bf16"))
on_gpu = pytest.mark.skipif(cuda.device() != "gpu", reason="needs a GPU")


def draw(*shape, seed=0, dtype=np.float32, centre=0.0):
    return (np.random.RandomState(seed).standard_normal(shape) + centre).astype(dtype)


def nans(*shape, dtype=np.float32):
    """An array that must be written and may not be read."""
    return np.full(shape, np.nan, dtype)


def tokens(*shape, V, seed=0):
    return np.random.RandomState(seed).randint(0, V, shape).astype(np.int32)


def call(function, *arguments, **numbers):
    """Call a function on copies of the arrays where kernels run. Returns all arguments, on the host."""
    there = [cuda.asarray(a.copy()) if isinstance(a, np.ndarray) else a for a in arguments]
    function(*there, **numbers)
    return [cuda.asnumpy(a) if hasattr(a, "shape") else a for a in there]


def near(got, wanted, summand=0.0) -> bool:
    """Whether float32 arrays agree to float32's precision, and those of 16 bits but for a last place here and there.

    In numbers much smaller than the largest, float32 itself has lost digits to cancellation: these may differ more, and
    so may sums of a `summand` and another one that was rounded before, by a last place of that.
    """
    got, expected = got.astype(np.float64), wanted.astype(np.float64)
    largest = np.abs(expected).max(initial=0.0)
    allowed = EXACT * largest + GAP.get(wanted.dtype.name, 0.0) * (np.abs(expected) + np.abs(summand))
    off = (got != expected) & (np.abs(expected) > 1e-2 * largest) & (wanted.dtype.itemsize == 2)
    return np.isfinite(got).all() and (np.abs(got - expected) <= allowed).all() and off.sum() <= 1 + off.size // 100


def agree(name, *arguments, **numbers):
    """The same call to both: all arrays must be near."""
    expected = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    getattr(referee, name)(*expected, **numbers)
    for i, (got, wanted) in enumerate(zip(call(getattr(backend, name), *arguments, **numbers), expected)):
        if isinstance(got, np.ndarray):
            assert near(got, wanted), f"argument {i}"


def gradients_near_pytorch(case, precision, **how) -> GPT2:
    """Assert that loss and gradients are near PyTorch's in float64, as in test_precision.py. Returns the model."""
    expected, epsilon = np.load(case.fixture), GAP[find_precision(precision).weights.name] / 2
    model = GPT2(case.config, "cuda", precision)
    model.loss_scale = 2.0**12 if model.precision.overflows else 1.0
    for name, values in case.weights().items():
        model.params[name][...] = cuda.asarray(values.astype(model.precision.weights))
    x, y = case.batch()
    assert abs(model.forward(x, y, dloss=1.0) - float(expected["loss"])) < 4 * epsilon
    model.backward(**how)
    for name, grad in model.grads.items():
        wanted = expected["d" + name]
        got = cuda.asnumpy(grad).astype(np.float64)[: len(wanted)] / model.loss_scale
        assert np.linalg.norm(got - wanted) < 16 * epsilon * np.linalg.norm(wanted), name
    return model
