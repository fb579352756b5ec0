"""`(int)x` and `static_cast<int>(x)` become `llmc_to<int>(x)`, which gives a float that does not fit what a GPU gives.

C++ leaves that undefined, and the processors differ: 3e9f becomes the largest int on a GPU, the smallest here. Where
nobody writes a cast, as in `int i = x;`, the sanitizer notices.
"""

import re

from llmc.cuda.emulator.compiling.text import closing, mask

WIDTHS = r"(?:char|short(?:\s+int)?|int|long(?:\s+long)?(?:\s+int)?)"
INTEGER = rf"(?:(?:un)?signed(?:\s+{WIDTHS})?|{WIDTHS}|u?int(?:8|16|32|64)_t|size_t|uint|uchar|ushort)"
CAST = re.compile(
    rf"\(\s*({INTEGER})\s*\)|\bstatic_cast\s*<\s*({INTEGER})\s*>\s*(?=\()|(?<!\w)({INTEGER})\s*(?=\((?!\s*[*&)]))"
)
BEFORE = re.compile(r"(?:\b(?:return|case|else)|[^\w\s]|^)\s*$")  # (int)x; else it is sizeof (int), or parameters
BEFORE_CALL = re.compile(r"(?:\breturn|[-=(,+*/%>&|!?:[])\s*$")  # int(x); else it may be a declaration
FAR = 80  # characters that are looked at before a cast
OTHER = rf"\(\s*(?:const\s+)?(?:float|double|bool|__half|{INTEGER})[\s*&]*\)"  # casts, in front of the operand
PREFIX = re.compile(rf"\s*(?:\+\+|--|[-+~!*&]|{OTHER})")
NAME = r"(?:::)?(?!(?:sizeof|new)\b(?!\s*\())[A-Za-z_]\w*(?:\s*::\s*\w+)*(?:<[\w\s,:*]*>(?=\s*\())?"
PRIMARY = re.compile(rf"\s*(?:{NAME}|\.?\d(?:[\w.']|(?<=[eE])[-+])*|(?=\())")
POSTFIX = re.compile(r"\s*(?:(?=\()|\[|\.\s*\w+|->\s*\w+|\+\+|--)")


def saturating(code: str) -> str:
    """`code` with these casts; the lines stay. A cast whose operand is not plain to see stays, too."""
    text = mask(code)
    for match in reversed(list(CAST.finditer(text))):
        before = (BEFORE_CALL if match[3] else BEFORE).search(text, max(0, match.start() - FAR), match.start())
        end = _operand(text, match.end()) if match[1] else closing(text, match.end()) + 1
        if end and (before or match[2]):
            new = f"llmc_to<{match[match.lastindex]}>("
            code, text = (s[: match.start()] + new + s[match.end() : end] + ")" + s[end:] for s in (code, text))
    return code


def _operand(text, at) -> int | None:
    """Where the operand of a cast that begins at `at` ends."""
    while prefix := PREFIX.match(text, at):
        at = prefix.end()
    primary = PRIMARY.match(text, at)
    if not primary:
        return None
    at = closing(text, primary.end()) + 1 if text[primary.end() : primary.end() + 1] == "(" else primary.end()
    while postfix := POSTFIX.match(text, at):
        at = postfix.end()
        if text[at : at + 1] == "(":
            at = closing(text, at) + 1
        elif postfix.group().endswith("["):
            at = _bracket(text, at)
    return at


def _bracket(text, at) -> int:
    depth = 1
    while depth and at < len(text):
        depth += (text[at] == "[") - (text[at] == "]")
        at += 1
    return at
