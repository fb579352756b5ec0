"""Sampling: the distribution, the random numbers, the window, and text that never shows half a character."""

import numpy as np
import pytest

from llmc.config import GPT2Config
from llmc.errors import UserError
from llmc.model import GPT2
from llmc.sampling import Random, choose, generate, probabilities, sample_text, stream_text
from llmc.tests.tiny_corpus import V, byte_encoding


@pytest.fixture(scope="module")
def model():
    model = GPT2(GPT2Config(maxT=12, V=V, L=2, NH=2, C=8))
    model.init_weights()
    model.params_flat[...] *= 20  # far from uniform, so that the context matters
    return model


def xorshift_star(state, n):
    """The definition in Vigna's paper, in NumPy's wrapping 64-bit arithmetic."""
    s, found = np.array([state], np.uint64), []
    for _ in range(n):
        s = s ^ (s >> np.uint64(12))
        s = s ^ (s << np.uint64(25))
        s = s ^ (s >> np.uint64(27))
        found.append(int((s * np.uint64(0x2545F4914F6CDD1D))[0] >> np.uint64(32)))
    return found


def test_random_numbers_are_xorshift_star():
    random = Random(1337)
    assert [random.uint32() for _ in range(1000)] == xorshift_star(1337, 1000)


def test_uniform_numbers():
    random = Random()
    numbers = [random.uniform() for _ in range(4000)]
    assert 0 <= min(numbers) and max(numbers) < 1
    assert np.mean(numbers) == pytest.approx(0.5, abs=0.03)
    assert len({Random(seed).uniform() for seed in (0, 1, -1, 2**63 + 5)}) == 4  # every whole number is a seed


def test_probabilities_follow_temperature_and_top_k():
    logits = np.log([0.1, 0.4, 0.2, 0.3])
    assert probabilities(logits) == pytest.approx([0.1, 0.4, 0.2, 0.3])
    assert probabilities(logits, 0.5) == pytest.approx(np.array([0.01, 0.16, 0.04, 0.09]) / 0.3)
    assert probabilities(logits, top_k=2) == pytest.approx([0, 4 / 7, 0, 3 / 7])
    assert probabilities(np.zeros(4), top_k=2) == pytest.approx([0.5, 0.5, 0, 0])  # a tie goes to the lower id
    assert probabilities([1e4, 0.0]) == pytest.approx([1, 0])  # large logits do not overflow
    assert probabilities(logits, top_k=99) == pytest.approx([0.1, 0.4, 0.2, 0.3])


def test_draws_have_the_probabilities():
    random, logits = Random(), np.log([0.1, 0.4, 0.0001, 0.4999])
    draws = [choose(logits, 1.0, None, random) for _ in range(5000)]
    assert np.bincount(draws, minlength=4) / 5000 == pytest.approx([0.1, 0.4, 0.0, 0.5], abs=0.02)
    assert {choose(logits, 1.0, 2, random) for _ in range(200)} == {1, 3}


def test_a_model_that_diverged_is_one_sentence():
    with pytest.raises(UserError, match="not a number"):
        choose(np.array([0.0, np.nan]), 1.0, None, Random())


def test_equal_seeds_equal_ids(model):
    first = list(generate(model, [5], 30, seed=7))
    assert first == list(generate(model, [5], 30, seed=7)) != list(generate(model, [5], 30, seed=8))
    assert len(first) == 30 and all(0 <= token < V for token in first)


def test_greedy_takes_the_argmax_of_the_whole_context(model):
    tokens = [3, 1, 4]
    for token in generate(model, tokens[:], 6, temperature=0):
        logits = model.forward(np.array([tokens]))[0, -1, :V]
        assert token == np.argmax(logits)
        tokens.append(token)


def test_the_window_slides(model):
    """Beyond maxT a token depends on the last maxT tokens alone, counted from position 0."""
    prompt = [int(t) for t in np.random.default_rng(0).integers(0, V, 40)]
    ids = list(generate(model, prompt, 5, seed=3))
    assert ids == list(generate(model, prompt[-12:], 5, seed=3))
    assert list(generate(model, prompt, 5, seed=3, window=4)) == list(generate(model, prompt[-4:], 5, seed=3, window=4))


def test_stops_before_the_stop_token(model):
    ids = list(generate(model, [5], 30, seed=7))
    stop = ids[10]
    assert list(generate(model, [5], 30, seed=7, stop=stop)) == ids[: ids.index(stop)]
    assert list(generate(model, [5], 0)) == []


@pytest.mark.parametrize(
    "tokens, options, words",
    [
        ([], {}, "at least one token"),
        ([5], {"temperature": -1}, "temperature"),
        ([5], {"temperature": float("nan")}, "temperature"),
        ([5], {"top_k": 0}, "top-k"),
        ([5], {"max_tokens": -1}, "zero or more"),
        ([5], {"window": 13}, "maxT=12"),
    ],
)
def test_bad_options_are_refused_at_once(model, tokens, options, words):
    with pytest.raises(UserError, match=words):
        generate(model, tokens, **{"max_tokens": 3, **options})


def test_characters_appear_when_they_are_complete():
    text = "aé→😀z"
    assert list(stream_text(text.encode(), byte_encoding())) == list(text)
    assert list(stream_text([*"é".encode(), 0xE2, 0x86], byte_encoding())) == ["é", "\ufffd"]
    assert "".join(stream_text([0xFF, ord("b")], byte_encoding())) == "\ufffdb"


def test_an_empty_prompt_begins_a_document(model):
    encoding = byte_encoding()
    ids = generate(model, [encoding.eot_token], 20, seed=5, stop=encoding.eot_token)
    assert "".join(sample_text(model, encoding, max_tokens=20, seed=5)) == "".join(stream_text(ids, encoding))


def test_model_and_tokenizer_must_agree():
    model = GPT2(GPT2Config(maxT=4, V=V + 1, L=1, NH=1, C=4))
    with pytest.raises(UserError, match="do not belong together"):
        sample_text(model, byte_encoding())
