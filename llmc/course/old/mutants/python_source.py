"""Every small mistake that fits into a piece of Python: a term left out, a sign, an axis, a name, a bound, a line.

    for words in mutants(tree):   # "without the term `through_mean`"
        compile(tree, …)          # the tree holds that mistake until the loop goes on, then it is whole again

The tree is changed in place, because a copy for every mistake would take longer than all the rest.
"""

import ast
from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import dataclass

from llmc.course.old.mutants import expressions, hidden, keys, loops, statements, turns
from llmc.course.old.mutants.places import Place, local_names, places, quoted
from llmc.course.old.mutants.stoppable import compiled

SHORT = (ast.Assign, ast.AugAssign)  # lines that can be quoted
LIKELY = 1  # the highest rank of mistakes that are also made in pairs


@dataclass(frozen=True)
class Mistake:
    """rank: 0 for the likeliest kind. changes: (place, what hangs there instead)."""

    rank: int
    words: str
    changes: tuple[tuple[Place, object], ...]

    @property
    def kind(self) -> str:
        """Its words without the place: "with sum in place of mean"."""
        return self.words.split(" in `")[0]


def mutants(tree, more=None, also=()):
    """Words for each mistake, the likeliest kinds first; the tree holds the mistake while the caller looks at it.

    Only bodies of functions are changed, and not those that Numba compiles: some mutants crash its compiler. The words
    go on from "our solution": "without …", "with …", "from 1 on …". more: a function of a place and of the names
    known there that yields further (rank, words, other expression); words then name the function too, unless it is the
    first one. also: modules whose `changed` makes further changes of a function.
    """
    single = _single(tree, more, also)
    yield from _made(tree, sorted([*single, *_everywhere(single, tree)], key=_outermost_first))


def made_by(tree, modules):
    """The same, for what `changed` of these modules alone makes of the functions."""
    found = [
        Mistake(rank, words, changes)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and not compiled(function)
        for module in modules
        for rank, words, changes in module.changed(function)
    ]
    yield from _made(tree, sorted(found, key=_outermost_first))


def likely(tree, more=None):
    """The same, for the likeliest kinds alone: a term, a factor or a line left out, a sign, an axis, = for +=."""
    yield from _made(tree, _likely(tree, more))


def pairs(tree, more=None):
    """The same, for every two of the likeliest mistakes together."""
    for first in _likely(tree, more):
        with _hanging(first.changes):
            seconds = _likely(tree, more)  # of what is left of it
            yield from (f"{first.words} and {words}" for words in _made(tree, seconds))


def _likely(tree, more):
    return sorted((mistake for mistake in _single(tree, more) if mistake.rank <= LIKELY), key=_outermost_first)


def _outermost_first(mistake):
    """A missing term says more than a missing factor that makes the term 0."""
    return mistake.rank, min(len(place.above) for place, _ in mistake.changes)


def _single(tree, more, also=()) -> list[Mistake]:
    found = []
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and not compiled(node)]
    for function in functions:
        inside = f", in {function.name}" if more and function is not functions[0] else ""
        lines = local_names(function)
        for place in places(function):
            names = [name for name, line in lines.items() if line <= place.node.lineno]
            changed = [*expressions.changed(place, names), *(more(place, names) if more else ())]
            line = next((node for node in place.above if isinstance(node, ast.stmt)), None)
            within = f" in {quoted(line)}" if more and isinstance(line, SHORT) else ""
            for rank, words, new in changed:
                found.append(Mistake(rank, words + ("" if " in `" in words else within) + inside, ((place, new),)))
        for rank, words, place, new in statements.changed(function):
            if not (more and place.field == "args"):  # a kernel's arguments are given
                found.append(Mistake(rank, words + inside, ((place, new),)))
        for kind in (loops, turns, keys, hidden, *also):
            found += [Mistake(rank, words + inside, changes) for rank, words, changes in kind.changed(function)]
    return [mistake for mistake in found if not any(_explodes(*change) for change in mistake.changes)]


def _explodes(place, new) -> bool:
    """Would it take for ever inside a single operation, where no deadline reaches?

    `N**N` for `N**2`, with integers in the millions; a list appended to itself, which NumPy would unfold to its end;
    `x.shape * n`, n shapes one behind the other.
    """
    owner = place.owner
    if isinstance(new, ast.BinOp) and "shape" in (getattr(new.left, "attr", ""), getattr(new.right, "attr", "")):
        return True
    if not isinstance(new, ast.Name):
        return False
    if isinstance(owner, ast.BinOp) and isinstance(owner.op, ast.Pow):
        return place.field == "right" and isinstance(place.node, ast.Constant)
    if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute) and place.field == "args":
        return owner.func.attr in ("append", "extend", "insert") and getattr(owner.func.value, "id", "") == new.id
    return False


def _everywhere(mistakes, tree):
    """One mistake made in each of the places where it fits; of a name, if these are all places where it is read."""
    reads = Counter(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
    same = defaultdict(list)
    for mistake in mistakes:
        same[mistake.kind].append(mistake)
    for kind, members in same.items():
        changes = tuple(change for mistake in members for change in mistake.changes)
        if kind.startswith("with order"):  # reshaped there and back in another order: the same
            continue
        old = [getattr(place.node, "id", "") for place, _ in changes]
        some = old[0] and len(old) < reads[old[0]]
        if len(members) > 1 and members[0].rank <= 3 and _apart(changes) and not some:
            texts = {ast.unparse(place.node) for place, _ in changes} if kind.startswith("without the division") else ()
            within = f" in `{min(texts)}`" if len(texts) == 1 else ""
            yield Mistake(members[0].rank + 1, f"{kind}{within}, everywhere", changes)


def _apart(changes) -> bool:
    """Does none of the places lie inside another?"""
    nodes = {id(place.node) for place, _ in changes}
    blocks = any(isinstance(place.node, list) for place, _ in changes)
    return len(nodes) == len(changes) and not blocks and not any(id(n) in nodes for p, _ in changes for n in p.above)


def _made(tree, mistakes):
    for mistake in mistakes:
        with _hanging(mistake.changes):
            yield mistake.words


@contextmanager
def _hanging(changes):
    before = [(place, place.node) for place, _ in changes]
    for place, new in changes:
        place.hang(new)
        for node in new if isinstance(new, list) else [new]:
            ast.fix_missing_locations(node)  # of the whole tree it would take longer than the rest
    try:
        yield
    finally:
        for place, old in before:
            place.hang(old)
