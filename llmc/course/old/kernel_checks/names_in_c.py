"""The names of a kernel by type, where each of them can be used, and the factors that a product of it might lack."""

import re
from collections import defaultdict

from llmc.course.old.kernel_checks.pieces import CLOSING, OPENING, matching, split
from llmc.course.old.kernel_checks.tokens import Tokens
from llmc.cuda.emulator.findings.loops import end_after

TYPED = re.compile(
    r"\b(?P<const>const\s+)?(?P<type>float4|float2|float|double|int|unsigned|size_t)\b(?P<star>\s*\*)?\s*(?:__restrict__\s*)?"
    r"\b(?!(?:short|long|char|int)\b)(?P<name>[A-Za-z_]\w*)\s*(?=[=,;)\[])"
)
ANOTHER = re.compile(r"\s*(?P<star>\*)?\s*(?P<name>[A-Za-z_]\w*)\s*(?=[=,;)\[]|$)")  # `b` of `float a = 0, b`
WHOLE = ("int", "unsigned", "size_t")
REAL = ("float", "double")
BEGINS = re.compile(r"\bfor\s*\(\s*(?:int|unsigned|size_t)\s+\w+\s*=\s*$")
FIRST = re.compile(r"\b(\w+)\s*=\s*$")
LOOP = re.compile(r"\bfor\s*\(")
COUNTED = re.compile(r"\bfor\s*\(\s*(?:int|unsigned|size_t)\s+(\w+)\s*=\s*([^;,]+);")
OF_A_THREAD = re.compile(r"\b(\w+)\s*=\s*[^;,=]*(?:\+\s*threadIdx\.x|threadIdx\.x\s*\+)")
OF_A_LANE = re.compile(r"\b(\w+)\s*=\s*threadIdx\.x\s*%\s*32\b")
HALVING = re.compile(r"for\s*\([^;{}]*;[^;{}]*;[^;{})]*(?:/=|\*=|>>=|<<=)")
SHARED = re.compile(r"\b__shared__\s+[\w\s]*?(\w+)\s*\[")


