"""Lesson 08's references, against llmc.data and tiktoken; and its known mistakes, against each other."""

from pathlib import Path

import numpy as np
import pytest
import tiktoken

from llmc.course.lessons.tokens import bpe as lesson
from llmc.course.lessons.tokens import fast_training, token_files
from llmc.course.lessons.tokens.drawings import visible
from llmc.data import DataLoader, write_tokens
from llmc.data.bpe import GPT2_PATTERN, split_words, train_bpe

TEXT = "hug hug pug pun; the cat sat on the mat, aaaa aaa aa banana bandana " * 3

EXERCISES = {
    "bpe_step": (lesson.step_cases, lesson.bpe_step, lesson.step_mistakes, lesson.explain_steps),
    "encode_word": (lesson.encode_cases, lesson.encode_word, lesson.encode_mistakes, lesson.explain_encodings),
    "decode": (lesson.decode_cases, lesson.decode, lesson.decode_mistakes, lesson.explain_decodings),
}


@pytest.fixture(params=EXERCISES)
def exercise(request):
    return EXERCISES[request.param]


@pytest.mark.parametrize("seed", range(3))
def test_every_mistake_is_distinguished_from_what_is_right_and_from_the_others(exercise, seed):
    draw, right, mistakes, explain = exercise
    cases, known = draw(np.random.default_rng(seed)), mistakes()
    assert explain(cases, [right(*case) for case in cases]) is None
    for sentence, mistake in known.items():
        told = explain(cases, [mistake(*case) for case in cases])
        assert told.startswith(sentence), f"{sentence}\ngot\n{told}"


def test_an_unknown_mistake_is_explained_by_its_numbers(exercise):
    draw, right, _, explain = exercise
    cases = draw(np.random.default_rng(0))
    results = [right(*case) for case in cases]
    lost = {tuple: lambda r: (r[0], r[1][:-1]), list: lambda r: r[:-1], str: lambda r: r[:-1]}[type(results[5])]
    results[5] = lost(results[5])
    told = explain(cases, results)
    assert told is not None and "expected" in told


def test_figures_show_bytes_that_are_not_a_character():
    assert [visible(piece) for piece in (b" the", "a\n", b"\xc3", 42)] == ["·the", "a↵", "195", "42"]


def test_training_step_by_step_equals_llmc():
    words, counts = split_words(TEXT, GPT2_PATTERN)
    learned = train_bpe(TEXT, 20)[256:]
    assert lesson.train(words, counts, 20) == fast_training.train_fast(words, counts, 20) == learned
    made = []
    for _ in range(6):
        token, words = lesson.bpe_step(words, counts)
        made.append(token)
    assert made == learned[:6]


def test_encode_and_decode_equal_tiktoken():
    for word, ranks in lesson.encode_cases(np.random.default_rng(7)):
        judge = tiktoken.Encoding("judge", pat_str=r"[\s\S]+", mergeable_ranks=ranks, special_tokens={})
        text = word.decode(errors="replace")
        assert lesson.encode_word(text.encode(), ranks) == judge.encode_ordinary(text)
    for ids, tokens in lesson.decode_cases(np.random.default_rng(8)):
        ranks = {token: rank for rank, token in enumerate(tokens)}
        judge = tiktoken.Encoding("judge", pat_str=GPT2_PATTERN, mergeable_ranks=ranks, special_tokens={})
        assert lesson.decode(ids, tokens) == judge.decode(ids)


def test_other_right_ways_to_encode_pass():
    for word, ranks in lesson.encode_cases(np.random.default_rng(9)):
        right = lesson.encode_word(word, ranks)
        assert lesson.sweep(word, ranks, True) == lesson.sweep(word, ranks, False) == right
        assert word not in ranks or right == [ranks[word]]


def test_token_file_equals_llmc(tmp_path):
    ids = [0, 1, 258, 65535]
    write_tokens(tmp_path / "a.bin", ids)
    data = token_files.token_file(ids)
    assert data == (tmp_path / "a.bin").read_bytes() and token_files.explain_file(data, ids) is None
    wrong = token_files._wrong_files(ids)
    assert len({data, *wrong.values()}) == len(wrong) + 1
    for sentence, file in wrong.items():
        assert token_files.explain_file(file, ids).startswith(sentence)
    assert "byte 1024, in id 0, is 9 and should be 0" in token_files.explain_file(
        data[:1024] + b"\x09" + data[1025:], ids
    )
    assert "should have 1024 + 2·4 = 1032 bytes, but has 1031" in token_files.explain_file(data[:-1], ids)


