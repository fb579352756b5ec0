"""Lesson 23: top-p, cache and beam search against the package and brute force, their known mistakes, views, panel."""

import json
from pathlib import Path

import numpy as np
import pytest

from llmc.config import GPT2Config
from llmc.course.lessons.sample_gpt2 import beams, cached, nucleus, places
from llmc.model import GPT2
from llmc.sampling import probabilities
from llmc.tests.tiny_corpus import byte_encoding

ROOT = Path(__file__).resolve().parents[3]
RNG = np.random.default_rng(11)


def solution(*cells):
    """Names that these cells of the solution notebook define."""
    notebook = json.loads((ROOT / "solutions" / "23_sample_gpt2.ipynb").read_text(encoding="utf-8"))
    names = {"np": np}
    for cell in notebook["cells"]:
        if cell["id"] in cells:
            exec("".join(cell["source"]), names)
    return names


# ------------------------------------------------------------------------------------------------------------ top-p


@pytest.mark.parametrize("share", [None, "exact", 1.0, 1e-3])
def test_cases_are_distributions_whose_sums_are_exact(share):
    for _ in range(50):
        p, s = nucleus.case(RNG, 13, share)
        assert p.sum() == 1 and 0 < s <= 1 and (p * 1024 == np.round(p * 1024)).all() and (p == 0).any()
        if share == "exact":
            assert p[nucleus.kept(p, s)].sum() == s


def test_without_ties_top_p_is_the_package_s():
    for _ in range(20):
        p = RNG.dirichlet(np.ones(20))
        share = float(RNG.uniform(0.1, 0.95))
        np.testing.assert_allclose(nucleus.top_p(p, share), probabilities(np.log(p), top_p=share), rtol=1e-12)


def test_equal_candidates_are_kept_together():
    p = np.array([1, 4, 1, 1, 1]) / 8
    assert (nucleus.top_p(p, 0.6) == p).all()
    assert (nucleus.top_p(p, 0.5) == [0, 1, 0, 0, 0]).all()


def test_mistakes_of_top_p_are_wrong_somewhere_and_apart_somewhere():
    seen = {}
    for _ in range(40):
        p, share = nucleus.case(RNG, 12, [None, "exact"][int(RNG.integers(2))])
        right, found = nucleus.top_p(p, share), nucleus.mistakes(p, share)
        for name, (array, _) in found.items():
            assert array.shape == p.shape
            others = [right, *(other for key, (other, _) in found.items() if key != name)]
            apart = [not np.allclose(array, other) for other in others]
            seen[name] = np.array(apart) | seen.get(name, False)
    assert all(apart.all() for apart in seen.values()), {name: apart for name, apart in seen.items() if not apart.all()}


# ------------------------------------------------------------------------------------------------------------ cache


def package_model(W, NH, maxT):
    """The same weights in the package's model, float32."""
    (L, C), V = W["ln1w"].shape, len(W["wte"])
    model = GPT2(GPT2Config(maxT=maxT, V=V, L=L, NH=NH, C=C))
    for name, values in W.items():
        target = model.params[name][:V] if name == "wte" else model.params[name]
        target[...] = values
    return model


def test_the_reference_is_the_package_s():
    W = cached.weights(RNG, L=2, NH=2, hs=3, V=11, maxT=9)
    tokens = RNG.integers(0, 11, 7)
    logits, keys, values = cached.whole(W, 2, tokens)
    theirs = package_model(W, 2, 9).forward(tokens[None].astype(np.int32))[0, :, :11]
    np.testing.assert_allclose(theirs, logits, atol=1e-4 * np.abs(logits).max())
    np.testing.assert_allclose(cached.row_by_row(W, 2, tokens), logits[-1], rtol=1e-10)
    assert keys.shape == values.shape == (2, 2, 7, 3)


@pytest.mark.parametrize("bug", cached.MISTAKES)
def test_every_mistake_of_a_cache_gives_logits_of_its_own(bug):
    W, tokens = cached.weights(RNG, L=2, NH=2, hs=3), RNG.integers(0, 11, 6)
    held = RNG.normal(size=(2, 2, 2, 6, 3))
    right = cached.row_by_row(W, 2, tokens)
    made = {name: cached.row_by_row(W, 2, tokens, name, held) for name in cached.MISTAKES}
    size = np.abs(right).max()
    assert np.abs(made[bug] - right).max() > 1e-3 * size
    assert all(np.abs(made[bug] - other).max() > 1e-5 * size for name, other in made.items() if name != bug)


def test_writes_are_explained():
    before = RNG.normal(size=(2, 2, 4, 3))
    assert "nothing was written" in cached.explain_writes("keys", before.copy(), before, 1)
    for change, words in (
        (np.s_[:, :, 2], "row 2 of keys was written, and t is 1"),
        (np.s_[:, :, 0:2], "row 0 of keys was changed, and t is 1: the rows before t are done"),
        (np.s_[:, :, 1:], "the rows behind t are not there yet"),
        (np.s_[0, :, 1], "but not in layer 1"),
    ):
        after = before.copy()
        after[change] += 1
        assert words in cached.explain_writes("keys", after, before, 1)
    after = before.copy()
    after[:, :, 1] += 1
    assert cached.explain_writes("keys", after, before, 1) is None


