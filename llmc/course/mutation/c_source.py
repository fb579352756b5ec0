"""CUDA C as text: where its statements and expressions are, their tokens, and how far an operator's operands reach.

Pieces are what an edit replaces. This is no parser: it follows braces, brackets and semicolons, and leaves out what it
does not understand. Positions of tokens are those in their piece.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from llmc.cuda.emulator.compiling.text import is_scope, statements

STATEMENT, EXPRESSION = "statement", "expression"
WORD = re.compile(r"[A-Za-z_]\w*")
FUNCTION = re.compile(r"\)\s*(?:const\b\s*)?(?::[^{}]*)?$")
FIXED = re.compile(r"(?:__shared__|extern|static|using|typedef|constexpr|template|struct|asm|goto|case|default)\b")
DECLARATION = re.compile(
    r"(?!(?:return|break|continue|delete|throw|else)\b)"
    r"(?:(?:const|volatile|unsigned|signed|long|short|register)\s+)*[A-Za-z_][\w:]*(?:<[^;{}()]*>)?[\s*&]+"
    r"(?:const\s+|__restrict__\s+)*[A-Za-z_]\w*\s*(?=[=,\[({]|$)"
)
CONSTANT = re.compile(r"\s*-?\d+\s*$")  # `const int N = 32;` may be the size of an array
OPENING, CLOSING = "([{", ")]}"


class Piece(NamedTuple):
    """text[start:end]; a statement without its semicolon, or an expression: a condition, a value of a declaration."""

    start: int
    end: int
    kind: str
    looped: bool = False  # the last statement of a loop's body, or the step of a `for`
    test: bool = False  # what a loop asks in each turn


@lru_cache(maxsize=64)
def pieces(code) -> tuple[Piece, ...]:
    """Those in bodies of functions, in order."""
    text, found, start = statements(code), [], 0
    position = 0
    while (at := _next(text, position, "{;}")) < len(text):
        head, position = text[start:at].strip(), at + 1
        if text[at] == "{" and FUNCTION.search(head) and not is_scope(head):
            position = _block(text, at, found) + 1
        start = position
    return tuple(found)


def split(text, start, end, mark=",") -> list[tuple[int, int]]:
    """Where the parts between those marks are, marks inside brackets aside."""
    parts, depth, first = [], 0, start
    for at in range(start, end):
        depth += (text[at] in OPENING) - (text[at] in CLOSING)
        if text[at] == mark and depth == 0:
            parts.append((first, at))
            first = at + 1
    return [*parts, (first, end)]


def matching(text, opening) -> int:
    """Where the bracket that opens there closes; the text's end if it does not."""
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] in OPENING) - (text[at] in CLOSING)
        if depth == 0:
            return at
    return len(text)


def _next(text, position, marks) -> int:
    """The next of these marks."""
    return next((at for at in range(position, len(text)) if text[at] in marks), len(text))


def _block(text, opening, found, loop=False) -> int:
    """Note what is in the braces that open there; returns where they close."""
    end, position, first = matching(text, opening), opening + 1, len(found)
    while (position := _skip(text, position)) < end:
        position = _statement(text, position, end, found)
    last = next((k for k in range(len(found) - 1, first - 1, -1) if found[k].kind == STATEMENT), None)
    if loop and last is not None and not text[found[last].end + 1 : end].strip():
        found[last] = found[last]._replace(looped=True)
    return end


def _skip(text, position) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _statement(text, position, end, found, loop=False) -> int:
    """Note one statement, and what is in it; returns where the next one may begin."""
    if text[position] == "{":
        return _block(text, position, found, loop) + 1
    if text[position] == ";":
        return position + 1
    word = WORD.match(text, position)
    if word and word[0] in ("for", "while", "if", "switch"):
        opening = _next(text, word.end(), "(")
        closing = matching(text, opening)
        if text[word.end() : opening].strip() == "":  # not `if constexpr`
            _head(text, word[0], opening + 1, closing, found)
        return _statement(text, _skip(text, closing + 1), end, found, word[0] in ("for", "while"))
    if word and word[0] in ("else", "do"):
        return _statement(text, _skip(text, word.end()), end, found, word[0] == "do")
    stop = split(text, position, end, ";")[0][1]
    if FIXED.match(text, position):
        opening = _next(text, position, "{")
        return matching(text, opening) + 1 if opening < stop and "=" not in text[position:opening] else stop + 1
    if DECLARATION.match(text[position:stop]):
        _declared(text, position, stop, found)
    elif text[position:stop].strip():
        found.append(Piece(position, stop, STATEMENT, loop))
    return stop + 1


