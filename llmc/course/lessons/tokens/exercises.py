"""Lesson 08's exercises: what is right, what is tried, and which mistakes have a name. Files and batches: files.py."""

from itertools import permutations

import numpy as np

from llmc.course.checks.diagnosis import describe
from llmc.course.checks.exercise import Exercise
from llmc.course.lessons.tokens.bpe import BYTES, count_pairs, merge, train
from llmc.course.lessons.tokens.files import damaged_files, judge_file, judge_refusal, refused  # noqa: F401, for cells
from llmc.course.lessons.tokens.lists import shown, stops_told  # noqa: F401, for cells

ONSETS, VOWELS, ENDS = "b c d f g h k l m n p r s t v w st tr pl th".split(), "aeiou", ["", "", "n", "r", "s", "ng"]
SAMPLES = [*BYTES, b"caf", b"\xc3\xa9", b"\xa9s ", "日本".encode(), b" \xe6\x97", b"\xa5!", "ß".encode()]
SAMPLES += ["🙂".encode(), b"\xf0\x9f", b"\x99\x82", "\ufeff".encode()]  # tokens to decode, some of them half a character


# ------------------------------------------------------------------------------------------------------- inputs


def words_to_count(c):
    """words, counts: a few words over two or three bytes; some tokens of several bytes are made already."""
    for k in range(100):
        yield {3: two_ways, 4: equal_pairs}.get(k % 5, some_words)(c.rng, k)
    a, b, z = b"a", b"b", b"Z"
    yield [[a, b], [z, b]], [5000, 5000]  # Z sorts before a
    yield [[a, b], [z, b]], [70_001, 70_002]
    yield [[b"\xc3", b], [a, b]], [7, 7]  # behind a, and before it as Python prints it
    yield [[a, b], [b"ca", b], [a, b"bd"], [b"ca", b"bd"]], [9, 1, 1, 1]  # only the first holds a and b, whole


def some_words(rng, k):
    """(words, counts)."""
    letters = some_letters(rng, 2 + k % 2, k)
    drawn = {b"".join(rng.choice(letters, int(rng.integers(1, 8)))) for _ in range(int(rng.integers(3, 7)))}
    words = [[bytes([b]) for b in word] for word in sorted(drawn, key=lambda _: rng.random())]
    for _ in range(k % 3):  # some tokens, any, exist already
        pairs = sorted(count_pairs(words, [1] * len(words)))
        if len(pairs) > 3:
            token = pairs[int(rng.integers(len(pairs)))]
            words = [merge(word, token) for word in words]
    counts = rng.integers(1, 5, len(words)).tolist()
    return (words, counts) if count_pairs(words, counts) else some_words(rng, k)


def two_ways(rng, k):
    """(words, counts) whose most frequent pair comes as (a, bc) and as (ab, c), each alone rarer than another pair.

    In one word a, b and c stand side by side.
    """
    a, b, c, d, e = some_letters(rng, 5, k)
    words, counts = [[a, b + c], [e, a + b, c], [d, e], [a, b, c]], [3, 2, 4, 1]
    order = rng.permutation(4)
    return [words[k] for k in order], [counts[k] for k in order]


def equal_pairs(rng, k):
    """(words, counts): two pairs are equally frequent, of two bytes and of three."""
    a, b, c = sorted(some_letters(rng, 3, k))
    words = [[a, a + b], [b, c]] if k % 2 else [[b, b + c], [a, b]]
    return words[:: 1 - k % 3 % 2 * 2], [int(rng.integers(1, 9))] * 2


def some_letters(rng, n, k):
    """n different bytes: letters that are easy to read, later any bytes but those that print as a gap."""
    some = range(97, 123) if k < 20 or k % 2 else [*range(33, 127), *range(128, 256)]
    return [bytes([b]) for b in rng.choice(some, n, replace=False)]


