"""Lesson 09's references against PyTorch and the package, its known mistakes against each other, its stored steps."""

import json
from pathlib import Path

import numpy as np
import pytest

from llmc.backends import get_backend
from llmc.config import PRESETS, preset
from llmc.course import awkward
from llmc.course.lessons.adamw import optimizer as lesson
from llmc.course.lessons.adamw import schedules
from llmc.training.schedule import KINDS, learning_rate

ROOT = Path(__file__).resolve().parents[3]
RNG = np.random.default_rng(5)
P, G, M = (awkward(RNG, 3, 5) for _ in range(3))
V = np.abs(awkward(RNG, 3, 5))
SETTINGS = dict(lr=0.3, beta1=0.7, beta2=0.9, eps=0.5, weight_decay=0.4, t=3)


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def assert_unlike(right, wrongs):
    """Every mistake has the right shape, differs from the right array, and from every other mistake."""
    arrays = {"right": np.asarray(right)} | {text: np.asarray(array) for text, (array, _) in wrongs.items()}
    for i, (text, one) in enumerate(arrays.items()):
        assert one.shape == np.shape(right), text
        for other in list(arrays)[:i]:
            lost = np.isnan(one) != np.isnan(arrays[other])  # a mistake may make NaN
            far = np.nanmax(np.abs(one - arrays[other])) > 3e-4 * np.nanmax(np.abs(one))
            assert far or lost.any(), f"{text} is like {other}"


# ------------------------------------------------------------------------------------------------------- references


