"""Making a corpus: text in, token files and a tokenizer out, in the memory of a few batches.

Which documents of a list are held out for validation depends on nothing but their own text: see `split`.
"""

import hashlib
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np

from llmc.data.bpe import train_bpe
from llmc.data.corpus import Corpus
from llmc.data.download import progress_bar
from llmc.data.shards import count_tokens
from llmc.data.staging import check_folder, staged
from llmc.data.tokenise import tokenise
from llmc.data.tokenizer import END_OF_TEXT, make_encoding, write_tokenizer
from llmc.data.tokens import token_writer
from llmc.errors import UserError

VAL_SHARE = 0.05
VAL_BYTES = 210_000  # at least, so that a small corpus still has some 60,000 tokens to measure with ...
VAL_MOST = 0.2  # ... but never more than this share
LONGEST_TOKEN = 8  # characters that a token stands for in the mean, at the very most: few words have as many
LEARN_FROM = 10_000_000  # characters: what a tokenizer is learned from. More changes little, and takes longer


class Part(NamedTuple):
    """Text, and the files its tokens fill one after the other.

    pieces: (begins a document?, text), see `tokenise` · files: (name, most tokens or None for the rest).
    """

    pieces: object
    files: object


def held_out(total: int) -> float:
    """How many of so many bytes are for validation."""
    return min(max(VAL_SHARE * total, VAL_BYTES), VAL_MOST * total)


def split(documents: list[str], seed: int = 1337):
    """(train, val), each a list of documents in shuffled order.

    Documents are sorted by a hash of seed and text. So a document that is held out here is also held out under another
    Python version, whose corpus differs in other places, unless it lies at the border.
    """
    shuffled = sorted(documents, key=lambda d: hashlib.sha256(f"{seed} {d}".encode()).digest())
    sizes = np.cumsum([len(d.encode()) for d in shuffled])  # (documents,)
    n = int(np.searchsorted(sizes, held_out(int(sizes[-1])))) + 1
    return shuffled[n:], shuffled[:n]


def check_vocabulary(V: int):
    """Raise UserError when no tokenizer can have V tokens."""
    if not 257 <= V <= 65536:
        raise UserError(
            f"a vocabulary of {V} is not possible: it must be between 257 (the bytes, end of text) and 65536."
        )


def behind(texts, val_tokens: int):
    """Yield the texts that cannot be among the first val_tokens tokens, whatever the tokenizer: to learn one from."""
    left = LONGEST_TOKEN * val_tokens
    for text in texts:
        if left <= 0:
            yield text
        left -= len(text)


def learn_tokenizer(texts, V: int, say=None):
    """A byte-pair encoding of V tokens, learned from the first LEARN_FROM characters of an iterable of texts.

    They must be training text: a loss on held-out text means less when the tokenizer has seen it.
    """
    check_vocabulary(V)
    start, sample, size = time.perf_counter(), [], 0
    for text in texts:
        sample.append(text)
        size += len(text)
        if size >= LEARN_FROM:
            break
    encoding = make_encoding([*train_bpe("".join(sample), V - 257), END_OF_TEXT.encode()], V - 1)
    if say:
        say(f"trained a tokenizer of {V:,} tokens in {time.perf_counter() - start:.1f} s")
    return encoding


def build_corpus(documents: list[str], options, say=None) -> Corpus:
    """Split the documents and write train.bin, val.bin and tokenizer.bin, as `options` (llmc.data.options) say."""
    if not documents:
        raise UserError("a corpus needs at least one document, and there is none.")
    train, val = split(documents)
    encoding = options.encoding(train, say)
    parts = [Part(((True, d) for d in docs), [(f"{n}.bin", None)]) for n, docs in (("train", train), ("val", val))]
    return build(options.out, parts, encoding, options.format, say)


def build(out_dir, parts, encoding, form="uint16", say=None) -> Corpus:
    """Write the token files of `parts` and tokenizer.bin into out_dir.

    The files appear together or not at all, also when two processes do this at once. say(sentence), if given, is told
    about progress. Raises UserError for too little text, a folder that holds another corpus or cannot be written.
    """
    out_dir, start = Path(out_dir), time.perf_counter()
    check_vocabulary(encoding.n_vocab)
    check_folder(out_dir, [name for part in parts for name, _ in part.files])
    with staged(out_dir) as folder:
        written = [pair for part in parts for pair in write_files(folder, part, encoding, form, say)]
        check_complete(folder, written)
        write_tokenizer(folder / "tokenizer.bin", encoding)
        made = Corpus.in_folder(folder)
        counts = f"{count_tokens(made.train):,} training and {count_tokens(made.val):,} validation tokens"
    if say:
        say(f"encoded {counts} in {time.perf_counter() - start:.1f} s")
    return Corpus.in_folder(out_dir)


def write_files(folder, part: Part, encoding, form="uint16", say=None):
    """Fill the files of a part one after the other; yields (name, tokens) of each when it is complete."""
    with closing(_encoded(part, encoding, say)) as arrays:
        rest = next(arrays, None)  # (n,)
        for name, most in part.files:
            if rest is None:
                return
            with token_writer(folder / name, form) as writer:
                while rest is not None and (most is None or writer.ntok < most):
                    take = rest.size if most is None else most - writer.ntok
                    writer.append(rest[:take])
                    rest = rest[take:] if take < rest.size else next(arrays, None)  # (n,)
            yield name, writer.ntok


def _encoded(part, encoding, say):
    """The tokens of a part, counted on the terminal as they come."""
    with closing(tokenise(part.pieces, encoding)) as arrays, progress_bar(say, desc="encoding", unit=" tokens") as bar:
        for array in arrays:
            bar.update(array.size)
            yield array


def check_complete(folder, written):
    """Raise UserError when there was not enough text to begin all the files."""
    if {"train", "val"} & {name.removesuffix(".bin") for name in Corpus.in_folder(folder).missing}:
        ntok = sum(ntok for _, ntok in written)
        raise UserError(f"the text is too short: of {ntok:,} tokens, validation takes all; give a longer one.")
