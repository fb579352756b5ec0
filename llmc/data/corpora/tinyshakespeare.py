"""tinyshakespeare: 1.1 MB of Shakespeare's plays, split into sections and tokens as llm.c's script splits them.

The text is split on blank lines, and each section keeps its own blank line. The first 32,768 tokens are for validation.
"""

from llmc.data.corpora.build import Part, after_validation, build
from llmc.data.corpora.download import download
from llmc.data.corpora.text_file import blocks, text_size

URL = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
VAL_TOKENS = 32_768


def prepare(options, say=None):
    """Write tiny_shakespeare_train.bin, tiny_shakespeare_val.bin and tokenizer.bin; see `build`."""
    path = options.file or download(URL, options.out / "download" / "input.txt", SHA256, say)
    text_size(path)
    encoding = options.encoding(after_validation(sections(blocks(path)), VAL_TOKENS), say)
    files = [("tiny_shakespeare_val.bin", VAL_TOKENS), ("tiny_shakespeare_train.bin", None)]
    pieces = ((True, section) for section in sections(blocks(path)))
    return build(options.out, [Part(pieces, files)], encoding, options.format, say)


def sections(texts):
    """["a\\n\\nb\\n", "\\nc"] -> "a\\n\\n", "b\\n\\n", "c": the text between blank lines, in blocks of any length."""
    held = ""
    for text in texts:
        *whole, held = (held + text).split("\n\n")
        yield from (section + "\n\n" for section in whole)
    if held:
        yield held
