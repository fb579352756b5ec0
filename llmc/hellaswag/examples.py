"""An example of HellaSwag: the start of a text, four endings, and which of them is the real one; as token ids.

The published file has one JSON object per line, with "ctx", "endings" and "label". As in llm.c's script, the context
and endings are encoded one by one, each ending with a space in front.
"""

import json
from typing import NamedTuple

from llmc.data.encoding import encode
from llmc.errors import UserError
from llmc.files.reading import opened

ENDINGS = 4


class Example(NamedTuple):
    """context: token ids · endings: four lists of token ids · label: which ending is the real one, from 0."""

    context: list[int]
    endings: list[list[int]]
    label: int


def read_examples(path, encoding, limit=None):
    """Yield the first `limit` examples (all if None) of HellaSwag's .jsonl file, encoded with a `tiktoken.Encoding`.

    Raises UserError if the file cannot be read, or if one of its lines is not such an example.
    """
    number = 0
    with opened(path) as file:
        for line, text in enumerate(file, 1):
            if limit is not None and number >= limit:
                return
            if text.strip():
                yield _example(text, encoding, f"line {line:,} of {path}")
                number += 1
    if not number:
        raise UserError(f"{path} holds no examples; give HellaSwag's hellaswag_val.jsonl.")


def _example(text, encoding, where) -> Example:
    """The example in a line of JSON."""
    try:
        fields = json.loads(text)
        context, endings, label = fields["ctx"], fields["endings"], fields["label"]
        sound = len(endings) == ENDINGS and all(isinstance(words, str) and words for words in (context, *endings))
        sound = sound and type(label) is int and 0 <= label < ENDINGS
    except (ValueError, TypeError, KeyError, RecursionError):
        sound = False
    if not sound:
        raise UserError(
            f'{where} is not a HellaSwag example with "ctx", {ENDINGS} "endings" and a "label"; get a fresh copy.'
        )
    return Example(encode(encoding, context), [encode(encoding, " " + ending) for ending in endings], label)
