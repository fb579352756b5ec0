"""The training half of byte-pair encoding: deciding which byte sequences become tokens.

Follows Sennrich et al. 2016, but on bytes, like GPT-2. GPT-2's pattern cuts the text into words, and only distinct
words are kept, with their counts. Then, num_merges times, the most frequent pair of neighbours becomes a token. Counts
are updated only where a merge has changed a word, so training takes seconds. Encoding with the result is left to
tiktoken (`llmc/data/tokenizer.py`).
"""

from collections import Counter, defaultdict

from llmc.errors import UserError

# GPT-2's: contractions, then letters / digits / other signs with at most one space in front, then whitespace. A run of
# spaces leaves its last one to the word that follows. `++` never backtracks: the same matches, found faster.
GPT2_PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""


def train_bpe(text: str, num_merges: int, pattern: str = GPT2_PATTERN) -> list[bytes]:
    """Tokens by id: the 256 single bytes, then num_merges learned tokens, in the order in which they were learned.

    train_bpe("hug hug pug", 2)[256:] -> [b"ug", b"hug"]
    Deterministic: among equally frequent pairs, the one whose bytes sort first wins. Raises UserError if the text is
    too short or too uniform for that many merges.
    """
    words, counts = split_words(text, pattern)
    pairs, where = count_pairs(words, counts)
    tokens = [bytes([i]) for i in range(256)]
    known = set(tokens)
    while len(tokens) < 256 + num_merges:
        if not pairs:
            raise UserError(
                f"this text allows only {len(tokens) - 256} of {num_merges} merges; give more text, or choose a"
                " smaller vocabulary."
            )
        token = most_frequent(pairs)
        # If the halves of an older token meet again, nothing new is learned; it did not happen in 230,000 steps tried.
        if token not in known:
            known.add(token)
            tokens.append(token)
        for i in sorted(where.pop(token)):
            replace_word(words, counts, pairs, where, i=i, token=token)
    return tokens


def split_words(text: str, pattern: str):
    """The distinct words, each as a list of single bytes, and how often each occurs.

    "ab ab" -> [[b"a", b"b"], [b" ", b"a", b"b"]], [1, 1]
    """
    import regex

    found = Counter(regex.findall(pattern, text))
    words = [[bytes([b]) for b in word.encode("utf-8")] for word in found]
    return words, list(found.values())


def count_pairs(words, counts):
    """How often each pair of neighbours occurs, and in which words (by index).

    A pair is identified by its joined bytes: "a" + "bc" and "ab" + "c" count as one, because tiktoken merges both into
    "abc".
    """
    pairs, where = Counter(), defaultdict(set)
    for i, word in enumerate(words):
        for left, right in zip(word, word[1:]):
            pairs[left + right] += counts[i]
            where[left + right].add(i)
    return pairs, where


def most_frequent(pairs: Counter) -> bytes:
    """The pair with the highest count; if several have it, the one that sorts first."""
    highest = max(pairs.values())
    return min(pair for pair, count in pairs.items() if count == highest)


def replace_word(words, counts, pairs, where, i, token):
    """Merge `token` in word i, and move the word's share of the pair counts from its old pairs to its new ones."""
    old, new = words[i], merge(words[i], token)
    for left, right in zip(old, old[1:]):
        pairs[left + right] -= counts[i]
        if not pairs[left + right]:
            del pairs[left + right]
    for left, right in zip(new, new[1:]):
        pairs[left + right] += counts[i]
        where[left + right].add(i)
    words[i] = new


def merge(word: list[bytes], token: bytes) -> list[bytes]:
    """Join neighbours that together make `token`, from left to right.

    merge([b"u", b"g", b"s"], b"ug") -> [b"ug", b"s"]
    """
    merged, i = [], 0
    while i < len(word):
        if i + 1 < len(word) and word[i] + word[i + 1] == token:
            merged.append(token)
            i += 2
        else:
            merged.append(word[i])
            i += 1
    return merged
