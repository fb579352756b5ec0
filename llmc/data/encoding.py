"""From text to token ids, for any text, whatever its length and contents.

Where a text may be cut: GPT-2's pattern attaches the last whitespace of a run to the word that follows. So two parts of
a text give the same tokens as the whole if it is cut before a whitespace character that something else follows.
"""

import re

# The pattern's \s. Python's str.isspace accepts four more characters (0x1C to 0x1F).
SPACE = "[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
LONG_RUN = 100_000  # characters of whitespace in a row; tiktoken's pattern matching gives up at ten times as many
PIECE = 1 << 20  # characters that are encoded together; a text without a place to cut is cut here regardless
LAST_CUT = re.compile(r".*[ \n](?=\S)", re.DOTALL)


def encode(encoding, text: str) -> list[int]:
    """Like `encoding.encode_ordinary(text)`, but it also copes with a million spaces in a row."""
    ids = []
    for part in _parts(text):
        ids += encoding.encode_ordinary(part)
    return ids


def _parts(text):
    """The text, cut before the last character of each long run of whitespace that is not at its end."""
    step, at = LONG_RUN // 2, 0
    # A long run fills at least one block. Looking at blocks costs next to nothing; searching every text costs a tenth.
    if any(text[i : i + step].isspace() for i in range(0, len(text), step)):
        for run in re.finditer(f"{SPACE}{{{LONG_RUN},}}", text):
            if run.end() < len(text):
                yield text[at : run.end() - 1]
                at = run.end() - 1
    yield text[at:]


def pieces(parts):
    """Turn parts of documents, (begins a document?, text), into pieces of about PIECE characters to encode one by one.

    Text is held back until there is a place to cut, so parts may end anywhere. Only a text without such a place within
    PIECE characters is cut regardless; its tokens still decode to the same text.
    """
    held, starts = "", False
    for begins, text in parts:
        if begins and held:
            yield starts, held
            held = ""
        starts = starts or begins
        held += text
        match = LAST_CUT.match(held)
        cut = match.end() - 1 if match else 0
        if not cut and len(held) >= PIECE:
            cut = len(held)
        if cut:
            yield starts, held[:cut]
            held, starts = held[cut:], False
    if held:
        yield starts, held
