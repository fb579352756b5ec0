"""Why is an array as it was, though a loop goes through it? `for weight in w: weight -= …` changes a copy of an entry.

In Python such a name is given another number; the array does not learn of it. So it is with `weight = w[i]`, and with
`for row in x: row = row / 2`, which gives a row's name to a new array.
"""

import ast

from llmc.course.old.checks.copies import root_name
from llmc.course.old.mutants.places import quoted

LETTERS = "ijklmo"


def lost_in_a_loop(tree, name, ndim, in_a_list=False) -> str | None:
    """A sentence about a line that changes a number or a row taken out of an array, and not the array; None without.

    tree: of the learner's function. name: of an array that is as it was. ndim: its axes. in_a_list: is the name that
    of a list of such arrays? Silent where any line may write into it.
    """
    depth = {name: ndim + in_a_list}  # axes of what a name holds: 0 of a number, None of a counter
    lines = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.Assign | ast.AugAssign)]
    lines.sort(key=lambda line: line.lineno)
    lost, later = None, {}
    for line in lines:
        target = line.targets[0] if isinstance(line, ast.Assign) else line.target
        before = depth.get(getattr(target, "id", None))
        if isinstance(line, ast.For):
            later |= _bound(target, line.iter, depth)
            depth |= later
        elif isinstance(target, ast.Subscript):
            if root_name(target) in depth:
                return None
        elif before is not None and target.id in later:
            if isinstance(line, ast.AugAssign) and before:
                return None  # a row is written in place
            lost = lost or _said(line, target.id, name, depth[name] - in_a_list, before, in_a_list)
        elif isinstance(line, ast.Assign) and isinstance(target, ast.Name):
            axes = None if isinstance(line.value, ast.Name) else _axes(line.value, depth)
            later |= {} if axes is None else {target.id: axes}
            depth |= later
    return None if any(root_name(given) in depth for given in _outs(tree)) else lost


def _said(line, changed, name, ndim, axes, in_a_list) -> str:
    if axes:
        return (
            f"{quoted(line)} gives the name `{changed}` to a new array, and leaves `{name}`, of which it was a part, "
            f"as it is: write into that part, with `{changed}[...] = …`."
        )
    sign = line.op if isinstance(line, ast.AugAssign) else None
    short = ast.unparse(ast.AugAssign(ast.Name("x"), sign, ast.Name("y")))[2:-2] if sign else "="
    entry = f"{name}{'[n]' * in_a_list}[{', '.join(LETTERS[:ndim])}]"
    return (
        f"{quoted(line)} changes the number `{changed}` alone, a copy of an entry of `{name}`: write into the array, "
        f"with `{entry} {short} …`."
    )


def _bound(target, value, depth) -> dict:
    """{name: axes of what it holds} of the names that a loop gives parts of the arrays."""
    called = ast.unparse(value.func) if isinstance(value, ast.Call) else ""
    parts = getattr(target, "elts", [])
    if called in ("range", "np.ndindex"):
        return {each.id: None for each in parts or [target] if isinstance(each, ast.Name)}
    if called == "enumerate" and len(parts) == 2:
        return _bound(parts[1], value.args[0], depth) | {ast.unparse(parts[0]): None}
    if called == "zip" and len(parts) == len(value.args):
        return {name: axes for each in zip(parts, value.args) for name, axes in _bound(*each, depth).items()}
    axes = _axes(value, depth)
    return {target.id: axes - 1} if axes and isinstance(target, ast.Name) else {}


def _axes(value, depth) -> int | None:
    """How many axes has what this expression gives, if that is a part of the array? None for other expressions."""
    if isinstance(value, ast.Name):
        return depth.get(value.id)
    if isinstance(value, ast.Attribute):
        return {"T": _axes(value.value, depth), "flat": 1}.get(value.attr) if root_name(value) in depth else None
    if isinstance(value, ast.Subscript):
        inner = _axes(value.value, depth)
        index = value.slice.elts if isinstance(value.slice, ast.Tuple) else [value.slice]
        left = [part for part in index if not isinstance(part, ast.Slice)]
        names = {each.id for part in left for each in ast.walk(part) if isinstance(each, ast.Name)}
        numbers = all(not depth.get(each, True) for each in names) and not any(map(_is_no_number, left))
        return inner - len(left) if inner is not None and numbers and len(index) <= inner else None
    if isinstance(value, ast.Call) and root_name(value) in depth and isinstance(value.func, ast.Attribute):
        sizes = value.args[0].elts if value.args and isinstance(value.args[0], ast.Tuple) else value.args
        return {"ravel": 1, "flatten": 1, "reshape": len(sizes)}.get(value.func.attr)
    return None


def _is_no_number(index) -> bool:
    """None, `...`, or a list: more than one entry, or an axis more."""
    return any(
        isinstance(n, ast.List) or isinstance(n, ast.Constant) and type(n.value) is not int for n in ast.walk(index)
    )


def _outs(tree):
    """What calls that stand alone, or have `out=…`, may write to."""
    for line in ast.walk(tree):
        if isinstance(line, ast.Expr) and isinstance(line.value, ast.Call):
            yield from line.value.args
        if isinstance(line, ast.keyword) and line.arg == "out":
            yield line.value
