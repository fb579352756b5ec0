"""A learner's own function as a tree that can be changed and run, as the solution can be. See `solution.py`.

Only functions that compute and do nothing else are run again: a changed one must not write a file.
"""

import ast
import builtins
import copy
import importlib
import inspect
import linecache
import re
import textwrap
from concurrent.futures import ThreadPoolExecutor
from types import FunctionType, ModuleType

import numpy as np

from llmc.course.old.mutants.one_by_one import one_by_one
from llmc.course.old.mutants.places import quoted
from llmc.course.old.mutants.solution import Solution, dumped, given_beside, plain

HARMLESS = {
    "numpy",
    "math",
    "cmath",
    "functools",
    "itertools",
    "operator",
    "collections",
    "numba",
    "ml_dtypes",
    "typing",
    "builtins",
    "codecs",
    "re",
    "heapq",
    "bisect",
    "string",
    "struct",
    "dataclasses",
    "copy",
}
HARMFUL = {"open", "exec", "eval", "input", "compile", "__import__", "breakpoint", "exit", "quit"}
WRITES = {"save", "savez", "savez_compressed", "savetxt", "tofile", "dump", "memmap", "fromfile", "load"}


def learners(function) -> Solution | None:
    """Its tree, with the functions of the learner's that it calls; None where it cannot, or must not, be run again."""
    function = _in_python(function)
    if not isinstance(function, FunctionType) or function.__closure__:
        return None
    found = {}
    if not _collect(function, found):
        return None
    given = given_beside(function.__name__)
    found = {code: tree for code, tree in found.items() if code is function.__code__ or dumped(tree) not in given}
    trees = [found.pop(function.__code__), *sorted(found.values(), key=lambda tree: isinstance(tree, ast.ClassDef))]
    imports = _Imports()
    tree = plain(imports.visit(ast.Module(trees[::-1], [])))  # the function itself comes last
    if any(function.__globals__.get(name, value) is not value for name, value in imports.found.items()):
        return None
    names = {"np"} | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}  # np: for what is changed
    try:
        known = {**function.__globals__, **imports.found}
        before = {name: one_by_one(own(value)) for name, value in known.items() if name in names}
    except Exception:  # whatever an object says that cannot be copied
        return None
    return Solution(tree.body[-1].name, tree, {"__name__": "answer", "__builtins__": builtins, **before})


def useless_in(tree) -> re.Pattern:
    """Words of changes that go around a mistake, and mend none."""
    useless = [f"with `{name}` in" for name in only_written(tree)]
    useless += [rf"with = in place of .= in `{argument.arg} " for argument in tree.body[-1].args.args]  # a name only
    steps = steps_of_ranges(tree)
    useless += [f".* in place of `{name}`" for name in steps]
    useless += [f".* in place of `{name}`, everywhere" for name in made_of(steps, tree)]
    useless += [f".*{re.escape(quoted(piece))}" for piece in _makes(steps, tree)]
    useless += [rf"with 1 in place of {count}(?:$|, everywhere$| in `.*//)" for count in _counts_of_parts(tree)]
    useless += [f".* in (place of )?{re.escape(quoted(piece))}" for piece in with_a_rest(tree)]
    useless += [rf"with `{name}` in place of `\w+`, everywhere" for name in counters(tree)]
    useless += [rf".* in place of `{i}`, everywhere" for i in counters(tree)]
    # all of the array at once, in place of a block of it in each turn, goes around a mistake, too
    useless += ["with order="]  # it makes up for axes that were exchanged
    useless += [rf"without the \w+ of the slice `[^`]*\b{i}\b[^`]*`, everywhere" for i in indices(tree)]
    return re.compile("|".join(useless) or "$^")


def only_written(tree) -> set[str]:
    """Arguments of the last function that it writes to and never reads: what they hold is of no use to it."""
    function = tree.body[-1]
    nodes = list(ast.walk(function))
    targets = [t for n in nodes if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Subscript)]
    targets += [n for n in nodes if isinstance(n, ast.keyword) and n.arg == "out"]
    written = [t.value.id for t in targets if isinstance(t.value, ast.Name)]
    used = [n.id for n in nodes if isinstance(n, ast.Name)]
    arguments = {argument.arg for argument in function.args.args}
    return {name for name in arguments & set(written) if used.count(name) == written.count(name)}


