"""Why is nothing where a function wrote? `x[rows][:, columns] = 1` and `x.flatten()[...] = 1` write into a copy."""

import ast
import inspect
import textwrap

from llmc.course.mutants.places import quoted

COPIES = {"flatten", "copy", "astype", "take", "repeat", "tolist"}  # methods
INDICES = {"arange", "ravel", "nonzero", "flatnonzero", "where", "argsort", "ix_", "astype"}  # make arrays of them


def written_to_a_copy(function) -> str | None:
    """A sentence about the first line of the function that writes into a copy which is lost; None without one."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None
    pairs = [pair for line in ast.walk(tree) if isinstance(line, ast.Assign) for pair in _assigned(line)]
    arrays = {target.id for target, value in pairs if isinstance(target, ast.Name) and _makes_indices(value)}
    lines = [line for line in ast.walk(tree) if isinstance(line, (ast.Assign, ast.AugAssign))]
    written = [(line, target) for line in lines for target in _written(line)]
    kept = {root_name(target) for _, target in written}  # what is written to by itself, or stored back
    named = {t.id: value for t, value in pairs if isinstance(t, ast.Name) and _copy_in(value, arrays) is value}
    for line, target in written:
        copy = _copy_in(target.value, arrays) if isinstance(target, ast.Subscript) else None
        if copy is None and root_name(target) in named and root_name(named[root_name(target)]) not in kept:
            copy = named[root_name(target)]
        if copy is not None:
            return f"{quoted(line)} writes into a copy, which is lost: {quoted(copy)} makes a new array."
    return None


def _assigned(line):
    """(target, value) of `a = x` and of each part of `a, b = x, y`."""
    for target in line.targets:
        parts = isinstance(target, ast.Tuple) and isinstance(line.value, ast.Tuple)
        yield from zip(target.elts, line.value.elts) if parts else [(target, line.value)]


def _written(line):
    """What a line changes in place: `x` in `x += 1`, `x[0]` in `x[0] = 1`."""
    targets = line.targets if isinstance(line, ast.Assign) else [line.target]
    return [target for target in targets if isinstance(target, ast.Subscript) or isinstance(line, ast.AugAssign)]


def root_name(node):
    """The name of `x` in `x[0].T`."""
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return getattr(node, "id", None)


def _copy_in(node, arrays):
    """The part of an expression, of which something is written to, that makes a copy; None without one."""
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in COPIES:
            return node
        if isinstance(node, ast.Subscript) and _picks(node.slice, arrays):
            return node
        node = node.func if isinstance(node, ast.Call) else node.value
    return None


def _picks(index, arrays) -> bool:
    """Is it surely an array or a list of indices, or a mask? Then `x[index]` is a copy. arrays: names of such."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(
        isinstance(part, ast.List) or getattr(part, "id", None) in arrays or _makes_indices(part) for part in parts
    )


def _makes_indices(value) -> bool:
    """np.arange(…), tokens.ravel(), x > 0"""
    called = getattr(value.func, "attr", "") if isinstance(value, ast.Call) else ""
    return isinstance(value, ast.Compare) or called in INDICES