def words_to_encode(c):
    """word, ranks: learned from other words over the same bytes; ids at the ends; one word with two tables of ranks."""
    for k in range(30):
        letters, ranks = learned_ranks(c.rng, k)
        learned = [token for token in ranks if len(token) > 2 and k % 5 == 1]  # a word that is one token
        drawn = random_words(c.rng, letters, 6, 14 if k < 10 else 24)
        words = [word for word in [*learned[:2], *drawn] if encodings(word, ranks)][:3]
        yield from ((word, ranks) for word in words)
        if k % 5 == 2 and (fewer := with_fewer(words[-1], ranks)):
            yield words[-1], fewer
        if k % 5 == 3:
            yield from at_the_ends(ranks)
    yield from ((b"", ranks), (b"\xc3", ranks), ("né".encode(), ranks))


def learned_ranks(rng, k):
    """(letters, ranks): in any order, the ids of the bytes, too: GPT-2's bytes are not in order either."""
    letters = some_letters(rng, 2 + k % 4, k)
    words = [[bytes([b]) for b in word] for word in random_words(rng, letters, 2, 12)]
    learned = train(words, rng.integers(1, 9, len(words)).tolist(), 30)
    pairs = list(zip([*BYTES, *learned], [*rng.permutation(256).tolist(), *range(256, 256 + len(learned))]))
    return letters, {token: rank for token, rank in (pairs[k] for k in rng.permutation(len(pairs)))}


def random_words(rng, letters, least, most):
    return [b"".join(rng.choice(letters, int(rng.integers(least, most)))) for _ in range(16)]


def encodings(word, ranks):
    """The tokens of the word: by one place after the other, all places of a token at once, or each token once.

    All three are right ways; where they, or whoever looks for the whole word first, disagree: None.
    """
    one, several, in_turn = ([bytes([b]) for b in word] for _ in range(3))
    for parts, many in ((one, 1), (several, len(word))):
        while found := [a + b for a, b in zip(parts, parts[1:]) if a + b in ranks]:
            parts[:] = merge(parts, min(found, key=ranks.get), many)
    for token in sorted(ranks, key=ranks.get):
        in_turn = merge(in_turn, token) if len(token) > 1 else in_turn
    return one if one == several == in_turn and (len(one) == 1 or word not in ranks) else None


def with_fewer(word, ranks):
    """Ranks without some of the last tokens, with which the word has other ids; None if there are none."""
    for last in range(len(ranks) - 1, 256, -1):
        fewer = {token: rank for token, rank in ranks.items() if rank < last}
        if encodings(word, fewer) not in (None, encodings(word, ranks)):
            return fewer
    return None


def at_the_ends(ranks):
    """A word of ids that are easily left out, 0, 255, 256 and the last one; none if they would be merged."""
    tokens = sorted(ranks, key=ranks.get)
    for order in permutations((0, 255, 256, -1)):
        word = b"".join(tokens[k] for k in (0, *order, 0))
        if {tokens[k] for k in order} <= {*(encodings(word, ranks) or ())}:
            yield word, ranks
            break


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
        letters, found = c.rng.choice(256, 2, replace=False), {}
        while len(found) < 40:
            found[bytes(c.rng.choice(letters, int(c.rng.integers(2, 10))).tolist())] = None
        yield [[bytes([b]) for b in word] for word in found], c.rng.integers(1, 4, 40).tolist(), 25
    yield *made_up_words(c.rng, 500), 120


def made_up_words(rng, n):
    """(words, counts): n distinct words of one to four syllables, the r-th with frequency 1/r, as in real text."""
    syllables = [o + v + e for o in ONSETS for v in VOWELS for e in ENDS]
    likely = rng.permutation(len(syllables))[:400]
    found = {}
    while len(found) < n:
        word = "".join(syllables[k] for k in rng.choice(likely, int(rng.integers(1, 5))))
        found[" " + word if rng.random() < 0.8 else word] = None
    return [[bytes([b]) for b in word.encode()] for word in found], (3 * n / np.arange(1, n + 1)).astype(int).tolist()


