"""Lesson 08's exercises: what is right, what is tried, and which mistakes have a name. Files and batches: files.py."""

from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import accumulate
from types import SimpleNamespace

import numpy as np

from llmc.course.checks.calls import Call
from llmc.course.checks.exercise import Exercise
from llmc.course.checks.explanation import explain
from llmc.course.checks.messages.diagnosis import Diagnosis, Kind, WrongAnswer
from llmc.course.checks.rerun import quietly
from llmc.course.checks.search import SHORT, PythonSearch
from llmc.course.lessons.tokens.bpe import BYTES, count_pairs, merge, train
from llmc.course.lessons.tokens.files import damaged_files, judge_file, judge_refusal, refused  # noqa: F401, for cells
from llmc.course.mutation.program import Program
from llmc.course.own_names import learners_names

ONSETS, VOWELS, ENDS = "b c d f g h k l m n p r s t v w st tr pl th".split(), "aeiou", ["", "", "n", "r", "s", "ng"]
SAMPLES = [*BYTES, b"caf", b"\xc3\xa9", b"\xa9s ", "日本".encode(), b" \xe6\x97", b"\xa5!", "ß".encode()]
SAMPLES += ["🙂".encode(), b"\xf0\x9f", b"\x99\x82", "\ufeff".encode()]  # tokens; some are half a character


def words_to_count(c):
    """words, counts: a few words over two or three bytes; some tokens of several bytes already exist."""
    for k in range(100):
        yield {3: two_ways, 4: equal_pairs}.get(k % 5, some_words)(c.rng, k)
    a, b, Z = b"a", b"b", b"Z"  # Z sorts before a; \xc3 after it, but before it as Python prints it
    for one, other, counts in (a, Z, [5000, 5000]), (a, Z, [70_001, 70_002]), (b"\xc3", a, [7, 7]):
        yield [[one, b], [other, b]], counts
    yield [[a, b], [b"ca", b], [a, b"bd"], [b"ca", b"bd"]], [9, 1, 1, 1]  # only the first holds a and b, whole


def some_words(rng, k):
    words = singles(dict.fromkeys(some_text(rng, some_letters(rng, 2 + k % 2, k), 1, 8, int(rng.integers(3, 7)))))
    for _ in range(k % 3):  # some tokens, any, exist already
        pairs = sorted(count_pairs(words, [1] * len(words)))
        token = pairs[int(rng.integers(len(pairs)))] if len(pairs) > 3 else b""
        words = [merge(word, token) for word in words]
    counts = rng.integers(1, 5, len(words)).tolist()
    return (words, counts) if count_pairs(words, counts) else some_words(rng, k)


def two_ways(rng, k):
    """The most frequent pair comes as (a, bc) and as (ab, c), each alone rarer than (d, e)."""
    a, b, c, d, e = some_letters(rng, 5, k)
    words, counts = [[a, b + c], [e, a + b, c], [d, e], [a, b, c]], [3, 2, 4, 1]  # in one, a, b and c are neighbours
    order = rng.permutation(4)
    return [words[k] for k in order], [counts[k] for k in order]


def equal_pairs(rng, k):
    """Two pairs are equally frequent, one of two bytes and one of three."""
    a, b, c = sorted(some_letters(rng, 3, k))
    words = [[a, a + b], [b, c]] if k % 2 else [[b, b + c], [a, b]]
    return words[:: 1 - k % 3 % 2 * 2], [int(rng.integers(1, 9))] * 2


def some_letters(rng, n, k):
    """n different bytes: letters that are easy to read, later any bytes except those that print as a gap."""
    some = range(97, 123) if k < 20 or k % 2 else [*range(33, 127), *range(128, 256)]
    return [bytes([b]) for b in rng.choice(some, n, replace=False)]


def some_text(rng, letters, least, most, n=16) -> list[bytes]:
    return [b"".join(rng.choice(letters, int(rng.integers(least, most)))) for _ in range(n)]


def singles(texts):
    return [[bytes([b]) for b in text] for text in texts]


