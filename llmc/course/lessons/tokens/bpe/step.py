"""One merge of byte-pair encoding, by the plainest loops: lesson 08, exercise `bpe_step`."""

from collections import Counter


def count_pairs(words, counts, key=lambda left, right: left + right) -> Counter:
    """How often each pair of neighbours occurs, by its bytes together."""
    pairs = Counter()
    for word, count in zip(words, counts):
        for left, right in zip(word, word[1:]):
            pairs[key(left, right)] += count
    return pairs


def most_frequent(pairs):
    """The highest count; among equals the one that sorts first."""
    return min(pairs, key=lambda pair: (-pairs[pair], pair))


def merge(word, token) -> list[bytes]:
    """Join neighbours that make up token, from left to right."""
    merged, i = [], 0
    while i < len(word):
        n = 2 if b"".join(word[i : i + 2]) == token and len(word) - i > 1 else 1
        merged.append(b"".join(word[i : i + n]))
        i += n
    return merged


def bpe_step(words, counts):
    """(token, words): the most frequent pair, and all words with it merged."""
    token = most_frequent(count_pairs(words, counts))
    return token, [merge(word, token) for word in words]