# --------------------------------------------------------------------------------------------------------- rules


def is_a_step(tried):
    step = tried.got["step"]
    if not (isinstance(step, tuple | list) and len(step) == 2):
        return f"two things are expected, `return token, merged`, but your function returned {describe(step)}"
    token, merged = step
    if isinstance(token, tuple):
        return f"token is the pair {token!r}: join the two, left + right"
    if not isinstance(token, bytes):
        return f"token should be bytes like b'th', but is {describe(token)}"
    if not (isinstance(merged, list) and all(isinstance(word, list) for word in merged)):
        return "merged should be a list of words, each a list of tokens (bytes), in the order of the given words"
    return None


def are_ids(tried):
    ids = tried.got["ids"]
    if not isinstance(ids, list):
        return f"a list of ids is expected, but your function returned {describe(ids)}"
    tokens = ids and all(isinstance(part, bytes) for part in ids)
    return "these are tokens: return their ids, ranks[token]" if tokens else None


def is_text(tried):
    text = tried.got["text"]
    if isinstance(text, bytes | bytearray):
        return "these are bytes: decode them to text (str)"
    return None if isinstance(text, str) else f"text (str) is expected, but your function returned {describe(text)}"


def are_tokens(tried):
    tokens = tried.got["tokens"]
    if not isinstance(tokens, list):
        return f"a list of tokens is expected, but your function returned {describe(tokens)}"
    if tokens[:256] == BYTES:
        return "the 256 single bytes are in the list: return only what was learned"
    return None if all(isinstance(token, bytes) for token in tokens) else "the tokens should be bytes like b'th'"


def told_step(given, got, right):
    (words, counts), (token, merged), (right_token, right_merged) = given, got, right
    told = f"Words {'; '.join(f'{count} × {row(word)}' for word, count in zip(words, counts))}: "
    if token != right_token:
        pairs = count_pairs(words, counts)
        return f"{told}token should be {_times(right_token, pairs)}, and is {_times(token, pairs)}"
    if len(merged) != len(right_merged):
        return f"{told}merged has {len(merged)} words, and should have {len(right_merged)}"
    word, mine, its = next(each for each in zip(words, merged, right_merged) if each[1] != each[2])
    return f"Merging {token!r} in {row(word)} should give {row(its)}, and gives {row(mine)}"


def told_ids(given, got, right):
    word, ranks = given
    tokens = {rank: token for token, rank in ranks.items()}
    known = {row([token]): ranks[token] for token in sorted(ranks, key=ranks.get) if len(token) > 1 and token in word}
    mine, its = (f"{row([tokens.get(i, f'no token {i}') for i in ids])} = {ids}" for ids in (got, right))
    return f"{word!r} with {f'the ranks {known}' if known else 'single bytes alone'} should give {its}, and gives {mine}"


def told_text(given, got, right):
    ids, tokens = given
    return f"The ids {ids} are the tokens {[tokens[i] for i in ids]}: the text should be {right!r}, and is {got!r}"


def told_training(given, got, right):
    words, counts, num_merges = given
    at = next((k for k, (mine, its) in enumerate(zip(got, right)) if mine != its), min(len(got), len(right)))
    if at == min(len(got), len(right)):
        return f"{len(got)} tokens were learned, and {len(right)} are expected"
    for token in right[:at]:
        words = [merge(word, token) for word in words]
    pairs = count_pairs(words, counts)
    return f"Merge {at + 1} of {num_merges} should make {_times(right[at], pairs)}, and makes {_times(got[at], pairs)}"


def row(word) -> str:
    """ "a bc d": the tokens of a word."""
    parts = (part.decode("utf-8", "backslashreplace") if isinstance(part, bytes) else repr(part) for part in word)
    return " ".join(parts)


def _times(pair, pairs) -> str:
    """ "b'th' (3 times)"."""
    return f"{pair!r} ({ {0: 'never there', 1: 'once'}.get(pairs[pair], f'{pairs[pair]} times')})"


