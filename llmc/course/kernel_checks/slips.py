"""Mistakes that are typical of kernels, in addition to those that any Python can have (llmc.course.mutants)."""

import ast

from llmc.course.mutants.places import quoted, with_fields

SHUFFLES = ("__shfl_xor_sync", "__shfl_down_sync", "__shfl_up_sync", "__shfl_sync")
OTHER_FUNCTION = {
    "fmaxf": ("fminf",),
    "rsqrtf": ("sqrtf",),
    "warp_max": ("warp_sum",),
    "warp_sum": ("warp_max",),
} | {name: tuple(other for other in SHUFFLES if other != name) for name in SHUFFLES}
COORDINATES = ("blockIdx", "threadIdx", "blockDim", "gridDim")
POWERS = (4, 8, 16, 32)


def slips(place):
    """Every (rank, words, other expression) for the expression at this place."""
    node = place.node
    if isinstance(getattr(node, "ctx", None), ast.Store):
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        yield from _calls(node)
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
    for other in OTHER_FUNCTION.get(node.func.id, ()):
        yield 1, f"with {other} in place of {node.func.id}", with_fields(node, func=ast.Name(other, ast.Load()))
    if node.func.id in ("fmaxf", "fminf"):
        yield 1, f"with {quoted(node.args[1])} alone in place of {quoted(node)}", node.args[1]
    if node.func.id == "range":
        yield from _turns(node)


def _turns(node):
    """A loop with only some of its turns."""
    start, stop, step = node.args
    after = ast.BinOp(start, ast.Add(), step)
    whole = ast.BinOp(ast.BinOp(stop, ast.FloorDiv(), step), ast.Mult(), step)
    first = ast.Call(ast.Name("fminf", ast.Load()), [after, stop], [])
    yield 1, f"with the first turn of {quoted(node)} alone", with_fields(node, args=[start, first, step])
    yield 1, f"without the first turn of {quoted(node)}", with_fields(node, args=[after, stop, step])
    yield 1, f"without the last, partial turn of {quoted(node)}", with_fields(node, args=[start, whole, step])
    for other, text in ((ast.Constant(1), "1"), (ast.Constant(0), "0")):
        if text == "1":
            yield 2, f"with steps of 1 in {quoted(node)}", with_fields(node, args=[start, stop, other])
        yield 2, f"with {text} as the beginning of {quoted(node)}", with_fields(node, args=[other, stop, step])
