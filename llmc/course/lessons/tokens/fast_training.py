"""Lesson 08: the words that fast training of BPE is tried on, and what a wrong list of tokens shows."""

from contextlib import contextmanager
from copy import deepcopy

import numpy as np

from llmc.course.lessons.tokens.bpe import count_pairs, merge
from llmc.course.lessons.tokens.bpe.telling import row
from llmc.course.lessons.tokens.fast_mistakes import train_fast, training_mistakes
from llmc.course.lessons.tokens.fast_small import (
    has_grown,
    has_tie,
    only_with,
    where_it_goes_wrong,
)
from llmc.course.old.checks.contrast import outcome
from llmc.course.old.checks.evidence import is_explaining, learners_function
from llmc.course.old.checks.explain import describe, stopped
from llmc.course.old.checks.smallest import FEW, smallest

ONSETS, VOWELS, ENDS = "b c d f g h k l m n p r s t v w st tr pl th".split(), "aeiou", ["", "", "n", "r", "s", "ng"]


def made_up_words(rng, n):
    """(words, counts): n distinct words of one to four syllables, the r-th with frequency 1/r, as in real text."""
    syllables = [o + v + e for o in ONSETS for v in VOWELS for e in ENDS]
    likely = rng.permutation(len(syllables))[:400]
    found = {}
    while len(found) < n:
        word = "".join(syllables[k] for k in rng.choice(likely, int(rng.integers(1, 5))))
        found[" " + word if rng.random() < 0.8 else word] = None
    words = [[bytes([b]) for b in word.encode()] for word in found]
    counts = (3 * n / np.arange(1, n + 1)).astype(int).tolist()
    return words, counts


def same_letters(rng, n):
    """(words, counts): n distinct words over two bytes, any of the 256: pairs overlap, and counts are often equal."""
    letters, found = rng.choice(256, 2, replace=False), {}
    while len(found) < n:
        found[bytes(rng.choice(letters, int(rng.integers(2, 10))).tolist())] = None
    return [[bytes([b]) for b in word] for word in found], rng.integers(1, 4, n).tolist()


def _divergence(case, learned, right, at) -> tuple | None:
    """What the counts of all pairs, before the first wrong merge and at it, say about that merge; or None.

    (what was counted, the property of trainings that then go wrong, or None).
    """
    if at >= min(len(learned), len(right)):
        return None
    (words, counts, _), got, wanted, history = case, learned[at], right[at], []
    for token in [*right[:at], None]:
        history.append(count_pairs(words, counts))
        words = [merge(word, token) for word in words] if token else words
    now, most = history[-1], max(pairs.get(got, 0) for pairs in history)
    if now.get(got) == now[wanted]:
        return f"both pairs are equally frequent, {now[wanted]} times, and {wanted!r} sorts first", has_tie
    if most >= now[wanted]:
        counted = (
            f"{got!r} occurred {most} times, but now only {now.get(got, 0)} times, and {wanted!r} {now[wanted]} times"
        )
        before = max(pairs.get(wanted, 0) for pairs in history)
        fallen = f" (and {before} before: it has become rarer, too)" if before > now[wanted] else ""
        return f"{counted}{fallen}", None
    if min(pairs.get(wanted, 0) for pairs in history) < now[wanted]:
        return f"{wanted!r} occurs {now[wanted]} times now, more than before", has_grown
    return None


def _gives(mistake, function) -> bool:
    """Does the learner's function give what this mistake gives in other trainings, too, where it does not stop?"""
    cases = [(*made_up_words(rng, 60), 20) for rng in map(np.random.default_rng, (7, 8))]
    found = [(outcome(function, *deepcopy(case)), mistake(*case)) for case in cases]
    return all(isinstance(got, Exception) or got == wrong for got, wrong in found)


def _made_rarer(function, case, at) -> str | None:
    """A sentence if the pair that should be merged at this place has become rarer, as in all others that go wrong."""
    now, before = _rarer(case, at)
    wrong, draws = [], map(np.random.default_rng, range(12))
    for other in ((*words, 20) for rng in draws for words in (made_up_words(rng, 40), same_letters(rng, 20))):
        got, right = outcome(function, *deepcopy(other)), train_fast(*other)
        if got != right and isinstance(got, list):
            wrong.append(_rarer(other, next((k for k, (a, b) in enumerate(zip(got, right)) if a != b), len(got))))
    if before == now or len(wrong) < FEW or any(n == most for n, most in wrong):
        return None
    token = train_fast(*case)[at]
    all_of_them = f"in all of {len(wrong)} trainings that go wrong, the pair that should be merged has become rarer"
    return f"{token!r} occurred {before} times, and occurs {now} times now; {all_of_them}"


def _rarer(case, at) -> tuple[int, int]:
    """(how often the at-th pair to be merged occurs then, how often it did at most before); (0, 0) behind the end."""
    (words, counts, _), right = case, train_fast(*case)
    if at >= len(right):
        return 0, 0
    often = []
    for token in right[: at + 1]:
        often.append(count_pairs(words, counts).get(right[at], 0))
        words = [merge(word, token) for word in words]
    return often[-1], max(often)