@pytest.mark.parametrize(("B", "T", "world", "ntok"), [(3, 5, 1, 2000), (3, 5, 2, 1000), (2, 3, 2, 13)])
def test_batches_equal_llmc(tmp_path, B, T, world, ntok):
    stream = np.random.default_rng(0).integers(0, 65536, ntok)  # (ntok,)
    write_tokens(tmp_path / "a.bin", stream)
    for rank in range(world):
        loader = DataLoader(tmp_path / "a.bin", B, T, rank=rank, world=world)
        assert loader.num_batches == token_files.num_batches(ntok, B, T, world)
        for i in range(loader.num_batches):
            x, y = loader.next_batch()  # (B, T) each
            right = token_files.batch(stream, i, B, T, rank, world)
            assert np.array_equal(x, right.x) and np.array_equal(y, right.y)


def test_wrong_batches_are_wrong_and_named():
    stream = np.random.default_rng(1).integers(0, 65536, 2000)
    cases = [(stream, i, 3, 5, rank, 2) for i, rank in ((20, 1), (7, 0), (0, 1), (0, 0))]
    right = [token_files.batch(*case) for case in cases]
    for name in ("x", "y"):
        for sentence, (wrong, _) in token_files.batch_mistakes(*cases[0])[name].items():
            assert not np.array_equal(wrong, right[0]._asdict()[name]), sentence
    shifted = [(x, np.roll(x, -1, axis=1)) for x, _ in right]
    known = token_files.likely_mistakes(cases, shifted)
    assert not known["x"] and len(known["y"]) == 1 and "rolled round inside each row" in next(iter(known["y"]))


@pytest.mark.parametrize("draw", [fast_training.made_up_words, fast_training.same_letters])
def test_fast_training_equals_slow_and_its_mistakes_are_named(draw):
    words, counts = draw(np.random.default_rng(2), 40)
    case = (words, counts, 25)
    right = fast_training.train_fast(*case)
    assert right == lesson.train(*case) and fast_training.explain_training(case, right) is None
    for sentence, mistake in fast_training.training_mistakes().items():
        told = fast_training.explain_training(case, mistake(*case))
        if draw is fast_training.same_letters or not {"twice", "overlaps"} & {*sentence.split()}:  # rare in syllables
            assert told is not None and told.startswith(sentence), sentence


def test_gpt2_is_only_taken_from_this_machine(tmp_path, monkeypatch):
    from llmc.data.tokenizer import make_encoding, write_tokenizer

    def network(name):
        raise AssertionError("went to the network")

    monkeypatch.setattr(tiktoken, "get_encoding", network)
    for name in ("LLMC_DATA_DIR", "TIKTOKEN_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "empty"))
    monkeypatch.delenv("LLMC_REFERENCE_DIR", raising=False)
    assert lesson.gpt2_encoding() is None
    small = make_encoding([*lesson.BYTES, b"<|endoftext|>"], 256)
    write_tokenizer(Path(tmp_path, "gpt2_tokenizer.bin"), small)
    monkeypatch.setenv("LLMC_REFERENCE_DIR", str(tmp_path))
    assert lesson.gpt2_encoding().n_vocab == 257


def test_ids_that_are_looked_at_in_time_are_not_said_to_be_looked_at_late():
    def without_a_lower_bound(ids):
        if max(ids) > 65535:
            raise ValueError
        return token_files.token_file(np.asarray(ids) % 65536)

    def of_16_bits(ids):
        return token_files.token_file(np.asarray(ids).astype(np.uint16))

    said = [
        token_files.not_refused(function, function(np.array([5, -1])), np.array([5, -1]))
        for function in (without_a_lower_bound, of_16_bits)
    ]
    assert "instead.\nOf five ids" in said[0] and "-1 is not" in said[0]
    assert said[1] == ". Your file holds [5, 65535] instead"
