"""What the text of a learner's function says beside its numbers: an argument that it never reads, letters of einsum.

A known mistake is recognised by its numbers. What a message says of its cause must not contradict the learner's text.
"""

import ast
import copy
import inspect
import re
import textwrap
import time

import numpy as np

from llmc.course.old.checks.copies import root_name
from llmc.course.old.checks.small_numbers import counted
from llmc.course.old.mutants.learners import learners
from llmc.course.old.mutants.loops import names_in
from llmc.course.old.mutants.places import quoted
from llmc.course.old.mutants.replay import arrays_in

SUMS = {"sum", "mean", "einsum", "dot", "vdot", "inner", "vecdot", "matmul", "tensordot", "trace", "average", "nansum"}
NOT_IN_SUM = re.compile(r"the `?(\w+)`? is missing in the sum")
WIDE = {"float", "np.float64", "np.double", "'float64'", "'f8'", "'d'"}
INDIRECT = ("locals", "vars", "eval")  # calls that read arguments without naming them


def tree_of(function):
    """Its definition; None where the source is unknown."""
    try:
        line = ast.parse(textwrap.dedent(inspect.getsource(getattr(function, "py_func", function)))).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        return None
    return line if isinstance(line, ast.FunctionDef) else None


def remarks(function, solution, replay) -> list[str]:
    """Sentences about the text, each of which makes a wrong result plausible; [] if there is nothing to say."""
    tree = tree_of(function)
    if tree is None:
        return []
    said = [*lone_letters(tree), *never_read(function, solution, replay), *counted(function, solution, replay)]
    return [*said, *_other_defaults(tree, solution.tree.body[-1], replay.named(function))]


def known(sentence, function, said) -> str:
    """The sentence of a known mistake, without its explanation if the text contradicts it, or `said` explains more."""
    formula, colon, why = sentence.partition(": ")
    tree, claim = tree_of(function), NOT_IN_SUM.search(why)
    contradicted = tree is not None and claim and claim[1] in _summed(tree)
    better = any(words in each for each in said for words in ("different letters", "changes the global"))
    return formula if colon and (better or contradicted) else sentence


def _summed(tree) -> set:
    """The names in what the function sums up."""
    sums = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _called(node) in SUMS]
    sums += [node for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)]
    return {name.id for node in sums for name in ast.walk(node) if isinstance(name, ast.Name)}