def explain_training(case, learned) -> str | None:
    """What is wrong with the tokens learned from case (words, counts, num_merges); None when they are right."""
    right = train_fast(*case)
    if not isinstance(learned, list):
        return f"a list of tokens is expected, but fast_train_bpe returned {describe(learned)}"
    if learned == right:
        return None
    if learned[:256] == [bytes([b]) for b in range(256)]:
        return "the 256 single bytes are in the list: return only what was learned"
    if not all(isinstance(token, bytes) for token in learned):
        return "the tokens should be bytes like b'th'"
    at = next((k for k, (a, b) in enumerate(zip(learned, right)) if a != b), min(len(learned), len(right)))
    if at == len(right) or at == len(learned):
        numbers = f"{len(learned)} tokens were learned, but {len(right)} are expected"
    else:
        numbers = f"Merge {at + 1} of {case[2]} should make {right[at]!r} but made {learned[at]!r}"
    function = learners_function() if is_explaining() else None
    for sentence, mistake in training_mistakes().items():
        if learned == mistake(*case) and (function is None or _gives(mistake, function)):
            return f"{sentence}.\n{numbers}."
    counted, has = _divergence(case, learned, right, at) or (None, None)
    if has and (function is None or only_with(has, function, train_fast, _some())):
        return f"{counted}.\n{numbers}."
    if len(set(learned)) < len(learned):
        return f"a token was learned twice.\n{numbers}."
    counted = None if has else counted  # other trainings show that this is a chance
    counted = counted or function and _made_rarer(function, case, at)
    told = function and where_it_goes_wrong(function, train_fast, _some())
    first = stopped(f"{numbers}{f'; {counted}' if counted else ''}")
    return "\n".join(filter(None, [first, told, function and _smallest_training(function, case)]))


def _some():
    """The generator of numbers for the small trainings."""
    return np.random.default_rng(7)


@contextmanager
def narrowed(function, cases):
    """Around calls with these cases: an exception tells with how many merges it comes, and what was right before."""
    try:
        yield
    except NotImplementedError:
        raise
    except Exception as error:
        key = error.args[0] if isinstance(error, KeyError) and error.args else None
        told = next((told for case in cases if (told := _before_it_stops(function, case, key))), None)
        if told:
            error.add_note(f"    {told}")
        raise


def _before_it_stops(function, case, key) -> str | None:
    """What the learner's function does with fewer merges than those with which it stops; None if it does not stop.

    key: of its KeyError, if that is what it stops with.
    """
    words, counts, n = case
    right, at_first = train_fast(*case), count_pairs(words, counts)
    for m in range(1, n + 1):
        did = outcome(function, *deepcopy((words, counts, m)))
        if isinstance(did, Exception):
            token = right[m - 1]
            new = "" if token in at_first else ", a pair that only came about by another merge"
            new = f"; {key!r} has been merged before, and no word holds that pair now" if key in right[: m - 1] else new
            return f"It learns {m - 1} tokens rightly, and stops at the next, which should be {token!r}{new}."
        told = explain_training((words, counts, m), did)
        if told:
            return f"With num_merges = {m} it does not stop, and is wrong: {told}"
    return None


def _smallest_training(function, case) -> str | None:
    """A sentence about the smallest training that goes wrong; None if there is none."""
    found = smallest(function, train_fast, [case], _shrunk_training)
    if found is None:
        return None
    (words, counts, n), learned = found
    shown = "; ".join(f"{count} × {row(word)}" for word, count in zip(words, counts))
    right = row(train_fast(words, counts, n))
    return f"The smallest: {n} merge{'s' * (n > 1)} of {shown} should learn {right}, and {row(learned)} was learned."


def _shrunk_training(case):
    """Cases with fewer words, a shorter one, a smaller count, or fewer merges."""
    words, counts, n = case
    half = len(words) // 2
    smaller = [(words[:half], counts[:half], n), (words[half:], counts[half:], n)] if half else []
    smaller += [(words, counts, m) for m in (n // 2, n - 1) if 0 < m < n]
    smaller += [(words[:k] + words[k + 1 :], counts[:k] + counts[k + 1 :], n) for k in range(len(words))]
    for k, word in enumerate(words):
        smaller += [([*words[:k], cut, *words[k + 1 :]], counts, n) for cut in (word[1:], word[:-1]) if cut]
        smaller += [(words, [*counts[:k], 1, *counts[k + 1 :]], n)] * (counts[k] > 1)
    fewer = [(w, c, m) for w, c, m in smaller for m in dict.fromkeys((m, m // 2)) if m]
    return (case for case in fewer if _distinct(case[0]) and len(train_fast(*case)) == case[2])


def _distinct(words) -> bool:
    return len({b"".join(word) for word in words}) == len(words)
