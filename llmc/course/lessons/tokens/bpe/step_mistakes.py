"""One merge as each known mistake makes it."""

from collections import Counter

from llmc.course.lessons.tokens.bpe.step import count_pairs, merge, most_frequent


def step_mistakes() -> dict:
    """{sentence: step}: a wrong choice, or a wrong merge of the right choice."""
    chosen = {sentence: _with_choice(choose) for sentence, choose in wrong_choices().items()}
    return chosen | {sentence: _with_merge(merge) for sentence, merge in _wrong_merges().items()}


def wrong_choices() -> dict:
    """{sentence: function of (words, counts) that returns a token}."""
    ones = lambda words: [1] * len(words)  # noqa: E731
    return {
        "each distinct word was counted once: a pair counts as often as its word occurs": (
            lambda words, counts: most_frequent(count_pairs(words, ones(words)))
        ),
        "among equally frequent pairs you took the one that sorts last: take the one that sorts first": (
            lambda words, counts: (p := count_pairs(words, counts)) and max(p, key=lambda k: (p[k], k))
        ),
        "among equally frequent pairs you took the one that was met first: take the one that sorts first": (
            lambda words, counts: (p := count_pairs(words, counts)) and max(p, key=p.get)
        ),
        "among equally frequent pairs you took the shortest: take the one whose bytes sort first, of whatever length": (
            lambda words, counts: (p := count_pairs(words, counts)) and min(p, key=lambda k: (-p[k], len(k), k))
        ),
        "among equally frequent pairs you took the longest: take the one whose bytes sort first, of whatever length": (
            lambda words, counts: (p := count_pairs(words, counts)) and min(p, key=lambda k: (-p[k], -len(k), k))
        ),
        "among equally frequent pairs you took the one whose printed text sorts first, as str or repr gives it: compare"
        " the bytes themselves": (
            lambda words, counts: (p := count_pairs(words, counts)) and min(p, key=lambda k: (-p[k], str(k)))
        ),
        "the pair with the largest count times length was chosen: take the one that occurs most often": (
            lambda words, counts: (p := count_pairs(words, counts)) and min(p, key=lambda k: (-p[k] * len(k), k))
        ),
        "only every second pair was counted: the second token of a pair is also the first of the next": (
            lambda words, counts: most_frequent(_every_second(words, counts))
        ),
        "the rarest pair was chosen: choose the most frequent one": (
            lambda words, counts: (p := count_pairs(words, counts)) and min(p, key=lambda k: (p[k], k))
        ),
        "(a, bc) and (ab, c) were counted separately: a pair is identified by its bytes together": _of_two_parts,
        "pairs were counted across the border between two words: count inside each word": _across_words,
        "the last token of a word and the first one of the next were counted as a pair: count inside each word": (
            _with_borders
        ),
        "pairs that overlap were skipped: a a a holds the pair aa twice": _not_overlapping,
        "behind a pair of two equal tokens the next pair was skipped: b b a holds the pair ba, too": _past_equal_ones,
        "a pair was looked for in the bytes of the joined word, where tokens have no borders: compare neighbouring "
        "tokens": _in_the_text,
        "a pair that occurs twice in a word was counted once there": _once_a_word,
        "the last pair of each word was not counted: a word of n tokens has n - 1 pairs": (
            lambda words, counts: most_frequent(_counted(words, counts, slice(None, -1)))
        ),
        "the first pair of each word was not counted: a word of n tokens has n - 1 pairs": (
            lambda words, counts: most_frequent(_counted(words, counts, slice(1, None)))
        ),
        "a pair was counted as often as the most frequent word that holds it: add up all words, and all places": (
            lambda words, counts: most_frequent(_of_one_word(words, counts))
        ),
        "the longest pair was chosen: choose the most frequent one": (
            lambda words, counts: min(count_pairs(words, counts), key=lambda k: (-len(k), k))
        ),
    }


def _wrong_merges() -> dict:
    """{sentence: function of (words, token) that returns words}."""
    return {
        "the words were left as they were": (lambda words, token: [list(word) for word in words]),
        "only the first place in each word was merged": (
            lambda words, token: [_first_only(word, token) for word in words]
        ),
        "merging went from right to left: in a a a, the first two become aa": (
            lambda words, token: [_from_the_right(word, token) for word in words]
        ),
        "after a merge the second half was used again: a a a became aa aa": (
            lambda words, token: [_by_ones(word, token) for word in words]
        ),
        "after a merge the second half stays behind the new token: a b c became ab b c": (
            lambda words, token: [_half_stays(word, token) for word in words]
        ),
        "the token was merged from one pair of halves only: (a, bc) and (ab, c) both make abc": _one_split(
            lambda pairs: max(pairs, key=lambda pair: (pairs[pair], pair))
        ),
        "the token was merged only where its left half is one byte: any two neighbours that make it up are merged": (
            lambda words, token: [_joined(word, token[:1], token[1:]) for word in words]
        ),
        "the token was merged only from the pair that was met first: (a, bc) and (ab, c) both make abc": _one_split(
            lambda pairs: next(iter(pairs))
        ),
        "the last token of each word is lost where it is not merged": (
            lambda words, token: [_without_end(word, token) for word in words]
        ),
        "tokens were merged that only end or begin with a half of the new one: both must be its halves, whole": (
            lambda words, token: [_by_text(word, token) for word in words]
        ),
        "three tokens or more were merged where their bytes make up the new one: merge two neighbours": (
            lambda words, token: [_runs(word, token) for word in words]
        ),
        "every word has become one piece: join only the two halves of the new token": (
            lambda words, token: [[b"".join(word)] for word in words]
        ),
        "tokens that were made before were cut into bytes again: keep them, and join only the halves of the new one": (
            lambda words, token: [_from_bytes(word, token) for word in words]
        ),
    }


