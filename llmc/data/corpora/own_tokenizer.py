"""A tokenizer learned from the text of a corpus."""

import time

from llmc.data.bpe import train_bpe
from llmc.data.tokenizer import END_OF_TEXT, make_encoding
from llmc.errors import UserError

SMALLEST, LARGEST = 257, 65_536  # tokens: the 256 bytes and the end of text; all the ids that fit uint16
LEARN_FROM = 10_000_000  # characters: more change little, and take longer


def check_vocabulary(V: int):
    """Raise UserError if no tokenizer can have V tokens."""
    if not SMALLEST <= V <= LARGEST:
        raise UserError(
            f"a vocabulary of {V} tokens is not possible; choose from {SMALLEST} (the 256 bytes and the end of text)"
            f" to {LARGEST}."
        )


def learn_tokenizer(texts, V: int, say=None):
    """A byte-pair encoding with V tokens, learned from the first LEARN_FROM characters of an iterable of texts.

    These must be training text: if the tokenizer has seen the held-out text, the loss on it means less.
    """
    check_vocabulary(V)
    start, sample, size = time.perf_counter(), [], 0
    for text in texts:
        sample.append(text)
        size += len(text)
        if size >= LEARN_FROM:
            break
    encoding = make_encoding([*train_bpe("".join(sample), V - SMALLEST), END_OF_TEXT.encode()], V - 1)
    if say:
        say(f"trained a tokenizer of {V:,} tokens in {time.perf_counter() - start:.1f} s")
    return encoding
