"""Building a corpus: turns text into token files and a tokenizer, using only the memory of a few batches.

Part of the text is held out for validation. The files appear in their folder together or not at all, even if two
processes make the same corpus.
"""

import hashlib
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from llmc.data.corpora.download import progress_bar
from llmc.data.corpora.options import check_vocabulary
from llmc.data.corpus import TOKENIZER, Corpus, existing
from llmc.data.shards import count_tokens
from llmc.data.tokenise import tokenise
from llmc.data.tokenizer import write_tokenizer
from llmc.data.tokens import token_writer
from llmc.errors import UserError, cannot

SHARE = 0.05
LEAST_BYTES = 210_000  # so that even a small corpus has some 60,000 tokens to measure on ...
LARGEST_SHARE = 0.2  # ... but never more than this share of it
LONGEST_TOKEN = 8  # characters per token, averaged over a text, at the very most: few words are longer


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

    say(line), if given, receives progress. Raises UserError if there is too little text, or if the folder holds another
    corpus or cannot be written to.
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


# ------------------------------------------------------------------------------------- what is held out


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


# ------------------------------------------------------------------------------------------ the folder


def check_folder(out_dir, names):
    """Raise UserError if out_dir holds a corpus under names other than `names` (files, or patterns of shards)."""
    earlier = Corpus.in_folder(out_dir)
    for path in (earlier.train, earlier.val):
        if existing(path) and path.name not in names:
            raise UserError(f"{out_dir} holds another corpus ({path.name}); choose another folder with --out.")


@contextmanager
def staged(out_dir: Path):
    """A new folder next to out_dir; its files are moved there at the end, unless another process has finished first."""
    had_all = not Corpus.in_folder(out_dir).missing
    try:
        out_dir.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out_dir.name}.", dir=out_dir.parent) as temporary:
            folder = Path(temporary) / out_dir.name
            folder.mkdir()
            yield folder
            _move(Corpus.in_folder(folder), out_dir, had_all)
    except OSError as error:
        raise cannot(f"write the corpus to {out_dir}", error) from error


def _move(made: Corpus, out_dir: Path, had_all: bool):
    """Rename the whole folder if out_dir does not exist; else move file by file, so that other files in it stay."""
    try:
        made.folder.rename(out_dir)
        return
    except OSError:
        if not out_dir.is_dir():
            raise
    final = Corpus.in_folder(out_dir)
    if not final.missing and not had_all:  # another process has made it meanwhile
        return
    if not had_all or final.tokenizer.read_bytes() != made.tokenizer.read_bytes():
        final.train.unlink(missing_ok=True)  # without it the folder counts as unprepared, until the last rename below
    for source in (made.val, made.tokenizer, made.train):
        source.replace(out_dir / source.name)
