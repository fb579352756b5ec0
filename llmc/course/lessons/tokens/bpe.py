"""Lesson 08: byte-pair encoding by the plainest loops, and what each known mistake gives instead.

A wrong answer is often right by chance on a single input. So an exercise is called on many small inputs, and each known
mistake shows on at least one of them. A mistake is named only when it explains everything that was returned.
"""

import os
from collections import Counter
from copy import deepcopy
from pathlib import Path

from llmc.course.checks.explain import describe

# where to look; a test holds these titles against the headings of notebooks/08_tokens.ipynb
BY_HAND = 'lesson 08, section "3.1 · By hand"'
ENCODE = 'lesson 08, section "4.2 · Encode: the lowest rank first"'
DECODE = 'lesson 08, section "4.1 · Decode"'
BYTES = [bytes([b]) for b in range(256)]


def gpt2_encoding():
    """GPT-2's own tokenizer where it is at hand, else None: a file of llm.c's, or tiktoken's cache. No network."""
    import tiktoken

    from llmc.course.machine.equipment import tokens
    from llmc.data import data_home
    from llmc.data.tokenizer import read_tokenizer

    files = [data_home() / "gpt2" / "tokenizer.bin"]
    if os.environ.get("LLMC_REFERENCE_DIR"):
        files.append(Path(os.environ["LLMC_REFERENCE_DIR"], "gpt2_tokenizer.bin"))
    for path in files:
        if path.is_file():
            return read_tokenizer(path)
    return tiktoken.get_encoding("gpt2") if tokens("").status == "ok" else None


def call_all(c, function, cases) -> list:
    """What the learner's function returns for each case, a tuple of arguments. It must not change any of them."""
    results = []
    for case in cases:
        given = deepcopy(case)
        results.append(c.call(function, *given))
        assert given == case, (
            f"{function.__name__} changed one of its arguments: make new lists, and leave the given ones as they are"
        )
    c.calls.clear()  # the explanation shows the call that went wrong, which need not be the last
    return results


def telling_cases(rng, draw, right, mistakes) -> list:
    """Cases on which every mistake differs from what is right, and wherever possible from every other mistake.

    draw(rng): a random case. Of 200 of them, the one that distinguishes most functions comes first, and so on; ten that
    were not chosen for anything come last.
    """
    functions = [right, *mistakes.values()]
    n = len(functions)
    apart, chosen = set(), []  # pairs of functions distinguished so far
    for _ in range(20):  # one or two rounds do, nearly always
        drawn = [draw(rng) for _ in range(200)]
        tells = [_told_apart([repr(function(*case)) for function in functions]) for case in drawn]
        while tells[best := max(range(len(drawn)), key=lambda k: len(tells[k] - apart))] - apart:
            apart |= tells[best]
            chosen.append(drawn[best])
        if len(apart) == n * (n - 1) // 2:
            break
    return [*chosen, *drawn[:10]]


def _told_apart(results) -> set:
    """{(i, j)}: the pairs of results that differ, i < j."""
    n = len(results)
    return {(i, j) for i in range(n) for j in range(i + 1, n) if results[i] != results[j]}


def explain(cases, results, right, mistakes, told) -> str | None:
    """The mistake that explains all results, or else only the first wrong one; None when all are right."""
    wrong = next((k for k, case in enumerate(cases) if results[k] != right(*case)), None)
    if wrong is None:
        return None
    numbers = told(cases[wrong], results[wrong], right(*cases[wrong]))
    for sentence, mistake in mistakes.items():
        if all(results[k] == mistake(*case) for k, case in enumerate(cases)):
            return f"{sentence}.\n{numbers}"
    return numbers


# ------------------------------------------------------------------------------------------------------ one merge


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


def _with_choice(choose):
    """A step that chooses its token otherwise, and merges it as it should."""

    def step(words, counts):
        token = choose(words, counts)
        return token, [merge(word, token) for word in words]

    return step


def _with_merge(merge_otherwise):
    """A step that chooses as it should, and merges otherwise."""

    def step(words, counts):
        token = most_frequent(count_pairs(words, counts))
        return token, merge_otherwise(words, token)

    return step


