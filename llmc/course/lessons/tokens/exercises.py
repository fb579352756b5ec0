"""Lesson 08's exercises: what is right, what is tried, and which mistakes have a name. Files and batches: files.py."""

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.lessons.tokens.bpe import BYTES, count_pairs, merge, train
from llmc.course.lessons.tokens.files import damaged_files, judge_file, judge_refusal, refused  # noqa: F401, for cells
from llmc.course.lessons.tokens.lists import shown, stops_told  # noqa: F401, for cells

ONSETS, VOWELS, ENDS = "b c d f g h k l m n p r s t v w st tr pl th".split(), "aeiou", ["", "", "n", "r", "s", "ng"]
SAMPLES = [*BYTES, b"caf", b"\xc3\xa9", b"\xa9s ", "日本".encode(), b" \xe6\x97", b"\xa5!", "ß".encode()]
SAMPLES += ["🙂".encode(), b"\xf0\x9f", b"\x99\x82", "\ufeff".encode()]  # tokens; some are half a character

# ------------------------------------------------------------------------------------------------------- inputs


def words_to_count(c):
    """words, counts: a few words over two or three bytes; some tokens of several bytes are made already."""
    for k in range(100):
        yield {3: two_ways, 4: equal_pairs}.get(k % 5, some_words)(c.rng, k)
    a, b, Z = b"a", b"b", b"Z"  # Z sorts before a; \xc3 behind it, but before it as Python prints it
    yield from (
        ([[a, b], [Z, b]], [5000, 5000]),
        ([[a, b], [Z, b]], [70_001, 70_002]),
        ([[b"\xc3", b], [a, b]], [7, 7]),
    )
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
    """n different bytes: letters that are easy to read, later any bytes but those that print as a gap."""
    some = range(97, 123) if k < 20 or k % 2 else [*range(33, 127), *range(128, 256)]
    return [bytes([b]) for b in rng.choice(some, n, replace=False)]


def some_text(rng, letters, least, most, n=16) -> list[bytes]:
    return [b"".join(rng.choice(letters, int(rng.integers(least, most)))) for _ in range(n)]


def singles(texts):
    return [[bytes([b]) for b in text] for text in texts]


def words_to_encode(c):
    """word, ranks: learned from other words over the same bytes; ids at the ends; one word with two tables of ranks."""
    for k in range(30):
        letters = some_letters(c.rng, 2 + (k + 1) % 4, k)
        learned = train(singles(some_text(c.rng, letters, 2, 12)), c.rng.integers(1, 9, 16).tolist(), 30)
        ids = [
            *c.rng.permutation(256).tolist(),
            *range(256, 256 + len(learned)),
        ]  # GPT-2's bytes are in no order either
        pairs = [*zip([*BYTES, *learned], ids)]
        ranks = dict(pairs[k] for k in c.rng.permutation(len(pairs)))
        tokens = sorted(ranks, key=ranks.get)
        ends = b"".join(tokens[at] for at in (0, 256, 255, -1, 0))  # ids that are easily left out
        drawn = [tokens[-1] if k % 5 == 1 else ends, *some_text(c.rng, letters, 6, 14 if k < 10 else 24)]
        words = [word for word in drawn if encodings(word, ranks)][:4]
        yield from ((word, ranks) for word in words[::-1])
        fewer = {token: rank for token, rank in ranks.items() if rank < len(ranks) - 5}
        yield from ((word, fewer) for word in words[-1:] if encodings(word, fewer))
    yield from ((b"", ranks), (b"\xc3", ranks), ("né".encode(), ranks))


