"""Mistakes with whole lines: one left out, two in the other order, `=` for `+=`, a condition that always holds."""

import ast

from llmc.course.old.mutants.places import Place, blocks, named, quoted
from llmc.course.old.mutants.stoppable import is_tick

ASSIGNS = {ast.Add: "+=", ast.Sub: "-=", ast.Mult: "*=", ast.Div: "/="}
OTHER = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}


def changed(function):
    """Every (rank, words, place, what hangs there instead) for the lines of a function."""
    yield from _parameters(function)
    for block in blocks(function):
        lines = block.node
        for k, line in enumerate(lines):
            if is_tick(line) or _is_text(line) or isinstance(line, (ast.FunctionDef, ast.ClassDef)):
                continue
            rest = lines[:k] + lines[k + 1 :]
            if not isinstance(line, (ast.Return, ast.Import, ast.ImportFrom)):
                yield 0 if _adds(line) else 1, f"without {named(line)}", block, rest or [ast.Pass()]
            for rank, words, new in _line(line):
                yield rank, words, Place(block.owner, block.field, k, ()), new
            if k + 1 < len(lines) and _in_this_order(line, lines[k + 1]):
                swapped = [*lines[:k], lines[k + 1], line, *lines[k + 2 :]]
                yield 2, f"with {_both(line, lines[k + 1])} in the other order", block, swapped


def _parameters(function):
    """Two of them swapped, as by a call that has them in another order."""
    given = function.args.args
    place = Place(function.args, "args", None, ())
    for k, a in enumerate(given):
        for j in range(k + 1, len(given)):
            swapped = [*given]
            swapped[k], swapped[j] = given[j], a
            yield 3, f"with the arguments `{a.arg}` and `{given[j].arg}` swapped", place, swapped


def _in_this_order(first, second) -> bool:
    """Does one of two lines use, or write to, what the other one writes to?"""
    if isinstance(second, ast.Return):
        return False
    (reads, writes), (reads_2, writes_2) = _names(first), _names(second)
    return bool(writes & (reads_2 | writes_2) or reads & writes_2)


def _names(line) -> tuple[set, set]:
    """What a line reads, and what it may write to: names it assigns, and those it has as `x[…]`, `x.f()` or `f(x)`."""
    names = [node for node in ast.walk(line) if isinstance(node, ast.Name)]
    reads = {node.id for node in names if isinstance(node.ctx, ast.Load)}
    writes = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    if isinstance(line, (ast.Assign, ast.AugAssign)):
        targets = line.targets if isinstance(line, ast.Assign) else [line.target]
        return reads, writes | {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
    return reads, writes | reads  # a call for its effect, a loop


def _is_text(line) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


def _both(line, other) -> str:
    """ "the lines `a = b` and `c = d`", "the line `a = b` and the lines of `for c in d:`"."""
    if any(isinstance(getattr(each, "body", None), list) for each in (line, other)):
        return f"{named(line)} and {named(other)}"
    return f"the lines {quoted(line)} and {quoted(other)}"


def _adds(line) -> bool:
    """Then it is left out before it gets = for +=, which is right by chance if it adds twice.

    Not the sum of lanes in a kernel's model, which a kernel has in one call.
    """
    return isinstance(getattr(line, "op", None), ast.Add) and "shfl" not in ast.unparse(line.value)


def _line(line):
    if isinstance(line, ast.AugAssign) and type(line.op) in ASSIGNS:
        sign, value = ASSIGNS[type(line.op)], line.value
        yield 0, f"with = in place of {sign} in {quoted(line)}", ast.Assign([line.target], value)
        other = OTHER[type(line.op)]
        words = f"with {ASSIGNS[other]} in place of {sign} in {quoted(line)}"
        counts = isinstance(value, ast.Constant)  # `i -= 1` may go around a mistake of `i += 1`, and rarely mends one
        yield 3 if counts else 1, words, ast.AugAssign(line.target, other(), value)
    elif isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Subscript):
        new = ast.AugAssign(line.targets[0], ast.Add(), line.value)
        yield 3, f"with += in place of = in {quoted(line)}", new
    elif isinstance(line, ast.If):
        yield 1, f"without the condition {quoted(line.test)}", ast.If(ast.Constant(True), line.body, line.orelse)
        yield (
            2,
            f"with {quoted(line.test)} turned around",
            ast.If(ast.UnaryOp(ast.Not(), line.test), line.body, line.orelse),
        )
    elif isinstance(line, (ast.Break, ast.Continue)):
        new = ast.Continue() if isinstance(line, ast.Break) else ast.Break()
        yield 2, f"with `{ast.unparse(new)}` in place of `{ast.unparse(line)}`", new
