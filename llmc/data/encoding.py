"""Text to token ids: any text, whatever its length and whatever is in it.

What can be cut without a change: GPT-2's pattern leaves the last whitespace of a run to the word behind it. So a text
that is cut in front of a whitespace character with something else behind it gives the same tokens in two parts.
"""

import re

# What the pattern calls \s. Python's own str.isspace knows four characters more (0x1C to 0x1F).
SPACE = "[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
LONG_RUN = 100_000  # characters of whitespace in a row; tiktoken's pattern matching gives up at ten times as many
PIECE = 1 << 20  # characters that are encoded together; cut by force where there is no place to cut
LAST_CUT = re.compile(r".*[ \n](?=\S)", re.DOTALL)


def encode(encoding, text: str) -> list[int]:
    """`encoding.encode_ordinary(text)`, also where there is a million spaces in a row, at which that gives up."""
    ids = []
    for part in _parts(text):
        ids += encoding.encode_ordinary(part)
    return ids


def _parts(text):
    """The text, cut in front of the last character of each long run of whitespace that something follows."""
    step, at = LONG_RUN // 2, 0
    # A long run fills at least one block. To look at blocks costs next to nothing, to search every text a tenth more.
    if any(text[i : i + step].isspace() for i in range(0, len(text), step)):
        for run in re.finditer(f"{SPACE}{{{LONG_RUN},}}", text):
            if run.end() < len(text):
                yield text[at : run.end() - 1]
                at = run.end() - 1
    yield text[at:]


def pieces(parts):
    """Parts of documents, (begins a document?, text), as pieces of about PIECE characters that can be encoded singly.

    Text is held back until there is a place to cut, so parts may end anywhere. Only in a text that has no such place
    for PIECE characters is it cut where it happens to be; it comes back from its tokens all the same.
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
