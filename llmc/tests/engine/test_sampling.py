"""Sampling: the distribution, the random numbers, the window, and text that never shows half a character."""

import numpy as np
import pytest

from llmc.checkpoints import write_model
from llmc.cli import main
from llmc.config import GPT2Config
from llmc.data.tokenizer import write_tokenizer
from llmc.errors import UserError
from llmc.model import GPT2
from llmc.sampling import Random, choose, generate, probabilities, sample_text, stream_text
from llmc.tests.tiny_corpus import V, byte_encoding
from llmc.training import TrainSettings
from llmc.training.settings_file import write_settings


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


def test_top_p_keeps_the_fewest_that_hold_the_share():
    logits = np.log([0.1, 0.4, 0.2, 0.3])
    assert probabilities(logits, top_p=0.65) == pytest.approx([0, 4 / 7, 0, 3 / 7])
    assert probabilities(logits, top_p=0.75) == pytest.approx([0, 4 / 9, 2 / 9, 3 / 9])  # the one that crosses it stays
    assert probabilities(logits, top_p=1e-9) == pytest.approx([0, 1, 0, 0])
    assert probabilities(np.zeros(4), top_p=0.6) == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])  # ties: the lower ids


def test_temperature_then_top_k_then_top_p():
    logits = np.log([0.1, 0.4, 0.2, 0.3])
    # Of all, 0.55 takes two; of the colder distribution (1, 16, 4, 9) / 30 the first holds 16/30, so two again
    assert probabilities(logits, 0.5, top_p=0.55) == pytest.approx([0, 16 / 25, 0, 9 / 25])
    assert probabilities(logits, 0.5, top_p=0.5) == pytest.approx([0, 1, 0, 0])  # and not so before it was colder
    # The share is of what top-k has left: 4/7 of two, not 4/10 of four
    assert probabilities(logits, top_k=2, top_p=0.55) == pytest.approx([0, 1, 0, 0])
    assert probabilities(logits, top_k=2, top_p=0.99) == pytest.approx([0, 4 / 7, 0, 3 / 7])


@pytest.mark.parametrize("options", [{"top_p": 1.0}, {"top_k": 50}, {"top_k": 4, "top_p": 1.0}])
def test_options_that_keep_all_change_no_bit(options):
    logits = np.random.RandomState(0).standard_normal(4)
    assert np.array_equal(probabilities(logits, 0.7, **options), probabilities(logits, 0.7))


def test_a_temperature_of_next_to_nothing_is_the_most_probable_token():
    logits = np.random.RandomState(0).standard_normal(50)
    assert {choose(logits, 1e-320, None, Random(seed)) for seed in range(9)} == {int(np.argmax(logits))}


def test_plain_draws_are_llmcs():
    """sample_mult of train_gpt2.c, in its words: walk along the cumulative probabilities until the coin is below."""
    logits, theirs, ours = np.random.RandomState(0).standard_normal(30), Random(1337), Random(1337)
    for _ in range(300):
        coin, cdf, expected = theirs.uniform(), 0.0, 29
        for i, p in enumerate(np.exp(logits) / np.exp(logits).sum()):
            cdf += p
            if coin < cdf:
                expected = i
                break
        assert choose(logits, 1.0, None, ours) == expected


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
        logits = model.logits(np.array([tokens]))[0, -1, :V]
        assert token == np.argmax(logits)
        tokens.append(token)


def test_the_window_slides(model):
    """Beyond maxT a token depends only on the last maxT tokens, counted from position 0."""
    prompt = [int(t) for t in np.random.default_rng(0).integers(0, V, 40)]
    ids = list(generate(model, prompt, 5, seed=3))
    assert ids == list(generate(model, prompt[-12:], 5, seed=3))
    assert list(generate(model, prompt, 5, seed=3, window=4)) == list(generate(model, prompt[-4:], 5, seed=3, window=4))


@pytest.mark.parametrize("window", [None, 1, 5])
@pytest.mark.parametrize("options", [{}, {"temperature": 0}, {"temperature": 0.7, "top_k": 9, "top_p": 0.8}], ids=str)
@pytest.mark.parametrize("length", [1, 4, 11, 12, 13, 40])
def test_the_cache_changes_no_id(model, window, options, length):
    """Prompts shorter and longer than the window, and text that fills it and slides."""
    prompt = [int(t) for t in np.random.default_rng(length).integers(0, V, length)]
    kept, fresh = (list(generate(model, prompt, 15, window=window, cache=cache, **options)) for cache in (True, False))
    assert kept == fresh and len(kept) == 15


