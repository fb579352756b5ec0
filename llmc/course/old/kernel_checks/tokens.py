"""The tokens of a piece of CUDA C, and how far the operands of an operator reach. Positions are those in the piece."""

import re
from typing import NamedTuple

TOKEN = re.compile(
    r"(?P<coordinate>\b(?:threadIdx|blockIdx|blockDim|gridDim)\.[xyz]\b)"
    r"|(?P<number>(?<![\w.])(?:0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)[fFuUlL]*)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign><<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[^\s\w])"
)
BINARY = {"+", "-", "*", "/", "%", "<", ">", "<=", ">=", "==", "!=", "&&", "||", "&", "|", "^", "<<", ">>"}
BEFORE_A_SIGN = ("return", "case")
PAIRS = {")": "(", "]": "[", "}": "{"}
CAST = re.compile(r"\(\s*(?:const\s+)?(?:float|double|int|unsigned|size_t|long|char|bool)[\w\s]*\**\s*\)")


TYPE = re.compile(r"(?:const|float[24]?|double|int[24]?|unsigned|size_t|char|bool|\w*_cast)$")


class Token(NamedTuple):
    """text, of this kind ("coordinate", "number", "name" or "sign"), at start:end."""

    text: str
    kind: str
    start: int
    end: int


def tokens(text) -> list[Token]:
    """In order."""
    return [Token(found[0], found.lastgroup, *found.span()) for found in TOKEN.finditer(text)]


class Tokens:
    """The tokens of a text, with operands."""

    def __init__(self, text):
        self.text, self.all = text, tokens(text)

    def is_binary(self, k) -> bool:
        """Is the k-th token an operator with an operand on either side?"""
        if self.all[k].text not in BINARY or k == 0 or k + 1 == len(self.all):
            return False
        before, behind = self.all[k - 1], self.all[k + 1].text
        if self.all[k].text in ("*", "&", ">", "<") and (behind in (")", ">", "*", ",") or TYPE.match(before.text)):
            return False  # of a type: `(const float4*)x`
        operand = before.kind != "sign" or before.text in (")", "]") and not self._is_cast(k - 1)
        return operand and before.text not in BEFORE_A_SIGN

    def _is_cast(self, closing) -> bool:
        opening = self.opening(closing)
        return bool(CAST.fullmatch(self.text[self.all[opening].start : self.all[closing].end]))

    def opening(self, k) -> int:
        """Of the bracket that closes there."""
        depth = 0
        for at in range(k, -1, -1):
            depth += (self.all[at].text in PAIRS) - (self.all[at].text in PAIRS.values())
            if depth == 0:
                return at
        return 0

    def closing(self, k) -> int:
        """Of the bracket that opens there."""
        depth = 0
        for at in range(k, len(self.all)):
            depth += (self.all[at].text in PAIRS.values()) - (self.all[at].text in PAIRS)
            if depth == 0:
                return at
        return len(self.all) - 1

    def after(self, k) -> int:
        """The last token of the operand that begins with token k: a sign, a cast, a name with brackets and members."""
        last = len(self.all) - 1
        while k < last and self.all[k].text in ("-", "+", "!", "*", "&", "~"):
            k += 1
        if self.all[k].text == "(":
            closing = self.closing(k)
            if self._is_cast(closing) and closing < last:
                return self.after(closing + 1)
            k = closing
        while k < last and self.all[k + 1].text in ("(", "[", ".", "->", "++", "--"):
            k = self.closing(k + 1) if self.all[k + 1].text in "([" else min(k + 2, last)
            if self.all[k].text in ("++", "--"):
                break
        return k

    def before(self, k) -> int:
        """The first token of the operand that ends with token k."""
        while True:
            while self.all[k].text in PAIRS:
                k = self.opening(k)
                if k and (self.all[k - 1].kind == "name" or self.all[k - 1].text in PAIRS) and self._joined(k):
                    k -= 1
            if k > 1 and self.all[k - 1].text in (".", "->"):
                k -= 2
                continue
            break
        if k and self.all[k - 1].text == ")" and self._is_cast(k - 1):
            return self.opening(k - 1)
        if k and self.all[k - 1].text in ("-", "!", "*", "&") and not self.is_binary(k - 1):
            return k - 1
        return k

    def _joined(self, k) -> bool:
        """Does what stands before this opening bracket belong to it? Not so `return (…)` and `(float)(…)`."""
        before = self.all[k - 1]
        return before.text not in BEFORE_A_SIGN and not (before.text == ")" and self._is_cast(k - 1))

    def term(self, k, forward) -> int:
        """The last token of the product that begins with token k, or the first of the one that ends with it."""
        step = self.after if forward else self.before
        k = step(k)
        while True:
            sign, other = (k + 1, k + 2) if forward else (k - 1, k - 2)
            if not 0 <= other < len(self.all) or self.all[sign].text not in ("*", "/", "%"):
                return k
            if not self.is_binary(sign):
                return k
            k = step(other)

    def piece(self, first, last) -> str:
        """The text of these tokens, both included."""
        return self.text[self.all[first].start : self.all[last].end]
