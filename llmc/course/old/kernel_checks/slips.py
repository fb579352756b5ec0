"""Mistakes that are typical of kernels, in addition to those that any Python can have (llmc.course.old.mutants)."""

import ast

from llmc.course.old.mutants.places import quoted, with_fields

SHUFFLES = ("__shfl_xor_sync", "__shfl_down_sync", "__shfl_up_sync", "__shfl_sync")
OTHER_FUNCTION = {
    "fmaxf": ("fminf",),
    "rsqrtf": ("sqrtf",),
    "warp_max": ("warp_sum",),
    "warp_sum": ("warp_max",),
} | {name: tuple(other for other in SHUFFLES if other != name) for name in SHUFFLES}
COORDINATES = ("blockIdx", "threadIdx", "blockDim", "gridDim")
PLACE = "blockIdx.x * blockDim.x + threadIdx.x"
FIRST = -1  # a rank before all others
POWERS = (4, 8, 16, 32)
GAPS = (16, 8, 4, 2, 1)  # of the shuffles that reduce a warp


def slips(place, names):
    """Every (rank, words, other expression) for the expression at this place; names: of the variables there."""
    node = place.node
    if isinstance(getattr(node, "ctx", None), ast.Store):
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        yield from _calls(node)
        yield from _pasted(node, names)
    elif isinstance(node, ast.Compare):
        yield from _bounds(node)
        if isinstance(place.owner, ast.If):  # likelier than that a term of the condition is left out
            then = place.owner.body[0]
            leaves, loop = isinstance(then, ast.Return), isinstance(then, ast.For)
            which = f" in front of {quoted(then.iter)}" if loop else ""  # another one may be equal
            words = f"without the {'line' if leaves else 'condition'} {quoted(node)}{which}"
            yield FIRST, words, ast.Constant(not leaves)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        other = with_fields(node, op=ast.FloorDiv())
        yield 1, f"with // in place of % before {quoted(node.right)}{place.around}", other
    elif isinstance(node, ast.BinOp) and isinstance(place.owner, ast.AugAssign):
        yield from _offset(node, place.owner)
    elif isinstance(node, ast.BinOp) and ast.unparse(node) == PLACE:
        words = f"with `threadIdx.x` and `blockIdx.x` exchanged{place.around}"
        yield 0, words, ast.parse("threadIdx.x * blockDim.x + blockIdx.x", mode="eval").body
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.right, ast.Attribute):
        words = f"with 1 in place of {quoted(node.right)} in {quoted(node)}"
        yield 1, words, with_fields(node, right=ast.Constant(1))
    elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") in COORDINATES:
        for other in COORDINATES:
            if other != node.value.id:
                words = f"with `{other}.x` in place of {quoted(node)}{place.around}"
                yield 2, words, ast.Attribute(ast.Name(other, ast.Load()), "x", ast.Load())
    elif isinstance(node, ast.Constant) and type(node.value) is int and node.value in POWERS:
        for other in (node.value // 2, 2 * node.value):
            yield 1, f"with {other} in place of {node.value}{place.around}", ast.Constant(other)
        if node.value == 32:
            block = ast.Attribute(ast.Name("blockDim", ast.Load()), "x", ast.Load())
            yield 2, f"with `blockDim.x` in place of 32{place.around}", block


def _calls(node):
    if node.func.id == "__shfl_sync":
        yield 0, f"without {node.func.id} around {quoted(node.args[1])}", node.args[1]
    if node.func.id in ("warp_sum", "warp_max"):
        lane_0 = [ast.Name("ALL", ast.Load()), node.args[0], ast.Constant(0)]
        words = f"with what lane 0 has alone in place of {quoted(node)}"
        yield 1, words, ast.Call(ast.Name("__shfl_sync", ast.Load()), lane_0, [])
    for other in OTHER_FUNCTION.get(node.func.id, ()):
        yield 1, f"with {other} in place of {node.func.id}", with_fields(node, func=ast.Name(other, ast.Load()))
    if node.func.id in ("fmaxf", "fminf"):
        yield 1, f"with {quoted(node.args[1])} alone in place of {quoted(node)}", node.args[1]
    if node.func.id == "range":
        yield from _turns(node)


def _pasted(node, names):
    """A warp's reduction whose shuffles read another variable, as after copy and paste.

    The model has its shuffles in a function of one argument, which cannot read a variable of the caller. That variable
    keeps its value, so five shuffles in a row do what the loop would.
    """
    if node.func.id not in ("warp_sum", "warp_max") or not isinstance(node.args[0], ast.Name):
        return
    mine = node.args[0].id
    for other in names:
        if other != mine:
            words = f"with `{other}` rather than `{mine}` in `__shfl_xor_sync(ALL, {mine}, gap)`"
            yield 2, words, _reduced(node, ast.Name(other, ast.Load()))


def _reduced(node, other):
    """`total + __shfl_xor_sync(ALL, top, 16) + …` for `warp_sum(total)` and `top`; fmaxf for `warp_max`."""
    reduced = node.args[0]
    for gap in GAPS:
        arguments = [ast.Name("ALL", ast.Load()), other, ast.Constant(gap)]
        shuffled = ast.Call(ast.Name("__shfl_xor_sync", ast.Load()), arguments, [])
        if node.func.id == "warp_sum":
            reduced = ast.BinOp(reduced, ast.Add(), shuffled)
        else:
            reduced = ast.Call(ast.Name("fmaxf", ast.Load()), [reduced, shuffled], [])
    return reduced


def _bounds(node):
    """A bound that is one too small, or four."""
    if isinstance(node.ops[0], (ast.Lt, ast.GtE)):
        for less, words in ((1, "one"), (4, "four")):
            new = with_fields(node, left=_more(node.left, less))
            yield 1, f"with {quoted(new)} in place of {quoted(node)}, which leaves out the last {words}", new


def _more(node, number):
    """node + number, `i + 4` for `i + 3` and 1."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.right, ast.Constant):
        return ast.BinOp(node.left, ast.Add(), ast.Constant(node.right.value + number))
    return ast.BinOp(node, ast.Add(), ast.Constant(number))


def _offset(node, line):
    """`x += row * C`, and the offset once more where x is read or written."""
    if isinstance(line.op, ast.Add) and isinstance(node.op, ast.Mult) and isinstance(line.target, ast.Name):
        yield 1, f"with the offset added twice in {quoted(line)}", ast.BinOp(node, ast.Mult(), ast.Constant(2))


def _turns(node):
    """A loop with only some of its turns."""
    start, stop, step = node.args
    after = ast.BinOp(start, ast.Add(), step)
    whole = ast.BinOp(ast.BinOp(stop, ast.FloorDiv(), step), ast.Mult(), step)
    first = ast.Call(ast.Name("fminf", ast.Load()), [after, stop], [])
    yield 0, f"with the first turn of {quoted(node)} alone", with_fields(node, args=[start, first, step])
    yield 0, f"without the first turn of {quoted(node)}", with_fields(node, args=[after, stop, step])
    yield 0, f"without the last, partial turn of {quoted(node)}", with_fields(node, args=[start, whole, step])
    if not isinstance(start, ast.Constant):
        first = ast.Compare(start, [ast.Eq()], [ast.Constant(0)])
        alone = with_fields(node, args=[start, ast.IfExp(first, stop, ast.Constant(0)), step])
        yield 2, f"with the loop {quoted(node)} only where {quoted(first)}", alone
    for other, text in ((ast.Constant(1), "1"), (ast.Constant(0), "0")):
        if text == "1":
            yield 2, f"with steps of 1 in {quoted(node)}", with_fields(node, args=[start, stop, other])
        yield 2, f"with {text} as the beginning of {quoted(node)}", with_fields(node, args=[other, stop, step])