# ------------------------------------------------------------------------------------------------------------ beams


def table(V, seed):
    return solution("given-table")["Table"](1.5 * np.random.default_rng(seed).normal(size=(V, V, V)))


def test_a_beam_that_holds_all_texts_finds_the_best():
    model = table(3, 4)
    found = beams.search(model.table, [1, 2], 4, 27)
    best = beams.best_of_all(model.table, [1, 2], 4)
    assert found[0] == best[0] and found[1] == pytest.approx(best[1])
    assert found[1] == pytest.approx(beams.score(model.table, [1, 2], found[0]))


def test_a_wider_beam_is_seldom_worse_and_a_single_one_is_greedy():
    model, text = table(6, 5), []
    for _ in range(5):
        text.append(int(model.table([0, 1, *text]).argmax()))
    assert beams.search(model.table, [0, 1], 5, 1)[0] == text
    assert beams.search(model.table, [0, 1], 5, 8)[1] >= beams.search(model.table, [0, 1], 5, 1)[1]


@pytest.mark.parametrize("bug", beams.MISTAKES)
def test_every_mistake_of_a_beam_is_found_and_named(bug):
    said = ""
    for seed in range(30):
        model = table(5, seed)
        found = beams.search(model.table, [2, 1], 6, 3, bug)
        said = beams.explain(found, model, [2, 1], 6, 3) or ""
        if beams.MISTAKES[bug] in said:
            return
    raise AssertionError(said)


def test_other_results_of_a_beam_are_refused():
    model = table(5, 1)
    text, total = beams.search(model.table, [0, 1], 6, 3)
    explained = lambda found: beams.explain(found, model, [0, 1], 6, 3)  # noqa: E731
    assert explained((text, total)) is None and explained([np.array(text), np.float64(total)]) is None
    for found, words in (
        (None, "nothing was returned"),
        (text, "return two values"),
        ((text, "x"), "not 'x'"),
        ((text, 2 * total), f"not {2 * total:.6g}"),
        ((text[:-1], total), "there are 5 tokens, and n is 6"),
        (([0, 1, *text], total), "it begins with the prompt"),
    ):
        assert words in explained(found), found


def asking(times, begin):
    """A beam search that asks so often for each text, and begins with so many empty ones (with the width: 0)."""

    def beam_search(model, prompt, n, width):
        model.log_probs(prompt)
        texts = [()] * (begin or width)
        for _ in range(n):
            found = []
            for text in texts:
                p = [model.log_probs([*prompt, *text]) for _ in range(times)][0]
                found += [(*text, token) for token in np.argsort(-p)[:width]]
            texts = sorted(dict.fromkeys(found), key=lambda text: -beams.score(model.table, prompt, text))[:width]
        return list(texts[0]), beams.score(model.table, prompt, texts[0])

    return beam_search


@pytest.mark.parametrize(
    "times, begin, words",
    [
        (5, 1, "It is called 5 times with one and the same text, and there are 5 tokens"),
        (1, 1, "It is called 2 times with the prompt alone: once will do"),
        (1, 0, "a beam begins with a single text, the empty one"),
    ],
)
def test_what_is_asked_for_too_often(times, begin, words):
    assert words in beams.too_many_calls(table(5, 1), [0, 1], 6, 3, asking(times, begin))


def test_why_it_bores_is_measured():
    names = solution("given-table", "beam-search-answer")
    said = beams.why_it_bores(names["beam_search"], names["Table"], np.random.default_rng(0))
    numbers = [float(part.split(" nats")[0].split()[-1]) for part in said.split(";")]
    assert numbers[0] < 0.8 * min(numbers[1:])


# ---------------------------------------------------------------------------------------------------- views and panel


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
    W = {p.name: np.array(model.params[p.name], np.float64) for p in model.table}
    x = W["wte"][tokens] + W["wpe"][:9]
    np.testing.assert_allclose(stream[0], x, atol=1e-6)
    _, keys, _ = cached.whole(W | {"wte": W["wte"][:257]}, 2, tokens)
    logits = cached.layernorm(stream[-1].astype(float), W["lnfw"], W["lnfb"]) @ W["wte"].T
    np.testing.assert_allclose(logits[:, :257], model.forward(np.array([tokens]))[0, :, :257], atol=1e-5)
    h = cached.layernorm(x, W["ln1w"][0], W["ln1b"][0])
    q = (h @ W["qkvw"][0].T + W["qkvb"][0])[:, :8].reshape(9, 2, 4).transpose(1, 0, 2)
    e = np.exp(q @ keys[0].transpose(0, 2, 1) / 2) * np.tri(9)
    np.testing.assert_allclose(maps[0], e / e.sum(axis=-1, keepdims=True), atol=1e-5)


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


def test_where_to_look_exists():
    from llmc.course.exercises.catalog import section_link

    for place in (value for name, value in vars(places).items() if name.isupper()):
        number, title = place.split('"')[0].split()[1].strip(","), place.split('"')[1]
        assert section_link(number, title), place
