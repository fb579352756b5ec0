"""Decoding ids: all bytes together, then UTF-8; what known mistakes give instead, and what the check says of them."""

import codecs
import re
from contextlib import suppress

from llmc.course.lessons.tokens.bpe.telling import BYTES, Small, explain, telling_cases
from llmc.course.old.checks.explain import describe

# where to look; a test holds this title against the headings of notebooks/08_tokens.ipynb
DECODE = 'lesson 08, section "4.1 · Decode"'
DECODE_TOKENS = [*BYTES, b"caf", b"\xc3\xa9", b"\xa9s ", "日本".encode(), b" \xe6\x97", b"\xa5!", "ß".encode()]
DECODE_TOKENS += ["🙂".encode(), b"\xf0\x9f", b"\x99\x82", "\ufeff".encode()]


def decode(ids, tokens) -> str:
    """All bytes together, then UTF-8."""
    return b"".join(tokens[i] for i in ids).decode("utf-8", errors="replace")


def decode_mistakes() -> dict:
    """{sentence: decode}."""
    joined = lambda ids, tokens: b"".join(tokens[i] for i in ids)  # noqa: E731
    return {
        "the id 0 is left out: it is an id like any other": (lambda ids, tokens: decode([i for i in ids if i], tokens)),
        "the tokens were joined in the order of the table, each once: take them in the order of ids, each as often as "
        "it stands there": lambda ids, tokens: decode(sorted(set(ids)), tokens),
        "each token was decoded by itself: a token may hold half a character, so join the bytes first": (
            lambda ids, tokens: "".join(tokens[i].decode("utf-8", errors="replace") for i in ids)
        ),
        "each token was decoded by itself, and halves of characters were left out: join the bytes first": (
            lambda ids, tokens: "".join(tokens[i].decode("utf-8", errors="ignore") for i in ids)
        ),
        "bytes that are not valid UTF-8 were left out: put U+FFFD in their place": (
            lambda ids, tokens: joined(ids, tokens).decode("utf-8", errors="ignore")
        ),
        "bytes that are not valid UTF-8 were spelled out (errors='backslashreplace'): put U+FFFD in their place": (
            lambda ids, tokens: joined(ids, tokens).decode("utf-8", errors="backslashreplace")
        ),
        "bytes that are not valid UTF-8 became surrogates (errors='surrogateescape'): put U+FFFD in their place": (
            lambda ids, tokens: joined(ids, tokens).decode("utf-8", errors="surrogateescape")
        ),
        "a ? was put in the place of bytes that are not valid UTF-8: put U+FFFD there": (
            lambda ids, tokens: decode(ids, tokens).replace("\ufffd", "?")
        ),
        "neighbouring U+FFFD became one: leave them as errors='replace' makes them": (
            lambda ids, tokens: re.sub("\ufffd+", "\ufffd", decode(ids, tokens))
        ),
        "the whole text became one U+FFFD where some of its bytes are not valid UTF-8: only those bytes should": (
            lambda ids, tokens: "\ufffd" if "\ufffd" in decode(ids, tokens) else decode(ids, tokens)
        ),
        "the whole text was read as Latin-1 where some of its bytes are not valid UTF-8: only those become U+FFFD": (
            lambda ids, tokens: (
                joined(ids, tokens).decode("latin-1") if "\ufffd" in decode(ids, tokens) else decode(ids, tokens)
            )
        ),
        "the bytes that are not valid UTF-8 became the characters of their numbers (Latin-1): put U+FFFD there": (
            lambda ids, tokens: re.sub(
                "[\udc80-\udcff]",
                lambda found: chr(ord(found[0]) - 0xDC00),
                joined(ids, tokens).decode("utf-8", errors="surrogateescape"),
            )
        ),
        "the first part of a character at the end of the text was left out, and only there: it is U+FFFD, too": (
            lambda ids, tokens: codecs.getincrementaldecoder("utf-8")(errors="replace").decode(joined(ids, tokens))
        ),
        "each byte that is not valid UTF-8 became a U+FFFD of its own: errors='replace' makes one of the first bytes "
        "of a character, together": (
            lambda ids, tokens: re.sub(
                "[\udc80-\udcff]", "\ufffd", joined(ids, tokens).decode("utf-8", errors="surrogateescape")
            )
        ),
        "bytes at the end were cut off until the rest was valid UTF-8: the first part of a character there is U+FFFD": (
            lambda ids, tokens: _cut_until_valid(joined(ids, tokens)) or decode(ids, tokens)
        ),
        "the text ends before the first bytes that are not valid UTF-8: they become U+FFFD, and the rest follows": (
            lambda ids, tokens: _up_to_an_error(joined(ids, tokens))
        ),
        "tokens that are not valid UTF-8 by themselves were held back until they are, which may be never: at the end, "
        "what is left becomes U+FFFD": _held_back,
        "byte 0 was left out at the end of a token": (
            lambda ids, tokens: decode(ids, [token.rstrip(b"\0") for token in tokens])
        ),
        "U+FEFF at the beginning was left out: it belongs to the text": (
            lambda ids, tokens: decode(ids, tokens).removeprefix("\ufeff")
        ),
        "the bytes were read as Latin-1, one character each: they are UTF-8": (
            lambda ids, tokens: joined(ids, tokens).decode("latin-1")
        ),
        "the bytes were read as ASCII: they are UTF-8": (
            lambda ids, tokens: joined(ids, tokens).decode("ascii", errors="replace")
        ),
        "a space was put between the tokens: a space that belongs there is already in a token": (
            lambda ids, tokens: b" ".join(tokens[i] for i in ids).decode("utf-8", errors="replace")
        ),
        "this is how Python prints bytes, not the text: decode them": lambda ids, tokens: str(joined(ids, tokens)),
        "each id was taken for the number of a character: look up its token": (
            lambda ids, tokens: "".join(map(chr, ids))
        ),
        "an id below 256 was taken for the byte itself: look it up in tokens, too": (
            lambda ids, tokens: decode(ids, [*BYTES, *tokens[256:]])
        ),
    }