class Names:
    """Names of the text by type, and factors that its statements might lack."""

    def __init__(self, text, all_pieces):
        self._text, self.types, self._scopes = text, {}, defaultdict(list)
        for match in TYPED.finditer(text):
            kind = match["type"], match["const"]
            self._declare(text, match, *kind)
            for start, end in split(text, match.end(), _end(text, match.end()))[1:]:
                other = ANOTHER.match(text, start, end)
                if not other:
                    break
                self._declare(text, other, *kind)
        one = re.finditer(r"__device__[\w\s]*?\bfloat (\w+)\s*\(\s*(?:const )?float \w+\s*\)", text)
        self._reductions = {match[1]: matching(text, text.find("{", match.end())) for match in one}  # where they end
        self.shared = set(SHARED.findall(text))
        self.factors = self._factors(text, all_pieces)

    def reductions_at(self, position) -> list[str]:
        """Functions of one float that end before that place."""
        return [name for name, end in self._reductions.items() if end <= position]

    def stays_in_its_loop(self, name, position) -> bool:
        """Does the innermost loop around that place leave this name as it is?"""
        bodies = [(loop.start(), end_after(self._text, loop.start())) for loop in LOOP.finditer(self._text)]
        around = [(start, end) for start, end in bodies if start < position < end]
        return bool(around) and not re.search(rf"\b{name}\s*[-+*/]?=(?!=)", self._text[slice(*max(around))])

    def _declare(self, text, match, kind, const):
        """Note a name, and from where to where it can be used."""
        self.types.setdefault(
            match["name"], ("const " if const and match["star"] else "") + kind + "*" * bool(match["star"])
        )
        end = _end(text, match.end(), "{;}")  # of a parameter: where the body begins
        body = text[end : end + 1] == "{" and ";" not in text[match.end() : end]
        last = matching(text, end) if body else _end(text, match.end(), "")
        if text[last : last + 1] == ")":  # of a loop's head: as far as the loop
            last = next(
                (
                    end_after(text, loop.start())
                    for loop in LOOP.finditer(text)
                    if loop.end() - 1 == _opening(text, last)
                ),
                last,
            )
        self._scopes[match["name"]].append((_end(text, match.end(), ",;"), last))  # not in what it is first set to

    def known_at(self, position, kinds) -> list[str]:
        """The names of these types that can be used there."""
        there = {name for name, all_of in self._scopes.items() if any(a < position < b for a, b in all_of)}
        return [name for name, kind in self.types.items() if kind in kinds and name in there]

    def begins_a_loop(self, position) -> bool:
        """Does the expression there say where a loop begins, as in `for (int k = …`?"""
        return BEGINS.search(self._text, 0, position) is not None

    def begins_halving(self, position) -> bool:
        """Is it the start of a loop whose counter is halved, or doubled, as for the shuffles of a warp?"""
        head = self._text.rfind("for", 0, position)
        return head >= 0 and bool(HALVING.match(self._text, head)) and ";" not in self._text[head:position]

    def begins_a_whole_number(self, position) -> bool:
        """Does the expression there say what a whole number is first, as in `int row = …`?"""
        name = FIRST.search(self._text, 0, position)
        return bool(name) and self.types.get(name[1]) in WHOLE

    def loops_around(self, position) -> list[tuple[str, str]]:
        """(variable, its first value) of the loops in whose bodies that place is."""
        found = []
        for loop in COUNTED.finditer(self._text, 0, position):
            body = matching(self._text, self._text.index("(", loop.start()))
            if body < position < end_after(self._text, loop.start()):
                found.append((loop[1], " ".join(loop[2].split())))
        return found

    def made_from_threads(self, position) -> list[str]:
        """Whole numbers that can be used there, and are declared as a sum with the thread's number."""
        there = self.known_at(position, WHOLE)
        return [name for name in dict.fromkeys(OF_A_THREAD.findall(self._text, 0, position)) if name in there]

    def lanes_at(self, position) -> list[str]:
        """Whole numbers that can be used there, and are the thread's number in its warp."""
        there = self.known_at(position, WHOLE)
        return [name for name in dict.fromkeys(OF_A_LANE.findall(self._text, 0, position)) if name in there]

    def alike(self, name, position) -> list[str]:
        """Other names of the same type."""
        kind = self.types.get(name)
        group = WHOLE if kind in WHOLE else REAL if kind in REAL else (kind,)
        return [other for other in self.known_at(position, group) if other != name]

    def factors_at(self, position) -> list[str]:
        """Those of the factors whose names can be used there."""
        there = {*self.known_at(position, {*self.types.values()})}
        words = [(f, {*re.findall(r"[A-Za-z_]\w*", f)}) for f in self.factors]
        early = [(f, names) for f, names in words if all(0 <= self._text.find(n) < position for n in names)]
        return [factor for factor, names in early if names & {*self.types} <= there]

    def _factors(self, text, all_pieces) -> list[str]:
        """Operands of products, exponentials and quotients: texts, each once."""
        found = {}
        for piece in all_pieces:
            each = Tokens(text[piece.start : piece.end])
            for k, token in enumerate(each.all):
                if token.text in ("*", "/") and each.is_binary(k):
                    for operand in (each.piece(each.before(k - 1), k - 1), each.piece(k + 1, each.after(k + 1))):
                        found.setdefault(operand.strip(), None)
                elif token.text in ("expf", "__expf") and k + 1 < len(each.all):
                    found.setdefault(each.piece(k, each.after(k)), None)
        floats = [name for name, kind in self.types.items() if kind in REAL]
        wanted = [f for f in found if re.search(r"[A-Za-z_]", f) and not f.startswith(("(size_t", "-"))]
        real = [f for f in wanted if f in floats or "[" in f or "exp" in f or "sqrt" in f]
        return [*dict.fromkeys([*real, *floats])]


def _end(text, position, marks=";") -> int:
    """Where one of these marks comes next, or a bracket closes around the position."""
    depth = 0
    for at in range(position, len(text)):
        if depth == 0 and text[at] in marks:
            return at
        depth += (text[at] in OPENING) - (text[at] in CLOSING)
        if depth < 0 and not (marks == "{;}" and text[at] == ")"):
            return at
        depth = max(depth, 0)
    return len(text)


def _opening(text, closing) -> int:
    """Of the bracket that closes there."""
    depth = 0
    for at in range(closing, -1, -1):
        depth += (text[at] in CLOSING) - (text[at] in OPENING)
        if depth == 0:
            return at
    return 0
