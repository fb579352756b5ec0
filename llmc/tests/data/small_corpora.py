"""Shared by the tests of the corpora: a tokenizer whose tokens are bytes, writing a source, reading documents back."""

import os

import pytest

from llmc.data.tokens import read_tokens
from llmc.tests.tiny_corpus import byte_encoding

BYTES = byte_encoding()  # a token is a byte; 256 ends a text
reference = pytest.mark.skipif(
    not (os.environ.get("LLMC_REFERENCE_DIR") and os.environ.get("TIKTOKEN_CACHE_DIR")),
    reason="needs LLMC_REFERENCE_DIR and TIKTOKEN_CACHE_DIR",
)


def documents(path):
    """The documents in a token file of bytes; an end-of-text token begins each."""
    ids = read_tokens(path).tolist()
    assert ids[0] == 256
    return BYTES.decode(ids[1:]).split("<|endoftext|>")


def write(path, text):
    """Write text (str or bytes) to a file; returns its path."""
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path
