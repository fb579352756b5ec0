"""Every small edit of a piece of Python: a term left out, a sign, an axis, a name, a bound, a line.

    for edit in edits(program.own):
        with edited(edit.changes):      # the tree holds the mistake, or its cure, inside of this block
            program.function()(x)

Of our solution they are mistakes that a learner may make; of a learner's function they are cures.
"""

import ast

from llmc.course.mutation.edit import SHOWN, Edit, apart, others, short
from llmc.course.mutation.program import edited, is_tick

MOST = 700  # edits of one program
UNCLEAR = 4  # characters: what is shorter is quoted with its surroundings
TWINS = """
    sum mean max min; maximum minimum; argmax argmin; var std; sqrt square; floor ceil round; exp expm1 exp2
    log log2 log10 log1p; tanh sinh cosh; sin cos; zeros ones; zeros_like ones_like; tril triu; any all
    append extend; bisect_left bisect_right
"""
TWINS = [names.split() for names in TWINS.replace("\n", ";").split(";")]  # functions that stand in for each other
OPERATORS = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult, ast.FloorDiv),
    ast.FloorDiv: (ast.Mod, ast.Div),
    ast.Mod: (ast.FloorDiv,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd, ast.BitXor),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
}
COMPARED = [(ast.Lt, ast.LtE, ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn)]
AXES = ("None", "0", "1", "-1", "-2", "(0, 1)")


def edits(functions) -> list[Edit]:
    """The likeliest first, at most MOST; two that make the same source are one."""
    found = [edit for function in functions for edit in _of_function(function)]
    return sorted(found, key=lambda edit: edit.rank)[:MOST]


def _of_function(function):
    names = _names(function)
    for owner, field, index, node in _places(function):
        if isinstance(node, ast.expr):
            for rank, new, *more in _of_expression(node, owner, field, names):
                yield _edit(rank, node, new, owner, field, index, *more)
    for block, field, owner in _blocks(function):
        yield from _of_block(block, field, owner)


def _places(function):
    """(owner, field, index, node) of every expression that can be exchanged."""
    todo = [statement for statement in function.body if not is_tick(statement)]
    while todo:
        owner = todo.pop(0)
        if isinstance(owner, ast.Constant | ast.JoinedStr) or is_tick(owner):
            continue
        for field, value in ast.iter_fields(owner):
            for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(node, ast.AST):
                    todo.append(node)
                    if isinstance(node, ast.expr) and not isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
                        yield owner, field, index, node


def _edit(rank, node, new, owner, field, index, old=None, said=None, constant=None, drops=None) -> Edit:
    """old, said: what a sentence quotes, where that is not the whole expression."""
    ast.copy_location(new, node)
    ast.fix_missing_locations(new)
    changes = ((owner, field, index, new),)
    shown = [ast.unparse(node) if old is None else old, ast.unparse(new) if said is None else said]
    if len(shown[0]) < UNCLEAR and isinstance(owner, ast.expr | ast.keyword | ast.Slice):  # `0` may occur twice there
        shown[0] = ast.unparse(owner)
        with edited(changes):
            shown[1] = ast.unparse(owner)
    elif isinstance(new, ast.BinOp | ast.UnaryOp) and f"({shown[0]})" not in ast.unparse(owner):
        with edited(changes):
            shown[1] = f"({shown[1]})" if f"({shown[1]})" in ast.unparse(owner) else shown[1]
    return Edit(rank, node.lineno, *apart(*shown), changes, constant, drops)


