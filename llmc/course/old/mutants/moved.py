"""Lines of a learner's function that stand in the wrong place, or lack what makes them right.

As in `missing`, these changes are made in the learner's function alone.
"""

import ast

from llmc.course.old.mutants.brackets import sum_of, terms_of
from llmc.course.old.mutants.loops import names_in, root_of
from llmc.course.old.mutants.places import Place, blocks, named, quoted
from llmc.course.old.mutants.stoppable import is_tick

GROWS = {"append", "pop", "remove", "sort", "insert", "update", "setdefault", "extend", "clear"}


def changed(function):
    """Every (rank, words, changes) for the lines of a function; changes: (place, what hangs there instead)."""
    yield from _copied_arguments(function)
    for block in blocks(function):
        for k, line in enumerate(block.node):
            if is_tick(line):
                continue
            yield from _earlier(block, k)
            yield from _written_into(function, block, k)
            if isinstance(line, (ast.For, ast.While, ast.If)):
                yield from _out_of(block, k)
                yield from _into(block, k)
            if isinstance(line, ast.For):
                yield from _in_order(block, k)
                yield from _returned_behind(block, k)
            if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Subscript):
                yield from _counted(block, k)
                yield from _into_the_view(block, k)


def _head(line):
    return next((getattr(line, field) for field in ("test", "iter") if hasattr(line, field)), line)


def _copied_arguments(function):
    """A copy of an argument that the function changes."""
    nodes = list(ast.walk(function))
    stored = [n for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)]
    stored += [n.target for n in nodes if isinstance(n, ast.AugAssign)]
    stored += [n.func.value for n in nodes if isinstance(n, ast.Call) and getattr(n.func, "attr", "") in GROWS]
    stored += [n.value for n in nodes if isinstance(n, ast.keyword) and n.arg == "out"]
    for name in [a.arg for a in function.args.args if a.arg in {root_of(node) for node in stored}]:
        first = ast.parse(f"{name} = {name}.copy()").body[0]
        ast.copy_location(first, function.body[0])
        place = Place(function, "body", None, ())
        yield 2, f"with {quoted(first)} as the first line of {function.name}", ((place, [first, *function.body]),)


def _earlier(block, k):
    """Line k before one that is not its neighbour, if both have a name in common."""
    lines, line = block.node, block.node[k]
    for j in range(k - 1):
        if is_tick(lines[j]) or isinstance(line, ast.Return) or not names_in(line) & names_in(lines[j]):
            continue
        new = [*lines[:j], line, *lines[j:k], *lines[k + 1 :]]
        words = f"with {named(line)} before {named(lines[j])}"
        yield 3, words, ((block, new),)
        new = [*lines[:j], *lines[j + 1 : k + 1], lines[j], *lines[k + 1 :]]
        words = f"with {named(lines[j])} behind {named(line)}"
        yield 3, words, ((block, new),)


def _out_of(block, k):
    """The last line of a loop or condition behind it, and the first one before it."""
    lines, outer = block.node, block.node[k]
    body = [line for line in outer.body if not is_tick(line)]
    ticks = [line for line in outer.body if is_tick(line)]
    if len(body) < 2:
        return
    around = Place(outer, "body", None, ())
    behind = [*lines[: k + 1], body[-1], *lines[k + 1 :]]
    where = f"`{type(outer).__name__.lower()}` of {quoted(_head(outer))}"
    words = f"with the line {quoted(_head(body[-1]))} behind the {where}, not in it"
    yield 2, words, ((block, behind), (around, [*ticks, *body[:-1]]))
    before = [*lines[:k], body[0], *lines[k:]]
    words = f"with the line {quoted(_head(body[0]))} before the {where}, not in it"
    yield 2, words, ((block, before), (around, [*ticks, *body[1:]]))


def _into(block, k):
    """The line behind a loop or condition as its last one."""
    lines, outer = block.node, block.node[k]
    if k + 1 < len(lines) and not isinstance(outer.body[-1], (ast.Return, ast.Continue, ast.Break)):
        around = Place(outer, "body", None, ())
        where = f"`{type(outer).__name__.lower()}` of {quoted(_head(outer))}"
        words = f"with the line {quoted(_head(lines[k + 1]))} in the {where}, not behind it"
        yield 2, words, ((block, [*lines[: k + 1], *lines[k + 2 :]]), (around, [*outer.body, lines[k + 1]]))


