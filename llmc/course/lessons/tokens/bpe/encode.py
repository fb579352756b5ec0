"""Encoding a word: the lowest rank first, what known mistakes give instead, and what the check says about them."""

import math
from contextlib import contextmanager
from itertools import permutations

from llmc.course.lessons.tokens.bpe.step import count_pairs, merge, most_frequent
from llmc.course.lessons.tokens.bpe.telling import BYTES, Small, draw_letters, explain, row, telling_cases
from llmc.course.old.checks.explain import describe

# where to look; a test holds this title against the headings of notebooks/08_tokens.ipynb
ENCODE = 'lesson 08, section "4.2 · Encode: the lowest rank first"'

WITHOUT_0 = "the id 0 is left out: it is an id like any other"


@contextmanager
def keys_told(cases):
    """Around calls of encode_word with these cases: a KeyError says how its key, which is not in `ranks`, was made."""
    try:
        yield
    except KeyError as error:
        key = error.args[0] if error.args else None
        if isinstance(key, int) and 0 <= key < 256:
            error.add_note(f"    {key} is a number: the keys of ranks are bytes")
        elif isinstance(key, str):
            error.add_note("    this key is a str: the keys of ranks are bytes, because half a character is no text")
        elif key == b"\xef\xbf\xbd":
            error.add_note("    this key is U+FFFD, which decoding puts where bytes are not UTF-8")
        elif key is not None and key in [_without_looking_again(*case) for case in cases]:
            error.add_note(
                "    such a part is made if the pair on the left of a merge keeps the rank that it had: "
                "its right part is another one now"
            )
        elif isinstance(key, bytes) and key in (two := {chr(b).encode(): b for b in range(128, 256)}):
            error.add_note(f"    {key!r} is character {two[key]} in UTF-8, two bytes")
        raise


def train(words, counts, num_merges) -> list[bytes]:
    """The tokens learned, with all pairs counted again before each merge; fewer when the words allow no more."""
    learned = []
    while len(learned) < num_merges and (pairs := count_pairs(words, counts)):
        token = most_frequent(pairs)
        words = [merge(word, token) for word in words]
        if token not in learned:
            learned.append(token)
    return learned


def encode_word(word, ranks) -> list[int]:
    """Merge the pair whose token has the lowest rank, the left one of two equals, until no pair makes a token."""
    return _encode(word, ranks, lambda rank, i, parts: (rank, i))


def _encode(word, ranks, order, most=10**6, end=None, seen=list, left=0, gone=(0, 2)):
    """Merge the pair that comes first in this order of (rank, place, parts), until none is left.

    end: up to which part pairs are looked at. seen: which of the [(rank, place)] found, from the left, are compared.
    left: of how many parts nothing is merged any more. gone: in which places, from the pair's first, the token goes.
    """
    parts = [bytes([b]) for b in word]
    for _ in range(most):
        neighbours = zip(parts[:end], parts[1:end])
        found = seen([(ranks[a + b], i) for i, (a, b) in enumerate(neighbours) if a + b in ranks])
        if not found or len(parts) <= left:
            break
        i = min(found, key=lambda pair: order(*pair, parts))[1]
        parts[i + gone[0] : i + gone[1]] = [parts[i] + parts[i + 1]]
    return [ranks[part] for part in parts]