def _of_expression(node, owner, field, names):
    """(rank, new expression, old text, new text, …) of what may take its place."""
    if isinstance(node, ast.BinOp):
        yield from _of_operation(node)
    elif isinstance(node, ast.UnaryOp):
        yield 0, node.operand
    elif isinstance(node, ast.BoolOp):
        yield 1, ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        yield from ((0.5, part) for part in node.values)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        (op,) = map(type, node.ops)
        for other in others(COMPARED, op):
            near = {other, op} in ({ast.Lt, ast.LtE}, {ast.Gt, ast.GtE})
            yield 1.5 - near, ast.Compare(node.left, [other()], node.comparators)
        for sign in (1, -1) if op in (*COMPARED[0], ast.Eq) else ():
            yield 1, ast.Compare(node.left, node.ops, [_moved_by(node.comparators[0], sign)]), None, None, 1
    elif isinstance(node, ast.IfExp):
        yield from ((1, part) for part in (node.body, node.orelse))
    elif isinstance(node, ast.Call):
        yield from _of_call(node)
    elif isinstance(node, ast.Subscript):
        yield from _of_subscript(node, names)
    elif isinstance(node, ast.Attribute) and node.attr == "T":
        yield 0, node.value
    elif isinstance(node, ast.Constant):
        yield from _of_constant(node, owner, field)
    elif isinstance(node, ast.Name):
        yield from _of_name(node, owner, field, names)


def _of_operation(node):
    left, right, op = node.left, node.right, type(node.op)
    if op in (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.BitAnd, ast.BitOr):
        dropped = short(ast.unparse(ast.BinOp(ast.Name("_"), node.op, right))[2:])  # "/ (b * c)"
        yield 0, left, dropped, "", None, op
        yield 0, right if op is not ast.Sub else ast.UnaryOp(ast.USub(), right), None, None, None, op
    if op is ast.Pow:
        yield 0, left, None, None, None, op
    for other in OPERATORS.get(op, ()):
        if ast.unparse(left) != ast.unparse(right):  # x / x for x * x would make up for something else
            yield 0.5 + (other in (ast.Mult, ast.Add) and op in (ast.Add, ast.Mult)), ast.BinOp(left, other(), right)
    if op in (ast.Sub, ast.Div, ast.MatMult, ast.Mod, ast.FloorDiv):
        yield 0.5, ast.BinOp(right, node.op, left)
    if op is ast.MatMult:
        yield 0.5, ast.BinOp(_transposed(left), node.op, right)
        yield 0.5, ast.BinOp(left, node.op, _transposed(right))
    if isinstance(left, ast.BinOp) and op in (ast.Mult, ast.Div) and isinstance(left.op, ast.Add | ast.Sub):
        yield 0.7, ast.BinOp(left.left, left.op, ast.BinOp(left.right, node.op, right))  # brackets are missing
    if isinstance(right, ast.BinOp) and op in (ast.Add, ast.Sub) and isinstance(right.op, ast.Mult | ast.Div):
        yield 0.7, ast.BinOp(ast.BinOp(left, node.op, right.left), right.op, right.right)
    if isinstance(left, ast.BinOp) and op in (ast.Add, ast.Sub) and isinstance(left.op, ast.Mult | ast.Div):
        yield 0.7, ast.BinOp(left.left, left.op, ast.BinOp(left.right, node.op, right))


def _transposed(node):
    return node.value if isinstance(node, ast.Attribute) and node.attr == "T" else ast.Attribute(node, "T", ast.Load())


def _of_call(node):
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    method = isinstance(node.func, ast.Attribute)
    for twin in others(TWINS, name):
        other = ast.Attribute(node.func.value, twin, ast.Load()) if method else ast.Name(twin, ast.Load())
        yield 0.5, ast.Call(other, node.args, node.keywords)
    if name == "range":
        yield from _of_range(node)
        return
    of_module = isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") in ("np", "math", "numpy")
    if of_module or isinstance(node.func, ast.Name):
        if len(node.args) == 1 and name not in ("array", "zeros", "ones", "empty", "arange", "len", "range"):
            yield 0.5, node.args[0]
    elif isinstance(node.func, ast.Attribute):
        yield 0.5, node.func.value, f".{name}({short(', '.join(map(ast.unparse, node.args)), 30)})", ""
    if len(node.args) == 2:
        yield 1, ast.Call(node.func, node.args[::-1], node.keywords)
        if name in ("min", "max", "minimum", "maximum", "where"):
            yield from ((0.5, part) for part in node.args)
    for k, keyword in enumerate(node.keywords):
        rest = node.keywords[:k] + node.keywords[k + 1 :]
        yield 0.5, ast.Call(node.func, node.args, rest), f"{keyword.arg}={short(ast.unparse(keyword.value), 30)}", ""
        if keyword.arg == "axis":
            for axis in AXES:
                if axis != ast.unparse(keyword.value):
                    new = ast.keyword("axis", ast.parse(axis, mode="eval").body)
                    yield 0.3, ast.Call(node.func, node.args, [*node.keywords[:k], new, *node.keywords[k + 1 :]])
    if name in ("sum", "mean", "max", "min") and not node.keywords and len(node.args) == of_module:
        for axis in ("-1", "0"):
            new = ast.keyword("axis", ast.parse(axis, mode="eval").body)
            yield 1, ast.Call(node.func, node.args, [new])