def _not_overlapping(words, counts):
    """In a a a one pair, in a a a a two."""
    pairs = Counter()
    for word, count in zip(words, counts):
        i, last = 0, None
        for i in range(len(word) - 1):
            pair = word[i] + word[i + 1]
            if last == (i - 1, pair):
                continue
            pairs[pair] += count
            last = (i, pair)
    return most_frequent(pairs)


def _once_a_word(words, counts):
    pairs = Counter()
    for word, count in zip(words, counts):
        for pair in {left + right for left, right in zip(word, word[1:])}:
            pairs[pair] += count
    return most_frequent(pairs)


def _of_two_parts(words, counts):
    return b"".join(most_frequent(count_pairs(words, counts, key=lambda left, right: (left, right))))


def _across_words(words, counts):
    """One long list of all words, each as often as it occurs."""
    row = [token for word, count in zip(words, counts) for _ in range(count) for token in word]
    return most_frequent(count_pairs([row], [1]))


def _from_the_right(word, token):
    turned = merge([part[::-1] for part in word[::-1]], token[::-1])
    return [part[::-1] for part in turned[::-1]]


def _first_only(word, token):
    at = next((i for i in range(len(word) - 1) if word[i] + word[i + 1] == token), None)
    return list(word) if at is None else [*word[:at], token, *word[at + 2 :]]


def _by_ones(word, token):
    """Goes on by one after a merge: a a a becomes aa aa."""
    merged, i = [], 0
    while i < len(word):
        fits = i + 1 < len(word) and word[i] + word[i + 1] == token
        merged.append(token if fits else word[i])
        i += 1
        if fits and not (i + 1 < len(word) and word[i] + word[i + 1] == token):
            i += 1
    return merged


def _one_split(words, token):
    """Merges only one of the ways in which the token can be put together."""
    pairs = Counter()
    for word in words:
        pairs.update((a, b) for a, b in zip(word, word[1:]) if a + b == token)
    left, right = max(pairs, key=lambda pair: (pairs[pair], pair))
    merged = []
    for word in words:
        new, i = [], 0
        while i < len(word):
            both = i + 1 < len(word) and (word[i], word[i + 1]) == (left, right)
            new.append(token if both else word[i])
            i += 1 + both
        merged.append(new)
    return merged


def step_mistakes() -> dict:
    """{sentence: step}."""
    ones = lambda words: [1] * len(words)  # noqa: E731
    return {
        "each distinct word was counted once: a pair counts as often as its word occurs": _with_choice(
            lambda words, counts: most_frequent(count_pairs(words, ones(words)))
        ),
        "among equally frequent pairs you took the one that sorts last: take the one that sorts first": (
            _with_choice(lambda words, counts: (p := count_pairs(words, counts)) and max(p, key=lambda k: (p[k], k)))
        ),
        "among equally frequent pairs you took the one that was met first: take the one that sorts first": (
            _with_choice(lambda words, counts: (p := count_pairs(words, counts)) and max(p, key=p.get))
        ),
        "the rarest pair was chosen: choose the most frequent one": _with_choice(
            lambda words, counts: (p := count_pairs(words, counts)) and min(p, key=lambda k: (p[k], k))
        ),
        "(a, bc) and (ab, c) were counted separately: a pair is identified by its bytes together": _with_choice(
            _of_two_parts
        ),
        "pairs were counted across the border between two words: count inside each word": _with_choice(_across_words),
        "pairs that overlap were skipped: a a a holds the pair aa twice": _with_choice(_not_overlapping),
        "a pair that occurs twice in a word was counted once there": _with_choice(_once_a_word),
        "the longest pair was chosen: choose the most frequent one": _with_choice(
            lambda words, counts: min(count_pairs(words, counts), key=lambda k: (-len(k), k))
        ),
        "the words were left as they were: put the token in place of its two halves": _with_merge(
            lambda words, token: [list(word) for word in words]
        ),
        "only the first place in each word was merged": _with_merge(
            lambda words, token: [_first_only(word, token) for word in words]
        ),
        "merging went from right to left: in a a a, the first two become aa": _with_merge(
            lambda words, token: [_from_the_right(word, token) for word in words]
        ),
        "after a merge the second half was used again: a a a became aa aa. Move on by two": _with_merge(
            lambda words, token: [_by_ones(word, token) for word in words]
        ),
        "the token was merged from one pair of halves only: (a, bc) and (ab, c) both make abc": _with_merge(_one_split),
        "the last token of each word is lost where it is not merged": _with_merge(
            lambda words, token: [_without_end(word, token) for word in words]
        ),
        "every word has become one piece: join only the two halves of the new token": _with_merge(
            lambda words, token: [[b"".join(word)] for word in words]
        ),
    }


