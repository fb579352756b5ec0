"""Which part of a text is held out for validation."""

import hashlib

import numpy as np

SHARE = 0.05
LEAST_BYTES = 210_000  # so that even a small corpus has some 60,000 tokens to measure on ...
LARGEST_SHARE = 0.2  # ... but never more than this share of it
LONGEST_TOKEN = 8  # characters per token, averaged over a text, at the very most: few words are longer


def held_out(total: int) -> float:
    """How many bytes of a text of `total` bytes are held out for validation."""
    return min(max(SHARE * total, LEAST_BYTES), LARGEST_SHARE * total)


def split(documents: list[str], seed: int = 1337):
    """(train, val), each a list of documents in shuffled order.

    Documents are sorted by a hash of the seed and their own text. So a document that is held out here is also held out
    with another Python version, whose corpus differs in a few places, unless it lies at the border.
    """
    shuffled = sorted(documents, key=lambda d: hashlib.sha256(f"{seed} {d}".encode()).digest())
    sizes = np.cumsum([len(d.encode()) for d in shuffled])  # (documents,)
    n = int(np.searchsorted(sizes, held_out(int(sizes[-1])))) + 1
    return shuffled[n:], shuffled[:n]


def after_validation(texts, val_tokens: int):
    """Yield the texts that no tokenizer could put among the first val_tokens tokens, to learn a tokenizer from."""
    left = LONGEST_TOKEN * val_tokens
    for text in texts:
        if left <= 0:
            yield text
        left -= len(text)