def _of_range(node):
    arguments = node.args
    start, stop, *step = arguments if len(arguments) > 1 else [ast.Constant(0), arguments[0]]
    make = lambda a, b: ast.Call(node.func, [a, b, *step], [])  # noqa: E731
    for sign in (1, -1):
        yield 0.5 + len(step), make(start, _moved_by(stop, sign)), None, None, 1  # in steps, it may well be as right
        yield 0.7, make(_moved_by(start, sign), stop), None, None, 1
    if ast.unparse(start) != "0":
        yield 0.7, make(ast.Constant(0), stop), None, None, 0


def _of_subscript(node, names):
    index = node.slice
    if isinstance(node.ctx, ast.Load) and not isinstance(index, ast.Tuple):
        yield 1, node.value, f"[{short(ast.unparse(index), 30)}]", ""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    for k, part in enumerate(parts):

        def put(new, k=k):
            several = ast.Tuple([*parts[:k], new, *parts[k + 1 :]], ast.Load()) if isinstance(index, ast.Tuple) else new
            return ast.Subscript(node.value, several, node.ctx)

        if isinstance(part, ast.Slice):
            for field in ("lower", "upper"):
                bound = getattr(part, field)
                if bound is not None:
                    fields = {"lower": part.lower, "upper": part.upper, "step": part.step}
                    yield 0.7, put(ast.Slice(**fields | {field: None}))
                    for sign in (1, -1):
                        moved = _moved_by(bound, sign)
                        yield 0.7, put(ast.Slice(**fields | {field: moved})), None, None, 1
        elif not isinstance(part, ast.Constant):
            for sign in (1, -1):
                yield 1.2, put(_moved_by(part, sign)), None, None, 1
        elif type(part.value) is int:
            for name in names:
                yield 1.5, put(ast.Name(name, ast.Load()))
    if len(parts) == 2:
        yield 1, ast.Subscript(node.value, ast.Tuple([parts[1], parts[0]], ast.Load()), node.ctx)


