"""Lesson 09's references against PyTorch and the package, its stored steps, and rules that answers seldom meet."""

import numpy as np
import pytest

from llmc.backends import get_backend
from llmc.config import PRESETS, preset
from llmc.course import awkward
from llmc.course.lessons.adamw import exercises
from llmc.course.lessons.adamw import optimizer as lesson

RNG = np.random.default_rng(5)
P, G, M = (awkward(RNG, 3, 5) for _ in range(3))
V = np.abs(awkward(RNG, 3, 5))
SETTINGS = dict(lr=0.3, beta1=0.7, beta2=0.9, eps=0.5, weight_decay=0.4, t=3)


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_adamw_is_the_package_s(dtype):
    flat = [array.astype(dtype).reshape(-1) for array in (P, G, M, V)]  # (15,) each
    expected = lesson.adamw(*flat, **SETTINGS)
    get_backend("numpy").adamw_update(*flat, *SETTINGS.values())
    for got, want in zip((flat[0], *flat[2:]), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5 if dtype is np.float32 else 1e-13)
        assert want.dtype == dtype


@pytest.mark.parametrize(("max_norm", "size"), [(1.0, 1), (1e-4, 1), (1e3, 1), (1.0, 0)])
def test_clip_is_pytorchs(torch, max_norm, size):
    arrays = [size * P, size * G[0], 1e-3 * size * M]
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    for tensor, a in zip(tensors, arrays):
        tensor.grad = torch.tensor(a)
    norm = torch.nn.utils.clip_grad_norm_(tensors, max_norm)
    clipped, mine = lesson.clip(arrays, max_norm)
    assert mine == pytest.approx(norm.item(), rel=1e-13)
    for got, tensor in zip(clipped, tensors):
        np.testing.assert_allclose(got, tensor.grad.numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_what_is_decayed_has_the_same_names_in_all_sizes(name):
    assert [p.name for p in preset(name).parameter_table() if p.decayed] == exercises.DECAYED


def test_stored_steps_are_the_reference_s():
    stored = lesson.ten_steps()
    p, m, v = (factor * stored.start for factor in (1, 0, 0))
    for t, (g, expected) in enumerate(zip(stored.grads, stored.params, strict=True), start=1):
        p, m, v = lesson.adamw(p, g, m, v, **stored.settings, t=t)
        np.testing.assert_allclose(p, expected, rtol=1e-13)


def test_stored_steps_are_pytorchs(torch):
    from llmc.tests.course import torch_adamw

    stored, problem = lesson.ten_steps(), torch_adamw.problem()
    for kept, array in zip(stored, problem):
        np.testing.assert_array_equal(kept, array)
    np.testing.assert_allclose(stored.params, torch_adamw.run(*problem), rtol=1e-14)
