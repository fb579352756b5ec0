"""Mistakes with the end of a loop: what belongs behind it is done in every turn, and the other way round."""

import ast

from llmc.course.old.mutants.brackets import sum_of, terms_of
from llmc.course.old.mutants.loops import names_in, root_of, written
from llmc.course.old.mutants.places import Place, blocks, quoted

BEHIND = "with {} once behind the loop over {}, not in every turn"
INSIDE = "with {} in every turn of the loop over {}, not once behind it"


def changed(function):
    """Every (rank, words, changes) for the loops of a function; changes: (place, what hangs there instead)."""
    for block in blocks(function):
        for k, loop in enumerate(block.node):
            if isinstance(loop, ast.For):
                yield from _behind(block, k)
                yield from _inside(block, k)


def _behind(block, k):
    """`total += b`, or the b in `total += x + b`, behind the loop at line k if no turn changes it."""
    lines, loop = block.node, block.node[k]
    for place, tests in _added(loop, ()):
        for moved, left in _same_in_every_turn(place.node, tests, loop):
            words = BEHIND.format(quoted(moved), quoted(loop.target))
            for test in reversed(tests):
                moved = ast.If(test, [moved], [])
            yield 2, words, ((place, left), (block, [*lines[: k + 1], moved, *lines[k + 1 :]]))


def _inside(block, k):
    """The line behind the loop at line k as the last one of every turn."""
    lines, loop = block.node, block.node[k]
    line = lines[k + 1] if k + 1 < len(lines) else None
    if isinstance(line, ast.AugAssign) or isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Subscript):
        turn = ast.For(loop.target, loop.iter, [*loop.body, line], loop.orelse)
        words = INSIDE.format(quoted(line), quoted(loop.target))
        yield 2, words, ((block, [*lines[:k], turn, *lines[k + 2 :]]),)


def _added(owner, tests):
    """(place, conditions) of every line `a += b` of a loop, and of the loops and conditions in it."""
    for n, line in enumerate(owner.body):
        if isinstance(line, ast.AugAssign):
            yield Place(owner, "body", n, ()), tests
        elif isinstance(line, (ast.For, ast.If)):
            yield from _added(line, (*tests, line.test) if isinstance(line, ast.If) else tests)


def _same_in_every_turn(line, tests, loop):
    """(what is moved, what is left of the line): the whole line, or one term of a sum."""
    stored = {n.id for n in ast.walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    changing = stored.union(*(written(n) for n in ast.walk(loop) if isinstance(n, (ast.Assign, ast.AugAssign))))
    if (names_in(line.target).union(*map(names_in, tests)) - {root_of(line.target)}) & changing:
        return
    if not names_in(line.value) & changing:
        yield line, ast.Pass()
    elif isinstance(line.op, (ast.Add, ast.Sub)):
        parts = terms_of(line.value)
        for k, (sign, term) in enumerate(parts if len(parts) > 1 else ()):
            if not names_in(term) & changing:
                minus = (sign > 0) == isinstance(line.op, ast.Sub)
                moved = ast.AugAssign(line.target, ast.Sub() if minus else ast.Add(), term)
                yield moved, ast.AugAssign(line.target, line.op, sum_of(parts[:k] + parts[k + 1 :]))