# ---------------------------------------------------------------------------------------------------- exercises

Exercise(
    "bpe_step",
    "08",
    returns="step",
    cases=words_to_count,
    rules=(is_a_step, shown(told_step)),
    look="3.1 · By hand",
    mistakes=r"""
        with each distinct word counted once: a pair counts as often as its word occurs | += count => += 1
        with the last of equally frequent pairs, not the one that sorts first
            | min(pairs, key=lambda pair: (-pairs[pair], pair)) => max(pairs, key=lambda pair: (pairs[pair], pair))
        with the first that was met of equally frequent pairs, not the one that sorts first
            | min(pairs, key=lambda pair: (-pairs[pair], pair)) => max(pairs, key=pairs.get)
        with the shortest of equally frequent pairs: of whatever length, the one whose bytes sort first
            | (-pairs[pair], pair) => (-pairs[pair], len(pair), pair)
        with the longest of equally frequent pairs: of whatever length, the one whose bytes sort first
            | (-pairs[pair], pair) => (-pairs[pair], -len(pair), pair)
        with the one of equally frequent pairs whose printed text sorts first: compare the bytes
            | (-pairs[pair], pair) => (-pairs[pair], str(pair))
        with the rarest pair in place of the most frequent one | (-pairs[pair], pair) => (pairs[pair], pair)
        with (a, bc) and (ab, c) counted separately: a pair is identified by its bytes together
            | pairs[left + right] => pairs[left, right] ;; min(pairs, key=lambda pair: (-pairs[pair], pair))
            => b"".join(min(pairs, key=lambda pair: (-pairs[pair], pair)))
        with pairs counted across the border between two words, too
            | zip(words, counts): => [(sum((w * n for w, n in zip(words, counts)), []), 1)]:
        with each border between two words counted as one more pair: count inside each word
            | token = min => pairs.update(a[-1] + b[0] for a, b in zip(words, words[1:]))\n    token = min
        with a border between two words counted as a pair, as often as the first of the two occurs
            | token = min => pairs.update({})
            \n    for k in range(len(words) - 1):
            \n        pairs[words[k][-1] + words[k + 1][0]] += counts[k]
            \n    token = min
        without pairs that overlap with an equal one: a a a holds the pair aa twice
            | for left, right in zip(word, word[1:]): => before = ()
            \n        for k, (left, right) in enumerate(zip(word, word[1:])):
            \n            before = (k, left + right) if before != (k - 1, left + right) else ()
            \n            if not before:
            \n                continue
        with a pair that occurs twice in a word counted once there
            | for left, right in zip(word, word[1:]): => for pair in {a + b for a, b in zip(word, word[1:])}:
            ;; pairs[left + right] => pairs[pair]
        with a pair counted as often as the most frequent word that holds it: all words, and all places, add up
            | += count => = max(pairs[left + right], count)
        with pairs counted in the bytes of the joined word, where tokens have no borders
            | token = min => texts = [b"".join(word) for word in words]
            \n    pairs = {pair: sum(text.count(pair) * n for text, n in zip(texts, counts)) for pair in pairs}
            \n    token = min
        with the words left as they were | both = … => both = False
        with only the first place in each word merged | new, i = [], 0 => new, i, done = [], 0, False
            ;; both = => both = not done and ;; i += 2 if both else 1 => i, done = i + 1 + both, done or both
        merged from right to left: in a a a, the first two become aa
            | for word in words: => for word in [word[::-1] for word in words]:
            ;; word[i] + word[i + 1] == => word[i + 1] + word[i] == ;; append(new) => append(new[::-1])
        with the second half used again after a merge: a a a becomes aa aa
            | new, i = [], 0 => new, i, after = [], 0, False ;; i += 2 if both else 1 => i, after = i + 1, both
            ;; new.append(token if both else word[i]) => new += [token] if both else [word[i]] * (not after)
        with the second half left behind the new token: a b c becomes ab b c | i += 2 if both else 1 => i += 1
        with the token merged only from the pair of halves that was met first: (a, bc) and (ab, c) both make abc
            | merged = [] => merged = []
            \n    first = next((a, b) for word in words for a, b in zip(word, word[1:]) if a + b == token)
            ;; word[i] + word[i + 1] == token => (word[i], word[i + 1]) == first
        with the token merged only from one pair of halves, the most frequent: (a, bc) and (ab, c) both make abc
            | merged = [] => merged = []
            \n    halves = Counter((a, b) for word in words for a, b in zip(word, word[1:]) if a + b == token)
            ;; word[i] + word[i + 1] == token => (word[i], word[i + 1]) == max(halves, key=lambda p: (halves[p], p))
        without the last token of each word, where it is not merged | while i < len(word): => while i < len(word) - 1:
        with tokens that were made before cut into bytes again: join only the halves of the new one
            | for word in words: => for word in words:
            \n        parts = [[bytes([b]) for b in piece] + [token] for piece in b"".join(word).split(token)]
            \n        merged.append(sum(parts, [])[:-1])
            \n        continue
    """,
)

