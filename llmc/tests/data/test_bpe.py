"""BPE training: small cases by hand, incremental counts against counting from scratch, and determinism."""

from collections import Counter

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from llmc.data.bpe import GPT2_PATTERN, merge, split_words, train_bpe
from llmc.errors import UserError


def train_slowly(text, num_merges):
    """The same tokens, counted from scratch before each merge: too slow for a corpus, too simple to be wrong."""
    words, counts = split_words(text, GPT2_PATTERN)
    tokens = [bytes([i]) for i in range(256)]
    while len(tokens) < 256 + num_merges:
        pairs = Counter()
        for word, count in zip(words, counts):
            for i in range(len(word) - 1):
                pairs[word[i] + word[i + 1]] += count
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        words = [merge(word, best) for word in words]
        if best not in tokens:
            tokens.append(best)
    return tokens


def test_by_hand():
    # "hug", " hug" once, " pug" twice: "ug" occurs 4 times; then " p", "hug" and "pug" twice, and " p" sorts first
    tokens = train_bpe("hug hug pug pug", 4)
    assert tokens[:256] == [bytes([i]) for i in range(256)]
    assert tokens[256:] == [b"ug", b" p", b" pug", b"hug"]


def test_merge_goes_from_left_to_right():
    assert merge([b"a", b"a", b"a"], b"aa") == [b"aa", b"a"]
    assert merge([b"ab", b"c", b"a", b"bc"], b"abc") == [b"abc", b"abc"]


def test_words_keep_their_space_and_contractions_split():
    words, counts = split_words("it's  it", GPT2_PATTERN)
    assert [b"".join(word) for word in words] == [b"it", b"'s", b" ", b" it"]
    assert counts == [1, 1, 1, 1]


def test_no_token_crosses_a_word():
    text = "def f(x):\n    return x\n" * 20
    words = regex.findall(GPT2_PATTERN, text)
    for token in train_bpe(text, 10)[256:]:
        assert any(token.decode() in word for word in words)


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="abc d", min_size=60, max_size=200), st.integers(0, 12))
def test_equals_counting_from_scratch(text, num_merges):
    try:
        tokens = train_bpe(text, num_merges)
    except UserError:
        return  # too uniform
    assert tokens == train_slowly(text, num_merges)
    assert len(set(tokens)) == 256 + num_merges


def test_the_order_of_equal_words_does_not_matter():
    lines = [f"word{i} is number {i * 7 % 10}\n" for i in range(50)]
    assert train_bpe("".join(lines), 60) == train_bpe("".join(reversed(lines)), 60)


def test_too_little_text():
    with pytest.raises(UserError, match="this text allows only 2 of 5 merges; give more text"):
        train_bpe("abc", 5)
