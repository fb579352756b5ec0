"""What every piece of a learner's function gives in one call: where does a NaN come from, where a float64?

    trace = Trace.of(answer, replay)          # runs the call, and each expression reports its value
    trace.path(step, lambda s: s.nan)[-1]     # back from there to the expression that made the first NaN

The tree that runs is a copy in which `a * b` has become `__seen__(7, __seen__(5, a) * __seen__(6, b))`.
"""

import ast
import copy
import inspect
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from llmc.course.old.mutants.loops import root_of
from llmc.course.old.mutants.places import shortened
from llmc.course.old.mutants.replay import Replay, outputs_of
from llmc.course.old.mutants.solution import Solution
from llmc.course.old.mutants.stoppable import is_tick

SEEN, AFTER, KEPT, RETURNED = "__seen__", "__after__", "__kept__", "__returned__"
MANY = 200_000  # steps of a call that are noted
HELD = 1 << 12  # numbers of an array that is kept as it was
SECONDS = 1.0  # of processor time that a traced call may take
NUMBERS = (bool, int, float, np.generic, np.ndarray)
REPORTED = (
    ast.BinOp,
    ast.UnaryOp,
    ast.Call,
    ast.Subscript,
    ast.Name,
    ast.Attribute,
    ast.IfExp,
    ast.Constant,
    ast.Tuple,
)
CLOSED = (ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp, ast.JoinedStr)  # not looked into
DEFINES = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Raise)


@dataclass(eq=False)
class Step:
    """A value of one expression, or several in a tuple. made_of: steps of its operands, or where a name got it.

    held: what an array held then that was not finite, and not large; its value may have been written over since.
    """

    text: str
    kind: type
    value: object
    made_of: list

    def __post_init__(self):
        self.held = None
        if isinstance(self.value, (int, float, np.floating)):  # most steps of a loop; np.isnan would take long
            self.nan, self.infinite = self.value != self.value, abs(self.value) == math.inf
            self.wide, self.wide_number = False, isinstance(self.value, np.float64)
            return
        values = [v for v in (self.value if isinstance(self.value, tuple) else [self.value]) if isinstance(v, NUMBERS)]
        floats = [v for v in values if isinstance(v, float) or getattr(v, "dtype", np.dtype(int)).kind == "f"]
        self.nan = any(np.isnan(v).any() for v in floats)
        self.infinite = any(np.isinf(v).any() for v in floats)
        if (self.nan or self.infinite) and isinstance(self.value, np.ndarray) and self.value.size <= HELD:
            self.held = self.value.copy()
        self.wide = any(isinstance(v, np.ndarray) and v.dtype == np.float64 for v in values)
        self.wide_number = isinstance(self.value, np.float64)  # which makes float64 of a float32 array


class _Math:
    """The module math as Numba compiles it: what overflows is infinite, and what has no value is NaN."""

    def __getattr__(self, name):
        return _as_compiled(getattr(math, name))


def _as_compiled(value):
    """The module, or a function of it, without its exceptions; anything else as it is."""
    if value is math:
        return _Math()
    if getattr(value, "__module__", None) != "math":
        return value

    def function(*arguments):
        try:
            return value(*arguments)
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    return function


