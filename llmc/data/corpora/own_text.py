"""Your own text: any UTF-8 file, with its last part held out for validation. text_file.py splits it into documents."""

from llmc.data.corpora.build import Part, build
from llmc.data.corpora.text_file import blocks, documents, find_cut, text_size
from llmc.data.corpora.validation import held_out
from llmc.data.encoding import pieces


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
