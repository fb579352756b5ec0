"""A text file of any size as documents, read in blocks; if it is not UTF-8, the error names the line.

A file is one document, unless it has lines with only "<|endoftext|>", which separate documents. Nothing else is
changed, so the tokens decode to the file. Its last part is held out for validation.
"""

import codecs
import re

from llmc.data.corpora.build import Part, build, held_out
from llmc.data.encoding import pieces
from llmc.data.tokenizer import END_OF_TEXT
from llmc.errors import UserError
from llmc.files.reading import file_size, opened

BLOCK = 1 << 20  # bytes
SMALLEST = 1000  # bytes of a file; a single batch has about as many
SEPARATOR = re.compile(rf"^{re.escape(END_OF_TEXT)}\r?$\n?", re.MULTILINE)


def documents(path, start=0, end=None):
    """Yield (begins a document?, text) for bytes start … end of the file, in parts of documents, none of them empty.

    Raises UserError if the file cannot be read or is not UTF-8; then it names the line and byte.
    """
    begins = True
    for block in blocks(path, start, end):
        for number, part in enumerate(SEPARATOR.split(block)):
            begins = begins or number > 0
            if part:
                yield begins, part
                begins = False


def blocks(path, start=0, end=None):
    """The text between two bytes of a UTF-8 file, in blocks that end at a line end, unless a line exceeds BLOCK."""
    decoder, at = codecs.getincrementaldecoder("utf-8")(), start
    try:
        with opened(path) as file:
            end = file.seek(0, 2) if end is None else end
            file.seek(start)
            while at < end:
                raw = file.read(min(BLOCK, end - at))
                if not raw.endswith(b"\n"):
                    raw += file.readline(min(BLOCK, end - at - len(raw)))
                pending = len(decoder.getstate()[0])
                text = decoder.decode(raw, final=not raw or at + len(raw) >= end)
                yield text.removeprefix("\ufeff") if at == 0 else text  # a byte order mark is not text
                at = at + len(raw) if raw else end
    except UnicodeDecodeError as error:
        raise UserError(_not_utf8(path, at - pending + error.start)) from None


def _not_utf8(path, at):
    """The error about byte `at` of a file, with its line, its column and its value."""
    line, column = 1, 0
    with opened(path) as file:
        for start in range(0, at, BLOCK):
            raw = file.read(min(BLOCK, at - start))
            line += raw.count(b"\n")
            column = len(raw) - 1 - raw.rfind(b"\n") if b"\n" in raw else column + len(raw)
        byte = file.read(1)
    return (
        f"{path} is not UTF-8: byte {column + 1:,} of line {line:,} is 0x{byte.hex().upper()}; save the file in"
        " UTF-8 and try again."
    )


def find_cut(path, wanted: int) -> int:
    """Where the last `wanted` bytes, or slightly fewer, begin: at a document if one begins soon, else at a line."""
    with opened(path) as file:
        cut = max(0, file.seek(0, 2) - wanted)
        file.seek(cut)
        ahead = file.read(min(BLOCK, wanted // 2))
    for mark in (b"\n" + END_OF_TEXT.encode(), b"\n"):
        if mark in ahead:
            return cut + ahead.index(mark) + 1
    inside = next((i for i, byte in enumerate(ahead) if byte & 0xC0 != 0x80), 0)  # not between a character's bytes
    return cut + inside


def text_size(path) -> int:
    """Size of the file in bytes. Raises UserError if there is no such file, or it is too small to hold a part out."""
    size = file_size(path)
    if size < SMALLEST:
        raise UserError(
            f"{path} has only {size} bytes, which is too little to learn from; give a text of at least {SMALLEST:,}."
        )
    return size


def prepare(options, say=None):
    """Write train.bin, val.bin and tokenizer.bin; see `build`."""
    path, size = options.file, text_size(options.file)
    for _ in blocks(path):
        pass  # read it all once: a bad byte found only at the end of a large file would cost an hour
    cut = find_cut(path, int(held_out(size)))
    encoding = options.encoding((text for _, text in documents(path, 0, cut)), say)
    parts = [("train.bin", documents(path, 0, cut)), ("val.bin", documents(path, cut))]
    parts = [Part(pieces(part), [(name, None)]) for name, part in parts]
    return build(options.out, parts, encoding, options.format, say)