def _without_end(word, token):
    """A loop over range(len(word) - 1) never reaches a last token that is not merged."""
    merged = merge(word, token)
    ends_merged = len(word) > 1 and merged[-1] == token and word[-1] != token
    return merged if ends_merged else merged[:-1]


def draw_words(rng):
    """(words, counts): a few distinct words over two or three letters, some with tokens that were made already."""
    if rng.random() < 0.2:
        return _draw_two_ways(rng)
    letters = _draw_letters(rng, int(rng.integers(2, 4)))
    drawn = {b"".join(rng.choice(letters, int(rng.integers(1, 7)))) for _ in range(int(rng.integers(3, 6)))}
    words = [[bytes([b]) for b in word] for word in sorted(drawn, key=lambda _: rng.random())]
    for _ in range(int(rng.integers(0, 3))):  # some tokens, any, exist already
        pairs = sorted(count_pairs(words, [1] * len(words)))
        if len(pairs) > 3:
            token = pairs[int(rng.integers(len(pairs)))]
            words = [merge(word, token) for word in words]
    counts = rng.integers(1, 5, len(words)).tolist()
    return (words, counts) if count_pairs(words, counts) else draw_words(rng)


def _draw_two_ways(rng):
    """Words in which the most frequent pair comes as (a, bc) and as (ab, c), each alone rarer than another pair."""
    a, b, c, d, e = _draw_letters(rng, 5)
    words, counts = [[a, b + c], [e, a + b, c], [d, e]], [3, 2, 4]
    order = rng.permutation(3)
    return [words[k] for k in order], [counts[k] for k in order]


def _draw_letters(rng, n):
    return [bytes([b]) for b in rng.choice(range(97, 123), n, replace=False)]


def step_cases(rng) -> list:
    """[(words, counts)] on which every known mistake shows."""
    return telling_cases(rng, draw_words, bpe_step, step_mistakes())


def explain_steps(cases, results) -> str | None:
    """What is wrong with the results of bpe_step, as a sentence and an example; None when all are right."""
    for result in results:
        if not (isinstance(result, tuple | list) and len(result) == 2):
            return f"two things are expected, `return token, merged`, but bpe_step returned {describe(result)}"
        token, merged = result
        if isinstance(token, tuple) and all(isinstance(part, bytes) for part in token):
            return f"token is the pair {token!r}: join the two, left + right"
        if not isinstance(token, bytes):
            return f"token should be bytes like b'th', but is {describe(token)}"
        if not (isinstance(merged, list) and all(isinstance(word, list) for word in merged)):
            return "merged should be a list of words, each a list of tokens (bytes), in the order of the given words"
    results = [tuple(result) for result in results]
    return explain(cases, results, bpe_step, step_mistakes(), _told_step)


def _told_step(case, result, right):
    (words, counts), (token, merged), (right_token, right_merged) = case, result, right
    shown = "; ".join(f"{count} × {_row(word)}" for word, count in zip(words, counts))
    if token != right_token:
        pairs = count_pairs(words, counts)
        wanted = f"{right_token!r} ({pairs[right_token]} times)"
        return f"Words {shown}: expected token {wanted}, got {token!r} ({pairs.get(token, 0)} times).\n→ {BY_HAND}"
    wrong = next((k for k, word in enumerate(right_merged) if merged[k : k + 1] != [word]), len(right_merged))
    if wrong == len(right_merged):
        return f"Words {shown}: merged has {len(merged)} words, expected {len(right_merged)}.\n→ {BY_HAND}"
    got = _row(merged[wrong]) if wrong < len(merged) else "nothing"
    return f"Merging {token!r} in {_row(words[wrong])}: expected {_row(right_merged[wrong])}, got {got}.\n→ {BY_HAND}"


