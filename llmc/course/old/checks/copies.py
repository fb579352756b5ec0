"""Why is nothing where a function wrote? `x[rows][:, columns] = 1` and `x.flatten()[...] = 1` write into a copy.

Some make a copy only sometimes, as `x[rows]` and `x[:, :3].ravel()` do: the arrays of a call, in a trace, show which.
"""

import ast
import inspect
import textwrap

import numpy as np

from llmc.course.old.mutants.places import quoted, shortened

COPIES = {"flatten", "copy", "astype", "take", "repeat", "tolist"}  # methods
OF_ARRAYS = {f"np.{name}" for name in ("ravel", "reshape", "asarray", "array", "ascontiguousarray", "copy")}
JOINED = {f"np.{name}" for name in ("concatenate", "stack", "hstack", "vstack")}  # of several arrays
ABOUT = {"shape", "size", "ndim", "dtype"}  # no numbers of an array
INDICES = {"arange", "ravel", "nonzero", "flatnonzero", "where", "argsort", "ix_", "astype"}  # make arrays of them


def written_to_a_copy(function, trace=None, name=None) -> str | None:
    """A sentence about the first line of the function that writes into a copy which is lost; None without one.

    trace: a `traced.Trace` of one of its calls. name: of an argument that is left as it was: another function may have
    been given a copy of it.
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None
    pairs = [pair for line in ast.walk(tree) if isinstance(line, ast.Assign) for pair in _assigned(line)]
    arrays = {target.id for target, value in pairs if isinstance(target, ast.Name) and _makes_indices(value)}
    lines = [line for line in ast.walk(tree) if isinstance(line, (ast.Assign, ast.AugAssign))]
    written = [(line, target) for line in lines for target in _written(line)]
    values = {step.text: step.value for step in trace.steps} if trace else {}
    unwritten = name and name.partition("[")[0]  # of `logits[..., :V]`
    given = _given_away(tree, name, arrays, values) if name else None
    if given:
        return given
    named = {t.id: (value, _copy_in(value, arrays, values)) for t, value in pairs if isinstance(t, ast.Name)}
    for line, target in written:
        copy = _copy_in(target.value, arrays, values) if isinstance(target, ast.Subscript) else None
        whole, made = named.get(root_name(target), (None, None))
        root = root_name(whole)
        if copy is None and made is not None and _is_lost(tree, line, root_name(target), root):
            copy = made
        if copy is not None:
            return f"{quoted(line)} writes into a copy, which is lost: {quoted(copy)} makes a new array."
        if made is not None and name and root == unwritten:  # what else it may be good for
            return f"{quoted(line)} does not write to {name}: {quoted(made)} makes a new array."
    return None


def _given_away(tree, name, arrays, values):
    """A sentence about `update(m[r].copy())`, a call that writes, if its argument is a copy of `name`; or None."""
    for line in ast.walk(tree):
        for part in line.value.args if isinstance(line, ast.Expr) and isinstance(line.value, ast.Call) else ():
            copy = _copy_in(part, arrays, values) if root_name(part) == name else None
            if copy is not None:
                return f"{quoted(copy)} makes a new array: what {quoted(line.value.func)} writes into it is lost."
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
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call, ast.ListComp)):
        node = node.generators[0].iter if isinstance(node, ast.ListComp) else _inner(node)
    return getattr(node, "id", None)


def _inner(node):
    """x of `x[0]`, `x.T`, `x.ravel()` and `np.ravel(x)`."""
    if not isinstance(node, ast.Call):
        return node.value
    given = node.args and ast.unparse(node.func) in OF_ARRAYS | JOINED
    return node.args[0] if given else getattr(node.func, "value", node.func)


def _is_lost(tree, line, name, root) -> bool:
    """Does nothing that is returned, or written to `root` or an argument, come from what it writes into `name`?"""
    reached, before, later = {name}, set(), _later(tree, line)
    while before != reached:
        before = set(reached)
        for line in later:
            if isinstance(line, ast.For) and _names_in(line.iter) & reached:
                reached |= _names_in(line.target)
            if isinstance(line, (ast.Assign, ast.AugAssign)) and _names_in(line.value) & reached:
                reached |= {
                    root_name(part)
                    for t in getattr(line, "targets", [getattr(line, "target", None)])
                    for part in getattr(t, "elts", [t])
                }
    calls = [_given_to(line.value) for line in later if isinstance(line, ast.Expr)]
    returned = set().union(*(_names_in(node) for node in later if isinstance(node, ast.Return | ast.Yield)))
    read = any(names & reached and names - reached for names in calls)  # by a function that may write to the others
    given = [arg.arg for node in ast.walk(tree) if isinstance(node, ast.arguments) for arg in node.args]
    return not (root in reached or returned & reached or read or {*given} & reached)


def _later(tree, line) -> list:
    """The nodes of a function that run after a line, too, as those of a loop around it do."""
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While)]
    start = min(node.lineno for node in (line, *loops) if node is line or line in ast.walk(node))
    return [node for node in ast.walk(tree) if getattr(node, "lineno", 0) >= start]


def _given_to(call) -> set:
    """The names in the arguments of a call, and of the array whose method it is."""
    parts = [*call.args, *(k.value for k in call.keywords)] if isinstance(call, ast.Call) else [call]
    own = getattr(call, "func", None)
    parts += [own.value] if isinstance(own, ast.Attribute) and root_name(own) != "np" else []
    return set().union(*map(_names_in, parts))


def _names_in(node) -> set:
    """The names of arrays in it; `x.shape` reads none of x."""
    about = {id(each.value) for each in ast.walk(node) if getattr(each, "attr", "") in ABOUT}
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and id(each) not in about}


def _copy_in(node, arrays, values):
    """The part of an expression, of which something is written to, that makes a copy; None without one.

    values: {text of an expression: what it was last in a call}.
    """
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
        if _made_new(node, values):
            return node
        if isinstance(node, ast.Call) and (
            getattr(node.func, "attr", "") in COPIES or ast.unparse(node.func) in JOINED
        ):
            return node
        if isinstance(node, ast.Subscript) and _picks(node.slice, arrays):
            return node
        node = _inner(node)
    return None


def _made_new(node, values) -> bool:
    """Did `x[rows]`, or `x.ravel()`, make a new array of the numbers of x?"""
    if isinstance(node, ast.Attribute):
        return False
    new, old = (values.get(shortened(" ".join(ast.unparse(each).split()))) for each in (node, _inner(node)))
    arrays = isinstance(new, np.ndarray) and isinstance(old, np.ndarray)
    return arrays and new.size > 0 and not np.may_share_memory(new, old)


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
