"""A text of your own: any UTF-8 file, its last part held out for validation (`text_file` says what a document is)."""

from llmc.data.build import Part, build, held_out
from llmc.data.encoding import pieces
from llmc.data.text_file import blocks, documents, file_size, find_cut


def prepare(options, say=None):
    """Write train.bin, val.bin and tokenizer.bin; see `llmc.data.build.build`."""
    path, size = options.file, file_size(options.file)
    for _ in blocks(path):
        pass  # is all of it UTF-8? Found at the end of a large file, a bad byte would have cost an hour
    cut = find_cut(path, int(held_out(size)))
    encoding = options.encoding((text for _, text in documents(path, 0, cut)), say)
    parts = [("train.bin", documents(path, 0, cut)), ("val.bin", documents(path, cut))]
    parts = [Part(pieces(part), [(name, None)]) for name, part in parts]
    return build(options.out, parts, encoding, options.format, say)
