"""Where the statements and expressions of CUDA C are: pieces of its text, each of which another may replace.

This is no parser: it follows braces, brackets and semicolons, and leaves out what it does not understand.
"""

import re
from typing import NamedTuple

from llmc.cuda.emulator.compiling.text import is_scope, statements

STATEMENT, EXPRESSION, TURNS = "statement", "expression", "turns"
WORD = re.compile(r"[A-Za-z_]\w*")
FUNCTION = re.compile(r"\)\s*(?:const\b\s*)?(?::[^{}]*)?$")
FIXED = re.compile(r"(?:__shared__|extern|static|using|typedef|constexpr|template|struct|asm|goto|case|default)\b")
DECLARATION = re.compile(
    r"(?!(?:return|break|continue|delete|throw|else)\b)"
    r"(?:(?:const|volatile|unsigned|signed|long|short|register)\s+)*[A-Za-z_][\w:]*(?:<[^;{}()]*>)?[\s*&]+"
    r"(?:const\s+|__restrict__\s+)*[A-Za-z_]\w*\s*(?=[=,\[({]|$)"
)
CONSTANT = re.compile(r"\s*-?\d+\s*$")  # `const int N = 32;` may be the size of an array
DO, WHILE = re.compile(r"\bdo\s*\{"), re.compile(r"\s*while\s*\(")
OTHERWISE = re.compile(r"\s*;\s*else\b")  # of an `if` whose only statement ends there
HEAD, ELSE = re.compile(r"(?:\belse\s+)?\b(?:if|for)\s*$"), re.compile(r"\belse$")
OPENING, CLOSING = "([{", ")]}"


class Piece(NamedTuple):
    """text[start:end]; a statement without its semicolon, or an expression: a condition, a value of a declaration.

    Of the kind `TURNS` it is empty, in front of a `do`: a condition may be put there, for what follows to be done.
    """

    start: int
    end: int
    kind: str
    looped: bool = False  # the last statement of a loop's body, or the step of a `for`


def pieces(code) -> list[Piece]:
    """Those in bodies of functions, in order."""
    text, found, start = statements(code), [], 0
    position = 0
    while (at := _next(text, position, "{;}")) < len(text):
        head, position = text[start:at].strip(), at + 1
        if text[at] == "{" and FUNCTION.search(head) and not is_scope(head):
            position = _block(text, at, found) + 1
        start = position
    return found


def first_turns(code) -> list[tuple[Piece, str]]:
    """The place in front of each `do { … } while (c);`, and c, which is not asked before the first turn."""
    text, found = statements(code), []
    for match in DO.finditer(text):
        test = WHILE.match(text, matching(text, match.end() - 1) + 1)
        end = matching(text, test.end() - 1) if test else len(text)
        if test and not OTHERWISE.match(text, end + 1):
            place = Piece(match.start(), match.start(), TURNS)
            found.append((place, " ".join(text[test.end() : end].split())))
    return found


def head_of(text, start) -> int:
    """Where the `if (…)`, `for (…)` or `else` begins whose only statement stands at `start`; `start` without one."""
    before = text[:start].rstrip()
    head = HEAD.search(before, 0, _opening(before)) if before.endswith(")") else ELSE.search(before)
    return head_of(text, head.start()) if head else start


def _opening(text) -> int:
    """Where the bracket opens that closes at the text's end; 0 if it does not."""
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] == ")") - (text[at] == "(")
        if depth == 0:
            return at
    return 0


def split(text, start, end, mark=",") -> list[tuple[int, int]]:
    """Where the parts between those marks are, outside of brackets."""
    parts, depth, first = [], 0, start
    for at in range(start, end):
        depth += (text[at] in OPENING) - (text[at] in CLOSING)
        if text[at] == mark and depth == 0:
            parts.append((first, at))
            first = at + 1
    return [*parts, (first, end)]


def matching(text, opening) -> int:
    """Where the bracket closes that opens there; the text's end if it does not."""
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
    """Note what is in the braces that open there; where they close."""
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
    """Note one statement, and what is in it; where the next one may begin."""
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
    heads = [_expression(text, *part) for part in parts if text[slice(*part)].strip()]
    found += heads[:1] + [step._replace(looped=True) for step in heads[1:]]


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
