"""Running totals that are not kept in step: one of two is not rescaled, one is read too early, or starts otherwise.

As in `missing`, these changes are made in the learner's function alone. Rank 0 is the likeliest kind.
"""

import ast
import copy

from llmc.course.old.mutants.brackets import terms_of
from llmc.course.old.mutants.loops import names_in, written
from llmc.course.old.mutants.places import Place, blocks, quoted
from llmc.course.old.mutants.stoppable import is_tick


def changed(function):
    """Every (rank, words, changes) for the loops of a function; changes: (place, what hangs there instead)."""
    for block in blocks(function):
        for k, line in enumerate(block.node):
            if isinstance(line, ast.For):
                yield from _rescaled(Place(line, "body", None, ()))
                yield from _whole_first(block, k)
                yield from _first_turn(block, k)


def _rescaled(body):
    """`l = l * fix + x` for `l = l + x` where another line of the loop has `acc = acc * fix + y`."""
    totals = {k: found for k, line in enumerate(body.node) if (found := _total(line))}
    factors = {ast.unparse(factor): factor for _, factor, _ in totals.values() if factor is not None}
    for k, (name, factor, added) in totals.items():
        for other in factors.values() if factor is None else ():
            if name in names_in(other):
                continue
            value = ast.BinOp(ast.BinOp(ast.Name(name, ast.Load()), ast.Mult(), other), ast.Add(), added)
            new = ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), body.node[k])
            words = f"with {quoted(new)} in place of {quoted(body.node[k])}"
            yield 0, words, ((Place(body.owner, body.field, k, ()), new),)


def _total(line):
    """(name, factor or None, what is added) of `a = a * factor + x`, `a = a + x` and `a += x`; None of others."""
    if isinstance(line, ast.AugAssign) and isinstance(line.target, ast.Name) and isinstance(line.op, ast.Add):
        return line.target.id, None, line.value
    if not (isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name)):
        return None
    name, terms = line.targets[0].id, terms_of(line.value)
    if len(terms) != 2 or any(sign < 0 for sign, _ in terms):
        return None
    for (_, mine), (_, added) in (terms, terms[::-1]):
        factors = [mine.left, mine.right] if isinstance(mine, ast.BinOp) and isinstance(mine.op, ast.Mult) else [mine]
        rest = [factor for factor in factors if getattr(factor, "id", "") != name]
        if len(rest) == len(factors) - 1 and name not in names_in(added):
            return name, rest[0] if rest else None, added
    return None


def _whole_first(block, k):
    """A loop of its own for `seen += n`, before the loop at line k, whose other lines need the whole sum."""
    lines, loop = block.node, block.node[k]
    for n, line in enumerate(loop.body):
        if not (isinstance(line, ast.AugAssign) and isinstance(line.target, ast.Name)):
            continue
        name, others = line.target.id, [*loop.body[:n], *loop.body[n + 1 :]]
        stored = set().union(*(written(each) for each in others if isinstance(each, (ast.Assign, ast.AugAssign))))
        if stored & names_in(line.value) or not any(name in names_in(each) for each in others):
            continue
        ticks = [each for each in loop.body if is_tick(each)]
        first = ast.copy_location(ast.For(loop.target, loop.iter, [*ticks, line], []), loop)
        rest = ast.copy_location(ast.For(loop.target, loop.iter, others, loop.orelse), loop)
        words = f"with {quoted(line)} for all turns in a loop of its own, before the loop over {quoted(loop.iter)}"
        yield 1, words, ((block, [*lines[:k], first, rest, *lines[k + 1 :]]),)


def _first_turn(block, k):
    """`total = E(0)` before `for s in range(1, n): total += E(s)`, for a first value that is made otherwise."""
    lines, loop = block.node, block.node[k]
    bounds = loop.iter.args if isinstance(loop.iter, ast.Call) and getattr(loop.iter.func, "id", "") == "range" else []
    if len(bounds) != 2 or not isinstance(bounds[0], ast.Constant) or not isinstance(loop.target, ast.Name):
        return
    for line in loop.body:
        total = _total(line)
        if total is None or total[1] is not None:
            continue
        for j, start in enumerate(lines[:k]):
            if isinstance(start, ast.Assign) and getattr(start.targets[0], "id", "") == total[0]:
                value = _with_name(total[2], loop.target.id, ast.Constant(bounds[0].value - 1))
                if names_in(start.value) and ast.dump(value) != ast.dump(start.value):
                    new = ast.copy_location(ast.Assign(start.targets, value), start)
                    words = f"with {quoted(new)} in place of {quoted(start)}"
                    yield 1, words, ((Place(block.owner, block.field, j, ()), new),)


def _with_name(node, name, value):
    """A copy of the expression with the value in place of the name."""

    class _Other(ast.NodeTransformer):
        def visit_Name(self, inner):
            return value if inner.id == name else inner

    return _Other().visit(copy.deepcopy(node))
