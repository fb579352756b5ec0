"""A mistyped constant: which other number in its place makes a wrong array right, or explains it?

    fitted(search, answer)  -> Found(yours="with 0.044715 in place of 0.044175")

The other mistakes are tried one by one; a number can be anything, so it is computed: a few steps of Newton's method on
one constant at a time, by least squares over all entries of the array. The fit must hold in every call, not in one.
"""

import ast
import math
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import numpy as np

from llmc.course.old.mutants.meeting import Found
from llmc.course.old.mutants.places import places
from llmc.course.old.mutants.solution import Solution

STEPS = 12  # of Newton's method, at most
EPS = {"float64": 1e-12, "float32": 5e-7}  # what is left of an array that is right, relative to its largest entry
CLEARLY = 20  # times what is left: smaller errors say nothing of a constant
COMMON = ("math.pi", "math.e", "math.sqrt(2)", "math.sqrt(math.pi)", "math.sqrt(2 / math.pi)", "math.log(2)")
ALIKE = {"float64": 1e-7, "float32": 1e-4}  # a fitted number that is so near to one of the solution's is that one


@dataclass(frozen=True)
class Constant:
    """A number in a program, in all of the places where it stands.

    name: of the variable outside of its functions that holds it, or "". called: the name that a line, or the default of
    an argument, gives to it.
    """

    value: float
    name: str
    nodes: tuple = ()
    called: str = ""

    @property
    def text(self) -> str:
        """As the learner knows it."""
        name = self.name or self.called
        return f"`{name} = {self.value:.10g}`" if name else f"{self.value:.10g}"


def constants(program: Solution) -> list[Constant]:
    """Its numbers that are no whole ones, and the variables outside of its functions that hold one."""
    functions = [node for node in ast.walk(program.tree) if isinstance(node, ast.FunctionDef)]
    nodes = [place.node for function in functions for place in places(function)]
    nodes += [default for function in functions for default in function.args.defaults]
    literals, called = {}, {}
    for function in functions:
        called |= {id(value): argument.arg for argument, value in _defaults(function.args)}
        for line in ast.walk(function):
            if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
                called[id(line.value)] = line.targets[0].id
    for node in nodes:
        if isinstance(node, ast.Constant) and type(node.value) is float and node.value:
            literals.setdefault(node.value, []).append(node)
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    held = {name: value for name, value in program.before.items() if name in used and _is_number(value)}
    return [Constant(value, "", tuple(same), called.get(id(same[0]), "")) for value, same in literals.items()] + [
        Constant(float(value), name) for name, value in held.items()
    ]


def _defaults(arguments):
    """(argument, its default), for those that have one."""
    given = arguments.defaults
    return zip(arguments.args[len(arguments.args) - len(given) :], given)


def _is_number(value) -> bool:
    return isinstance(value, (float, np.floating)) and math.isfinite(value) and value != 0


@contextmanager
def holding(program, constant, value):
    """Inside, the program (which is given) has this value in place of the constant."""
    for node in constant.nodes:
        node.value = value
    kind = type(program.before.get(constant.name, 0.0))
    try:
        yield replace(program, before=program.before | {constant.name: kind(value)}) if constant.name else program
    finally:
        for node in constant.nodes:
            node.value = constant.value


def fitted(search, answer) -> Found | None:
    """A constant of the learner's function that should be another number, or one of the solution's that it is not."""
    known = known_numbers(search.solution)
    for program, theirs in ((answer, True), (search.solution, False)):
        if program is None:
            continue
        end = search.end()
        for constant in constants(program):
            found = _fit(search, program, constant, search.target if theirs else search.got, end)
            if found is None or math.isclose(found, constant.value, rel_tol=1e-9):
                continue
            value, text = nice(found, known if theirs else _powers(constant.value), search.dtype)
            with holding(program, constant, value) as changed:
                right = _left(search, changed, search.target if theirs else search.got, end)
                if not (right and _holds_elsewhere(search, changed, theirs, end)):
                    continue
            return _found(constant, text, theirs)
    return None


def _holds_elsewhere(search, changed, theirs, end) -> bool:
    if theirs:
        return search.elsewhere.mended(lambda: changed.function(end), doubtful=True)
    return search.elsewhere.same(lambda: changed.function(end))


def _found(constant, text, theirs) -> Found:
    name = constant.name or constant.called
    words = f"with {f'`{name} = {text}`' if name else text} in place of {constant.text}"
    return Found(yours=words) if theirs else Found(ours=words)