class Trace:
    """steps: of one call, in their order. outputs: as `outputs_of`."""

    def __init__(self, tree):
        self.tree, self.texts, self.kinds, self.parts = copy.deepcopy(tree), [], [], []
        self.steps, self.outputs, self.buffers = [], [], {}  # buffers: {id of an argument: (function, name)}
        self.last = {}  # {number of an expression: its newest step}
        self.given, self.returned = {}, {}  # {(function, name): the steps that gave it something}, {function: step}
        functions = [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)]
        for function in functions:
            _Reporting(self, function, {node.name for node in functions}).change()
        ast.fix_missing_locations(self.tree)

    @classmethod
    def of(cls, answer: Solution, replay: Replay):
        """The trace of this call of `learners` of a function; None where it cannot be made, or is too long."""
        with suppress(Exception), np.errstate(all="ignore"):
            trace = cls(answer.tree)
            names = {SEEN: trace.seen, AFTER: trace.after, KEPT: trace.kept, RETURNED: trace.was_returned}
            before = {name: _as_compiled(value) for name, value in answer.before.items()}
            program = replace(answer, tree=trace.tree, before=before | names)
            arguments, options = copy.deepcopy((replay.arguments, replay.options))
            function = program.function(time.thread_time() + SECONDS)
            given = inspect.signature(function).bind(*arguments, **options).arguments
            trace.buffers = {id(value): (function.__name__, name) for name, value in given.items()}
            result = function(*arguments, **options)
            trace.outputs = outputs_of(result, arguments, options)
            return trace
        return None

    def number(self, node, parts) -> int:
        """Of a new expression. parts: the numbers of its operands, or what `_part` looks up."""
        self.texts.append(shortened(" ".join(ast.unparse(node).split())))
        self.kinds.append(type(node))
        self.parts.append([part for part in parts if part is not None])
        return len(self.texts) - 1

    def seen(self, number, value):
        """What an expression calls with its value, which goes on from here."""
        if len(self.steps) >= MANY:
            raise OverflowError("too many steps")
        made_of = [step for part in self.parts[number] for step in self._steps(part)]
        self.last[number] = Step(self.texts[number], self.kinds[number], value, made_of)
        self.steps.append(self.last[number])
        return value

    def _steps(self, part):
        """Those of an operand, of what a name was given last, or of what a function of the learner's returned."""
        if not isinstance(part, int):
            return [*self.given.get(part, {}).values(), *filter(None, [self.returned.get(part)])]
        return [self.last[part]] if part in self.last else []

    def after(self, number, value, *name):
        """A line `a += b` has changed what the name holds."""
        self.seen(number, value)
        self.given[name] = {number: self.last[number]}

    def kept(self, number, whole, *name):
        """A line `a = b` has given the name what that expression made; `a[0] = b` or `np.exp(b, out=a)`, a part."""
        if number in self.last:
            before = {} if whole else self.given.get(name, {})
            self.given[name] = before | {number: self.last[number]}

    def was_returned(self, number, value, function):
        """Note what a function of the learner's returns."""
        self.returned[function] = self.last.get(number)
        return value

    def step_of(self, array, has: Callable):
        """The last step with has(step) whose value is this array or a part of it, or was written into it; or None."""
        steps = (s for s in reversed(self.steps) if isinstance(s.value, np.ndarray) and has(s))
        found = next((s for s in steps if s.value is array or np.may_share_memory(s.value, array)), None)
        written = {step.text for step in self.given.get(self.buffers.get(id(array)), {}).values()}
        return found or next((s for s in reversed(self.steps) if s.text in written and has(s)), None)

    def path(self, step, has: Callable) -> list:
        """The steps from this one back to the expression that made what has(step) of operands without it."""
        path = {}
        while id(step) not in path:
            path[id(step)] = step
            step = next((part for part in step.made_of if has(part)), step)
        return [*path.values()]


