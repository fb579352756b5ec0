"""A kernel's threads in NumPy, all at once: plain Python that is written like the kernel, run with a mask.

    def warp_copy(out, x, N, C):                                   # like the kernel, arrays flat
        row = (blockIdx.x * blockDim.x + threadIdx.x) // 32
        if row >= N:
            return                                                 # of these threads
        for c in range(threadIdx.x % 32, C, 32):                   # each thread as often as it has numbers
            out[row * C + c] = x[row * C + c]

`Launch.run` walks through its tree. An assignment keeps what the threads that take no part had. A launch takes a few
milliseconds and nothing is compiled, so hundreds of mutants of a kernel can be tried in seconds. There are no races
here: threads go in lockstep.
"""

import ast
import operator

import numpy as np

from llmc.course.old.kernel_checks.intrinsics import Halves, intrinsics
from llmc.course.old.kernel_checks.threads import Memory, Threads
from llmc.course.old.mutants.stoppable import TooLong, is_tick

MANY = 4096  # turns of one loop; a mutant that needs more never ends
OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Not: np.logical_not,
    ast.USub: operator.neg,
}


class Launch(Threads):
    """The threads of one launch, as they walk through a kernel's lines. out_of_time: says when to stop."""

    def __init__(self, grid, block, out_of_time):
        super().__init__(grid, block)
        self._left, self._out_of_time = np.zeros_like(self.active), out_of_time
        self._everything = intrinsics(self) | {"shared": self.shared}

    def run(self, functions: dict, kernel: str, arguments):
        """Run one of the functions {name: ast.FunctionDef} with these arguments, arrays as Memory."""
        self._functions = functions
        self._called(functions[kernel], arguments)

    def _called(self, function, arguments):
        names = {a.arg: value for a, value in zip(function.args.args, arguments, strict=True)}
        *lines, last = function.body
        self._lines(lines, names)
        if isinstance(last, ast.Return) and last.value is not None:
            return self._value(last.value, names)
        return self._lines([last], names)

    # ---------------------------------------------------------------------------------------------- lines

    def _lines(self, lines, names):
        for line in lines:
            if self.active.any():
                self._line(line, names)

    def _line(self, line, names):
        if isinstance(line, ast.Assign):
            self._assign(line.targets[0], self._value(line.value, names), names)
        elif isinstance(line, ast.AugAssign):
            operands = self._value(line.target, names), self._value(line.value, names)
            self._assign(line.target, OPERATORS[type(line.op)](*operands), names)
        elif isinstance(line, ast.If):
            test, before = self._value(line.test, names) & (self.zero == 0), self.active
            self._where(before & test, line.body, names)
            self._where(before & ~test & ~self._left, line.orelse, names)
            self.active = before & ~self._left
        elif isinstance(line, ast.For):
            self._loop(line, self._value(line.iter, names), names)
        elif isinstance(line, ast.Return):
            self._left, self.active = self._left | self.active, self.active & False
        elif is_tick(line):
            if self._out_of_time():
                raise TooLong
        elif isinstance(line, ast.Expr):  # a call that returns nothing
            self._value(line.value, names)

    def _where(self, active, lines, names):
        self.active = active
        self._lines(lines, names)

    def _loop(self, line, numbers, names):
        """Each turn with the threads that still take part in it."""
        before = self.active
        if isinstance(numbers, Halves):
            for names[line.target.id] in numbers:
                self._lines(line.body, names)
            return
        at, (_, stop, step) = numbers.start + self.zero, numbers
        for _ in range(MANY):
            self.active = self.active & (at < stop)
            if not self.active.any():
                self.active = before & ~self._left
                return
            if (self.active & (step + self.zero <= 0)).any():  # these never arrive
                raise TooLong
            names[line.target.id] = at
            self._lines(line.body, names)
            at = at + step
        raise TooLong

    def _assign(self, target, value, names):
        if isinstance(target, ast.Subscript):
            self.store(self._value(target.value, names), self._value(target.slice, names), value)
        elif isinstance(target, ast.Attribute):
            whole = names[target.value.id]
            names[target.value.id] = whole._replace(**{target.attr: self._kept(getattr(whole, target.attr), value)})
        else:
            names[target.id] = self._kept(names.get(target.id), value)

    def _kept(self, old, new):
        """`new` in the threads that take part, `old` in the others."""
        if old is None or isinstance(new, Memory):
            return new
        if isinstance(new, tuple):
            return type(new)(*map(self._kept, old, new))
        return new if self.active.all() else np.where(self.active, new, old)

    # ---------------------------------------------------------------------------------------------- values

    def _value(self, node, names):
        kind = type(node)
        if kind is ast.Name:
            return names[node.id] if node.id in names else self._everything[node.id]
        if kind is ast.Constant:
            return node.value
        if kind is ast.BinOp:
            return OPERATORS[type(node.op)](self._value(node.left, names), self._value(node.right, names))
        if kind is ast.Compare:
            return OPERATORS[type(node.ops[0])](self._value(node.left, names), self._value(node.comparators[0], names))
        if kind is ast.UnaryOp:
            return OPERATORS[type(node.op)](self._value(node.operand, names))
        if kind is ast.Subscript:
            return self.load(self._value(node.value, names), self._value(node.slice, names))
        if kind is ast.Tuple:  # the index of a tile
            return tuple(self._value(part, names) for part in node.elts)
        if kind is ast.Attribute:
            return getattr(self._value(node.value, names), node.attr)
        if kind is ast.IfExp:
            return self._chosen(node, names)
        return self._result(node, names)  # of a call; other kinds a kernel has not, and a mutant may fail

    def _chosen(self, node, names):
        """`body if test else orelse`: a thread evaluates one of the two."""
        test, before = self._value(node.test, names) & (self.zero == 0), self.active
        self.active = before & test
        body = self._value(node.body, names)
        self.active = before & ~test
        orelse, self.active = self._value(node.orelse, names), before
        return np.where(test, body, orelse)

    def _result(self, node, names):
        arguments = [self._value(argument, names) for argument in node.args]
        if node.func.id in self._functions:
            return self._called(self._functions[node.func.id], arguments)
        return self._everything[node.func.id](*arguments)
