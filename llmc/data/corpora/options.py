"""The options that `llmc data` offers for making a corpus, including a tokenizer that is learned from the text."""

import time
from dataclasses import dataclass
from pathlib import Path

from llmc.data.bpe import train_bpe
from llmc.data.gpt2_tokenizer import gpt2_encoding
from llmc.data.tokenizer import END_OF_TEXT, make_encoding, read_tokenizer
from llmc.data.tokens import DTYPES
from llmc.errors import UserError

VOCABULARY = 1024
SMALLEST, LARGEST = 257, 65_536  # tokens: the 256 bytes and the end of text; all the ids that fit uint16
LEARN_FROM = 10_000_000  # characters: more change little, and take longer
OWN = ("own", "bpe")  # one thing, two names
KINDS, SAMPLES = ("classic", "edu"), ("10B", "100B")


@dataclass(frozen=True)
class Options:
    """How to make a corpus. Raises UserError for a value that makes no sense.

    out: the folder to write to · file: a local copy of the source · tokenizer: "gpt2", "own" (learned from the text) or
    the path of a tokenizer.bin · vocabulary: the number of tokens in an "own" tokenizer · format: "uint16" or "int32",
    for the token files · for fineweb only: kind, sample, shard_size (tokens), shards (of training text; None for all).
    """

    out: Path
    file: str | None = None
    tokenizer: str = "own"
    vocabulary: int | None = None
    format: str = "uint16"
    kind: str = "classic"
    sample: str = "10B"
    shard_size: int = 10**8
    shards: int | None = None

    def __post_init__(self):
        for name, known in (("format", DTYPES), ("kind", KINDS), ("sample", SAMPLES)):
            if getattr(self, name) not in known:
                raise UserError(f"there is no {name} {getattr(self, name)!r}; choose one of {', '.join(known)}.")
        if self.tokenizer not in ("gpt2", *OWN) and not Path(self.tokenizer).is_file():
            raise UserError(f"there is no tokenizer {self.tokenizer}; choose gpt2, own or the path of a tokenizer.bin.")
        if self.vocabulary is not None:
            check_vocabulary(self.vocabulary)
        if self.vocabulary is not None and self.tokenizer not in OWN:
            raise UserError(
                f"--vocabulary {self.vocabulary} is only for a tokenizer learned from the text; leave it out, or"
                " choose --tokenizer own."
            )
        if self.shard_size < 1 or (self.shards is not None and self.shards < 1):
            raise UserError("the shard size and the number of shards must be at least 1.")

    def encoding(self, training_text, say=None):
        """The tokenizer; with "own", it is learned from training_text, an iterable of texts."""
        if self.tokenizer == "gpt2":
            return gpt2_encoding()
        if self.tokenizer not in OWN:
            return read_tokenizer(self.tokenizer)
        return learn_tokenizer(training_text, VOCABULARY if self.vocabulary is None else self.vocabulary, say)


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
