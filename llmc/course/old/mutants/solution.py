"""The solution of an exercise as a tree that can be changed and run: without compilation, and never without end."""

import ast
import builtins
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from llmc.course.exercises import layout
from llmc.course.exercises.catalog import cells_of
from llmc.course.old.mutants.arrays import CHANGED, changed
from llmc.course.old.mutants.outdated import FROM_0, from_0
from llmc.course.old.mutants.places import with_fields
from llmc.course.old.mutants.stoppable import (
    POWER,
    TIMES,
    compiled,
    ending,
    short_power,
    short_product,
    short_range,
    stoppable,
    ticking,
)

PLAIN = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)  # lines of a notebook that only define something
LATEST = "__latest__"  # the latest deadline so far
NUMBERS = ("np.float32", "np.float64", "np.int32", "np.int64", "math.sqrt", "np.sqrt", "math.log", "np.log")


@dataclass(frozen=True)
class Solution:
    """tree: the cell with the answer, as plain Python. before: what the cells above it define."""

    exercise: str
    tree: ast.Module
    before: dict
    more: None = None  # no mistakes besides those of any Python
    seconds: float = 2.0  # of processor time that each part of a search may take
    of_arrays: bool = True  # its names hold whole arrays

    def function(self, deadline: float, seen=None):
        """The function that the tree defines now; it raises TooLong at `deadline`, of time.thread_time().

        seen: a set for the loops that make a turn, as `ticking` has it.
        """
        if deadline > self.before.get(LATEST, 0.0):  # for functions of the cells above, whose loops can be stopped, too
            self.before.update({LATEST: deadline, **ticking(deadline)})
        ours = {CHANGED: changed, FROM_0: from_0, POWER: short_power, TIMES: short_product}
        namespace = {"range": short_range, **self.before, **ticking(deadline, seen), **ours}
        exec(compile(ending(self.tree), f"<solution of {self.exercise}>", "exec"), namespace)
        return namespace[self.exercise]


@lru_cache
def solution_of(exercise: str) -> Solution | None:
    """None where there is no solution in Python: CUDA C, or a copy of the course without its solutions."""
    root = layout.checkout()
    for notebook in sorted((root / "solutions").glob("*.ipynb")) if root else []:
        before = {"__name__": "solution", "__builtins__": builtins}
        cells = [cell for cell in cells_of(notebook) if cell.kind == "code"]
        if not any(cell.mark.get("exercise") == exercise for cell in cells):
            continue  # the cells of other notebooks need not run by themselves
        for cell in cells:
            if cell.mark.get("role") == "check":
                continue
            tree = plain(ast.parse(cell.source))
            if cell.mark == {**cell.mark, "role": "answer", "exercise": exercise}:
                defined = any(getattr(line, "name", None) == exercise for line in tree.body)
                return Solution(exercise, tree, before) if defined else None
            _define(tree, before)
    return None


@lru_cache
def given_beside(exercise: str) -> frozenset[str]:
    """The functions that this exercise's notebook gives, as ast.dump has them: the learner has not written them."""
    root = layout.checkout()
    for notebook in sorted((root / "solutions").glob("*.ipynb")) if root else []:
        cells = [cell for cell in cells_of(notebook) if cell.kind == "code"]
        if any(cell.mark.get("exercise") == exercise for cell in cells):
            trees = [ast.parse(cell.source) for cell in cells if cell.mark.get("role") not in ("answer", "check")]
            return frozenset(map(dumped, (line for tree in trees for line in tree.body))) - {""}
    return frozenset()


def dumped(definition) -> str:
    """A function's lines, without its decorators, to be compared; "" for another line."""
    return ast.dump(with_fields(definition, decorator_list=[])) if isinstance(definition, ast.FunctionDef) else ""


def _define(tree, names):
    """Run its lines one by one; one that needs what a left-out call would have made is left out, too."""
    for line in tree.body:
        with suppress(Exception):
            exec(compile(ast.Module([line], []), "<above the solution>", "exec"), names)


def plain(tree: ast.Module):
    """Only lines that define something; compiled functions as plain Python; every loop can be stopped."""
    lines = [line for line in tree.body if isinstance(line, PLAIN) or _is_constant(line)]
    return stoppable(_Plain().visit(ast.Module(lines, [])))


def _is_constant(line) -> bool:
    """`tile = 64` or `ONE = np.float32(1)`, but no other call: cells that measure or train are not wanted here."""
    calls = [node for node in ast.walk(line) if isinstance(node, ast.Call)] if isinstance(line, ast.Assign) else None
    return calls is not None and all(ast.unparse(call.func) in NUMBERS for call in calls)


class _Plain(ast.NodeTransformer):
    def visit_FunctionDef(self, node):
        node.decorator_list = [] if compiled(node) else node.decorator_list
        return self.generic_visit(node)

    def visit_Attribute(self, node):
        return ast.Name("range", node.ctx) if node.attr == "prange" else self.generic_visit(node)

    def visit_Name(self, node):
        return ast.Name("range", node.ctx) if node.id == "prange" else node