def words_to_encode(c):
    """word, ranks: learned from other words over the same bytes; ids at the ends; one word with three tables."""
    for k in range(30):
        letters = some_letters(c.rng, 2 + (k + 1) % 4, k)
        learned = train(singles(some_text(c.rng, letters, 2, 12)), c.rng.integers(1, 9, 16).tolist(), 30)
        ids = c.rng.permutation(256).tolist() + [*range(256, 256 + len(learned))]  # GPT-2's bytes have no order either
        pairs = [*zip([*BYTES, *learned], ids)]
        ranks = dict(pairs[k] for k in c.rng.permutation(len(pairs)))
        tokens = sorted(ranks, key=ranks.get)
        ends = b"".join(tokens[at] for at in (0, 256, 255, -1, 0))  # ids that are easily left out
        drawn = [tokens[-1] if k % 5 == 1 else ends, *some_text(c.rng, letters, 6, 14 if k < 10 else 24)]
        words = [word for word in drawn if encodings(word, ranks)][:4]
        yield from ((word, ranks) for word in words[::-1])
        fewer = {token: rank for token, rank in ranks.items() if rank < len(ranks) - 5}
        turned = {token: (rank + 1) % 256 if rank < 256 else rank for token, rank in ranks.items()}  # as many
        yield from ((word, table) for word in words[-1:] for table in (fewer, turned) if encodings(word, table))
    yield from ((b"", ranks), (b"\xc3", ranks), ("né".encode(), ranks))


def encodings(word, ranks):
    """The tokens of the word: by one place after the other, all places of a token at once, or each token once.

    All three ways are right; None where they disagree, or looking for the whole word first does.
    """
    one, several, in_turn = singles([word] * 3)
    for parts, many in ((one, 1), (several, len(word))):
        while found := [a + b for a, b in zip(parts, parts[1:]) if a + b in ranks]:
            parts[:] = merge(parts, min(found, key=ranks.get), many)
    for token in sorted(ranks, key=ranks.get):
        in_turn = merge(in_turn, token) if len(token) > 1 else in_turn
    return one if one == several == in_turn and (len(one) == 1 or word not in ranks) else None