def encodings(word, ranks):
    """The tokens of the word: by one place after the other, all places of a token at once, or each token once.

    All three are right ways; where they, or whoever looks for the whole word first, disagree: None.
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


# ---------------------------------------------------------- what a message shows of a call, and the cause if it is seen

FIRST = "of equally frequent pairs, take the one that sorts first"


def told_step(given, got, right):
    (words, counts), (token, merged), (right_token, right_merged) = given, got, right
    if token != right_token:
        pairs = count_pairs(words, counts)
        shown = "; ".join(f"{count} × {row(word)}" for word, count in zip(words, counts))
        told = f"Words {shown}: token should be {times(right_token, pairs)}, and is {times(token, pairs)}"
        return told, FIRST if pairs[token] == pairs[right_token] else ""
    if len(merged) != len(right_merged):
        return f"merged has {len(merged)} words, and should have {len(right_merged)}", ""
    word, mine, its = next(each for each in zip(words, merged, right_merged) if each[1] != each[2])
    strange = [part for part in mine if part not in word and part != token]
    cause = f"{row(strange[:1])} is neither a part of that word nor the new token" if strange else ""
    cause = cause or "these are not the bytes of the word" * (row(mine).replace(" ", "") != row(its).replace(" ", ""))
    return f"Merging {token!r} in {row(word)} should give {row(its)}, and gives {row(mine)}", cause


def told_ids(given, got, right):
    word, ranks = given
    tokens = {rank: token for token, rank in ranks.items()}
    known = {row([token]): ranks[token] for token in sorted(ranks, key=ranks.get) if len(token) > 1 and token in word}
    mine, its = ([tokens.get(i, f"no token {i}") for i in ids] for ids in (got, right))
    told = f"{word!r} with the ranks {known} should give {row(its)} = {right}, and gives {row(mine)} = {got}"
    n = sum(map(len, mine))
    return told, f"put together, your tokens have {n} bytes, and the word has {len(word)}" if n != len(word) else ""


def told_text(given, got, right):
    ids, tokens = given
    return f"The ids {ids} are the tokens {[tokens[i] for i in ids]}: the text should be {right!r}, and is {got!r}", ""


def told_training(given, got, right):
    (words, counts, num_merges), before = given, []
    at = next((k for k, (mine, its) in enumerate(zip(got, right)) if mine != its), None)
    if at is None:
        return f"{len(got)} tokens were learned, and {len(right)} are expected", ""
    for token in [*right[:at], b""]:
        before.append(count_pairs(words, counts))
        words = [merge(word, token) for word in words]
    now, most = before[-1], max(pairs[got[at]] for pairs in before)
    told = f"Merge {at + 1} of {num_merges} should make {times(right[at], now)}, and makes {times(got[at], now)}"
    fallen = f"it occurred {most} times before other merges, and has become rarer" if most >= now[right[at]] else ""
    return told, FIRST if now[got[at]] == now[right[at]] else fallen


def row(word) -> str:
    """ "a bc d": the tokens of a word."""
    shown = (part.decode("utf-8", "backslashreplace") if isinstance(part, bytes) else str(part) for part in word)
    return " ".join(shown) or "nothing"


def times(pair, pairs) -> str:
    return f"{pair!r} ({ {0: 'never there', 1: 'once'}.get(pairs[pair], f'{pairs[pair]} times') })"


# ---------------------------------------------------------------------------------------------------- exercises

STEP = r"""
    with each distinct word counted once: a pair counts as often as its word occurs | += count => += 1
    with the last of equally frequent pairs, not the first | token = min => token = max ;; (-pairs => (pairs
    with the shortest of equally frequent pairs, not the one that sorts first | pair], pair) => pair], len(pair), pair)
    with the one of equally frequent pairs that was met first | (-pairs[pair], pair) => -pairs[pair]
    with (a, bc) and (ab, c) counted separately: they are one pair, abc
        | pairs[left + right] => pairs[left, right] ;; merged = [] => merged, token = [], b"".join(token)
    with pairs counted across the border between two words, too
        | word, count in zip(words, counts): => word, count in [(sum((w * n for w, n in zip(words, counts)), []), 1)]:
    with each border between two words counted as one more pair
        | token = min => pairs.update(a[-1] + b[0] for a, b in zip(words, words[1:]))\n    token = min
    with a border between two words counted as a pair, as often as the first of them occurs
        | word, count in zip(words, counts) => word, after, count in zip(words, [*words[1:], []], counts)
        ;; word[1:]) => word[1:] + after[:1])
    without pairs that overlap with an equal one: a a a holds the pair aa twice
        | in zip(words, counts): => in zip(words, counts):\n        last = b""
        ;; pairs[left + right] += count => last = left + right if left + right != last else b""
        \n            pairs[last] += count * bool(last)
    with a pair that occurs twice in a word counted once there
        | in zip(word, word[1:]): => in {left + right: (left, right) for left, right in zip(word, word[1:])}.values():
    with a pair counted as often as the most frequent word that holds it | += count => = max(pairs[left + right], count)
    with pairs counted in the bytes of the joined word, where tokens have no borders
        | (-pairs[pair] => (-sum(b"".join(word).count(pair) * n for word, n in zip(words, counts))
    with the words left as they were | both = … => both = False
    with only the first place in each word merged | both = i => both = i == len(new) and i
    merged from right to left: in a a a, the first two become aa | in words: => in [word[::-1] for word in words]:
        ;; word[i] + word[i + 1] == => word[i + 1] + word[i] == ;; append(new) => append(new[::-1])
    with only those halves merged that were met first: (a, bc) and (ab, c) both make abc
        | word[i] + word[i + 1] == => word[i : i + 2] ==
        ;; == token => == next([a, b] for word in words for a, b in zip(word, word[1:]) if a + b == token)
"""

ENCODE = r"""
    with the lowest rank of a left part first, not of a token that a pair makes | (ranks[a + b], => (ranks[a],
    with the lowest ranks of both parts first, not of their token | (ranks[a + b], => ((ranks[a], ranks[b]),
    with the lowest sum of two parts' ranks first, not of their token | (ranks[a + b], => (ranks[a] + ranks[b],
    with the token first whose bytes sort first: ranks decide | (ranks[a + b], => (a + b,
    with the token first that stands first in the dictionary | (ranks[a + b], => ([*ranks].index(a + b),
    with the highest rank first | (ranks[a + b], => (-ranks[a + b],
    with the right one of two equal ranks first | ], i) => ], -i) ;; _, i = min(found) => i = -min(found)[1]
    merging from left to right what can be merged, not the lowest rank in the whole word | min(found) => found[0]
    merging from right to left what can be merged, not the lowest rank in the whole word | min(found) => found[-1]
    merging at one place as long as that is possible, and then moving on | while True: => at = 0\n    while True:
        ;; not found => not (found := [pair for pair in found if pair[1] >= at])
        ;; _, i = min(found) => at = i = found[0][1]
    never merging on the left of the last merge | while True: => at = 0\n    while True:
        ;; not found => not (found := [pair for pair in found if pair[1] >= at]) ;; _, i = => _, at = _, i =
    merging the pair at the first place of its left part, whatever follows there
        | parts[i : i + 2] = => at = parts.index(parts[i])\n        parts[at : at + 2] =
    = the longest tokens that fit, from the left: merge pairs, the lowest rank first | ids = []\nwhile word:
        \n    n = max(n for n in range(1, len(word) + 1) if word[:n] in ranks)
        \n    ids, word = [*ids, ranks[word[:n]]], word[n:]\nreturn ids
    = the longest tokens that fit, from the right: merge pairs, the lowest rank first | ids = []\nwhile word:
        \n    n = min(n for n in range(len(word)) if word[n:] in ranks)
        \n    ids, word = [ranks[word[n:]], *ids], word[:n]\nreturn ids
    = as few tokens as possible: the order of the merges decides | best = [[]]\nfor end in range(1, len(word) + 1):
        \n    ways = (best[n] + [ranks[word[n:end]]] for n in range(end) if word[n:end] in ranks)
        \n    best.append(min(ways, key=len))\nreturn best[-1]
    after one merge: go on until no pair makes a token | not found => not found or len(parts) < len(word)
    with an end where the next pair is the first of the word | not found => not found or not min(found)[1]
    = the bytes' own numbers: ranks holds the id of each | return list(word)
    = the tokens: return their ids, ranks[token] | [ranks[part] for part in parts] => parts
    with the own number of a byte that stays alone | [ranks[part] for => [ranks[part] if part[1:] else part[0] for
    without the id 0, which is an id like any other | for part in parts] => for part in parts if ranks[part]]
"""

DECODE = r"""
    with each token decoded by itself: join the bytes first | tokens[i] => tokens[i].decode(errors="replace").encode()
    with each token decoded by itself, without halves | tokens[i] => tokens[i].decode(errors="ignore").encode()
    without the bytes that are not valid UTF-8: put U+FFFD in their place | "replace" => "ignore"
    with bytes that are not valid UTF-8 spelled out: put U+FFFD in their place | "replace" => "backslashreplace"
    with a U+FFFD for each byte that is not valid UTF-8: the first bytes of a character make one, together
        | "replace") => "surrogateescape").translate(dict.fromkeys(range(0xDC80, 0xDD00), "\ufffd"))
    with the characters of their numbers (Latin-1) for bytes that are not valid UTF-8: put U+FFFD there
        | "replace") => "surrogateescape").translate({k: k - 0xDC00 for k in range(0xDC80, 0xDD00)})
    as one U+FFFD where a byte is not valid UTF-8: only such bytes become U+FFFD | return b" => text = b"
        ;; "replace") => "replace")\n    return "\ufffd" if "\ufffd" in text else text
    read as Latin-1 where a byte is not valid UTF-8: only such bytes become U+FFFD | return b" => raw = b"
        ;; .decode… => \n    return raw.decode("latin-1" if "\ufffd" in raw.decode(errors="replace") else "utf-8")
    up to the first bytes that are not valid UTF-8: the rest follows | "replace") => "replace").split("\ufffd")[0]
    with U+FFFD for the first bytes alone that are not valid UTF-8: the others become U+FFFD, too
        | "replace") => "replace").replace("\ufffd", "\1", 1).replace("\ufffd", "").replace("\1", "\ufffd")
    without the first part of a character at the end of the text: it is U+FFFD, too | .decode… => )
        ;; return b" => import codecs\n    return codecs.getincrementaldecoder("utf-8")("replace").decode(b"
    without what is held back until it is valid UTF-8 with what follows: at the end, it becomes U+FFFD
        | text, held = "", b""\nfor i in ids:\n    held += tokens[i]\n    whole = held.decode("utf-8", "replace")
        \n    text, held = (text, held) if "\ufffd" in whole else (text + whole, b"")\nreturn text
    without the last bytes, up to three, where the rest is valid UTF-8: they become U+FFFD | return b" => raw = b"
        ;; .decode… => \n    texts = [raw[: max(len(raw) - n, 0)].decode(errors="replace") for n in range(4)]
        \n    return next((text for text in texts if "\ufffd" not in text), texts[0])
    = the bytes read as Latin-1, one character each: they are UTF-8 | "utf-8" => "latin-1"
    = the bytes read as ASCII: they are UTF-8 | "utf-8" => "ascii"
    = the bytes as Python prints them: decode them | return str(b"".join(tokens[i] for i in ids))
    = the characters whose numbers the ids are: look up the tokens | return "".join(map(chr, ids))
    with a space between the tokens: a space that belongs there is in a token | b"" => b" "
    with an id below 256 taken for the byte itself | tokens[i] for i => bytes([i]) if i < 256 else tokens[i] for i
    without the id 0, which is an id like any other | in ids => in ids if i
    without the id 50256, which is an id like any other | in ids => in ids if i != 50256
    with the tokens in the order of the table, each once, not in that of the ids | in ids => in sorted(set(ids))
    without U+FEFF at the beginning: it belongs to the text | "utf-8" => "utf-8-sig"
    without byte 0 at the end of a token | tokens[i] for => tokens[i].rstrip(b"\0") for
