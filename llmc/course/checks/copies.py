"""Why is nothing where a function wrote? `x[rows][:, columns] = 1` and `x.flatten()[...] = 1` write into a copy."""

import ast
import inspect
import textwrap

from llmc.course.mutants.places import quoted

COPIES = {"flatten", "copy", "astype", "take", "repeat", "tolist"}  # methods
INDICES = {
    "arange",
    "ravel",
    "nonzero",
    "flatnonzero",
    "where",
    "argsort",
    "ix_",
    "astype",
    "flatten",
}  # arrays of them


def written_to_a_copy(function) -> str | None:
    """A sentence about the first line of the function that writes into a copy that has no name; None without one."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None
    for line in ast.walk(tree):
        targets = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
        for target in targets if isinstance(line, (ast.Assign, ast.AugAssign)) else ():
            copy = _copy_in(target.value) if isinstance(target, ast.Subscript) else None
            if copy is not None:
                return f"{quoted(line)} writes into a copy, which is lost: {quoted(copy)} makes a new array."
    return None


def _copy_in(node):
    """The part of an expression, of which something is written to, that makes a copy; None without one."""
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in COPIES:
            return node
        if isinstance(node, ast.Subscript) and _picks(node.slice):
            return node
        node = node.func if isinstance(node, ast.Call) else node.value
    return None


def _picks(index) -> bool:
    """Is it surely an array or a list of indices, or a mask? Then `x[index]` is a copy."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    called = [getattr(part.func, "attr", "") for part in parts if isinstance(part, ast.Call)]
    return any(isinstance(part, (ast.List, ast.Compare)) for part in parts) or any(name in INDICES for name in called)
