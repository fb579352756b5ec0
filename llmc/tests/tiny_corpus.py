"""A corpus made in milliseconds, for tests of training, sampling and the command line."""

from pathlib import Path

import numpy as np

from llmc.data.corpus import Corpus
from llmc.data.tokenizer import END_OF_TEXT, make_encoding, write_tokenizer
from llmc.data.tokens import write_tokens

TEXT = "the cat sat on the mat and the dog ran to the man. " * 40
V = 257  # the single bytes and the end of text


def byte_encoding():
    """The tokenizer whose tokens are the 256 bytes and, last, the end of text."""
    return make_encoding([bytes([b]) for b in range(256)] + [END_OF_TEXT.encode()], 256)


def write_corpus(folder, train=TEXT, val=TEXT[:400]) -> Corpus:
    """train.bin, val.bin and tokenizer.bin in `folder`; texts as bytes, each after an end-of-text token."""
    corpus = Corpus.in_folder(Path(folder))
    for path, text in ((corpus.train, train), (corpus.val, val)):
        write_tokens(path, np.array([256, *text.encode()], np.uint16))
    write_tokenizer(corpus.tokenizer, byte_encoding())
    return corpus