def _row(word) -> str:
    """ "a bc d": the tokens of a word."""
    return " ".join(
        part.decode("utf-8", "backslashreplace") if isinstance(part, bytes) else repr(part) for part in word
    )


# --------------------------------------------------------------------------------------------------------- encode


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


def _encode(word, ranks, order, most=10**6):
    """Merge the pair that comes first in this order of (rank, place, parts), until none is left."""
    parts = [bytes([b]) for b in word]
    for _ in range(most):
        found = [(ranks[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ranks]
        if not found:
            break
        i = min(found, key=lambda pair: order(*pair, parts))[1]
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return [ranks[part] for part in parts]


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


def _fewest(word, ranks):
    """As few tokens as possible; of equally short ways, the one found first."""
    best = [[]]
    for end in range(1, len(word) + 1):
        best.append(min((best[n] + [ranks[word[n:end]]] for n in range(end) if word[n:end] in ranks), key=len))
    return best[-1]


def encode_mistakes() -> dict:
    """{sentence: encode_word}."""
    return {
        "you took the longest token that fits, from the left: merge pairs, the lowest rank first": _longest_first,
        "you took the longest token that fits, from the right: merge pairs, the lowest rank first": _longest_last,
        "you merged whatever can be merged from left to right: look for the lowest rank in the whole word": (
            lambda word, ranks: _encode(word, ranks, lambda rank, i, parts: i)
        ),
        "you merged from right to left: look for the lowest rank in the whole word": (
            lambda word, ranks: _encode(word, ranks, lambda rank, i, parts: -i)
        ),
        "you merged the highest rank first: the lowest was learned first": (
            lambda word, ranks: _encode(word, ranks, lambda rank, i, parts: (-rank, i))
        ),
        "of two places with the same rank you merged the right one: take the left one": (
            lambda word, ranks: _encode(word, ranks, lambda rank, i, parts: (rank, -i))
        ),
        "you looked for as few tokens as possible: the order of the merges decides, not the number of tokens": _fewest,
        "you stopped after one merge: go on until no pair makes a token": (
            lambda word, ranks: _encode(word, ranks, lambda rank, i, parts: (rank, i), most=1)
        ),
        "nothing was merged: these are the ids of the single bytes": lambda word, ranks: list(word),
    }


def _sweep(word, ranks, again):
    """Ways that are right as well: all places of a rank at once; or each token once, in the order of the ranks."""
    parts = [bytes([b]) for b in word]
    if again:
        while found := [ranks[a + b] for a, b in zip(parts, parts[1:]) if a + b in ranks]:
            token = next(token for token, rank in ranks.items() if rank == min(found))
            parts = merge(parts, token)
    else:
        for token in sorted(ranks, key=ranks.get):
            parts = merge(parts, token) if len(token) > 1 else parts
    return [ranks[part] for part in parts]


def draw_word(rng):
    """(word, ranks): ranks learned from random words, and another word over the same letters."""
    letters = _draw_letters(rng, int(rng.integers(2, 6)))
    drawn = [b"".join(rng.choice(letters, int(rng.integers(2, 12)))) for _ in range(12)]
    words = [[bytes([b]) for b in word] for word in drawn]
    learned = train(words, rng.integers(1, 9, 12).tolist(), 24)
    ranks = {token: rank for rank, token in enumerate([*BYTES, *learned])}
    word = b"".join(rng.choice(letters, int(rng.integers(4, 13))))
    right = encode_word(word, ranks)
    same = _sweep(word, ranks, True) == _sweep(word, ranks, False) == right
    return (word, ranks) if same and (word not in ranks or len(right) == 1) else draw_word(rng)


def encode_cases(rng) -> list:
    """[(word, ranks)] on which every known mistake shows; an empty word and a single byte among them."""
    cases = telling_cases(rng, draw_word, encode_word, encode_mistakes())
    ranks = cases[0][1]
    return [*cases, (b"", ranks), (b"\xc3", ranks), ("né".encode(), ranks)]


def explain_encodings(cases, results) -> str | None:
    """What is wrong with the results of encode_word; None when all are right."""
    for result in results:
        if isinstance(result, list) and result and all(isinstance(part, bytes) for part in result):
            return "these are tokens: return their ids, ranks[token]"
        if not isinstance(result, list):
            return f"a list of ids is expected, but encode_word returned {describe(result)}"
    return explain(cases, results, encode_word, encode_mistakes(), _told_encoding)


def _told_encoding(case, result, right):
    word, ranks = case
    tokens = {rank: token for token, rank in ranks.items()}
    known = {token.decode(): rank for token, rank in ranks.items() if rank > 255 and token in word}
    shown = [tokens.get(i, f"no token {i}") for i in result]
    wanted = [tokens[i] for i in right]
    return (
        f"{word!r} with the ranks {known}: expected {_row(wanted)} = {right}, got {_row(shown)} = {result}.\n→ {ENCODE}"
    )


# --------------------------------------------------------------------------------------------------------- decode

DECODE_TOKENS = [*BYTES, b"caf", b"\xc3\xa9", b"\xa9s ", "日本".encode(), b" \xe6\x97", b"\xa5!", "ß".encode()]


def decode(ids, tokens) -> str:
    """All bytes together, then UTF-8."""
    return b"".join(tokens[i] for i in ids).decode("utf-8", errors="replace")


def decode_mistakes() -> dict:
    """{sentence: decode}."""
    joined = lambda ids, tokens: b"".join(tokens[i] for i in ids)  # noqa: E731
    return {
        "each token was decoded by itself: a token may hold half a character, so join the bytes first": (
            lambda ids, tokens: "".join(tokens[i].decode("utf-8", errors="replace") for i in ids)
        ),
        "each token was decoded by itself, and halves of characters were left out: join the bytes first": (
            lambda ids, tokens: "".join(tokens[i].decode("utf-8", errors="ignore") for i in ids)
        ),
        "bytes that are not valid UTF-8 were left out (errors='ignore'): put U+FFFD in their place": (
            lambda ids, tokens: joined(ids, tokens).decode("utf-8", errors="ignore")
        ),
        "bytes that are not valid UTF-8 were spelled out (errors='backslashreplace'): put U+FFFD in their place": (
            lambda ids, tokens: joined(ids, tokens).decode("utf-8", errors="backslashreplace")
        ),
        "bytes that are not valid UTF-8 became surrogates (errors='surrogateescape'): put U+FFFD in their place": (
            lambda ids, tokens: joined(ids, tokens).decode("utf-8", errors="surrogateescape")
        ),
        "the bytes were read as Latin-1, one character each: they are UTF-8": (
            lambda ids, tokens: joined(ids, tokens).decode("latin-1")
        ),
        "the bytes were read as ASCII: they are UTF-8": (
            lambda ids, tokens: joined(ids, tokens).decode("ascii", errors="replace")
        ),
        "a space was put between the tokens: a space that belongs there is already in a token": (
            lambda ids, tokens: b" ".join(tokens[i] for i in ids).decode("utf-8", errors="replace")
        ),
        "this is how Python prints bytes, not the text: decode them": lambda ids, tokens: str(joined(ids, tokens)),
        "each id was taken for the number of a character: look up its token": (
            lambda ids, tokens: "".join(map(chr, ids))
        ),
    }


def draw_ids(rng):
    """(ids, tokens): whole and half characters in random order."""
    favourites = [99, 32, 195, 169, 230, *range(256, len(DECODE_TOKENS))]
    return rng.choice(favourites, int(rng.integers(3, 9))).tolist(), DECODE_TOKENS


def decode_cases(rng) -> list:
    """[(ids, tokens)] on which every known mistake shows; no ids at all among them."""
    return [*telling_cases(rng, draw_ids, decode, decode_mistakes()), ([], DECODE_TOKENS)]


def explain_decodings(cases, results) -> str | None:
    """What is wrong with the results of decode; None when all are right."""
    for result in results:
        if isinstance(result, bytes | bytearray):
            return "these are bytes: decode them to text (str)"
        if not isinstance(result, str):
            return f"text (str) is expected, but decode returned {describe(result)}"
    return explain(cases, results, decode, decode_mistakes(), _told_text)


def _told_text(case, result, right):
    ids, tokens = case
    return f"ids {ids} are the tokens {[tokens[i] for i in ids]}: expected {right!r}, got {result!r}.\n→ {DECODE}"
