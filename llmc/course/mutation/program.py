"""Python source as a tree that can be edited and run: without compilation, and never without end.

ours = solution_of("layernorm_forward")      # a Program, or None
theirs = program_of(layernorm_forward)       # the learner's function, and the helpers that it calls
theirs.function()(x, w, b)
"""

import ast
import builtins
import copy
import linecache
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType

from llmc.course.checks.guards.isolation import is_foreign
from llmc.course.exercises import layout
from llmc.course.exercises.catalog import cells_of

TICK = "__tick__"
TURNS = 200_000  # of loops and ranges that one run of an edited function may make
PLAIN = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)  # lines of a notebook that only define something
NUMBERS = ("np.float32", "np.float64", "np.int32", "np.int64", "math.sqrt", "np.sqrt", "math.log", "np.log")


class TooLong(Exception):
    """An edited function was still running after TURNS turns of its loops, or would be."""


@dataclass
class Program:
    """name: of the function. tree: its definition, and those of its helpers; own: those that may be edited.

    names: what else it needs.
    """

    name: str
    tree: ast.Module
    names: dict
    own: tuple

    def function(self, turns=TURNS):
        """The function that the tree defines now; it raises TooLong after that many turns of its loops."""
        return self._made(iter(range(turns)).__next__)

    def turns(self, run) -> int:
        """How many turns of its loops run(function) takes."""
        left = iter(range(TURNS))
        run(self._made(left.__next__))
        return TURNS - left.__length_hint__()

    def _made(self, tick):
        def short_range(*arguments):
            made = range(*arguments)
            if len(made) > TURNS:
                raise TooLong
            return made

        def counted():
            try:
                tick()
            except StopIteration:
                raise TooLong from None

        names = {"range": short_range, **self.names, TICK: counted}
        exec(compile(self.tree, f"<{self.name}, edited>", "exec"), names)
        return names[self.name]

    def constants(self) -> set:
        """The numbers that its own functions hold."""
        nodes = (node for function in self.own for node in ast.walk(function) if isinstance(node, ast.Constant))
        return {node.value for node in nodes if isinstance(node.value, int | float)}


@contextmanager
def edited(changes):
    """Inside the block, each (owner, field, index or None, new) of these changes is made in its tree."""
    done = []
    try:
        for owner, field, index, new in changes:
            if index is None:
                done.append((owner, field, None, getattr(owner, field)))
                setattr(owner, field, new)
            else:
                block = getattr(owner, field)
                done.append((owner, field, index, list(block)))
                block[index : index + 1] = new if isinstance(new, list) else [new]
        yield
    finally:
        for owner, field, index, old in reversed(done):
            if index is None:
                setattr(owner, field, old)
            else:
                getattr(owner, field)[:] = old


# ------------------------------------------------------------------------------------------------- our solution


@lru_cache
def solution_of(exercise: str) -> Program | None:
    """None where there is no solution in Python: CUDA C, or a copy of the course without its solutions."""
    source, names = solution_source(exercise)
    return program_in(source, exercise, names) if source else None


@lru_cache
def source_of(exercise: str) -> str | None:
    """The CUDA C of an exercise's solution; None where there is none."""
    source, _ = solution_source(exercise)
    return text_in(source, exercise) if source else None


def text_in(source, exercise) -> str | None:
    """The string that an answer cell assigns to the exercise's name."""
    for line in ast.parse(source).body:
        if isinstance(line, ast.Assign) and getattr(line.targets[0], "id", "") == exercise:
            return line.value.value if isinstance(line.value, ast.Constant) else None
    return None


def program_in(source, exercise, names) -> Program | None:
    """The Program of an answer cell; names: what the cells above it define. None if it does not define the exercise."""
    tree = plain(ast.parse(source))
    own = tuple(line for line in tree.body if isinstance(line, ast.FunctionDef | ast.ClassDef))
    return Program(exercise, tree, names, own) if any(line.name == exercise for line in own) else None