def _runs(word, token):
    """Joins as many neighbours as make up the token."""
    merged, i = [], 0
    while i < len(word):
        ends = (end for end in range(i + 2, len(word) + 1) if b"".join(word[i:end]) == token)
        end = next(ends, i + 1)
        merged.append(b"".join(word[i:end]))
        i = end
    return merged


def _from_bytes(word, token):
    """Searches the word's text for the token's: a token that was made before is lost."""
    pieces = b"".join(word).split(token)
    merged = [[bytes([b]) for b in piece] + [token] for piece in pieces]
    return [part for piece in merged for part in piece][:-1]


def _by_text(word, token):
    """Removes the border wherever the bytes on both sides of it make up the token, whatever else stands beside them."""
    merged = list(word[:1])
    for part in word[1:]:
        cuts = range(1, len(token))
        if any(merged[-1].endswith(token[:cut]) and part.startswith(token[cut:]) for cut in cuts):
            merged[-1] += part
        else:
            merged.append(part)
    return merged


def _without_end(word, token):
    """A loop over range(len(word) - 1) never reaches a last token that is not merged."""
    merged = merge(word, token)
    ends_merged = len(word) > 1 and merged[-1] == token and word[-1] != token
    return merged if ends_merged else merged[:-1]


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


def _in_the_text(words, counts):
    """As bytes.count counts: also where the bytes are parts of other tokens, and no two places that overlap."""
    texts = [b"".join(word) for word in words]
    times = lambda pair: sum(text.count(pair) * n for text, n in zip(texts, counts))  # noqa: E731
    return most_frequent({pair: times(pair) for pair in count_pairs(words, counts)})


def _every_second(words, counts):
    pairs = Counter()
    for word, count in zip(words, counts):
        for left, right in zip(word[::2], word[1::2]):
            pairs[left + right] += count
    return pairs or count_pairs(words, counts)


def _past_equal_ones(words, counts):
    pairs = Counter()
    for word, count in zip(words, counts):
        i = 0
        while i < len(word) - 1:
            pairs[word[i] + word[i + 1]] += count
            i += 2 if word[i] == word[i + 1] else 1
    return most_frequent(pairs)


def _once_a_word(words, counts):
    pairs = Counter()
    for word, count in zip(words, counts):
        for pair in {left + right for left, right in zip(word, word[1:])}:
            pairs[pair] += count
    return most_frequent(pairs)


def _of_two_parts(words, counts):
    return b"".join(most_frequent(count_pairs(words, counts, key=lambda left, right: (left, right))))


def _counted(words, counts, part):
    """As count_pairs, of this part of each word's pairs; of all of them where that leaves none."""
    pairs = Counter()
    for word, count in zip(words, counts):
        for left, after in [*zip(word, word[1:])][part]:
            pairs[left + after] += count
    return pairs or count_pairs(words, counts)


def _of_one_word(words, counts):
    pairs = Counter()
    for word, count in zip(words, counts):
        for left, after in zip(word, word[1:]):
            pairs[left + after] = max(pairs[left + after], count)
    return pairs


def _across_words(words, counts):
    """One long list of all words, each as often as it occurs."""
    row = [token for word, count in zip(words, counts) for _ in range(count) for token in word]
    return most_frequent(count_pairs([row], [1]))


def _with_borders(words, counts):
    """Each border once, besides what is inside of the words."""
    pairs = count_pairs(words, counts)
    pairs.update(left[-1] + right[0] for left, right in zip(words, words[1:]))
    return most_frequent(pairs)


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


def _half_stays(word, token):
    """One part for each place: the token where a pair begins that makes it up, else what stands there."""
    return [token if left + right == token and right else left for left, right in zip(word, [*word[1:], b""])]


def _one_split(which):
    """Merges only one of the ways in which the token can be put together: which(how often each occurs)."""

    def merge_one(words, token):
        pairs = Counter()
        for word in words:
            pairs.update((a, b) for a, b in zip(word, word[1:]) if a + b == token)
        return [_joined(word, *which(pairs)) for word in words]

    return merge_one


def _joined(word, left, right):
    """Joins left and right wherever they are neighbours."""
    new, i = [], 0
    while i < len(word):
        both = i + 1 < len(word) and (word[i], word[i + 1]) == (left, right)
        new.append(left + right if both else word[i])
        i += 1 + both
    return new