def _head(text, word, start, end, found):
    """Note what is in the brackets of `for (…; …; …)`, `if (…)` and the like."""
    parts = split(text, start, end, ";")
    if word == "switch" or len(parts) not in (1, 3):
        return
    if len(parts) == 3:
        first, parts = parts[0], parts[1:]
        if DECLARATION.match(text[first[0] : first[1]].strip()):
            _declared(text, *first, found)
    elif word == "for" or DECLARATION.match(text[start:end].strip()):
        return
    for k, part in enumerate(parts):
        if text[slice(*part)].strip():
            head = _expression(text, *part)
            found.append(head._replace(looped=True) if k else head._replace(test=word in ("for", "while")))


def _declared(text, start, end, found):
    """Note the values of `float a = 0, b[4] = {}, c = x;`."""
    fixed = text[start:end].lstrip().startswith("const ")
    for first, last in split(text, start, end):
        equals = re.search(r"(?<![=<>!+*/%&|^-])=(?!=)", text[first:last])
        value = (first + equals.end(), last) if equals else None
        if value is None or "&" in text[first : value[0]] or text[slice(*value)].lstrip().startswith("{"):
            continue
        if not (fixed and CONSTANT.match(text[slice(*value)])):
            found.append(_expression(text, *value))


def _expression(text, start, end) -> Piece:
    """Without the spaces around it."""
    start = _skip(text, start)
    return Piece(start, start + len(text[start:end].rstrip()), EXPRESSION)


TOKEN = re.compile(
    r"(?P<coordinate>\b(?:threadIdx|blockIdx|blockDim|gridDim)\.[xyz]\b)"
    r"|(?P<number>(?<![\w.])(?:0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)[fFuUlL]*)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign><<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[^\s\w])"
)
PRECEDENCE = {  # the higher, the closer its operands
    sign: number
    for number, signs in enumerate(("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %"))
    for sign in signs.split()
}
ENDS = {",", ";", "?", ":", "=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "return", "case"}
PAIRS = {")": "(", "]": "[", "}": "{"}
CAST = re.compile(r"\(\s*(?:const\s+)?(?:float|double|int|unsigned|size_t|long|char|bool)[\w\s]*\**\s*\)")
TYPE = re.compile(r"(?:const|float[24]?|double|int[24]?|unsigned|size_t|char|bool|\w*_cast)$")


class Token(NamedTuple):
    """text, of this kind ("coordinate", "number", "name" or "sign"), at start:end."""

    text: str
    kind: str
    start: int
    end: int


class Tokens:
    """The tokens of a text, in order, with operands."""

    def __init__(self, text):
        self.text, self.all = text, [Token(one[0], one.lastgroup, *one.span()) for one in TOKEN.finditer(text)]

    def is_binary(self, k) -> bool:
        """Is the k-th token an operator with an operand on either side?"""
        if self.all[k].text not in PRECEDENCE or k == 0 or k + 1 == len(self.all):
            return False
        before, behind = self.all[k - 1], self.all[k + 1].text
        if self.all[k].text in ("*", "&", ">", "<") and (behind in (")", ">", "*", ",") or TYPE.match(before.text)):
            return False  # of a type: `(const float4*)x`
        operand = before.kind != "sign" or before.text in (")", "]") and not self._is_cast(k - 1)
        return operand and before.text not in ENDS

    def _is_cast(self, closing) -> bool:
        first = self.bracket(closing, -1)
        return bool(CAST.fullmatch(self.piece(first, closing)))

    def bracket(self, k, step) -> int:
        """Where the bracket that opens at token k closes (step 1), or the one that closes there opens (step -1)."""
        depth, at = 0, k
        while 0 <= at < len(self.all):
            depth += (self.all[at].text in PAIRS.values()) - (self.all[at].text in PAIRS)
            if depth == 0:
                return at
            at += step
        return max(0, at - 1)

    def operand(self, k, step) -> int:
        """The last token of the operand behind binary operator k (step 1), or the first of the one in front (-1)."""
        mine, at = PRECEDENCE[self.all[k].text], k + step
        while 0 <= at < len(self.all):
            text = self.all[at].text
            if text in (PAIRS.values() if step > 0 else PAIRS):
                at = self.bracket(at, step)
            elif text in ENDS or text in PAIRS or text in PAIRS.values():
                break
            elif self.is_binary(at) and PRECEDENCE[text] < mine + (step > 0):
                break
            at += step
        return at - step

    def piece(self, first, last) -> str:
        """The text of these tokens, both included."""
        return self.text[self.all[first].start : self.all[last].end]
