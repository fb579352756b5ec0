"""Lesson 23: our solutions against the package and brute force, the views and the panel."""

from itertools import product

import numpy as np
import pytest

from llmc.config import GPT2Config
from llmc.course.lessons.sample_gpt2 import beams, exercises
from llmc.course.mutation.program import solution_of, solution_source
from llmc.model import GPT2
from llmc.sampling import probabilities
from llmc.tests.tiny_corpus import byte_encoding

RNG = np.random.default_rng(11)


@pytest.mark.parametrize("share", [None, "exact", 1.0, 1e-3])
def test_nuclei_are_distributions_whose_sums_are_exact(share):
    top_p = solution_of("top_p").function()
    for _ in range(50):
        p, s = exercises.nucleus(RNG, 13, share)
        assert p.sum() == 1 and 0 < s <= 1 and (p * 1024 == np.round(p * 1024)).all() and (p == 0).any()
        if share == "exact":
            assert p[top_p(p, s) > 0].sum() == s


def test_without_ties_top_p_is_the_package_s():
    top_p = solution_of("top_p").function()
    for share in RNG.uniform(0.1, 0.95, 20):
        p = RNG.dirichlet(np.ones(20))
        np.testing.assert_allclose(top_p(p, share), probabilities(np.log(p), top_p=share), rtol=1e-12)


def test_rows_one_by_one_are_the_package_s():
    L, NH, hs, V, T = 2, 2, 3, 11, 7
    W, tokens = exercises.weights(RNG, L, NH, hs, V, maxT=9), RNG.integers(0, V, T)
    model = GPT2(GPT2Config(maxT=9, V=V, L=L, NH=NH, C=NH * hs))
    for name, values in W.items():
        target = model.params[name][:V] if name == "wte" else model.params[name]
        target[...] = values
    keys, values = np.zeros((2, L, NH, T, hs))
    next_row = solution_of("next_row").function()
    logits = np.array([next_row(W, keys, values, t, token) for t, token in enumerate(tokens)])  # (T, V)
    theirs = model.logits(tokens[None].astype(np.int32))[0, :, :V]  # (T, V)
    np.testing.assert_allclose(theirs, logits, atol=1e-4 * np.abs(logits).max())


def test_a_beam_that_holds_all_texts_finds_the_best():
    Table = solution_source("beam_search")[1]["Table"]
    model, prompt = Table(1.5 * RNG.normal(size=(3, 3, 3))), [1, 2]
    scores = {text: beams.score(model.table, prompt, text) for text in product(range(3), repeat=4)}
    for search in (beams.search, lambda _, *given: solution_of("beam_search").function()(model, *given)):
        text, total = search(model.table, prompt, 4, 27)
        assert tuple(text) == max(scores, key=scores.get) and total == pytest.approx(scores[tuple(text)])
        greedy, _ = search(model.table, prompt, 4, 1)
        assert greedy[0] == model.table(prompt).argmax()


def tiny():
    model = GPT2(GPT2Config(maxT=16, V=257, L=2, NH=2, C=8))
    model.init_weights(3)
    return model


def test_views_are_those_of_the_forward_pass():
    pytest.importorskip("matplotlib")
    from llmc.course.lessons.sample_gpt2.views import attention_maps, residual_stream

    model, tokens = tiny(), list(b"attention")
    maps, stream = attention_maps(model, tokens), residual_stream(model, tokens)
    assert maps.shape == (2, 2, 9, 9) and stream.shape == (3, 9, 8)
    np.testing.assert_allclose(maps.sum(axis=-1), 1, atol=1e-5)
    assert not np.triu(maps, 1).any()
    x, W = stream[-1].astype(np.float64), model.params  # (9, 8)
    rows = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)
    logits = (rows * W["lnfw"] + W["lnfb"]) @ np.array(W["wte"][:257], np.float64).T  # (9, 257)
    np.testing.assert_allclose(logits, model.logits(np.array([tokens]))[0, :, :257], atol=1e-5)


def test_panel_cuts_draws_and_writes():
    pytest.importorskip("ipywidgets")
    from llmc.course.lessons.sample_gpt2.panel import PromptPanel

    panel = PromptPanel(tiny(), byte_encoding(), "ab", window=16, tokens=5)
    p, kept = panel.next()
    assert p.shape == (257,) and (kept > 0).sum() < 257
    panel.top_k.value = 3
    assert (panel.next()[1] > 0).sum() <= 3 and panel.picture.value.startswith("<img alt=")
    assert panel.write() == panel.write() and panel.write().startswith("ab")
    panel.button.click()
    assert panel.page.value.startswith("<pre") and not panel.button.disabled
    panel.prompt.value = ""
    assert panel.next()[0].sum() == pytest.approx(1)
