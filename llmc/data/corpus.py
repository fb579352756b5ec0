"""A corpus is a folder with train.bin, val.bin and tokenizer.bin. Here a list of documents becomes one.

Each document is preceded by the end-of-text token, as llm.c's tinyshakespeare script does for its sections. Which
documents are held out for validation depends on nothing but their own text: see `split`.
"""

import hashlib
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from llmc.data.bpe import train_bpe
from llmc.data.tokenizer import END_OF_TEXT, make_encoding, write_tokenizer
from llmc.data.tokens import write_tokens
from llmc.errors import UserError, why

VAL_SHARE = 0.05
VAL_BYTES = 210_000  # at least, so that a small corpus still has some 60,000 tokens to measure with ...
VAL_MOST = 0.2  # ... but never more than this share


@dataclass(frozen=True)
class Corpus:
    """The three files of a corpus."""

    train: Path
    val: Path
    tokenizer: Path

    @classmethod
    def in_folder(cls, folder) -> "Corpus":
        """The files by their usual names, whether they exist or not."""
        folder = Path(folder)
        return cls(folder / "train.bin", folder / "val.bin", folder / "tokenizer.bin")

    @property
    def files(self):
        """All three; the tokenizer is last because it is written last."""
        return self.train, self.val, self.tokenizer

    @property
    def missing(self):
        """Names of the files that are not there."""
        return [path.name for path in self.files if not path.is_file()]


def split(documents: list[str], seed: int = 1337):
    """(train, val), each a list of documents in shuffled order.

    Documents are sorted by a hash of seed and text. So a document that is held out here is also held out under another
    Python version, whose corpus differs in other places, unless it lies at the border.
    """
    shuffled = sorted(documents, key=lambda d: hashlib.sha256(f"{seed} {d}".encode()).digest())
    sizes = np.cumsum([len(d.encode()) for d in shuffled])  # (documents,)
    total = int(sizes[-1])
    wanted = min(max(VAL_SHARE * total, VAL_BYTES), VAL_MOST * total)
    n = int(np.searchsorted(sizes, wanted)) + 1
    return shuffled[n:], shuffled[:n]


def encode_documents(encoding, documents) -> np.ndarray:
    """(ntok,) uint16: for each document the end-of-text token, then its text."""
    stream = []
    for text in documents:
        stream.append(encoding.eot_token)
        stream.extend(encoding.encode_ordinary(text))
    return np.array(stream, np.uint16)


def check_vocabulary(V: int):
    """Raise UserError when no tokenizer can have V tokens."""
    if not 257 <= V <= 65536:
        raise UserError(
            f"a vocabulary of {V} is not possible: it must be between 257 (the bytes, end of text) and 65536."
        )


def build_corpus(documents: list[str], out_dir, V: int = 1024, say=None) -> Corpus:
    """Split the documents, train a tokenizer of V tokens on the training part, and write the three files into out_dir.

    The files appear together or not at all, also when two processes do this at once. say(sentence), if given, is told
    about progress. Raises UserError for V outside 257..65536, too little text, or a folder that cannot be written.
    """
    say = say or (lambda sentence: None)
    check_vocabulary(V)
    if not documents:
        raise UserError("a corpus needs at least one document, and there is none.")
    train, val = split(documents)
    start = time.perf_counter()
    learned = train_bpe("".join(train), V - 257)  # never on val: its loss must not know the held-out text
    encoding = make_encoding([*learned, END_OF_TEXT.encode()], V - 1)
    say(f"trained a tokenizer of {V:,} tokens in {time.perf_counter() - start:.1f} s")
    start = time.perf_counter()
    streams = [encode_documents(encoding, part) for part in (train, val)]  # 2 × (ntok,)
    counts = f"{streams[0].size:,} training and {streams[1].size:,} validation tokens"
    say(f"encoded {counts} in {time.perf_counter() - start:.1f} s")
    _install(streams, encoding, Path(out_dir))
    return Corpus.in_folder(out_dir)


def _install(streams, encoding, out_dir: Path):
    """Write into a temporary folder beside out_dir, then move. What another process completed meanwhile is kept."""
    had_all = not Corpus.in_folder(out_dir).missing
    try:
        out_dir.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out_dir.name}.", dir=out_dir.parent) as temporary:
            made = Corpus.in_folder(Path(temporary) / out_dir.name)
            write_tokens(made.train, streams[0])
            write_tokens(made.val, streams[1])
            write_tokenizer(made.tokenizer, encoding)
            _move(made, out_dir, had_all)
    except OSError as error:
        raise UserError(f"cannot write the corpus to {out_dir}: {why(error)}; choose another folder.") from error


def _move(made: Corpus, out_dir: Path, had_all: bool):
    """Rename the whole folder if out_dir is not there; else file by file, so that other files in it stay."""
    try:
        made.train.parent.rename(out_dir)
        return
    except OSError:
        if not out_dir.is_dir():
            raise
    final = Corpus.in_folder(out_dir)
    if not final.missing and not had_all:
        return
    if had_all and final.tokenizer.read_bytes() != made.tokenizer.read_bytes():
        final.tokenizer.unlink()  # without it the folder counts as unprepared, until the last rename below
    for source, target in zip(made.files, final.files):
        source.replace(target)
