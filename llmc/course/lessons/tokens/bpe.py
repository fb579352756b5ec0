"""Byte-pair encoding by the plainest of loops, to draw inputs with; and GPT-2's own tokenizer."""

import os
from collections import Counter
from pathlib import Path

BYTES = [bytes([b]) for b in range(256)]


def count_pairs(words, counts) -> Counter:
    """How often each pair of neighbours occurs, by its joined bytes."""
    pairs = Counter()
    for word, count in zip(words, counts):
        for left, right in zip(word, word[1:]):
            pairs[left + right] += count
    return pairs


def merge(word, token, most=10**6) -> list[bytes]:
    """Join neighbours that make up token, from left to right, at that many places at most."""
    merged, i = [], 0
    while i < len(word):
        n = 1 + (most > 0 and i + 1 < len(word) and word[i] + word[i + 1] == token)
        merged.append(b"".join(word[i : i + n]))
        i, most = i + n, most - (n > 1)
    return merged


def train(words, counts, num_merges) -> list[bytes]:
    """The tokens learned, with all pairs counted again before each merge; fewer when the words allow no more."""
    learned = []
    while len(learned) < num_merges and (pairs := count_pairs(words, counts)):
        token = min(pairs, key=lambda pair: (-pairs[pair], pair))
        words = [merge(word, token) for word in words]
        if token not in learned:
            learned.append(token)
    return learned


def gpt2_encoding():
    """GPT-2's own tokenizer where it is at hand, else None: from a file of llm.c's, or tiktoken's cache. No network."""
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