def _in_order(block, k):
    """A loop over what is sorted, also by what its turns look up, or in the other direction."""
    loop = block.node[k]
    place, texts = Place(loop, "iter", None, ()), ["sorted(x)", "list(reversed(x))", "list(x)"]
    if isinstance(loop.target, ast.Name):
        name = loop.target.id
        for node in ast.walk(ast.Module(loop.body, [])):
            looks = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)
            if looks and getattr(node.slice, "id", "") == name:
                texts += [f"sorted(x, key=lambda {name}: {node.value.id}[{name}])"]
                texts += [f"sorted(x, key=lambda {name}: -{node.value.id}[{name}])"]
    for text in dict.fromkeys(texts):
        new = _filled(text, loop.iter)
        yield 3, f"with {quoted(new)} in place of {quoted(loop.iter)} in the loop over it", ((place, new),)


def _filled(text, node):
    """The call `text` with the node in place of its first argument, x."""
    tree = ast.parse(text, mode="eval").body
    inner = tree
    while not isinstance(inner.args[0], ast.Name):
        inner = inner.args[0]
    inner.args[0] = node
    return tree


def _returned_behind(block, k):
    """`return` in the first turn: one of a condition's two results belongs behind the loop."""
    lines, loop = block.node, block.node[k]
    last = loop.body[-1]
    if isinstance(last, ast.If) and len(last.body) == len(last.orelse) == 1:
        one, other = last.body[0], last.orelse[0]
        if isinstance(one, ast.Return) and isinstance(other, ast.Return):
            for kept, moved, test in ((one, other, last.test), (other, one, ast.UnaryOp(ast.Not(), last.test))):
                turn = [*loop.body[:-1], ast.If(test, [kept], [])]
                words = f"with {quoted(moved)} behind the loop over {quoted(loop.iter)}, not in its first turn"
                yield (
                    1,
                    words,
                    ((Place(loop, "body", None, ()), turn), (block, [*lines[: k + 1], moved, *lines[k + 1 :]])),
                )
    elif isinstance(last, ast.Return) and len(loop.body) > 1:
        words = f"with {quoted(last)} behind the loop over {quoted(loop.iter)}, not in its first turn"
        yield (
            1,
            words,
            ((Place(loop, "body", None, ()), loop.body[:-1]), (block, [*lines[: k + 1], last, *lines[k + 1 :]])),
        )


def _written_into(function, block, k):
    """`dw += y` and `dw[...] = y`, for an argument dw, in place of `dw = y` and of `f(…, out=dw)`."""
    line, value, name = block.node[k], None, None
    if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
        name, value = line.targets[0].id, line.value
    elif isinstance(line, ast.Expr) and isinstance(line.value, ast.Call):
        out = [keyword for keyword in line.value.keywords if keyword.arg == "out"]
        name = getattr(out[0].value, "id", None) if out else None
        others = [keyword for keyword in line.value.keywords if keyword.arg != "out"]
        value = ast.Call(line.value.func, line.value.args, others)
    elif isinstance(line, ast.AugAssign) and isinstance(line.target, ast.Name):
        name, value = line.target.id, line.value
    if name in [argument.arg for argument in function.args.args] and value is not None:
        terms = [(sign, term) for sign, term in terms_of(value) if getattr(term, "id", "") != name]
        left = sum_of(terms) if terms else value  # of `dx = dx + y`
        added = ast.AugAssign(ast.Name(name, ast.Store()), ast.Add(), left)
        whole = ast.Subscript(ast.Name(name, ast.Load()), ast.Constant(...), ast.Store())
        for new in (added, ast.Assign([whole], value)):
            if ast.dump(new) == ast.dump(line):
                continue
            ast.copy_location(new, line)
            place = Place(block.owner, block.field, k, ())
            yield 1, f"with {quoted(new)} in place of {quoted(line)}", ((place, new),)


def _counted(block, k):
    """`d[key] = d.get(key, 0) + value` for `d[key] = value`."""
    line = block.node[k]
    target = line.targets[0]
    if isinstance(target.value, ast.Name) and not isinstance(target.slice, (ast.Slice, ast.Tuple)):
        key = ast.unparse(target.slice)
        value = ast.BinOp(ast.parse(f"{target.value.id}.get({key}, 0)", mode="eval").body, ast.Add(), line.value)
        new = ast.copy_location(ast.Assign([target], value), line)
        yield 2, f"with {quoted(new)} in place of {quoted(line)}", ((Place(block.owner, block.field, k, ()), new),)


def _into_the_view(block, k):
    """`parts[k][...] = y` for `parts[k] = y`, where a list of views holds the array."""
    line = block.node[k]
    target = line.targets[0]
    if isinstance(target.value, ast.Name) and not isinstance(target.slice, (ast.Slice, ast.Tuple)):
        inside = ast.Subscript(ast.Subscript(target.value, target.slice, ast.Load()), ast.Constant(...), ast.Store())
        new = ast.copy_location(ast.Assign([inside], line.value), line)
        yield 1, f"with {quoted(new)} in place of {quoted(line)}", ((Place(block.owner, block.field, k, ()), new),)