class _Reporting:
    """Makes the expressions of one function report their values. defined: names of all the learner's functions."""

    def __init__(self, trace, function, defined):
        self.trace, self.function, self.defined = trace, function, defined

    def change(self):
        """In its tree."""
        self.function.body = self._block(self.function.body)

    def _block(self, lines):
        return [new for line in lines for new in self._line(line)]

    def _line(self, line):
        """The line, reporting, with what has to be noted around it."""
        if is_tick(line) or isinstance(line, DEFINES):
            return [line]
        for name in ("body", "orelse", "finalbody"):
            if isinstance(getattr(line, name, None), list):
                setattr(line, name, self._block(getattr(line, name)))
        if isinstance(line, ast.AugAssign):
            return self._in_place(line)
        outs = [keyword.value for node in ast.walk(line) for keyword in _outs(node)]
        number = None
        for name in ("test", "iter", "value"):
            if isinstance(getattr(line, name, None), ast.expr):
                new, number = self._reporting(getattr(line, name))
                setattr(line, name, new)
        if number is None or not isinstance(line, (ast.Assign, ast.Expr, ast.Return)):
            return [line]
        if isinstance(line, ast.Return):
            line.value = _call(RETURNED, number, line.value, self.function.name)
            return [line]
        targets = [pair for target in getattr(line, "targets", []) for pair in self._pairs(target, number)]
        kept = [(isinstance(target, ast.Name), target, of) for target, of in targets]
        kept += [(False, out, number) for out in outs]
        notes = [_call(KEPT, of, whole, self.function.name, root_of(target)) for whole, target, of in kept]
        return [line, *(ast.Expr(note) for note in notes if note.args[-1].value)]

    def _pairs(self, target, number):
        """(target, number of what it is given), also for `a, b = x, y`."""
        parts = getattr(target, "elts", None)
        if parts is None:
            return [(target, number)]
        given = self.trace.parts[number] if self.trace.kinds[number] is ast.Tuple else []
        return list(zip(parts, given if len(given) == len(parts) else [number] * len(parts)))

    def _in_place(self, line):
        """a += b: what `a` held is an operand."""
        whole = copy.deepcopy(line)
        held = copy.deepcopy(line.target)
        for node in ast.walk(held):
            if hasattr(node, "ctx"):
                node.ctx = ast.Load()
        now, name = copy.deepcopy(held), root_of(line.target)
        before, first = self._reporting(held)
        line.value, second = self._reporting(line.value)
        number = self.trace.number(whole, [first, second])
        return [ast.Expr(before), line, ast.Expr(_call(AFTER, number, now, self.function.name, name or ""))]

    def _reporting(self, node):
        """(the expression, reporting; its number, or None)."""
        if isinstance(node, CLOSED) or isinstance(getattr(node, "ctx", None), ast.Store):
            return node, None
        whole, parts = copy.deepcopy(node), self._operands(node)
        if not isinstance(node, REPORTED):
            return node, None
        if isinstance(node, ast.Name):
            parts = [(self.function.name, node.id)]
        called = getattr(node.func, "id", None) if isinstance(node, ast.Call) else None
        number = self.trace.number(whole, [*parts, *([called] if called in self.defined else [])])
        return _call(SEEN, number, node), number

    def _operands(self, node):
        """Make the operands of a node report; their numbers. What is called, and what stands in brackets, is none."""
        found = []
        for name, value in ast.iter_fields(node):
            if isinstance(node, ast.Call) and name == "func":
                if isinstance(value, ast.Attribute):  # x.sum(): x is one
                    value.value, number = self._reporting(value.value)
                    found.append(number)
            elif isinstance(value, ast.expr) and not (isinstance(node, ast.Subscript) and name == "slice"):
                new, number = self._reporting(value)
                setattr(node, name, new)
                found.append(number)
            elif isinstance(value, list):
                for k, child in enumerate(value):
                    if isinstance(child, ast.keyword):
                        child.value, number = self._reporting(child.value)
                        found.append(number)
                    elif isinstance(child, ast.expr) and not isinstance(child, ast.Starred):
                        value[k], number = self._reporting(child)
                        found.append(number)
        return found


def _outs(node):
    """The keywords out= of a call."""
    return [keyword for keyword in getattr(node, "keywords", []) if keyword.arg == "out"]


def _call(name, *arguments):
    """__name__(…), of nodes and of constants."""
    nodes = [each if isinstance(each, ast.AST) else ast.Constant(each) for each in arguments]
    return ast.Call(ast.Name(name, ast.Load()), nodes, [])