def _cut_until_valid(raw) -> str:
    """The text without its last bytes, up to three of them; "" if none of them makes it valid."""
    for end in range(len(raw), max(len(raw) - 4, -1), -1):
        with suppress(UnicodeDecodeError):
            return raw[:end].decode("utf-8")
    return ""


def _up_to_an_error(raw) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return raw[: error.start].decode("utf-8")


def _held_back(ids, tokens) -> str:
    text, held = "", b""
    for i in ids:
        held += tokens[i]
        with suppress(UnicodeDecodeError):
            text, held = text + held.decode("utf-8"), b""
    return text


def draw_ids(rng):
    """(ids, tokens): whole and half characters in random order; the tokens are numbered anew for each case."""
    favourites = [0, 99, 32, 195, 169, 230, *range(256, len(DECODE_TOKENS))]
    return _renumbered(rng, rng.choice(favourites, int(rng.integers(3, 9))))


def _renumbered(rng, ids):
    """(ids, tokens): the same text, with DECODE_TOKENS in another order; GPT-2's bytes are not in order either."""
    order = rng.permutation(len(DECODE_TOKENS))
    return order.argsort()[ids].tolist(), [DECODE_TOKENS[k] for k in order]


def decode_cases(rng) -> list:
    """[(ids, tokens)] on which every known mistake shows; no ids at all among them, and U+FEFF at the beginning."""
    first = len(DECODE_TOKENS) - 1  # of which the text is U+FEFF
    cases = telling_cases(rng, draw_ids, decode, decode_mistakes())
    plain = rng.permutation([92, 110, 92, 49, 13, 10, 0, 195])  # as they are: a backslash, line ends, byte 0
    more = [([], DECODE_TOKENS), _renumbered(rng, [first, 99, first]), _renumbered(rng, [92, 110, 13, 10])]
    more += [_renumbered(rng, [alone]) for alone in (32, 10)]  # a text that is nothing but a space, or a line end
    return [*cases, *more, _renumbered(rng, plain), _at_the_ends(300), _at_the_ends(50257)]


def _at_the_ends(n):
    """(ids, tokens): ids that are easily left out, the first and the last of n among them; GPT-2 has 50,257."""
    ids = [0, 1, 255, 256, 257, 0, 0, n - 1, n // 2, n - 2, n - 1]
    return ids, [b" <%d>" % k for k in range(n)]


def _shrunk(case):
    """Cases with an id less."""
    ids, tokens = case
    return [(ids[:k] + ids[k + 1 :], tokens) for k in range(len(ids))]


def _cut(ids, tokens):
    """Is a character's first part in one token and its last in another?"""
    return any(tokens[i].decode(errors="replace") != tokens[i].decode(errors="ignore") for i in ids)


PROPERTIES = {
    "in which the bytes are not valid UTF-8": lambda ids, tokens: "\ufffd" in decode(ids, tokens),
    "in which a token holds a part of a character": _cut,
    "in which an id comes twice": lambda ids, tokens: len(set(ids)) < len(ids),
    "in which an id comes twice in a row": lambda ids, tokens: any(a == b for a, b in zip(ids, ids[1:])),
    "in which a token has more than one byte": lambda ids, tokens: any(len(tokens[i]) > 1 for i in ids),
    "in which the text has a space": lambda ids, tokens: " " in decode(ids, tokens),
    "in which the text begins or ends with a space": lambda ids, tokens: (
        decode(ids, tokens) != decode(ids, tokens).strip()
    ),
    "in which the text is not ASCII": lambda ids, tokens: not decode(ids, tokens).isascii(),
    "in which an id is 256 or more": lambda ids, tokens: any(i > 255 for i in ids),
    "in which an id is below 256": lambda ids, tokens: any(i < 256 for i in ids),
    "in which there is more than one id": lambda ids, tokens: len(ids) > 1,
}


def explain_decodings(cases, results) -> str | None:
    """What is wrong with the results of decode; None when all are right."""
    for result in results:
        if isinstance(result, bytes | bytearray):
            return "these are bytes: decode them to text (str)"
        if not isinstance(result, str):
            return f"text (str) is expected, but decode returned {describe(result)}"
    return explain(cases, results, decode, decode_mistakes(), _told_text, Small(draw_ids, _shrunk, PROPERTIES), "text")


def _told_text(case, result, right):
    ids, tokens = case
    return f"ids {ids} are the tokens {[tokens[i] for i in ids]}: expected {right!r}, got {result!r}.\n→ {DECODE}"
