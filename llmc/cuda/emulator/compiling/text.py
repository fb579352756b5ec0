"""Looking at CUDA C without parsing it: a masked copy of the text, and the braces around a position in it."""

import re
from functools import lru_cache

BLANK = re.compile(
    r'//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z)|R"(?P<tag>[^(\s\\]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)


@lru_cache(maxsize=64)  # advice asks for the same text many times
def mask(code: str) -> str:
    """`code` with the insides of comments and strings blanked out: the same length, the same lines."""

    def blank(match):
        text = match.group()
        inside = re.sub(r"[^\n]", " ", text)
        return f'"{inside[1:-1]}"' if text[0] == '"' else inside

    # A digit separator (1'000) does not begin a character: it would swallow the rest of the line.
    return BLANK.sub(blank, re.sub(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F]{3})", "_", code))


def without_directives(masked: str) -> str:
    """`masked` with the preprocessor's lines blanked out too."""
    return DIRECTIVE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), masked)


@lru_cache(maxsize=64)
def statements(code: str) -> str:
    """`code` without comments, the insides of strings, and the preprocessor's lines: an #else is no `else`."""
    return without_directives(mask(code))


def line_at(code: str, position: int) -> int:
    """The line, counted from 1, of a position in the text."""
    return code.count("\n", 0, position) + 1


def closing(text: str, opening: int) -> int:
    """Position of the parenthesis that closes the one at `opening`, or the text's length."""
    depth = 0
    for match in re.compile(r"[()]").finditer(text, opening):
        depth += 1 if match.group() == "(" else -1
        if depth == 0:
            return match.start()
    return len(text)


def enclosing(text: str, position: int) -> list[str]:
    """The text before each open brace around `position`, outermost first."""
    heads = []
    for match in re.compile(r"[{}]").finditer(text, 0, position):
        if match.group() == "}":
            heads = heads[:-1]
        else:
            start = max(text.rfind(mark, 0, match.start()) for mark in ";{}") + 1
            heads = [*heads, text[start : match.start()].strip()]
    return heads


def is_scope(head: str) -> bool:
    """Whether the brace after `head` opens a namespace or an extern "C" block rather than a body."""
    return bool(re.match(r'(?:inline\s+)?namespace\b[^()]*$|extern\s*"[^"]*"$', head))


def is_certain(masked: str, position: int) -> bool:
    """Whether no #if is open at `position`: what is inside one may not exist."""
    conditions = re.findall(r"^[ \t]*#[ \t]*(if|endif)", masked[:position], re.MULTILINE)
    return conditions.count("if") == conditions.count("endif")


def _statement(text: str, position: int) -> str:
    """What precedes a position in its statement, such as an `if` or a `for` without braces."""
    depth, start = 0, position
    while start and depth >= 0 and (depth or text[start - 1] not in ";{}"):
        start -= 1
        depth += (text[start] == ")") - (text[start] == "(")
    return text[start:position]


def surroundings(code: str, line: int) -> set[str]:
    """What encloses a line's barrier, as far as braces and its own statement show: a set of "if" and "loop"."""
    text = statements(code)
    lines = text.split("\n")
    if not 0 < line <= len(lines):
        return set()
    within = max(lines[line - 1].find("sync"), 0)  # the barrier itself: a brace may open before it on its line
    position = sum(len(each) + 1 for each in lines[: line - 1]) + within
    words = " ".join([_statement(text, position), *enclosing(text, position)])
    found = {"if": r"\b(?:if|else)\b", "loop": r"\b(?:for|while|do)\b"}
    return {name for name, pattern in found.items() if re.search(pattern, words)}
