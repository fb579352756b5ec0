"""Lesson 08's references and solutions, against llmc.data and tiktoken."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tiktoken

from llmc.course.lessons.tokens import bpe, exercises, files
from llmc.course.lessons.tokens.drawings import visible
from llmc.course.mutation.program import solution_of
from llmc.data import DataLoader, write_tokens
from llmc.data.bpe import GPT2_PATTERN, split_words, train_bpe

TEXT = "hug hug pug pun; the cat sat on the mat, aaaa aaa aa banana bandana " * 3
solved = pytest.mark.skipif(solution_of("decode") is None, reason="needs a checkout with the solutions")


@pytest.fixture
def c():
    """What draws the inputs of a check."""
    return SimpleNamespace(rng=np.random.default_rng(7), before_timing=int)


def test_figures_show_bytes_that_are_not_a_character():
    assert [visible(piece) for piece in (b" the", "a\n", b"\xc3", "\x1a", 42)] == ["·the", "a↵", "195", "\\x1a", "42"]


@solved
def test_training_equals_llmc_and_fast_training_equals_slow(c):
    step, fast = (solution_of(name).function() for name in ("bpe_step", "fast_train_bpe"))
    words, counts = split_words(TEXT, GPT2_PATTERN)
    learned = train_bpe(TEXT, 20)[256:]
    assert bpe.train(words, counts, 20) == learned
    for case in [(words, counts, 20), *exercises.words_to_train(c)][:-1]:
        assert fast(*case) == bpe.train(*case)
    for k in range(6):
        token, words = step(words, counts)
        assert token == learned[k]


@solved
def test_encode_and_decode_equal_tiktoken(c):
    encode, decode = (solution_of(name).function() for name in ("encode_word", "decode"))
    for word, ranks in exercises.words_to_encode(c):
        judge = tiktoken.Encoding("judge", pat_str=r"[\s\S]+", mergeable_ranks=ranks, special_tokens={})
        text = word.decode(errors="replace")
        assert encode(text.encode(), ranks) == judge.encode_ordinary(text)
    for ids, tokens in exercises.ids_to_decode(c):
        ranks = {token: rank for rank, token in enumerate(tokens)}
        judge = tiktoken.Encoding("judge", pat_str=GPT2_PATTERN, mergeable_ranks=ranks, special_tokens={})
        assert decode(ids, tokens) == judge.decode(ids)


@pytest.mark.parametrize(("B", "T", "world", "ntok"), [(3, 5, 1, 2000), (3, 5, 2, 1000), (2, 3, 2, 13)])
@solved
def test_files_and_batches_equal_llmc(tmp_path, B, T, world, ntok):
    stream, path = np.random.default_rng(0).integers(0, 65536, ntok), tmp_path / "a.bin"  # (ntok,)
    write_tokens(path, stream)
    assert path.read_bytes() == files.file_of(stream) == solution_of("token_file").function()(stream)
    for rank in range(world):
        loader = DataLoader(path, B, T, rank=rank, world=world)
        for i in range(loader.num_batches):
            batch = solution_of("read_batch").function()(path, i, B, T, rank, world)  # (B, T) each
            assert np.array_equal(loader.next_batch(), batch)


def test_gpt2_is_only_taken_from_this_machine(tmp_path, monkeypatch):
    from llmc.data.tokenizer import make_encoding, write_tokenizer

    monkeypatch.setattr(tiktoken, "get_encoding", lambda name: pytest.fail("went to the network"))
    for name in ("LLMC_DATA_DIR", "TIKTOKEN_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "empty"))
    monkeypatch.delenv("LLMC_REFERENCE_DIR", raising=False)
    assert bpe.gpt2_encoding() is None
    write_tokenizer(Path(tmp_path, "gpt2_tokenizer.bin"), make_encoding([*bpe.BYTES, b"<|endoftext|>"], 256))
    monkeypatch.setenv("LLMC_REFERENCE_DIR", str(tmp_path))
    assert bpe.gpt2_encoding().n_vocab == 257