@lru_cache
def solution_source(exercise) -> tuple[str | None, dict]:
    """(text of the answer's cell or None, what the cells above it define)."""
    for notebook in filter(None, (layout.notebook("solutions", name) for name in layout.lessons("solutions"))):
        cells = [cell for cell in cells_of(notebook) if cell.kind == "code"]
        if not any(cell.mark.get("exercise") == exercise for cell in cells):
            continue  # the cells of other notebooks need not run by themselves
        names = {"__name__": "solution", "__builtins__": builtins}
        for cell in cells:
            if cell.mark == {**cell.mark, "role": "answer", "exercise": exercise}:
                return cell.source, names
            if cell.mark.get("role") != "check":
                _define(plain(ast.parse(cell.source)), names)
    return None, {}


def _define(tree, names):
    """Run its lines one by one; one that needs what a left-out call would have made is also left out."""
    names.setdefault(TICK, lambda: None)
    for line in tree.body:
        with suppress(Exception):
            exec(compile(ast.Module([line], []), "<above the solution>", "exec"), names)


def plain(tree: ast.Module) -> ast.Module:
    """Only lines that define something; compiled functions as plain Python; loops count their turns."""
    lines = [line for line in tree.body if isinstance(line, PLAIN) or _is_constant(line)]
    return ast.fix_missing_locations(_Plain().visit(ast.Module(lines, [])))


def _is_constant(line) -> bool:
    """`tile = 64` or `ONE = np.float32(1)`, but no other call: cells that measure or train are not wanted here."""
    calls = [node for node in ast.walk(line) if isinstance(node, ast.Call)] if isinstance(line, ast.Assign) else None
    return calls is not None and all(ast.unparse(call.func) in NUMBERS for call in calls)


def is_tick(line) -> bool:
    """Is that statement one that counts turns?"""
    return isinstance(line, ast.Expr) and getattr(getattr(line.value, "func", None), "id", "") == TICK


class _Plain(ast.NodeTransformer):
    """Numba's functions without their decorators, prange as range, a tick in every loop."""

    def visit_FunctionDef(self, node):
        node.decorator_list = [line for line in node.decorator_list if "jit" not in ast.unparse(line)]
        return self.generic_visit(node)

    def visit_Attribute(self, node):
        return ast.Name("range", node.ctx) if node.attr == "prange" else self.generic_visit(node)

    def visit_Name(self, node):
        return ast.Name("range", node.ctx) if node.id == "prange" else node

    def visit_For(self, node):
        self.generic_visit(node)
        node.body.insert(0, ast.Expr(ast.Call(ast.Name(TICK, ast.Load()), [], [])))
        return node

    visit_While = visit_For


# ------------------------------------------------------------------------------------------- the learner's function


def program_of(function) -> Program | None:
    """The learner's function with the helpers that it calls by name; None where the source is not known.

    Its nodes have the line numbers of the notebook's cell. Helpers that the notebook gives are not among its own.
    """
    function = getattr(function, "py_func", function)
    if not isinstance(function, FunctionType) or is_foreign(function.__code__.co_filename):
        return None
    found, todo, given = {}, [function], solution_source(function.__name__)[1]
    while todo:
        each = todo.pop()
        definition = _definition(each)
        if definition is None or each.__name__ in found:
            continue
        found[each.__name__] = definition
        for other in map(each.__globals__.get, each.__code__.co_names):
            other = getattr(other, "py_func", other)
            if isinstance(other, FunctionType) and not is_foreign(other.__code__.co_filename):
                todo.append(other)
    if function.__name__ not in found:
        return None
    tree = plain(ast.Module(list(found.values()), []))
    closure = {
        name: cell.cell_contents
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ())
        if cell.cell_contents is not function
    }
    own = tuple(line for line in tree.body if line.name == function.__name__ or line.name not in given)
    return Program(function.__name__, tree, {**function.__globals__, **closure}, own)


def _definition(function) -> ast.FunctionDef | None:
    """The function's tree, taken from its whole cell or file."""
    code = function.__code__
    source = "".join(linecache.getlines(code.co_filename))
    with suppress(SyntaxError, ValueError):
        for node in ast.walk(_parsed(source)):
            if isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *(line.lineno for line in node.decorator_list)])
                if first == code.co_firstlineno:
                    node = copy.deepcopy(node)
                    node.name = function.__name__  # the text may have another name, in tests of the checks
                    return node
    return None


@lru_cache(maxsize=8)
def _parsed(source):
    return ast.parse(source)