def steps_of_ranges(tree) -> set[str]:
    """Names that say how far a loop goes on in each round, `block` in `range(0, T, block)` or `range(T // block)`.

    A larger step may go around a mistake; it mends none.
    """
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "range"]
    steps = [call.args[2] for call in calls if len(call.args) == 3]
    quotients = [n for call in calls for n in ast.walk(call) if isinstance(n, ast.BinOp)]
    steps += [n.right for n in quotients if isinstance(n.op, ast.FloorDiv)]
    return {step.id for step in steps if isinstance(step, ast.Name)}


def _makes(names, tree):
    """The expressions that these names are made of, `min(T, 64)` in `block = min(T, 64)`."""
    values = [value for name, value in given_to_names(tree) if name in names]
    return [n for value in values for n in ast.walk(value) if isinstance(n, (ast.Call, ast.BinOp))]


def given_to_names(tree) -> list:
    """(name, expression) of each `a = x`, and of both in `a, b = x, y`."""
    pairs = []
    for line in (n for n in ast.walk(tree) if isinstance(n, ast.Assign)):
        for target in line.targets:
            each = isinstance(target, ast.Tuple) and isinstance(line.value, ast.Tuple)
            pairs += zip(target.elts, line.value.elts) if each else [(target, line.value)]
    return [(target.id, value) for target, value in pairs if isinstance(target, ast.Name)]


def _counts_of_parts(tree) -> set[int]:
    """By which numbers, or names for them, something is divided and rounded down: in one part, nothing is left over."""
    divisors = [n.right for n in ast.walk(tree) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.FloorDiv)]
    names = {n.id for n in divisors if isinstance(n, ast.Name)}
    divisors += [value for name, value in given_to_names(tree) if name in names]
    values = [getattr(divisor, "value", None) for divisor in divisors]
    return {value for value in values if type(value) is int}


def with_a_rest(tree) -> list:
    """Quotients that are rounded down where the function has the rest, too, and ranges that end there: they are right.

    `n // m` beside `n % m`, and in `whole = n // m * m`, where the rest begins; then also `range(0, whole, m)`.
    """
    nodes = list(ast.walk(tree))
    operations = [node for node in nodes if isinstance(node, ast.BinOp)]
    rests = {(ast.dump(n.left), ast.dump(n.right)) for n in operations if isinstance(n.op, ast.Mod)}
    multiples = [n for n in operations if isinstance(n.op, ast.Mult) and _is_whole(n)]
    whole = [q for n in multiples for q in (n.left, n.right)]
    whole += [n for n in operations if (ast.dump(n.left), ast.dump(n.right)) in rests]
    names = [n.targets[0] for n in nodes if isinstance(n, ast.Assign) and any(n.value is m for m in multiples)]
    ends = {name.id for name in names if isinstance(name, ast.Name)}
    calls = [n for n in nodes if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "range"]
    ranges = [call for call in calls if getattr(call.args[min(1, len(call.args) - 1)], "id", "") in ends]
    return [q for q in whole if isinstance(getattr(q, "op", None), ast.FloorDiv)] + multiples + ranges


def _is_whole(product) -> bool:
    """Is it `n // m * m`, or `m * (n // m)`?"""
    for one, by in ((product.left, product.right), (product.right, product.left)):
        if isinstance(one, ast.BinOp) and isinstance(one.op, ast.FloorDiv) and ast.dump(one.right) == ast.dump(by):
            return True
    return False


def indices(tree) -> set[str]:
    """The names that its loops count with."""
    targets = (n.target for n in ast.walk(tree) if isinstance(n, ast.For))
    return {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}


def counters(tree) -> set[str]:
    """Names that mean another thing in each turn: what loops and comprehensions count with, and what is counted up."""
    nodes = list(ast.walk(tree))
    targets = [n.target for n in nodes if isinstance(n, (ast.comprehension, ast.AugAssign))]
    return indices(tree) | {target.id for target in targets if isinstance(target, ast.Name)}


