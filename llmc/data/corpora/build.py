"""Building a corpus: turns text into token files and a tokenizer, using only the memory of a few batches."""

import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from llmc.data.corpora.download import progress_bar
from llmc.data.corpora.own_tokenizer import check_vocabulary
from llmc.data.corpora.staging import check_folder, staged
from llmc.data.corpora.validation import split
from llmc.data.corpus import TOKENIZER, Corpus
from llmc.data.shards import count_tokens
from llmc.data.tokenise import tokenise
from llmc.data.tokenizer import write_tokenizer
from llmc.data.tokens import token_writer
from llmc.errors import UserError


class Part(NamedTuple):
    """Text, and the files that its tokens fill one after another.

    pieces: (begins a document?, text), see `tokenise` · files: (name, most tokens it may hold; None for all that are
    left).
    """

    pieces: object
    files: object


def build_corpus(documents: list[str], options, say=None) -> Corpus:
    """Split the documents and write train.bin, val.bin and tokenizer.bin, according to `options` (an Options)."""
    if not documents:
        raise UserError("there are no documents, but a corpus needs at least one; give a text.")
    train, val = split(documents)
    encoding = options.encoding(train, say)  # the tokenizer never sees the validation text
    parts = [Part(((True, d) for d in docs), [(f"{n}.bin", None)]) for n, docs in (("train", train), ("val", val))]
    return build(options.out, parts, encoding, options.format, say)


def build(out_dir, parts, encoding, form="uint16", say=None) -> Corpus:
    """Write the token files of `parts` and tokenizer.bin into out_dir.

    The files appear together or not at all, even when two processes do this at once. say(line), if given, receives
    progress. Raises UserError if there is too little text, or if the folder holds another corpus or cannot be written
    to.
    """
    out_dir, start = Path(out_dir), time.perf_counter()
    check_vocabulary(encoding.n_vocab)
    check_folder(out_dir, [name for part in parts for name, _ in part.files])
    with staged(out_dir) as folder:
        written = [pair for part in parts for pair in write_files(folder, part, encoding, form, say)]
        check_complete(folder, written)
        write_tokenizer(folder / TOKENIZER, encoding)
        made = Corpus.in_folder(folder)
        counts = f"{count_tokens(made.train):,} training and {count_tokens(made.val):,} validation tokens"
    if say:
        say(f"encoded {counts} in {time.perf_counter() - start:.1f} s")
    return Corpus.in_folder(out_dir)


def write_files(folder, part: Part, encoding, form="uint16", say=None):
    """Fill the files of a part one after another; yields (name, tokens) as each is completed."""
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
    """Yield the tokens of a part, and show their number on the terminal as they arrive."""
    with closing(tokenise(part.pieces, encoding)) as arrays, progress_bar(say, desc="encoding", unit=" tokens") as bar:
        for array in arrays:
            bar.update(array.size)
            yield array


def check_complete(folder, written):
    """Raise UserError unless there was text for both training and validation."""
    missing = Corpus.in_folder(folder).missing
    if any(name != TOKENIZER for name in missing):
        ntok = sum(ntok for _, ntok in written)
        raise UserError(f"the text is too short: validation takes all of its {ntok:,} tokens; give a longer text.")