def test_adamw_is_pytorchs(torch):
    w, p, m, v = torch.tensor(P, requires_grad=True), P, 0 * P, 0 * P
    optimizer = torch.optim.AdamW([w], lr=0.3, betas=(0.7, 0.9), eps=SETTINGS["eps"], weight_decay=0.4)
    for t in range(1, 6):
        g = awkward(RNG, *P.shape)
        w.grad = torch.tensor(g)
        optimizer.step()
        p, m, v = lesson.adamw(p, g, m, v, **SETTINGS | {"t": t})
    np.testing.assert_allclose(p, w.detach().numpy(), rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_adamw_is_the_package_s(dtype):
    flat = [array.astype(dtype).reshape(-1) for array in (P, G, M, V)]  # (15,) each
    expected = lesson.adamw(*flat, **SETTINGS)
    settings = SETTINGS.copy()
    get_backend("numpy").adamw_update(*flat, *settings.values())
    for got, want in zip((flat[0], *flat[2:]), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5 if dtype is np.float32 else 1e-13)
        assert want.dtype == dtype


def test_momentum_is_a_weighted_sum_of_all_slopes():
    p, m, slopes = P, 0 * P, [awkward(RNG, *P.shape) for _ in range(6)]
    for g in slopes:
        p, m = lesson.momentum(p, g, m, 0.1, 0.8)
    np.testing.assert_allclose(m, sum(0.2 * 0.8 ** (5 - i) * g for i, g in enumerate(slopes)), rtol=1e-13)


@pytest.mark.parametrize("max_norm", [1.0, 1e-4, 1e3])
def test_clip_is_pytorchs(torch, max_norm):
    arrays = [P, G[0], 1e-3 * M]
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    for tensor, a in zip(tensors, arrays):
        tensor.grad = torch.tensor(a)
    norm = torch.nn.utils.clip_grad_norm_(tensors, max_norm)
    clipped, mine = lesson.clip(arrays, max_norm)
    assert mine == pytest.approx(norm.item(), rel=1e-13)
    for got, tensor in zip(clipped, tensors):
        np.testing.assert_allclose(got, tensor.grad.numpy(), rtol=1e-12)


def test_clip_of_nothing_is_nothing():
    clipped, norm = lesson.clip([0 * P, 0 * G], 1.0)
    assert norm == 0 and not any(array.any() for array in clipped)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("warmup, total", [(0, 20), (5, 20), (20, 20), (19, 20), (0, 1)])
def test_schedule_is_the_package_s(kind, warmup, total):
    steps = range(total + 5)
    rates = schedules.learning_rates(steps, 3e-4, warmup, total, 0.1, kind)
    np.testing.assert_allclose(rates, [learning_rate(s, 3e-4, warmup, total, 0.1, kind) for s in steps], rtol=1e-12)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_groups_are_the_package_s(name):
    table = preset(name).parameter_table()
    shapes = {p.name: p.shape for p in table}
    groups = schedules.decay_groups(shapes)
    assert groups == ([p.name for p in table if p.decayed], [p.name for p in table if not p.decayed])
    assert schedules.explain_groups(groups, shapes) is None


# -------------------------------------------------------------------------------------------------- known mistakes


def test_mistakes_of_momentum_are_wrong_and_unlike():
    right = lesson.momentum(P, G, M, 0.3, 0.8)
    known = lesson.momentum_mistakes(P, G, M, 0.3, 0.8)
    assert_unlike(right[0], known["params"])
    assert_unlike(right[1], known["m"])


def test_mistakes_of_adamw_are_wrong_and_unlike():
    right = lesson.adamw(P, G, M, V, **SETTINGS)._asdict()
    for name, wrongs in lesson.adamw_mistakes(P, G, M, V, **SETTINGS).items():
        assert_unlike(right[name], wrongs)


def test_mistakes_of_clipping_are_wrong_and_unlike():
    grads = [0.1 * G[0], P, 0.01 * M]  # far apart in size, the largest in the middle
    small = [1e-5 * g for g in grads]
    for given, max_norm in ((small, 4e-5), (small, 2.3e-3)):
        clipped, norm = lesson.clip(given, max_norm)
        assert_unlike(clipped[1], _real(lesson.clip_mistakes(given, max_norm, 1), clipped[1]))
        assert_unlike(norm, _real(lesson.norm_mistakes(given, max_norm), norm))


def _real(wrongs, right):
    """Those that are mistakes for these numbers."""
    made = {text: (wrong() if callable(wrong) else wrong, where) for text, (wrong, where) in wrongs.items()}
    return {text: pair for text, pair in made.items() if not np.allclose(pair[0], right, rtol=1e-9)}


@pytest.mark.parametrize("kind", KINDS)
def test_mistakes_of_the_schedule_are_wrong_and_unlike(kind):
    steps = range(45)
    right = schedules.learning_rates(steps, 0.8, 5, 40, 0.1, kind)
    known = schedules.learning_rate_mistakes(steps, 0.8, 5, 40, 0.1, kind)
    assert len(known) >= 6
    assert_unlike(right, _real(known, right))


# -------------------------------------------------------------------------------------------------- stored numbers


def test_stored_steps_are_the_reference_s():
    stored = lesson.ten_steps()
    p, m, v = stored.start, 0 * stored.start, 0 * stored.start
    for t, (g, expected) in enumerate(zip(stored.grads, stored.params, strict=True), start=1):
        p, m, v = lesson.adamw(p, g, m, v, **stored.settings, t=t)
        np.testing.assert_allclose(p, expected, rtol=1e-13)


def test_stored_steps_are_pytorchs(torch):
    from llmc.tests.course import torch_adamw

    stored = lesson.ten_steps()
    start, grads = torch_adamw.problem()
    np.testing.assert_array_equal(stored.start, start)
    np.testing.assert_array_equal(stored.grads, grads)
    np.testing.assert_allclose(stored.params, torch_adamw.run(start, grads), rtol=1e-14)


def test_where_to_look_exists():
    cells = json.loads((ROOT / "notebooks" / "09_adamw.ipynb").read_text(encoding="utf-8"))["cells"]
    headings = [line for c in cells if c["cell_type"] == "markdown" for line in "".join(c["source"]).splitlines()]
    places = [vars(module)[name] for module in (lesson, schedules) for name in vars(module) if name.isupper()]
    for place in (p for p in places if isinstance(p, str) and "section" in p):
        title = place.split('"')[1]
        assert any(line.lstrip("# ").startswith(title) for line in headings if line.startswith("#")), title