def _at_the_left_part(word, ranks):
    """As parts.index(left) finds it: another part than the right one may follow there."""
    parts = _bytes(word)
    while found := [(ranks[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ranks]:
        _, i = min(found)
        first, token = parts.index(parts[i]), parts[i] + parts[i + 1]
        parts[first : first + 2] = [token]
    return [ranks[part] for part in parts]


def _without_looking_again(word, ranks):
    """A part that is no token, made because the pair on a merge's left keeps the rank that it had; None if none is."""
    parts = _bytes(word)
    found = [ranks.get(a + b, math.inf) for a, b in zip(parts, parts[1:])]  # of each pair
    while found and min(found) < math.inf:
        i = found.index(min(found))
        parts[i : i + 2] = [b"".join(parts[i : i + 2])]
        found[i : i + 2] = [ranks.get(b"".join(parts[i : i + 2]), math.inf)] if i + 1 < len(parts) else []
    return next((part for part in parts if part not in ranks), None)


def _in_place_of(*gone):
    return lambda word, ranks: _encode(word, ranks, lambda rank, i, parts: (rank, i), gone=gone)


def _bytes(word):
    return [bytes([b]) for b in word]


def _numbers_of_bytes(word, ranks):
    single = {ranks[byte]: byte[0] for byte in BYTES}  # {id: number}
    return [single.get(i, i) for i in encode_word(word, ranks)]


def _longest_first(word, ranks):
    ids = []
    while word:
        n = next(n for n in range(len(word), 0, -1) if word[:n] in ranks)
        ids.append(ranks[word[:n]])
        word = word[n:]
    return ids


def _longest_last(word, ranks):
    ids = []
    while word:
        n = next(n for n in range(len(word)) if word[n:] in ranks)
        ids.insert(0, ranks[word[n:]])
        word = word[:n]
    return ids


def _place_by_place(word, ranks):
    parts, i = _bytes(word), 0
    while i < len(parts) - 1:
        if parts[i] + parts[i + 1] in ranks:
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
        else:
            i += 1
    return [ranks[part] for part in parts]


def _round_by_round(word, ranks):
    """Of the pairs that there are, the lowest rank first, all that do not overlap; then the same again."""
    parts = _bytes(word)
    while found := sorted((ranks[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ranks):
        begins = []
        for _, i in found:
            begins += [i] if not {i - 1, i, i + 1} & {*begins} else []
        for i in sorted(begins, reverse=True):
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return [ranks[part] for part in parts]


def _fewest(word, ranks):
    """As few tokens as possible; of equally short ways, the one found first."""
    best = [[]]
    for end in range(1, len(word) + 1):
        best.append(min((best[n] + [ranks[word[n:end]]] for n in range(end) if word[n:end] in ranks), key=len))
    return best[-1]


def _while_falling(found):
    """The pairs from the left, up to the first one that has no lower rank than the one before."""
    ends = (k for k in range(1, len(found)) if found[k][0] >= found[k - 1][0])
    return found[: next(ends, len(found))]


def _without_the_last(word, ranks):
    """All places of a rank at once, in a loop that ends before the last part: it is lost unless it was merged."""
    parts = _bytes(word)
    while found := {a + b for a, b in zip(parts, parts[1:])} & ranks.keys():
        merged = merge(parts, min(found, key=ranks.get))
        parts = merged[:-1] if merged[-1] == parts[-1] else merged
    return [ranks[part] for part in parts]


def encode_mistakes() -> dict:
    """{sentence: encode_word}."""
    return {
        "you stopped looking where the rank rises: further right there may be a lower one, so look at the whole word": (
            lambda word, ranks: _encode(word, ranks, lambda rank, i, parts: (rank, i), seen=_while_falling)
        ),
        "the last two parts of the word were never looked at: n parts have n - 1 pairs": (
            lambda word, ranks: _encode(word, ranks, lambda rank, i, parts: (rank, i), end=-1)
        ),
        "you compared the ranks of the left parts: the rank of the token that the pair makes, ranks[a + b], decides": (
            lambda word, ranks: _encode(word, ranks, lambda rank, i, parts: (ranks[parts[i]], i))
        ),
        "you compared the ranks of the right parts: the rank of the token that the pair makes, ranks[a + b], decides": (
            lambda word, ranks: _encode(word, ranks, lambda rank, i, parts: (ranks[parts[i + 1]], i))
        ),
        "you compared the ranks of both parts, the left one first: the rank of the token that they make, ranks[a + b], "
        "decides": lambda word, ranks: _encode(
            word, ranks, lambda rank, i, parts: (ranks[parts[i]], ranks[parts[i + 1]], i)
        ),
        "you added up the ranks of the two parts: the rank of the token that they make, ranks[a + b], decides": (
            lambda word, ranks: _encode(word, ranks, lambda rank, i, parts: (ranks[parts[i]] + ranks[parts[i + 1]], i))
        ),
        "in each round of merges the last part is lost, unless it is merged: without a right neighbour it stays": (
            _without_the_last
        ),
        "you took the tokens in the order in which the dictionary holds them: the lowest rank comes first": (
            lambda word, ranks: _one_by_one(word, ranks, ranks)
        ),
        "you took the token that stands first in the dictionary: the lowest rank comes first": (
            lambda word, ranks: _encode(
                word, ranks, lambda rank, i, parts: ([*ranks].index(parts[i] + parts[i + 1]), i)
            )
        ),
        "you took the longest token that fits, from the left: merge pairs, the lowest rank first": _longest_first,
        "you took the longest token that fits, from the right: merge pairs, the lowest rank first": _longest_last,
        "you merged whatever can be merged from left to right: look for the lowest rank in the whole word": (
            lambda word, ranks: _encode(word, ranks, lambda rank, i, parts: i)
        ),
        "you merged at one place as long as you could and then moved on: look for the lowest rank in the whole word": (
            _place_by_place
        ),
        "you merged several pairs before you looked again: a pair with the token just made may have a lower rank": (
            _round_by_round
        ),
        "you merged from right to left: look for the lowest rank in the whole word": (
            lambda word, ranks: _encode(word, ranks, lambda rank, i, parts: -i)
        ),
        "you merged the highest rank first: the lowest was learned first": (
            lambda word, ranks: _encode(word, ranks, lambda rank, i, parts: (-rank, i))
        ),
        "the right pair was merged, but at the first place of its left part, whatever follows there: look for both": (
            _at_the_left_part
        ),
        "of two places with the same rank you merged the right one: take the left one": (
            lambda word, ranks: _encode(word, ranks, lambda rank, i, parts: (rank, -i))
        ),
        "you looked for as few tokens as possible: the order of the merges decides, not the number of tokens": _fewest,
        "you stopped when two parts were left: these two may make a token, too": (
            lambda word, ranks: _encode(word, ranks, lambda rank, i, parts: (rank, i), left=2)
        ),
        "you compared the bytes of the tokens: their ranks decide, ranks[a + b]": (
            lambda word, ranks: _encode(word, ranks, lambda rank, i, parts: (parts[i] + parts[i + 1], i))
        ),
        "you stopped after one merge: go on until no pair makes a token": (
            lambda word, ranks: _encode(word, ranks, lambda rank, i, parts: (rank, i), most=1)
        ),
        "a merged token took the place of its left part alone: the right part must go, too": _in_place_of(0, 1),
        "a merged token took the place of its right part alone: the left part must go, too": _in_place_of(1, 2),
        "a merged token took the place of three parts: it is made of two": _in_place_of(0, 3),
        "nothing was merged: these are the ids of the single bytes": lambda word, ranks: [
            ranks[b] for b in _bytes(word)
        ],
        "nothing was merged: these are the bytes' own numbers, and ranks holds the id of each": lambda word, ranks: (
            list(word)
        ),
        "a byte that stayed alone became its own number: its id is in ranks, too": _numbers_of_bytes,
    }


def sweep(word, ranks, again):
    """Ways that are right as well: all places of a rank at once; or each token once, in the order of the ranks."""
    if again:
        parts = _bytes(word)
        while found := [ranks[a + b] for a, b in zip(parts, parts[1:]) if a + b in ranks]:
            token = next(token for token, rank in ranks.items() if rank == min(found))
            parts = merge(parts, token)
        return [ranks[part] for part in parts]
    return _one_by_one(word, ranks, sorted(ranks, key=ranks.get))


def _one_by_one(word, ranks, tokens):
    """Make each token once, wherever it fits, in this order."""
    parts = _bytes(word)
    for token in tokens:
        parts = merge(parts, token) if len(token) > 1 else parts
    return [ranks[part] for part in parts]


def draw_ranks(rng):
    """(letters, ranks): ranks learned from random words over these letters."""
    letters = draw_letters(rng, int(rng.integers(2, 6)))
    drawn = [b"".join(rng.choice(letters, int(rng.integers(2, 12)))) for _ in range(12)]
    words = [[bytes([b]) for b in word] for word in drawn]
    learned = train(words, rng.integers(1, 9, 12).tolist(), 24)
    ids = [*rng.permutation(256).tolist(), *range(256, 256 + len(learned))]  # GPT-2's bytes are not in order either
    pairs = list(zip([*BYTES, *learned], ids))
    return letters, {token: rank for token, rank in (pairs[k] for k in rng.permutation(len(pairs)))}  # in any order


def draw_word(rng, known=None):
    """(word, ranks): a random word and ranks learned from others over the same letters; known: (letters, ranks)."""
    letters, ranks = known or draw_ranks(rng)
    word = b"".join(rng.choice(letters, int(rng.integers(4, 13))))
    right = encode_word(word, ranks)
    return (word, ranks) if _agreed(word, ranks, right) else draw_word(rng)


def drawn_in_fours():
    """A draw_word that learns ranks for every fourth word only, because that is what takes the time."""
    left = []

    def draw(rng):
        if not left:
            left.extend([draw_ranks(rng)] * 4)
        return draw_word(rng, left.pop())

    return draw


def _agreed(word, ranks, right) -> bool:
    """Do all right ways to encode, tiktoken's among them, give the same?"""
    same = sweep(word, ranks, True) == sweep(word, ranks, False) == right
    return same and (word not in ranks or len(right) == 1)


def _with_fewer_ranks(word, ranks):
    """The same word with some of the last tokens taken away, so that its ids change; None if that is not possible."""
    for last in range(max(ranks.values()) - 1, 256, -1):
        fewer = {token: rank for token, rank in ranks.items() if rank <= last}
        ids = encode_word(word, fewer)
        if ids != encode_word(word, ranks) and _agreed(word, fewer, ids):
            return word, fewer
    return None


def encode_cases(rng) -> list:
    """[(word, ranks)] on which every known mistake shows; among them a word twice, an empty word and a single byte."""
    cases = telling_cases(rng, drawn_in_fours(), encode_word, encode_mistakes())
    ranks = cases[0][1]
    again = [case for case in (_with_fewer_ranks(*case) for case in cases) if case][:2]
    ends = next(filter(None, (_at_the_ends(ranks) for _, ranks in cases)))
    return [*cases, *again, (b"", ranks), (b"\xc3", ranks), ("né".encode(), ranks), ends]


def _at_the_ends(ranks):
    """(word, ranks) of ids that are easily left out: 0, 255, 256 and the last one; None if they would be merged."""
    tokens = sorted(ranks, key=ranks.get)
    for order in permutations((0, 255, 256, -1)):
        word = b"".join(tokens[k] for k in (0, *order, 0))
        right = encode_word(word, ranks)
        if {0, 255, 256, len(tokens) - 1} <= {*right} and _agreed(word, ranks, right):
            return word, ranks
    return None


def _shrunk(case):
    """Cases with a byte less in the word, or a learned token less."""
    word, ranks = case
    smaller = [(word[:k] + word[k + 1 :], ranks) for k in range(len(word))]
    learned = [token for token in ranks if len(token) > 1 and token in word]
    smaller += [(word, {token: rank for token, rank in ranks.items() if token != left_out}) for left_out in learned]
    return [case for case in smaller if _agreed(*case, encode_word(*case))]


def _first(word, ranks):
    """[(rank, place)] of the pairs of bytes that can be merged at the beginning."""
    return [(ranks[word[i : i + 2]], i) for i in range(len(word) - 1) if word[i : i + 2] in ranks]


def _parts(word, ranks):
    tokens = {rank: token for token, rank in ranks.items()}
    return [tokens[i] for i in encode_word(word, ranks)]


def _order(word, ranks):
    """Where in the word each merge happens, one after the other, as the number of the byte it begins with."""
    parts, places = [bytes([b]) for b in word], []
    while found := [(ranks[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ranks]:
        i = min(found)[1]
        places.append(len(b"".join(parts[:i])))
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return places


PROPERTIES = {
    "in which nothing can be merged": lambda word, ranks: not _first(word, ranks),
    "in which a merge lies left of the one before it": lambda word, ranks: any(
        b < a for a, b in zip(_order(word, ranks), _order(word, ranks)[1:])
    ),
    "in which each merge lies left of the one before it": lambda word, ranks: (
        _order(word, ranks) == sorted(_order(word, ranks), reverse=True) != _order(word, ranks)[:1]
    ),
    "in which a token is made twice": lambda word, ranks: (
        len({p for p in _parts(word, ranks) if len(p) > 1}) < len([p for p in _parts(word, ranks) if len(p) > 1])
    ),
    "in which a pair of equal bytes overlaps with itself, as aa in a a a,": lambda word, ranks: any(
        word[i] == word[i + 1] == word[i + 2] and word[i : i + 2] in ranks for i in range(len(word) - 2)
    ),
    "in which the same pair stands at several places": lambda word, ranks: (
        len({rank for rank, _ in _first(word, ranks)}) < len(_first(word, ranks))
    ),
    "in which the lowest rank is not that of the first pair that can be merged": lambda word, ranks: (
        bool(_first(word, ranks)) and min(_first(word, ranks)) != _first(word, ranks)[0]
    ),
    "in which a merged part is merged again": lambda word, ranks: any(len(part) > 2 for part in _parts(word, ranks)),
    "in which the last part is a merged one": lambda word, ranks: any(len(p) > 1 for p in _parts(word, ranks)[-1:]),
    "in which the first part is a merged one": lambda word, ranks: any(len(p) > 1 for p in _parts(word, ranks)[:1]),
    "in which the whole word becomes one token": lambda word, ranks: len(_parts(word, ranks)) == 1,
    "in which a byte stays alone": lambda word, ranks: any(len(part) == 1 for part in _parts(word, ranks)),
    "in which something can be merged": lambda word, ranks: bool(_first(word, ranks)),
}


def explain_encodings(cases, results) -> str | None:
    """What is wrong with the results of encode_word; None when all are right."""
    for result in results:
        if isinstance(result, list) and result and all(isinstance(part, bytes) for part in result):
            return "these are tokens: return their ids, ranks[token]"
        if not isinstance(result, list):
            return f"a list of ids is expected, but encode_word returned {describe(result)}"
    small = Small(draw_word, _shrunk, PROPERTIES)
    known = encode_mistakes() | {WITHOUT_0: lambda word, ranks: [i for i in encode_word(word, ranks) if i]}
    return explain(cases, results, encode_word, known, _told_encoding, small, "ids")


def _told_encoding(case, result, right):
    word, ranks = case
    tokens = {rank: token for token, rank in ranks.items()}
    known = {row([token]): ranks[token] for token in sorted(ranks, key=ranks.get) if len(token) > 1 and token in word}
    shown = [tokens.get(i, f"no token {i}") for i in result]
    wanted = [tokens[i] for i in right]
    given = f"with the ranks {known}" if known else "of which ranks has single bytes alone"
    lines = [f"{word!r} {given}: expected {row(wanted)} = {right}, got {row(shown)} = {result}."]
    return "\n".join([*lines, *_bytes_lost(word, [tokens.get(i) for i in result]), f"→ {ENCODE}"])


def _bytes_lost(word, found) -> list[str]:
    """A sentence if the tokens found have more or fewer bytes than the word; found: [bytes, or None]."""
    n = len(word) if None in found else len(b"".join(found))
    told = f"Put together, your tokens have {n} bytes, and the word has {len(word)}"
    return [] if n == len(word) else [f"{told}."]