def _called(node) -> str:
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def lone_letters(tree):
    """A sentence about an einsum that sums up each of its operands by itself, because their letters differ."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node) == "einsum" and isinstance(node.args[0], ast.Constant):
            inputs, _, output = str(node.args[0].value).replace(" ", "").partition("->")
            operands = inputs.split(",")
            alone = [[a for a in o if a.isalpha() and inputs.count(a) == 1 and a not in output] for o in operands]
            pairs = [(letters[0], ast.unparse(given)) for letters, given in zip(alone, node.args[1:]) if letters]
            if len(pairs) > 1 and output:
                (a, x), (b, y) = pairs[:2]
                apart = f"{a} and {b} are different letters, so `{x}` and `{y}` are summed up each by itself"
                yield f"In {quoted(node)} {apart}: the same letter in both multiplies them entry by entry."


def lines_that_make(function, piece) -> list[str]:
    """ "`s += np.exp(z)`": lines of the function that write the names quoted in `piece`, or call something with them.

    Of a name that is written more than once, those that do more than begin it.
    """
    tree, quoted_piece = tree_of(function), re.search("`([^`]+)`", piece)
    try:
        names = {n.id for n in ast.walk(ast.parse(quoted_piece[1])) if isinstance(n, ast.Name)}
    except (SyntaxError, TypeError):  # it is shortened, or nothing is quoted
        return []
    found = {}
    if not tree or quoted_piece[1] not in ast.unparse(tree):  # it stands in a function that this one calls
        return []
    for line in ast.walk(tree):
        is_elsewhere = quoted_piece[1].isidentifier() or quoted_piece[1] not in ast.unparse(line)
        if isinstance(line, ast.Assign | ast.AugAssign) and is_elsewhere:
            targets = [line.target] if isinstance(line, ast.AugAssign) else line.targets
            sizes = getattr(line.value, "attr", "") == "shape"  # B, T, C = x.shape
            for name in {root_name(part) for target in targets for part in getattr(target, "elts", [target])}:
                if name in names and not sizes:
                    found.setdefault(name, []).append(line)
        elif isinstance(line, ast.Expr) and isinstance(line.value, ast.Call) and is_elsewhere:
            given = [*line.value.args, *(keyword.value for keyword in line.value.keywords)]  # it may write into them
            for name in {n.id for n in given if isinstance(n, ast.Name)} & names:
                found.setdefault(name, []).append(line)
    said = []
    for name, lines in found.items():
        goes_on = [line for line in lines if isinstance(line, ast.AugAssign) or name in names_in(line.value)]
        said += map(quoted, goes_on or lines)
    return list(dict.fromkeys(said))


def lines_of(function) -> set[str]:
    """Its lines, without indents, as Python writes them."""
    tree = tree_of(function)
    return {line.strip() for line in ast.unparse(tree).splitlines()} if tree else set()


def one_under_two_names(function, arguments) -> str | None:
    """A sentence if a name is given to an array that later changes in place, and this call's result depends on it."""
    program = learners(function)
    lines = _given(program.tree) if program else []
    for k, line in enumerate(lines):
        if not (isinstance(line, ast.Assign) and isinstance(line.value, ast.Name)):
            continue
        other, name = line.value.id, getattr(line.targets[0], "id", None)
        for later in lines[k + 1 :]:
            if isinstance(later, ast.AugAssign) and getattr(later.target, "id", "") == other and name:
                if _matters_there(program, line, arguments):
                    changes = f"`{name}` and `{other}` are one array, and {quoted(later)} changes both"
                    new = ast.unparse(ast.BinOp(ast.Name(other, ast.Load()), later.op, later.value))
                    either = f"Copy it, `{name} = {other}.copy()`, or make a new array, `{other} = {new}`"
                    return f"{quoted(line)} makes no copy: {changes}. {either}"
    return None


def _matters_there(program, line, arguments) -> bool:
    """Does a copy in this line change what the call returns?"""
    results, value = [], line.value
    try:
        for each in (value, ast.Call(ast.Attribute(value, "copy", ast.Load()), [], [])):
            line.value = ast.fix_missing_locations(ast.copy_location(each, value))
            results.append(program.function(time.thread_time() + program.seconds)(*copy.deepcopy(arguments)))
        return not np.array_equal(*results, equal_nan=True)
    except Exception:
        return False
    finally:
        line.value = value


def always_zero(function) -> str | None:
    """A sentence about a difference of a name and the very expression that this name was given; else None."""
    tree, holds = tree_of(function), {}  # {name: what it was given, as long as that is the same}
    for line in _given(tree) if tree else []:
        for each in ast.walk(line.value) if isinstance(line, ast.Assign) else ():
            if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Sub):
                for name, other in ((each.left, each.right), (each.right, each.left)):
                    if isinstance(name, ast.Name) and holds.get(name.id) == ast.dump(other):
                        return f"{quoted(each)} is always 0, because `{name.id}` is {quoted(other)}, rounded as it is"
        targets = line.targets if isinstance(line, ast.Assign) else [line.target]
        parts = [part for target in targets for part in getattr(target, "elts", [target])]
        new = {root_name(part) for part in parts}
        holds = {name: dump for name, dump in holds.items() if name not in new and not _reads(dump, new)}
        if isinstance(line, ast.Assign) and isinstance(targets[0], ast.Name):
            holds |= {} if _reads(ast.dump(line.value), new) else {targets[0].id: ast.dump(line.value)}
    return None


def _reads(dump, names) -> bool:
    return any(f"id='{name}'" in dump for name in names)


def _given(tree) -> list:
    """Its lines that give a name something, in their order."""
    kinds = ast.Assign | ast.AugAssign | ast.For
    return sorted((line for line in ast.walk(tree) if isinstance(line, kinds)), key=lambda line: line.lineno)