def _fit(search, program, constant, wanted, end) -> float | None:
    """The value with which the program gives the wanted array; None if there is none near enough."""
    value = constant.value

    def error(at):
        with holding(program, constant, at) as changed:
            return search.pick(search.replay.run(changed.function(end))) - wanted

    with suppress(Exception):  # most constants cannot be anything: half of a length is no length
        now = error(value)
        if not _clear(search, now):
            return None
        for _ in range(STEPS):
            step = 1e-4 * (abs(value) or 1e-4)
            slope = (error(value + step) - now) / step
            size = float(np.vdot(slope, slope))
            if not (np.isfinite(slope).all() and size > 0):
                return None
            value -= float(np.vdot(slope, now)) / size
            now = error(value)
            if np.abs(now).max() <= _rest(search):
                return value
    return None


def _rest(search) -> float:
    return EPS[search.dtype] * max(np.abs(search.target).max(), np.abs(search.got).max())


def _clear(search, error) -> bool:
    """Is the error finite, and much larger than rounding, in more entries than chance explains?"""
    return bool(np.isfinite(error).all() and np.abs(error).max() > CLEARLY * _rest(search) and error.size > 2)


def _left(search, program, wanted, end) -> bool:
    """Is next to nothing left of the error?"""
    with suppress(Exception):
        error = search.pick(search.replay.run(program.function(end))) - wanted
        return bool(np.abs(error).max() <= 4 * _rest(search))
    return False


def known_numbers(solution) -> dict[float, str]:
    """{value: text} of the solution's constants, of its pieces that hold nothing else, and of COMMON ones."""
    found = {}
    for function in [node for node in ast.walk(solution.tree) if isinstance(node, ast.FunctionDef)]:
        for place in places(function):
            names = {node.id for node in ast.walk(place.node) if isinstance(node, ast.Name)}
            if isinstance(place.node, (ast.Constant, ast.BinOp, ast.Call, ast.Attribute)) and names <= {"math", "np"}:
                with suppress(Exception):
                    value = eval(ast.unparse(place.node), {"math": math, "np": np})  # a piece of our own solution
                    if type(value) in (int, float):
                        found.setdefault(float(value), ast.unparse(place.node))
    return found | {value: each for each in COMMON if (value := eval(each, {"math": math})) not in found}


def _powers(value) -> dict[float, str]:
    """{power: text}: what a learner has who raises the constant itself to a power, with what it is multiplied by."""
    return {
        value**n: f"{value:.10g}{sign}" for n, sign in ((2, "²"), (3, "³")) if f"{value**n:.4g}" != f"{value**n:.10g}"
    }


def nice(value, known, dtype="float64") -> tuple[float, str]:
    """The number and its text: one of the solution's if it is near one, else with as few digits as say the same."""
    near = [(abs(number - value), number, text) for number, text in known.items()]
    near = [each for each in near if each[0] <= ALIKE[dtype] * abs(each[1])]
    if near:
        _, number, text = min(near)
        return number, text
    for digits in range(1, 10):
        short = float(f"{value:.{digits}g}")
        if math.isclose(short, value, rel_tol=ALIKE[dtype] / 10):
            return short, f"{short:.{digits}g}"
    return value, f"{value:.10g}"


def order_in(search, answer, least=0.9) -> tuple[str, int] | None:
    """(text of a small number in the learner's function, 1 or 2): the error is of that order in it; or None.

    It is a step of its own, and no number of the formula, which our solution has, too. Half as large, it leaves half of
    the error, or a quarter, as a one-sided or a central difference does.
    """
    end = search.end()
    all_of_them, ours = constants(answer), {constant.value for constant in constants(search.solution)}
    for constant in all_of_them:
        if not 0 < abs(constant.value) <= 0.1 or constant.value in ours:
            continue
        with suppress(Exception):
            multiples = [c for c in all_of_them if c.value in (2 * constant.value, constant.value / 2)]
            whole = _error(search, answer, end)
            half = _halved(search, answer, [constant, *multiples], end)
            size = float(np.vdot(whole, whole))
            share = float(np.vdot(half, whole)) / size
            unlike = np.abs(half - share * whole).max() / np.abs(whole).max()
            for order in (1, 2):
                if abs(share - 0.5**order) < 0.02 and unlike < 0.05:
                    return constant.text, order
    return None


def _error(search, program, end):
    return search.pick(search.replay.run(program.function(end))) - search.target


def _halved(search, program, some, end):
    """The error with half of these constants."""
    if not some:
        return _error(search, program, end)
    with holding(program, some[0], some[0].value / 2) as changed:
        return _halved(search, changed, some[1:], end)