Exercise(
    "encode_word",
    "08",
    returns="ids",
    cases=words_to_encode,
    rules=(are_ids, shown(told_ids)),
    look="4.2 · Encode: the lowest rank first",
    mistakes=r"""
        with the pair whose left part has the lowest rank: the rank of the token that the pair makes decides
            | (ranks[a + b], i) => (ranks[a], i)
        with the pair whose right part has the lowest rank: the rank of the token that the pair makes decides
            | (ranks[a + b], i) => (ranks[b], i)
        with the lowest ranks of both parts, the left one first: the rank of the token that the pair makes decides
            | (ranks[a + b], i) => ((ranks[a], ranks[b]), i)
        with the lowest sum of the parts' ranks: the rank of the token that the pair makes decides
            | (ranks[a + b], i) => (ranks[a] + ranks[b], i)
        with the token whose bytes sort first merged first: ranks decide | (ranks[a + b], i) => (a + b, i)
        with the highest rank merged first | (ranks[a + b], i) => (-ranks[a + b], i)
        with the right one of two places with the same rank merged first
            | (ranks[a + b], i) => (ranks[a + b], -i) ;; _, i = min(found) => i = -min(found)[1]
        with the token merged first that stands first in the dictionary
            | (ranks[a + b], i) => ([*ranks].index(a + b), i)
        with each token made once, in the order in which the dictionary holds them: the lowest rank comes first
            | while True: => for token in ranks:
            \n        i = 0
            \n        while len(token) > 1 and i + 1 < len(parts):
            \n            if parts[i] + parts[i + 1] == token:
            \n                parts[i : i + 2] = [token]
            \n            i += 1
            \n    while True:
        merging whatever can be merged, from left to right: look for the lowest rank in the whole word
            | min(found) => found[0]
        merging whatever can be merged, from right to left: look for the lowest rank in the whole word
            | min(found) => found[-1]
        merging at one place as long as that is possible, and then moving on
            | while True: => at = 0\n    while True: ;; not found => not (found := [pair for pair in found if pair[1] >= at])
            ;; min(found) => found[0]\n        at = i
        with a lower rank on the left of the last merge never looked for
            | while True: => at = 0\n    while True: ;; not found => not (found := [pair for pair in found if pair[1] >= at])
            ;; min(found) => min(found)\n        at = i
        with only those pairs looked at from the left whose ranks fall: further right there may be a lower one
            | min(found) => min(found[: next((k for k in range(1, len(found)) if found[k] > found[k - 1]), None)])
        with several pairs merged before it looks again: a pair with the token just made may have a lower rank
            | _, i = min(found) => places = []
            \n        for _, i in sorted(found):
            \n            places += [i] if not {i - 1, i, i + 1} & {*places} else []
            \n        for i in sorted(places)[:0:-1]:
            \n            parts[i : i + 2] = [parts[i] + parts[i + 1]]
            \n        i = min(places)
        with the pair merged at the first place of its left part, whatever follows there
            | parts[i : i + 2] = [parts[i] + parts[i + 1]] => token = parts[i] + parts[i + 1]
            \n        i = parts.index(parts[i])
            \n        parts[i : i + 2] = [token]
        = the longest tokens that fit, from the left: merge pairs, the lowest rank first | ids = []
            \nwhile word:
            \n    n = max(n for n in range(1, len(word) + 1) if word[:n] in ranks)
            \n    ids, word = [*ids, ranks[word[:n]]], word[n:]
            \nreturn ids
        = the longest tokens that fit, from the right: merge pairs, the lowest rank first | ids = []
            \nwhile word:
            \n    n = min(n for n in range(len(word)) if word[n:] in ranks)
            \n    ids, word = [ranks[word[n:]], *ids], word[:n]
            \nreturn ids
        = as few tokens as possible: the order of the merges decides, not their number | best = [[]]
            \nfor end in range(1, len(word) + 1):
            \n    best.append(min((best[n] + [ranks[word[n:end]]] for n in range(end) if word[n:end] in ranks), key=len))
            \nreturn best[-1]
        without the last two parts, which are never looked at: n parts have n - 1 pairs | parts[1:] => parts[1:-1]
        after one merge: go on until no pair makes a token | [parts[i] + parts[i + 1]] => [parts[i] + parts[i + 1]]
            \n        return [ranks[part] for part in parts]
        without the last merge, where only two parts are left | not found => not found or len(parts) < 3
        = the bytes' own numbers: ranks holds the id of each | return list(word)
        with the byte's own number for each that stays alone: its id is in ranks, too
            | return [ranks[part] => return [ranks[part] if len(part) > 1 else part[0]
        without the id 0, which is an id like any other | for part in parts] => for part in parts if ranks[part]]
    """,
)