def test_the_cache_reads_each_token_once(model, monkeypatch):
    rows = []
    forward = GPT2.forward_cached
    monkeypatch.setattr(GPT2, "forward_cached", lambda s, x, cache: (rows.append(x.shape[1]), forward(s, x, cache))[1])
    list(generate(model, [1, 2, 3], 13))
    assert rows == [3] + [1] * 9 + [12] * 3  # the prompt, then only new tokens, and the whole window once it slides


def test_stops_before_the_stop_token(model):
    ids = list(generate(model, [5], 30, seed=7))
    stop = ids[10]
    for cache in (True, False):
        assert list(generate(model, [5], 30, seed=7, stop=stop, cache=cache)) == ids[: ids.index(stop)]
    assert list(generate(model, [5], 0)) == []


@pytest.mark.parametrize(
    "tokens, options, words",
    [
        ([], {}, "at least one token"),
        ([5], {"temperature": -1}, "temperature"),
        ([5], {"temperature": float("nan")}, "temperature"),
        ([5], {"top_k": 0}, "top-k"),
        ([5], {"top_p": 0.0}, "top-p"),
        ([5], {"top_p": 1.1}, "top-p"),
        ([5], {"top_p": float("nan")}, "top-p"),
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


def test_a_million_spaces_are_a_prompt(model):
    assert "".join(sample_text(model, byte_encoding(), " " * 1_000_001 + "x", max_tokens=3))


def test_model_and_tokenizer_must_agree():
    model = GPT2(GPT2Config(maxT=4, V=V + 1, L=1, NH=1, C=4))
    with pytest.raises(UserError, match="do not belong together"):
        sample_text(model, byte_encoding())


# ------------------------------------------------------------------------------------------------- llmc sample


@pytest.fixture
def run(tmp_path, model):
    """A run folder, as far as `llmc sample` needs it."""
    write_model(tmp_path / "model.bin", model)
    write_tokenizer(tmp_path / "tokenizer.bin", byte_encoding())
    write_settings(tmp_path, TrainSettings(sequence_length=4))
    return tmp_path


def sampled(capsys, *arguments):
    """What `llmc sample` prints for a prompt of ten letters, which is longer than the run's window."""
    assert main(["sample", *map(str, arguments), "--prompt", "abcdefghij", "--max-tokens", "9"]) == 0
    return capsys.readouterr().out


def test_the_window_is_that_of_the_training(run, model, capsys):
    text = "abcdefghij" + "".join(sample_text(model, byte_encoding(), "abcdefghij", 9, window=4)) + "\n"
    assert sampled(capsys, run) == text == sampled(capsys, run, "--no-cache")
    assert sampled(capsys, run, "--window", 12) != text


def test_a_model_file_is_enough(run, model, capsys):
    expected = sampled(capsys, run)
    assert sampled(capsys, run / "model.bin") == expected  # with the files next to it
    alone = run / "elsewhere" / "m.bin"
    write_model(alone, model)
    assert sampled(capsys, alone, "--tokenizer", run / "tokenizer.bin", "--window", 4) == expected
    assert main(["sample", str(alone)]) == 2 and "--tokenizer" in capsys.readouterr().err


def test_options_reach_the_draw(run, capsys):
    hot = ["--temperature", 9]  # this model is very confident
    texts = [
        sampled(capsys, run, *o) for o in (hot, [*hot, "--top-p", 1e-3], [*hot, "--top-k", 1], ["--temperature", 0])
    ]
    assert texts[1] == texts[2] == texts[3] != texts[0]
    assert main(["sample", str(run), "--top-p", "2"]) == 2 and "top-p" in capsys.readouterr().err


def test_gpt2_s_tokenizer_is_assumed_for_its_vocabulary(tmp_path, capsys, monkeypatch):
    def absent():
        raise UserError("GPT-2's tokenizer is not on this machine.")

    monkeypatch.setattr("llmc.training.find_models.gpt2_encoding", absent)
    write_model(tmp_path / "m.bin", GPT2(GPT2Config(maxT=4, L=1, NH=1, C=2)))
    assert main(["sample", str(tmp_path / "m.bin")]) == 2
    assert capsys.readouterr().err == "llmc: GPT-2's tokenizer is not on this machine.\n"
