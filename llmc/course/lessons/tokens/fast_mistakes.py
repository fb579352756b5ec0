"""Lesson 08: training BPE by counting only what a merge changes, and what each known mistake learns instead."""

from collections import Counter, defaultdict

from llmc.course.lessons.tokens.bpe import count_pairs, merge, most_frequent


def train_fast(
    words,
    counts,
    num_merges,
    *,
    subtract=True,
    add=True,
    where_new=True,
    choose=most_frequent,
    once=False,
    takes=None,
    adds=None,
    one_word=None,
    merged=merge,
):
    """The tokens learned, counting only what a merge changes; the switches turn one part of it off each.

    takes, adds: how often each word's pairs are subtracted and added in a merge, in place of counts.
    one_word: "first" or "last", the only one of its words that a pair is recorded with.
    """
    words, pairs, where = [list(word) for word in words], Counter(), defaultdict(set)
    takes, adds = takes or counts, adds or counts
    for i, word in enumerate(words):
        _move(pairs, where, word, i, counts[i], once, one_word)
    learned = []
    while len(learned) < num_merges and pairs:
        token = choose(pairs)
        if token not in learned:
            learned.append(token)
        for i in sorted(where.pop(token, ())):
            new = merged(words[i], token)
            if subtract:
                _move(pairs, None, words[i], i, -takes[i], once)
            if add:
                _move(pairs, where if where_new else None, new, i, adds[i], once, one_word)
            words[i] = new
        pairs.pop(token, None)
        for pair in [pair for pair, count in pairs.items() if count <= 0]:
            del pairs[pair]
    return learned


def _move(pairs, where, word, i, count, once, one_word=None):
    """Add count to each pair of the word. once: a pair that occurs in it twice counts once."""
    found = [left + right for left, right in zip(word, word[1:])]
    for pair in set(found) if once else found:
        pairs[pair] += count
        if where is not None and not (one_word == "first" and where[pair]):
            where[pair] = {i} if one_word else where[pair] | {i}


def training_mistakes() -> dict:
    """{sentence: training}."""
    last, met = (lambda p: max(p, key=lambda k: (p[k], k))), (lambda p: max(p, key=p.get))
    return {
        "among equally frequent pairs you took the one that sorts last: take the one that sorts first": (
            lambda *case: train_fast(*case, choose=last)
        ),
        "among equally frequent pairs you took the one that was met first: take the one that sorts first": (
            lambda *case: train_fast(*case, choose=met)
        ),
        "pairs that a merge took apart are still counted": (lambda *case: train_fast(*case, subtract=False)),
        "pairs that a merge brought together are not counted": (lambda *case: train_fast(*case, add=False)),
        "words that gained a pair by a merge are not found again": (lambda *case: train_fast(*case, where_new=False)),
        "a pair that occurs twice in a word was counted once there": lambda *case: train_fast(*case, once=True),
        "the pairs that a merge brings together were counted once for each word, and not as often as it occurs": (
            lambda words, counts, n: train_fast(words, counts, n, adds=[1] * len(words))
        ),
        "the pairs that a merge takes apart were subtracted once for each word, and not as often as it occurs": (
            lambda words, counts, n: train_fast(words, counts, n, takes=[1] * len(words))
        ),
        "a merge subtracts and adds pairs once for each word, and not as often as it occurs": (
            lambda words, counts, n: train_fast(words, counts, n, takes=[1] * len(words), adds=[1] * len(words))
        ),
        "a merge subtracts and adds pairs as often as the LAST word occurs: each word's pairs count "
        "as often as that word": lambda words, counts, n: train_fast(
            words, counts, n, takes=counts[-1:] * len(words), adds=counts[-1:] * len(words)
        ),
        "a merge subtracts pairs as often as the LAST word occurs: each word's pairs count as often as that word": (
            lambda words, counts, n: train_fast(words, counts, n, takes=counts[-1:] * len(words))
        ),
        "a merge adds pairs as often as the LAST word occurs: each word's pairs count as often as that word": (
            lambda words, counts, n: train_fast(words, counts, n, adds=counts[-1:] * len(words))
        ),
        "each word was merged from right to left: where a pair overlaps with itself, as aa in a a a, merge the first": (
            lambda *case: train_fast(*case, merged=_from_the_right)
        ),
        "only the first word that holds a pair is merged": (lambda *case: train_fast(*case, one_word="first")),
        "only the last word that holds a pair is merged": (lambda *case: train_fast(*case, one_word="last")),
        "each distinct word was counted once: a pair counts as often as its word occurs": (
            lambda words, counts, n: train_fast(words, [1] * len(words), n)
        ),
        "the pairs were counted once, at the beginning: a merge changes the counts of its neighbours": (
            lambda words, counts, n: _of_one_count(words, counts, n, n)
        ),
    } | {
        f"{several} tokens were taken from each count of the pairs: a merge changes other counts": (
            lambda *case, several=several: _of_one_count(*case, several)
        )
        for several in (2, 3, 4, 5, 10)
    }


def _from_the_right(word, token):
    """The word merged from its end on."""
    left, new = list(word), []
    while left:
        new.insert(0, left.pop())
        if left and left[-1] + new[0] == token and new[0] != token:
            new[0] = left.pop() + new[0]
    return new


def _of_one_count(words, counts, n, several):
    """The tokens if each count of the pairs gives several of them."""
    learned = []
    while len(learned) < n:
        pairs = count_pairs(words, counts)
        if not pairs:
            break
        tokens = sorted(pairs, key=lambda pair: (-pairs[pair], pair))[:several]
        learned += tokens
        for token in tokens:
            words = [merge(word, token) for word in words]
    return learned[:n]
