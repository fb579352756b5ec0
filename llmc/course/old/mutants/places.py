"""Places in a tree of Python source where a node hangs, and how a sentence quotes what is there."""

import ast
import re
from dataclasses import dataclass

from llmc.course.old.mutants.stoppable import is_tick

QUOTED = 64  # characters of source that a sentence quotes at most
ENOUGH = 12  # characters that make a quotation recognisable: the part around `x` alone would not


@dataclass(frozen=True)
class Place:
    """`owner.field`, or `owner.field[index]`; above are the nodes that it lies in, up to its line, nearest first."""

    owner: ast.AST
    field: str
    index: int | None
    above: tuple

    @property
    def node(self):
        """What hangs there: a node, or the list of a block's lines."""
        value = getattr(self.owner, self.field)
        return value if self.index is None else value[self.index]

    def hang(self, node):
        """Put something else there."""
        if self.index is None:
            setattr(self.owner, self.field, node)
        else:
            getattr(self.owner, self.field)[self.index] = node

    @property
    def around(self) -> str:
        """ " in `dnorm.mean(axis=-1)`": the smallest piece of source around it that shows where; "" if too long.

        A piece that holds the same several times would not show which: then a smaller one, in which it stands once.
        """
        own, once = ast.unparse(self.node), ""
        for node, outer in zip(self.above, (*self.above[1:], None)):
            called = isinstance(outer, ast.Call) and outer.func is node  # x.mean is not yet x.mean()
            text = ast.unparse(node) if isinstance(node, ast.expr) and not called else ""
            if once and times(own, text) > 1:
                return f" in `{once}`"
            if len(text) > max(ENOUGH, len(own) + 2):
                return f" in `{text}`" if len(text) <= QUOTED else ""
            once = text if times(own, text) == 1 else ""
        return ""

    def around_operand(self, operand) -> str:
        """The same for an operand of the operation there: this alone, if more around it would not say which operand."""
        around, text = self.around, ast.unparse(operand)
        several = times(text, around) > 1 == times(text, ast.unparse(self.node))
        return f" in {quoted(self.node)}" if several else around


def times(piece, text) -> int:
    """How often a piece of source stands in a text, not as a part of a longer name."""
    return len(re.findall(rf"(?<![\w.]){re.escape(piece)}(?!\w)", text))


def quoted(node) -> str:
    """ "`rstd[..., None]`": its source in one line; the middle of a long one is left out."""
    return shortened(" ".join(ast.unparse(node).split()))


def named(line) -> str:
    """ "the line `a = b`", "the lines of `for a in b:`": what a sentence calls a line, a loop or a condition."""
    if isinstance(getattr(line, "body", None), list):
        return f"the lines of {shortened(ast.unparse(line).splitlines()[0])}"
    return f"the line {quoted(line)}"


def shortened(text) -> str:
    """The same of that source."""
    half = QUOTED // 2
    return f"`{text}`" if len(text) <= QUOTED else f"`{text[:half].rstrip()} … {text[-half:].lstrip()}`"


def places(function) -> list[Place]:
    """Every place of an expression in a function's own lines; functions inside of it are not entered."""
    return [place for line in function.body for place in _below(line, ())]


def _below(node, above):
    if is_tick(node) or isinstance(node, ast.Raise):  # only the words of a message would change
        return
    above = (node, *above)
    for field, value in ast.iter_fields(node):
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or isinstance(child, (ast.FunctionDef, ast.ClassDef, ast.Lambda)):
                continue
            if isinstance(child, (ast.expr, ast.slice)):
                yield Place(node, field, index, above)
            yield from _below(child, above)


def blocks(function) -> list[Place]:
    """Every list of lines in a function: its own body, and those of its loops and conditions."""
    found = []
    for node in [function, *(inner for line in function.body for inner in ast.walk(line))]:
        own = node is function or not isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Lambda))
        if own:
            found += [Place(node, field, None, ()) for field in ("body", "orelse") if _is_block(node, field)]
    return found


def _is_block(node, field) -> bool:
    lines = getattr(node, field, None)
    return isinstance(lines, list) and bool(lines)


def local_names(function) -> dict[str, int]:
    """Its parameters and what it assigns: the line from which each name holds something, in the order of the source.

    Not the rest that `first, *rest = …` takes: a list, which replaces no number and no array.
    """
    arguments = function.args
    rests = {id(node.value) for node in ast.walk(function) if isinstance(node, ast.Starred)}
    lines = {a.arg: 0 for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    stored = (n for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    for node in sorted(stored, key=lambda n: (n.lineno, n.col_offset)):
        if id(node) not in rests:
            lines.setdefault(node.id, node.lineno)
    return lines


def with_fields(node, **fields):
    """A copy of a node with other fields; its children are shared."""
    return type(node)(**{name: value for name, value in ast.iter_fields(node)} | fields)
