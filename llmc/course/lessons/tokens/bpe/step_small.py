"""Small calls of `bpe_step`: how a wrong one is made smaller, and in what small calls differ."""

from collections import Counter

from llmc.course.lessons.tokens.bpe.step import bpe_step, count_pairs, most_frequent


def shrunk(case):
    """Cases with a word less, a token less in a word, a smaller count, or plainer letters; the smallest first."""
    words, counts = case
    smaller = [(words[:k] + words[k + 1 :], counts[:k] + counts[k + 1 :]) for k in range(len(words))]
    for k, word in enumerate(words):
        ends = [word[:j] + word[j + 1 :] for j in range(len(word))] if len(word) > 1 else []
        smaller += [([*words[:k], end, *words[k + 1 :]], counts) for end in ends]
    for k, count in enumerate(counts):
        fewer = [n for n in dict.fromkeys((1, count // 2, count - 1)) if 0 < n < count]
        smaller += [(words, [*counts[:k], n, *counts[k + 1 :]]) for n in fewer]
    plain = _plain(words)
    smaller += [(plain, counts)] if plain != words else []
    return [case for case in smaller if _possible(*case)]


def _possible(words, counts) -> bool:
    """Is there a pair, and is each word there once?"""
    return len({b"".join(word) for word in words}) == len(words) and bool(count_pairs(words, counts))


def _plain(words):
    """The same words with the bytes a, b, c, in the same order of sorting."""
    used = sorted({byte for word in words for token in word for byte in token})
    if len(used) > 26:
        return words
    plain = {byte: bytes([97 + k]) for k, byte in enumerate(used)}
    return [[b"".join(plain[byte] for byte in token) for token in word] for word in words]


def _places(words, token):
    """(word, index) of each pair that makes up the token."""
    return [(w, i) for w, word in enumerate(words) for i in range(len(word) - 1) if word[i] + word[i + 1] == token]


def _overlap(words, counts):
    found = set(_places(words, bpe_step(words, counts)[0]))
    return any((w, i + 1) in found for w, i in found)


def _any_overlap(words, counts):
    return any(word[i] + word[i + 1] == word[i + 1] + word[i + 2] for word in words for i in range(len(word) - 2))


def _twice(words, counts):
    return max(Counter(w for w, _ in _places(words, bpe_step(words, counts)[0])).values()) > 1


def _any_twice(words, counts):
    return any(n > 1 for word in words for n in Counter(map(b"".join, zip(word, word[1:]))).values())


def _two_ways(words, counts):
    return len({words[w][i] for w, i in _places(words, bpe_step(words, counts)[0])}) > 1


def _any_two_ways(words, counts):
    pairs = {pair for word in words for pair in zip(word, word[1:])}
    return len({left + right for left, right in pairs}) < len(pairs)


def _tie(words, counts):
    return sorted(count_pairs(words, counts).values())[-2:].count(max(count_pairs(words, counts).values())) > 1


def _border(words, counts):
    """Would some other pair win if borders between words counted, as often as the more frequent word of the two?"""
    pairs = count_pairs(words, counts)
    token, more = most_frequent(pairs), Counter()
    for left, right, m, n in zip(words, words[1:], counts, counts[1:]):
        more[left[-1] + right[0]] += max(m, n)
    return any(most_frequent({token: pairs[token], pair: pairs[pair] + n}) != token for pair, n in more.items())


def _at(end):
    """Is the token made at the end of a word, or at its beginning?"""

    def has(words, counts):
        return any(i == (len(words[w]) - 2 if end else 0) for w, i in _places(words, bpe_step(words, counts)[0]))

    return has


PROPERTIES = {
    "in which the most frequent pair overlaps with itself, as aa in a a a,": _overlap,
    "in which some pair overlaps with itself, as aa in a a a,": _any_overlap,
    "in which the most frequent pair comes as (a, bc) and as (ab, c)": _two_ways,
    "in which some pair comes as (a, bc) and as (ab, c)": _any_two_ways,
    "in which a pair across the border between two words would win, if it counted,": _border,
    "in which several pairs are equally frequent, and more frequent than the rest,": _tie,
    "in which the most frequent pair comes twice in a word": _twice,
    "in which some pair comes twice in a word": _any_twice,
    "in which words differ in how often they occur": lambda words, counts: len(set(counts)) > 1,
    "in which a word occurs more than once": lambda words, counts: max(counts) > 1,
    "in which a word has a single token": lambda words, counts: min(map(len, words)) == 1,
    "in which the new token is made at the end of a word": _at(True),
    "in which the new token is made at the beginning of a word": _at(False),
    "in which a token of several bytes was made before": lambda words, counts: max(map(len, sum(words, []))) > 1,
    "in which there is more than one word": lambda words, counts: len(words) > 1,
}