def _moved_by(node, one):
    """`n + 1` or `n - 1`; of a number, the next one."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return ast.Constant(node.value + one)
    return ast.BinOp(node, ast.Add() if one > 0 else ast.Sub(), ast.Constant(1))


def _of_constant(node, owner, field):
    value = node.value
    if isinstance(value, bool):
        yield 0.5, ast.Constant(not value)
    elif isinstance(value, int):
        exponent = isinstance(owner, ast.BinOp) and isinstance(owner.op, ast.Pow)
        for new in (value + 1, value - 1, 0, 1, 2, 2 * value):
            lost = new == 0 and isinstance(owner, ast.BinOp)  # a factor of 0 switches off what it stands for
            if new != value and not lost and not (exponent and abs(new) > 8):
                yield 1, ast.Constant(new), None, None, new
        if value:
            yield 1, ast.UnaryOp(ast.USub(), ast.Constant(value)), None, None, -value
    elif isinstance(value, float):
        for new in (0.0, 1.0, 2 * value, value / 2, value * value, 1 - value):
            if new != value:
                yield 1, ast.Constant(new), None, None, new


def _of_name(node, owner, field, names):
    if field == "func" or isinstance(owner, ast.Attribute) and node.id in ("np", "math"):
        return
    of = getattr(getattr(getattr(owner, "func", None), "value", None), "id", "")  # a list that held itself has no end
    for other in (ast.Name(name, ast.Load()) for name in names if name not in (node.id, of)):
        yield 2, other
        if isinstance(owner, ast.Assign | ast.AugAssign | ast.Return | ast.BinOp):
            yield from ((3, ast.BinOp(node, sign, other)) for sign in (ast.Mult(), ast.Div()))


# ----------------------------------------------------------------------------------------------------- statements


def _blocks(function):
    """(list of statements, its field, its owner), the function's own first."""
    for node in ast.walk(function):
        for field in ("body", "orelse"):
            block = getattr(node, field, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block, field, node


def _of_block(block, field, owner):
    for k, line in enumerate(block):
        if is_tick(line) or isinstance(line, ast.FunctionDef | ast.Import | ast.ImportFrom) or _is_docstring(line):
            continue
        alone = sum(not is_tick(each) for each in block) == 1
        early = isinstance(line, ast.Return) and ast.unparse(line) in ("return", "return None")
        if early or not isinstance(line, ast.Return | ast.For | ast.While):
            rank = 0.2 if isinstance(line, ast.AugAssign | ast.Expr) else 0.6
            nothing = [_located(ast.Pass(), line)] if alone else []
            yield Edit(rank, line.lineno, _quoted(line), "", ((owner, field, k, nothing),))
        if isinstance(line, ast.AugAssign):
            yield from _of_augmented(line, owner, field, k)
        elif isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name | ast.Subscript):
            yield from _of_assignment(line, owner, field, k)
        elif isinstance(line, ast.If) and not line.orelse:
            moved = [*line.body]
            yield Edit(0.6, line.lineno, f"if {short(ast.unparse(line.test))}:", "", ((owner, field, k, moved),))
        elif isinstance(line, ast.For | ast.While) and len(line.body) > 2:  # a tick, and two lines or more
            last = line.body[-1]
            changes = (line, "body", len(line.body) - 1, []), (owner, field, k, [line, last])
            said = f"with `{_quoted(last)}` behind the loop, not in it"
            yield Edit(1, last.lineno, _quoted(last), "", changes, said=said)
        elif isinstance(line, ast.Break):
            yield _exchanged(1, line, ast.Continue(), owner, field, k)


def _of_augmented(line, owner, field, k):
    made = [(0, ast.Assign([line.target], line.value))]
    made += [(0.5, ast.AugAssign(line.target, op(), line.value)) for op in OPERATORS.get(type(line.op), ())]
    yield from (_exchanged(rank, line, new, owner, field, k) for rank, new in made)


def _exchanged(rank, line, new, owner, field, k):
    """One statement for another."""
    new = _located(new, line)
    return Edit(rank, line.lineno, _quoted(line), _quoted(new), ((owner, field, k, [new]),))


def _of_assignment(line, owner, field, k):
    target = line.targets[0]
    made = [(0.5 + (op is ast.Mult), ast.AugAssign(target, op(), line.value)) for op in (ast.Add, ast.Sub, ast.Mult)]
    if isinstance(target, ast.Name):
        every = ast.Subscript(ast.Name(target.id, ast.Load()), ast.Constant(...), ast.Store())
        made.append((0.8, ast.Assign([every], line.value)))
    yield from (_exchanged(rank, line, new, owner, field, k) for rank, new in made)


def _is_docstring(line) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


def _located(new, line):
    return ast.fix_missing_locations(ast.copy_location(new, line))


def _names(function) -> list[str]:
    """Names of the function's own variables and arguments, each once."""
    arguments = function.args
    given = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    stored = [n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return list(dict.fromkeys([*given, *stored]))


def _quoted(line, most=SHOWN) -> str:
    return short(" ".join(ast.unparse(line).split()), most)