def adds(function) -> bool:
    """Does its text add to an array, with `+=`, np.add.at or np.add? Then another line may be wrong."""
    tree = tree_of(function)
    nodes = list(ast.walk(tree)) if tree else []
    calls = [ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)]
    return any(isinstance(node, ast.AugAssign) for node in nodes) or bool({"np.add.at", "np.add"} & {*calls})


def works_on_all_of(function, name) -> bool:
    """Has its text a line such as `name += …` or `name[:] = …`, which writes every entry, if only what was there?"""
    whole = {f"{name}[:]", f"{name}[...]"}
    for node in ast.walk(tree_of(function) or ast.Module([], [])):
        targets = [node.target] if isinstance(node, ast.AugAssign) else getattr(node, "targets", [])
        names = whole | {name} if isinstance(node, ast.AugAssign) else whole
        if any(ast.unparse(target) in names for target in targets):
            return True
    return False


def computes_in(function, name) -> bool:
    """Has its text a line that goes on with what it has written into `name`, as `name *= …` does?"""
    tree = tree_of(function)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.AugAssign) and root_name(node.target) == name:
            if not isinstance(node.op, ast.Add) or name in names_in(node.value):
                return True
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            if root_name(node.targets[0]) == name and name in names_in(node.value):
                return True
    return False


def asks_for_float64(function) -> str | None:
    """A sentence about the one piece of the text that asks for float64; None if none does, or several do."""
    tree = tree_of(function)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree else []
    asked = [call for call in calls if any(ast.unparse(each) in WIDE for each in _types(call))]
    return f"{quoted(asked[0])} asks for float64" if len(asked) == 1 else None


def _types(call) -> list:
    """The dtypes that a call names: dtype=… or .astype(…)."""
    named = [keyword.value for keyword in call.keywords if keyword.arg == "dtype"]
    return named + (call.args[:1] if _called(call) in ("astype",) else [])


def never_read(function, solution, replay):
    """Sentences about arguments that the function never reads, though the right result depends on them."""
    tree = tree_of(function)
    nodes = list(ast.walk(tree)) if tree else []
    if any(isinstance(node, ast.Call) and _called(node) in INDIRECT for node in nodes):
        return
    read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    ignored = [name for name in replay.named(function) if name not in read]
    ignored = [name for name in ignored if _matters(name, function, solution, replay)]
    changed_globals = [name for node in nodes if isinstance(node, ast.Global) for name in node.names]
    if ignored:
        instead = f", and it changes the global `{changed_globals[0]}`" if changed_globals else ""
        yield f"Your function never reads {' and '.join(f'`{name}`' for name in ignored[:2])}{instead}."


def _other_defaults(tree, ours, given):
    """Sentences about a default that is another number than the task's, and was used in this call."""
    theirs, right = (dict(_defaults(function)) for function in (tree, ours))
    for name in theirs.keys() & right.keys() - given.keys():
        if ast.dump(theirs[name]) != ast.dump(right[name]):
            mine, task = ast.unparse(theirs[name]), ast.unparse(right[name])
            yield f"In your function's first line `{name}={mine}` is the default; the task has `{name}={task}`."


def _defaults(function):
    """(name, default) of the parameters that have one."""
    return zip([a.arg for a in function.args.args][::-1], function.args.defaults[::-1])


def _matters(name, function, solution, replay) -> bool:
    """Does our solution give something else for another value of this argument, a number or a list of them?"""
    at = list(replay.named(function)).index(name)
    value = replay.arguments[at] if at < len(replay.arguments) else None
    if type(value) in (int, float):
        changed = value + 1
    elif type(value) is list and all(type(each) is int for each in value):
        changed = [0 if any(value) else 1] * len(value)
    else:
        return False
    other = copy.copy(replay)
    other.arguments = (*replay.arguments[:at], changed, *replay.arguments[at + 1 :])
    try:
        results = [call.run(solution.function(time.thread_time() + solution.seconds)) for call in (replay, other)]
    except Exception:
        return False
    given = len(arrays_in((replay.arguments, replay.options))) if type(value) is list else 0  # it is one of them
    pairs = list(zip(*results))
    return any(
        np.shape(a) == np.shape(b) and not np.array_equal(a, b, equal_nan=True) for a, b in pairs[: len(pairs) - given]
    )
