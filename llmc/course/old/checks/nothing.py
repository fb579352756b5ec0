"""A function that returns nothing: `return settings.update(…)`, or no `return` at all."""

import ast

from llmc.course.old.checks.text import tree_of
from llmc.course.old.mutants.calls import IN_PLACE
from llmc.course.old.mutants.places import quoted

NOTHING = "nothing was returned"  # how messages say so


def why_nothing(function, first_line) -> list[str]:
    """[a sentence] about the line that makes a function return None, if the message says that it did; else []."""
    tree = tree_of(function) if function and NOTHING in first_line else None
    if tree is None:
        return []
    returns = list(_returns(tree))
    if not returns:
        return ["It has no `return`."]
    for node in returns:
        value = node.value
        method = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)
        if method and value.func.attr in IN_PLACE:
            changed = value.args[0] if value.func.attr == "shuffle" and value.args else value.func.value
            returns_none = f"`{value.func.attr}` changes {quoted(changed)} itself and returns None"
            instead = f"write {quoted(value)} on a line of its own and `return {ast.unparse(changed)}` behind it"
            return [f"{returns_none}: {instead}."]
    return []


def _returns(node):
    """The `return` lines of a function, without those of functions inside it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Return):
            yield child
        elif not isinstance(child, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            yield from _returns(child)