"""

NEW = "zip(new, new[1:]):\\n                pairs[left + right] +="  # how often the pairs of a merge are counted
WHERE = "counts[i]\\n                where[left + right].add(i)"
GONE = "learned[token] = None => learned[token] = None\\n        del pairs[token] ;; pop(token) => pop(token, ())"
KEPT = "p: n for p, n in pairs.items() if n > 0 and p not in [*learned][-1:]"
TRAIN = rf"""
    with the last of equally frequent pairs, not the one that sorts first | min(pair => max(pair
    with pairs still counted that a merge took apart, and the others of the word counted once more
        | zip(words[i], words[i][1:]) => () ;; {GONE}
    without the pairs that a merge brings together | {NEW} => {NEW} 0 *
        ;; while len(learned) < num_merges => while len(learned) < num_merges and max(pairs.values(), default=0) > 0
    without the words that gained a pair by a merge | {NEW} {WHERE} => {NEW} counts[i]
        ;; highest = => pairs = Counter({{{KEPT}}})\n        highest = ;; pop(token) => pop(token, ())
    with only the first word merged that holds a pair
        | {NEW} {WHERE} => {NEW} counts[i]\n                where.setdefault(left + right, {{i}}) ;; {GONE}
        ;; counts[i]\n            where[left + right].add(i)
        => counts[i]\n            where.setdefault(left + right, {{i}})
    with each word merged from right to left: in a a a, the first two become aa | given_merge(words[i], token)
        => [part[::-1] for part in given_merge([part[::-1] for part in words[i][::-1]], token[::-1])][::-1]
    with each distinct word counted once: a pair counts as often as its word occurs
        | words, pairs => counts = [1] * len(words)\n    words, pairs
    with a merge that adds pairs once for each word, and not as often as it occurs | {NEW} counts[i] => {NEW} 1
    with a merge that subtracts and adds pairs as often as the last word occurs
        | {NEW} counts[i] => {NEW} counts[-1] ;; -= counts[i] => -= counts[-1] ;; {GONE}
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
