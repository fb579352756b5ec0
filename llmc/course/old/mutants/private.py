"""Names of our solution that a learner does not see: what a message quotes of them, and what they stand for."""

import ast
import re

from llmc.course.old.mutants.loops import root_of
from llmc.course.old.mutants.places import shortened

QUOTES = re.compile(r"`([^`]*)`")
MOST = 3  # names that are explained


def private_names(words, tree) -> list[str]:
    """The names in the quotations of a sentence that the solution's function has given, in their order."""
    found = {}
    function = tree.body[-1]
    given = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)} if hasattr(function, "args") else set()
    stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for quotation in QUOTES.findall(words):
        found |= dict.fromkeys(re.findall(r"(?<![.\w\"'])[A-Za-z_]\w*", quotation))
    return [name for name in found if name in stored - given]


def glossary(words, tree) -> str:
    """ "In our solution `u` is `scale * x` and `t` is `np.tanh(u)`.", or ""."""
    said = []
    for name in private_names(words, tree):
        lines = [line for line in ast.walk(tree.body[-1]) if name in _given_in(line)]
        first = next((line for line in lines if isinstance(line, ast.Assign)), None)
        if first is None:
            continue  # the index of a loop, which its place explains
        value = _value(first, name)
        empty = isinstance(value, ast.Dict | ast.List) and ast.unparse(value) in ("{}", "[]")
        if empty or len(shortened(" ".join(ast.unparse(value).split()))) > 62 or f"`{name} = " in words:
            continue
        said.append(f"`{name}` {'begins as' if len(lines) > 1 else 'is'} `{' '.join(ast.unparse(value).split())}`")
    said = said[:MOST]
    if not said:
        return ""
    return f"In our solution {' and '.join([', '.join(said[:-1]), said[-1]] if said[1:] else said)}."


def _value(line, name):
    """What the line gives the name, also in `a, b = x, y`."""
    for target in line.targets:
        parts = getattr(target, "elts", None)
        if parts and isinstance(line.value, ast.Tuple) and len(parts) == len(line.value.elts):
            return next((v for part, v in zip(parts, line.value.elts) if root_of(part) == name), line.value)
        at = [k for k, part in enumerate(parts or []) if root_of(part) == name]
        if at:
            return ast.Subscript(line.value, ast.Constant(at[0]), ast.Load())
    return line.value


def _given_in(line) -> set:
    """Names to which a line, not one in it, gives something."""
    if isinstance(line, ast.AugAssign):
        return {root_of(line.target)}
    if isinstance(line, ast.Assign):
        return {root_of(part) for target in line.targets for part in getattr(target, "elts", [target])}
    if isinstance(line, ast.Call):
        return {getattr(keyword.value, "id", None) for keyword in line.keywords if keyword.arg == "out"}
    return set()
