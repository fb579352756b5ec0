"""forward_cached: the same logits as forward, from the new tokens only, in memory that was planned before."""

import numpy as np
import pytest

from llmc.backends import get_backend, reference
from llmc.config import GPT2Config
from llmc.course.your_layers.plug import learner_backend
from llmc.errors import UserError
from llmc.kv_cache import KeyValueCache
from llmc.model import GPT2
from llmc.parity.cases import CASES
from llmc.sampling import generate


def make_model(case, backend, precision):
    model = GPT2(case.config, backend, precision)
    for name, values in case.weights().items():
        model.params[name][...] = values
    return model


def last_logits(model, x, sizes, T):
    """(B, len(sizes), V): what forward_cached returns for pieces of x of these sizes."""
    cache, start, found = KeyValueCache(model, len(x), T), 0, []
    for n in sizes:
        found.append(model.forward_cached(x[:, start : start + n], cache)[:, 0, : model.config.V].copy())
        start += n
    assert cache.length == start
    return np.stack(found, axis=1)


@pytest.mark.parametrize("precision, tolerance", [("fp64", 1e-12), ("fp32", 2e-6), ("bf16", 2e-2)])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_logits_of_forward(backend, case, precision, tolerance):
    model, (x, _) = make_model(case, backend, precision), case.batch()
    T = x.shape[1]
    full = model.logits(x)[..., : case.config.V].copy()  # (B, T, V)
    largest = np.abs(full).max()
    assert np.abs(last_logits(model, x, [1] * T, T) - full).max() <= tolerance * largest
    assert np.abs(last_logits(model, x, [T], T)[:, 0] - full[:, -1]).max() <= tolerance * largest
    if T >= 5:
        found = last_logits(model, x, [3, 1, T - 4], case.config.maxT)
        assert np.abs(found - full[:, [2, 3, T - 1]]).max() <= tolerance * largest


@pytest.mark.parametrize("precision, tolerance", [("fp32", 1e-6), ("bf16", 1e-2)])
@pytest.mark.parametrize("B", [1, 3, 5])
def test_a_token_in_one_call_is_that_of_layer_by_layer(B, precision, tolerance, monkeypatch):
    """And neither touches what lies beyond it in the cache. The model has more layers and rows than threads divide."""
    model, found = GPT2(GPT2Config(maxT=8, V=70, L=3, NH=3, C=33), "cpu", precision), []
    model.init_weights()
    x = np.random.default_rng(0).integers(0, 70, (B, 6))
    for few in (model.backend.FEW, 0):
        monkeypatch.setattr(model.backend, "FEW", few)
        cache = KeyValueCache(model, B)
        logits = last_logits_of(model, cache, x).astype(np.float64)
        kept = cache._kv["kv"].astype(np.float64)
        assert not kept[..., 6:, :].any()
        found.append((logits, kept))
    for mine, theirs in zip(*found):
        assert np.abs(mine - theirs).max() <= tolerance * np.abs(theirs).max()
    assert found[0][0].std() > 0


def last_logits_of(model, cache, x):
    """(5, B, V): after a prompt of two tokens, and after each one more."""
    steps = [x[:, :2], *(x[:, i : i + 1] for i in range(2, x.shape[1]))]
    return np.stack([model.forward_cached(step, cache)[:, 0, : model.config.V].copy() for step in steps])


def test_half_precision_is_not_taken_for_bfloat16():
    """mixed.py's backend, which widens, has the functions of the other one, but decodes layer by layer."""
    assert get_backend("cpu").FEW > 0 and GPT2(GPT2Config(maxT=4, V=9, L=1, NH=1, C=4), "cpu", "fp16").backend.FEW == 0


def test_going_back_forgets_what_came_after(backend):
    case = CASES[0]
    model, (x, other) = make_model(case, backend, "fp64"), case.batch()
    cache = KeyValueCache(model, len(x))
    model.forward_cached(x, cache)
    cache.length = 2
    found = model.forward_cached(other[:, 2:6], cache)[:, 0].copy()  # (B, Vp)
    mixed = np.concatenate([x[:, :2], other[:, 2:6]], axis=1)  # (B, 6)
    assert np.abs(found - model.logits(mixed)[:, -1]).max() < 1e-12


def test_memory_is_planned_once(backend):
    """Neither the cache nor the model allocates a buffer while it is used."""
    case = CASES[0]
    model, (x, _) = make_model(case, backend, "fp32"), case.batch()
    cache = KeyValueCache(model, len(x), T=6)
    before = [id(cache._acts.flat), id(cache._kv.flat)]
    for n in (3, 1, 1, 1):
        model.forward_cached(x[:, cache.length : cache.length + n], cache)
    assert [id(cache._acts.flat), id(cache._kv.flat)] == before and not model._acts
    assert cache._kv["kv"].shape == (2, 2, 3, 3, 6, 7)  # (L, 2, B, NH, T, hs)


@pytest.mark.parametrize(
    "tokens, words",
    [
        ([[0] * 5], "do not fit"),
        ([[0], [0]], "do not fit"),
        ([[61]], "61"),
        ([[-1]], "-1"),
        ([0], "shape"),
    ],
)
def test_what_does_not_fit_is_one_sentence(tokens, words):
    model = make_model(CASES[0], "numpy", "fp32")
    cache = KeyValueCache(model, 1, 4)
    with pytest.raises(UserError, match=words):
        model.forward_cached(np.array(tokens), cache)
    assert cache.length == 0


def test_a_cache_longer_than_the_model_is_refused():
    with pytest.raises(UserError, match="maxT=11"):
        KeyValueCache(make_model(CASES[0], "numpy", "fp32"), T=12)


# ------------------------------------------------------------------------------------------- the learner's layers


def attention_forward(qkv, NH):
    """Right except for its sign: the cached one must have the same mistake."""
    B, T, C = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    out, stats = np.empty((B, T, C), qkv.dtype), np.empty((B, NH, T, T), qkv.dtype)
    reference.attention_forward(out, stats, qkv, NH)
    return -out, stats


@pytest.mark.parametrize("functions", [{}, {"attention_forward": attention_forward}], ids=["borrowed", "own"])
def test_a_learner_s_layers_sample_the_same_with_and_without(functions):
    model = GPT2(GPT2Config(maxT=12, V=50, L=2, NH=2, C=8), learner_backend(functions))
    model.init_weights()
    model.params_flat[...] *= 20
    ids = [list(generate(model, [5, 6, 7], 20, seed=3, cache=cache)) for cache in (True, False)]
    assert ids[0] == ids[1]
    plain = GPT2(model.config)
    plain.params_flat[...] = model.params_flat
    assert (list(generate(plain, [5, 6, 7], 20, seed=3)) == ids[0]) == (not functions)
