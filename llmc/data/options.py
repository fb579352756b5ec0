"""What `llmc data` and the functions behind it can be told about the making of a corpus."""

from dataclasses import dataclass
from pathlib import Path

from llmc.data.build import check_vocabulary, learn_tokenizer
from llmc.data.gpt2 import gpt2_encoding
from llmc.data.tokenizer import read_tokenizer
from llmc.data.tokens import DTYPES
from llmc.errors import UserError

VOCABULARY = 1024
OWN = ("own", "bpe")  # one thing, two names
KINDS, SAMPLES = ("classic", "edu"), ("10B", "100B")


@dataclass(frozen=True)
class Options:
    """Raises UserError for a value that makes no sense.

    out: the folder to write · file: a local copy of the source · tokenizer: "gpt2", "own" (learned from the text) or
    the path of a tokenizer.bin · vocabulary: tokens of an own one · format: of the token files, "uint16" or "int32" ·
    fineweb alone: kind, sample, shard_size (tokens), shards (how many to train on; None for all).
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
        for value, known in ((self.format, DTYPES), (self.kind, KINDS), (self.sample, SAMPLES)):
            if value not in known:
                raise UserError(f"there is no {value!r} here; choose one of {', '.join(known)}.")
        if self.tokenizer not in ("gpt2", *OWN) and not Path(self.tokenizer).is_file():
            raise UserError(f"there is no tokenizer {self.tokenizer}; choose gpt2, own or the path of a tokenizer.bin.")
        if self.vocabulary is not None:
            check_vocabulary(self.vocabulary)
        if self.vocabulary is not None and self.tokenizer not in OWN:
            raise UserError(f"a tokenizer that exists has its size; leave out --vocabulary {self.vocabulary}.")
        if self.shard_size < 1 or (self.shards is not None and self.shards < 1):
            raise UserError("shard size and number of shards must be at least 1.")

    def encoding(self, training_text, say=None):
        """The tokenizer; an own one is learned from training_text, an iterable of texts."""
        if self.tokenizer == "gpt2":
            return gpt2_encoding()
        if self.tokenizer not in OWN:
            return read_tokenizer(self.tokenizer)
        return learn_tokenizer(training_text, VOCABULARY if self.vocabulary is None else self.vocabulary, say)