def ids_to_decode(c):
    """ids, tokens: whole characters and halves of them, numbered anew each time; ids at the ends; no ids at all."""
    favourites, first = [0, 99, 32, 195, 169, 230, *range(256, len(SAMPLES))], len(SAMPLES) - 1
    plain = [92, 110, 92, 49, 13, 10, 0, 195]  # as they are: a backslash, line ends, byte 0
    fixed = [[first, 99, first], [92, 110, 13, 10], [32], [10], c.rng.permutation(plain)]  # U+FEFF is first in a text
    for ids in [*(c.rng.choice(favourites, int(c.rng.integers(4, 12))) for _ in range(40)), *fixed]:
        order = c.rng.permutation(len(SAMPLES))
        yield order.argsort()[ids].tolist(), [SAMPLES[k] for k in order]
    for n in (300, 50257):
        yield [0, 1, 255, 256, 257, 0, 0, n - 1, n // 2, n - 2, n - 1], [b" <%d>" % k for k in range(n)]
    yield [], SAMPLES


def words_to_train(c):
    """words, counts, num_merges: syllables; two bytes, with overlaps and ties; the size that is timed."""
    for _ in range(4):
        yield *made_up_words(c.rng, 60), 60
        words = dict.fromkeys(some_text(c.rng, some_letters(c.rng, 2, 20), 2, 10, 99))
        yield singles(words)[:40], c.rng.integers(1, 4, 40).tolist(), 25
    c.before_timing()  # a search for mistakes ends here
    yield *made_up_words(c.rng, 500), 120


def made_up_words(rng, n):
    """(words, counts): n distinct words of one to four syllables, the r-th with frequency 1/r, as in real text."""
    syllables = rng.permutation([o + v + e for o in ONSETS for v in VOWELS for e in ENDS])[:400]
    drawn = ("".join(rng.choice(syllables, int(rng.integers(1, 5)))) for _ in range(2 * n))
    words = dict.fromkeys((" " * (rng.random() < 0.8) + word).encode() for word in drawn)
    return singles(words)[:n], (3 * n / np.arange(1, n + 1)).astype(int).tolist()


class ListSearch(PythonSearch):
    """For lists and texts. They are equal or not; an edit must give what the learner's code gives in all cases tried.

    An edited loop ends soon after as many turns as ours takes: each turn may look through a list that grows forever.
    """

    alike = staticmethod(lambda one, other: type(one) is type(other) and one == other)
    same_error = staticmethod(lambda made, got, right, lost=False: made == got != right)

    @cached_property
    def others(self):
        cases = self.check.exercise.cases(SimpleNamespace(rng=np.random.default_rng(5), before_timing=int))
        cases = [*cases][:-4]  # the last ones are large
        calls = [Call.of(self.case.function, case, {}, self.case.returns) for case in cases]
        with learners_names(), quietly():
            both = [[self.run(f, call).get(self.label) for f in (call.function, self.solution)] for call in calls]
        return [(call, *made) for call, made in zip(calls, both) if made[0] is not None]

    @cached_property
    def most(self) -> int:
        """Turns of loops in one call."""
        return max(SHORT, 20 * self.taken(self.solution))

    @cached_property
    def few(self) -> int:
        """Turns in the case itself, where a list may double in each."""
        return 8 + 3 * max(self.taken(code) for code in (self.solution, self.answer) if code) // 2

    def run(self, code, call):
        with suppress(Exception):
            turns = self.few if call is self.case else self.most
            return call.run(code.function(turns) if isinstance(code, Program) else code)
        return {}

    def answer_with(self, edit):
        return self.answer.function(20 * self.most)


def shown(tell):
    """A rule: a wrong list or text is explained as arrays are, or by what tell(got, right, *arguments) gives."""

    def rule(tried):
        ((name, right),) = tried.expected.items()
        got, c = tried.got[name], tried.check
        if kind(got, right) != kind(right, right):
            return f"{name} should be {kind(right, right)}, but your function returned {kind(got, right)}"
        if got == right:
            return None
        c.search = lambda got, right: ListSearch(c, name, got, right)
        known = Diagnosis(*tell(got, right, *tried.given.values()), name)
        return WrongAnswer(explain(known, None, name, got, right, c.exercise.look_for()))

    return rule


@contextmanager
def stops_told(c):
    """Around a call: where the learner's function stops, its exception says which edit would make it pass."""
    try:
        yield
    except Exception as error:
        if c.explains and c.calls and not isinstance(error, WrongAnswer | NotImplementedError):
            edit = ListSearch(c, "").repair()
            if edit:
                error.add_note(f"Your function passes this whole check {edit.there}.")
            c.calls[-1].arguments = None  # `check` itself searches no more: it would give endless loops more turns
        raise


def kind(value, like) -> str:
    """ "list"; of what should be a tuple, the kinds of its parts, "bytes, list"."""
    parts = value if isinstance(like, tuple) and isinstance(value, tuple | list) else [value]
    return ", ".join(type(part).__name__ for part in parts)


def told_step(got, right, words, counts):
    name, k = ("token", 0) if got[0] != right[0] else ("merged", 1)
    return Kind.PLACE, f"With words {words} and counts {counts}, {name} should be {right[k]}, and is {got[k]}"


def told_ids(got, right, word, ranks):
    in_order = sorted(ranks, key=ranks.get)
    mine, its = ([next((token for token in in_order if ranks[token] == i), i) for i in ids] for ids in (got, right))
    told, parts = f"{word} should give the tokens {its}, and gives {mine}", [bytes([b]) for b in word]
    if b"".join(part for part in mine if isinstance(part, bytes)) != word:
        return Kind.RULE, f"{told}, which do not make up the word"
    for token in in_order:
        parts = merge(parts, token) if len(token) > 1 else parts
        if {*accumulate(map(len, mine))} - {*accumulate(map(len, parts))}:
            return Kind.RULE, f"{told}: when {token} is made, it has the lowest rank, but your tokens cut it"
    return Kind.PLACE, told


def told_text(got, right, ids, tokens):
    k = next(k for k in range(len(right) + 1) if got[: k + 1] != right[: k + 1])
    told = f"The ids {ids} are the tokens {[tokens[i] for i in ids]}: the text should be {right!r}, and is {got!r}"
    if "\ufffd" not in (got[k : k + 1], right[k : k + 1]):
        return Kind.PLACE, told
    return Kind.RULE, f"{told}. U+FFFD belongs where bytes are not valid UTF-8, as errors='replace' puts it"


def told_training(got, right, *_):
    k = next(k for k in range(len(got) + 1) if got[k : k + 1] != right[k : k + 1])
    mine, its = got[k : k + 1], right[k : k + 1]
    return Kind.PLACE, f"Of {len(right)} merges, number {k + 1} should make {its}, and makes {mine}"


STEP = r"""
    with each distinct word counted once: a pair counts as often as its word occurs | += count => += 1
    with the last of equally frequent pairs, not the first | token = min => token = max ;; (-pairs => (pairs
    with the one of equally frequent pairs that was met first | (-pairs[pair], pair) => -pairs[pair]
    with (a, bc) and (ab, c) counted separately: they are one pair, abc
        | pairs[left + right] => pairs[left, right] ;; merged = [] => merged, token = [], b"".join(token)
    with pairs counted across the border between two words, too
        | word, count in zip(words, counts): => word, count in [(sum((w * n for w, n in zip(words, counts)), []), 1)]:
    without pairs that overlap with an equal one: a a a holds the pair aa twice
        | in zip(words, counts): => in zip(words, counts):\n        last = b""
        ;; pairs[left + right] += count => last = left + right if left + right != last else b""
        \n            pairs[last] += count * bool(last)
    with a pair that occurs twice in a word counted once there
        | in zip(word, word[1:]): => in {left + right: (left, right) for left, right in zip(word, word[1:])}.values():
    with a pair counted as often as the most frequent word that holds it | += count => = max(pairs[left + right], count)
    with pairs counted in the bytes of the joined word, where tokens have no borders
        | (-pairs[pair] => (-sum(b"".join(word).count(pair) * n for word, n in zip(words, counts))
    with only the first place in each word merged | both = i => both = i == len(new) and i
    merged from right to left: in a a a, the first two become aa | in words: => in [word[::-1] for word in words]:
        ;; word[i] + word[i + 1] == => word[i + 1] + word[i] == ;; append(new) => append(new[::-1])
"""
ENCODE = r"""
    = the longest tokens that fit, from the left: merge pairs, the lowest rank first | ids = []\nwhile word:
        \n    n = max(n for n in range(1, len(word) + 1) if word[:n] in ranks)
        \n    ids, word = [*ids, ranks[word[:n]]], word[n:]\nreturn ids
    merging the pair at the first place of its left part, whatever follows there
        | parts[i : i + 2] = => at = parts.index(parts[i])\n        parts[at : at + 2] =
    = the tokens: return their ids, ranks[token] | [ranks[part] for part in parts] => parts
    without the id 0, which is an id like any other | for part in parts] => for part in parts if ranks[part]]
"""
DECODE = r"""
    = the bytes read as Latin-1, one character each: they are UTF-8 | "utf-8" => "latin-1"
    read as Latin-1 where a byte is not valid UTF-8: only such bytes become U+FFFD | return b" => raw = b"
        ;; .decode… => \n    return raw.decode("latin-1" if "\ufffd" in raw.decode(errors="replace") else "utf-8")
    = the bytes as Python prints them: decode them | return str(b"".join(tokens[i] for i in ids))
    = the characters whose numbers the ids are: look up the tokens | return "".join(map(chr, ids))
    with each token decoded alone, though a character may need several: join their bytes first
        | return b… => return "".join(tokens[i].decode("utf-8", errors="replace") for i in ids)
    with ids below 256 taken for bytes: look them up, too | tokens[i] => bytes([i]) if i < 256 else tokens[i]
    without U+FEFF at the beginning: it belongs to the text | "utf-8" => "utf-8-sig"
"""

NEW = "zip(new, new[1:]):\\n                pairs[left + right] +="  # how many times the pairs of a merge are counted
TRAIN = rf"""
    with pairs still counted that a merge took apart, and the others of the word counted once more
        | zip(words[i], words[i][1:]) => () ;; learned[token] = None => learned[token] = None\n        del pairs[token]
        ;; pop(token) => pop(token, ())
    without the pairs that a merge brings together | {NEW} => {NEW} 0 *
        ;; while len(learned) < num_merges => while len(learned) < num_merges and max(pairs.values(), default=0) > 0
    with each word merged from right to left: in a a a, the first two become aa | given_merge(words[i], token)
        => [part[::-1] for part in given_merge([part[::-1] for part in words[i][::-1]], token[::-1])][::-1]
    with each distinct word counted once: a pair counts as often as its word occurs
        | words, pairs => counts = [1] * len(words)\n    words, pairs
    with a merge that adds pairs once for each word, and not as often as it occurs | {NEW} counts[i] => {NEW} 1
    with a merge that subtracts and adds pairs as often as the last word occurs
        | {NEW} counts[i] => {NEW} counts[-1] ;; -= counts[i] => -= counts[-1] ;; pop(token) => pop(token, ())
        ;; learned[token] = None => learned[token] = None\n        del pairs[token]
    = the most frequent pairs at the beginning: a merge changes the counts of its neighbours
        | for i in where.pop(token) => del pairs[token]\n        for i in () ;; while => while pairs and
"""

steps, ids, texts, tokens = map(shown, (told_step, told_ids, told_text, told_training))
Exercise("bpe_step", "08", returns="step", cases=words_to_count, rules=(steps,), look="3.1 · By hand", mistakes=STEP)
Exercise("encode_word", "08", returns="ids", cases=words_to_encode, rules=(ids,), look="4.2 · Encode", mistakes=ENCODE)
Exercise("decode", "08", returns="text", cases=ids_to_decode, rules=(texts,), look="4.1 · Decode", mistakes=DECODE)
Exercise(
    "fast_train_bpe",
    "08",
    returns="tokens",
    cases=words_to_train,
    rules=(tokens,),
    look="3.2 · On real text",
    slow="Only the words that hold the pair change (hint 1).",
    mistakes=TRAIN,
)