Exercise(
    "decode",
    "08",
    returns="text",
    cases=ids_to_decode,
    rules=(is_text, shown(told_text)),
    look="4.1 · Decode",
    mistakes=r"""
        with each token decoded by itself: a token may hold half a character, so join the bytes first
            | return "".join(tokens[i].decode("utf-8", errors="replace") for i in ids)
        with each token decoded by itself, and halves of characters left out: join the bytes first
            | return "".join(tokens[i].decode("utf-8", errors="ignore") for i in ids)
        without the bytes that are not valid UTF-8: put U+FFFD in their place | "replace" => "ignore"
        with a ? for bytes that are not valid UTF-8: put U+FFFD there
            | errors="replace") => errors="replace").replace("\ufffd", "?")
        with bytes that are not valid UTF-8 spelled out: put U+FFFD in their place | "replace" => "backslashreplace"
        with surrogates for bytes that are not valid UTF-8: put U+FFFD in their place | "replace" => "surrogateescape"
        with neighbouring U+FFFD made one: leave them as errors="replace" makes them
            | errors="replace") => errors="replace").replace("\ufffd\ufffd", "\ufffd").replace("\ufffd\ufffd", "\ufffd")
        with a U+FFFD for each byte that is not valid UTF-8: the first bytes of a character make one, together
            | return … => raw = b"".join(tokens[i] for i in ids).decode("utf-8", errors="surrogateescape")
            \n    return "".join("\ufffd" if "\udc80" <= each <= "\udcff" else each for each in raw)
        with the characters of their numbers (Latin-1) for bytes that are not valid UTF-8: put U+FFFD there
            | return … => raw = b"".join(tokens[i] for i in ids).decode("utf-8", errors="surrogateescape")
            \n    return "".join(chr(ord(each) - 0xDC00) if "\udc80" <= each <= "\udcff" else each for each in raw)
        as one U+FFFD where a byte is not valid UTF-8: only such bytes become U+FFFD
            | return … => text = b"".join(tokens[i] for i in ids).decode("utf-8", errors="replace")
            \n    return "\ufffd" if "\ufffd" in text else text
        read as Latin-1 where a byte is not valid UTF-8: only such bytes become U+FFFD
            | return … => raw = b"".join(tokens[i] for i in ids)
            \n    return raw.decode("latin-1" if "\ufffd" in raw.decode("utf-8", "replace") else "utf-8")
        up to the first bytes that are not valid UTF-8: they become U+FFFD, and the rest follows
            | return … => return b"".join(tokens[i] for i in ids).decode("utf-8", errors="replace").split("\ufffd")[0]
        without the first part of a character at the end of the text: it is U+FFFD, too
            | return … => import codecs
            \n    return codecs.getincrementaldecoder("utf-8")("replace").decode(b"".join(tokens[i] for i in ids))
        without what is not valid UTF-8 by itself and has been held back until it is: at the end, it becomes U+FFFD
            | text, held = "", b""
            \nfor i in ids:
            \n    held += tokens[i]
            \n    whole = held.decode("utf-8", "replace")
            \n    text, held = (text, held) if "\ufffd" in whole else (text + whole, b"")
            \nreturn text
        without the last bytes, up to three, where the rest is valid UTF-8: they become U+FFFD
            | return … => raw = b"".join(tokens[i] for i in ids)
            \n    texts = [raw[: max(len(raw) - n, 0)].decode("utf-8", errors="replace") for n in range(4)]
            \n    return next((text for text in texts if "\ufffd" not in text), texts[0])
        = the bytes read as Latin-1, one character each: they are UTF-8 | "utf-8" => "latin-1"
        = the bytes read as ASCII: they are UTF-8 | "utf-8" => "ascii"
        with a space between the tokens: a space that belongs there is in a token | b"" => b" "
        = the bytes as Python prints them: decode them | return str(b"".join(tokens[i] for i in ids))
        = the characters whose numbers the ids are: look up the tokens | return "".join(map(chr, ids))
        with an id below 256 taken for the byte itself: look it up in tokens, too
            | tokens[i] for i => bytes([i]) if i < 256 else tokens[i] for i
        without the id 0, which is an id like any other | in ids => in ids if i
        with the tokens in the order of the table, each once: their order is that of the ids
            | in ids => in sorted(set(ids))
        without U+FEFF at the beginning: it belongs to the text | "utf-8" => "utf-8-sig"
        without byte 0 at the end of a token | tokens[i] for => tokens[i].rstrip(b"\0") for
    """,
)

