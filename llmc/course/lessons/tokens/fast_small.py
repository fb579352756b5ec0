"""Lesson 08: small trainings, in which they differ, and what a fast one does wrong where only some of them go wrong."""

import time
from collections import Counter
from copy import deepcopy

from llmc.course.lessons.tokens.bpe import count_pairs, merge, most_frequent
from llmc.course.old.checks.contrast import outcome
from llmc.course.old.checks.smallest import in_common

TRIED, MERGES = 240, 4
SECONDS = 2.0  # of processor time for all small trainings


def _steps(words, counts, n):
    """(the words before a merge, the count of each pair, the pair that it should merge) of n merges."""
    for _ in range(n):
        pairs = count_pairs(words, counts)
        token = most_frequent(pairs)
        yield words, pairs, token
        words = [merge(word, token) for word in words]


def _before(words, counts, n):
    """The same of all merges but the last, which changes no later count."""
    return _steps(words, counts, n - 1)


def _starts(word, token):
    return [i for i in range(len(word) - 1) if word[i] + word[i + 1] == token]


def _apart(distance):
    """Is a merged pair there twice in a word, so many tokens apart, before the last merge?"""

    def has(*case):
        return any(
            i + distance in starts
            for words, _, token in _before(*case)
            for starts in (_starts(word, token) for word in words)
            for i in starts
        )

    return has


def has_tie(*case):
    return any(list(pairs.values()).count(pairs[token]) > 1 for _, pairs, token in _steps(*case))


def has_grown(*case):
    """Is one of the merged pairs rarer, or not there at all, at the beginning?"""
    first = count_pairs(*case[:2])
    return any(pairs[token] > first.get(token, 0) for _, pairs, token in _steps(*case))


def _shrinks(*case):
    """Is a pair that was more frequent than the merged one before an earlier merge rarer now?"""
    most = Counter()
    for _, pairs, token in _steps(*case):
        if any(n > pairs[token] and pair in pairs for pair, n in most.items()):
            return True
        most |= Counter(pairs)
    return False


# Words that go on from "small trainings, those …", and what they show.
PROPERTIES = {
    "in which a merged pair overlaps with itself, as aa in a a a,": _apart(1),
    "in which a merged pair comes twice in a row, as ab in a b a b,": _apart(2),
    "in which a pair that has grown by an earlier merge is merged": has_grown,
    "in which a pair that an earlier merge has made rarer was the most frequent one before": _shrinks,
    "in which several pairs are equally frequent": has_tie,
    "in which a word occurs more than once": lambda words, counts, n: max(counts) > 1,
    "of more than one word": lambda words, counts, n: len(words) > 1,
    "of more than one merge": lambda words, counts, n: n > 1,
}
SHOWS = {
    "overlaps": "In a a a only the first two are merged, and the pairs around them change once.",
    "in a row": "In a b a b the second ab has the token made from the first one on its left, and no b any more.",
    "occurs more": "A pair counts as often as its word occurs, also when it is taken away, and when a merge makes it.",
}


def small_trainings(rng):
    """[(words, counts, num_merges)]: a few short words of two or three letters, each there once."""
    cases = []
    for _ in range(TRIED):
        letters, words = [b"a", b"b", b"c", b"d"][: int(rng.integers(2, 5))], {}
        for _ in range(int(rng.integers(1, 4))):
            words[bytes(rng.choice(bytearray(b"".join(letters)), int(rng.integers(2, 7))).tolist())] = None
        words = [[bytes([b]) for b in word] for word in words]
        counts, n = rng.integers(1, 2 + int(rng.integers(4)), len(words)).tolist(), int(rng.integers(1, MERGES + 1))
        merges = _possible(words, counts, n)
        cases += [(words, counts, merges)] if merges else []
    return cases


def _possible(words, counts, n) -> int:
    """How many of n merges there are, none of which makes a token a second time."""
    made = []
    for _ in range(n):
        pairs = count_pairs(words, counts)
        token = most_frequent(pairs) if pairs else None
        if token is None or token in made:
            break
        made.append(token)
        words = [merge(word, token) for word in words]
    return len(made)


def only_with(has, function, right, rng) -> bool:
    """Do some of the small trainings that have this property go wrong, and none of the others?"""
    end, wrong = time.thread_time() + SECONDS, []
    for case in small_trainings(rng):
        if time.thread_time() > end:
            break
        got = outcome(function, *deepcopy(case))
        wrong += [case] * (isinstance(got, Exception) or got != right(*case))
    return bool(wrong) and all(has(*case) for case in wrong)


def where_it_goes_wrong(function, right, rng) -> str | None:
    """What the small trainings have in common that the function gets wrong, and what that shows; None if nothing."""
    said = in_common(function, right, small_trainings(rng), PROPERTIES)
    if said is None:
        return None
    said = said.replace("small calls", "small trainings", 1)
    shows = next((why for words, why in SHOWS.items() if words in said), "")
    return f"{said} {shows}".rstrip()