def made_of(names, tree) -> set[str]:
    """Those names, and the names of what is computed from them, `end` in `end = start + block`."""
    lines = [n for n in ast.walk(tree) if isinstance(n, ast.Assign)]
    for line in lines:
        if {n.id for n in ast.walk(line.value) if isinstance(n, ast.Name)} & names:
            names = names | {n.id for t in line.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    return names


def _collect(function, found) -> bool:
    """Note the definition of a function, and of those that it calls; False as soon as one may do harm."""
    if function.__code__ in found:
        return True
    definition = _definition(function)
    if definition is None:
        return False
    found[function.__code__] = definition
    return _may_run(definition, function, found)


def _may_run(definition, function, found) -> bool:
    """Do these lines, of that function or of a class that it uses, and what they call, only compute?"""
    bound = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in ast.walk(definition) if isinstance(node, ast.arg)}
    for node in ast.walk(definition):
        if isinstance(node, (ast.Import, ast.ImportFrom)) and _imported(node) is None:
            return False
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            return False
        if isinstance(node, ast.ClassDef) and node is not definition:
            return False
        if isinstance(node, ast.Attribute) and node.attr in WRITES:
            return False
        if isinstance(node, ast.Name) and node.id not in bound and not _harmless(node.id, function, found):
            return False
    return True


class _Imports(ast.NodeTransformer):
    """Takes the imports out of functions. found: {name: what it is}, for the names around them."""

    def __init__(self):
        self.found = {}

    def visit_Import(self, node):
        self.found |= _imported(node)
        return ast.Pass()

    visit_ImportFrom = visit_Import


def _imported(node) -> dict | None:
    """{name: what it is} of a line that imports; None where that may do harm."""
    found = {}
    for alias in node.names:
        whole = isinstance(node, ast.Import)
        name = alias.name if whole else node.module or ""
        pool = (name, alias.name) == ("concurrent.futures", "ThreadPoolExecutor")
        if not pool and (name.split(".")[0] not in HARMLESS or alias.name in HARMFUL | WRITES):
            return None
        if whole and "." in name:  # `import a.b` gives the name to a
            return None
        module = importlib.import_module(name)
        found[alias.asname or alias.name] = module if whole else getattr(module, alias.name, None)
    return found


def _harmless(name, function, found) -> bool:
    if name not in function.__globals__:
        return name not in HARMFUL
    value = _in_python(function.__globals__[name])
    if value is ThreadPoolExecutor:
        return True
    if isinstance(value, FunctionType) and _is_theirs(value, function):
        return value.__closure__ is None and _collect(value, found)
    if isinstance(value, type) and function.__code__.co_filename in _files(value):
        return _collect_class(value, function, found)
    if isinstance(value, ModuleType):
        return value.__name__.split(".")[0] in HARMLESS
    return not callable(value) or str(getattr(value, "__module__", "")).split(".")[0] in HARMLESS


def _collect_class(value, function, found) -> bool:
    """The same as `_collect` for a class of the learner's, of which every method counts."""
    if value in found:
        return True
    found[value] = _class_definition(value)
    return found[value] is not None and _may_run(found[value], function, found)


def _class_definition(value):
    """Its lines; None where they are unknown, or where another class of that name is in the same cell."""
    try:
        trees = [ast.parse("".join(linecache.getlines(file))) for file in _files(value)]
    except SyntaxError:
        return None
    found = [line for tree in trees for line in tree.body if getattr(line, "name", None) == value.__name__]
    return copy.deepcopy(found[0]) if len(found) == 1 and isinstance(found[0], ast.ClassDef) else None


def _files(value) -> set[str]:
    """Where the methods of a class were written: a notebook's cell, a file."""
    return {method.__code__.co_filename for method in vars(value).values() if isinstance(method, FunctionType)}


def _in_python(value):
    """What Numba compiled as the function that was written; anything else as it is."""
    return getattr(value, "py_func", value)


def _is_theirs(value, function) -> bool:
    """Was it written in the same notebook, or the same file?"""
    return value.__module__ == function.__module__ or value.__code__.co_filename == function.__code__.co_filename


def _definition(function):
    try:
        line = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError):
        return None
    if not isinstance(line, ast.FunctionDef):
        return None
    line.decorator_list = []
    return line


def own(value):
    """A copy of data, so that a changed function changes nothing of the learner's."""
    return copy.deepcopy(value) if isinstance(value, (list, dict, set, np.ndarray)) else value