MERGED = "zip(new, new[1:]):\\n                pairs[left + right] += counts[i]"
AGAIN = f"{MERGED}\\n                where[left + right].add(i)"
POP = ";; learned[token] = None => learned[token] = None\\n        del pairs[token]"

Exercise(
    "fast_train_bpe",
    "08",
    returns="tokens",
    cases=words_to_train,
    rules=(are_tokens, shown(told_training)),
    look="3.2 · On real text",
    slow="Only the words that hold the pair change (hint 1).",
    mistakes=rf"""
        with the last of equally frequent pairs, not the one that sorts first | min(pair => max(pair
        with the first that was met of equally frequent pairs, not the one that sorts first | min(pair => next(pair
        with pairs still counted that a merge took apart | zip(words[i], words[i][1:]) => () {POP}
        without counting the pairs that a merge brings together | zip(new, new[1:]) => () 
        without the words that gained a pair by a merge: they are not found again
            | {AGAIN} => {MERGED} ;; where.pop(token) => where.pop(token, ()) {POP}
        with each distinct word counted once: a pair counts as often as its word occurs
            | words, pairs => counts = [1] * len(words)\n    words, pairs
        with a merge that adds pairs once for each word, and not as often as it occurs
            | {MERGED} => zip(new, new[1:]):\n                pairs[left + right] += 1
    """,
)
