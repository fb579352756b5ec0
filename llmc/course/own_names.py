"""A check cell and the learner's code share the variables of one notebook. Here each of them gets its own.

A check cell assigns x, B and size, and so may a learner, whose function then needs the value of the learner's cell. A
learner may also call a helper `gelu`, `race` or `sum`, while the check cell means what the set-up cell imports, or
Python's own. So while a check cell runs, its names mean what it says; while the learner's code runs, they mean what
the learner's cells said; afterwards the learner has everything back, and other variables of the check cell stay.
"""

import ast
import builtins
import dis
import importlib
from contextlib import contextmanager
from functools import cache
from types import CodeType, FunctionType

from llmc.course import uncleared
from llmc.course.exercises import catalog, layout

_assigned = set()  # names that the check cells run so far in this kernel assign
_left = {}  # what they left behind: {name: object}
_NOTHING = object()  # is not the value of any name
_running = []  # the Names of the check cells that run now: one, or none


def is_check_name(name) -> bool:
    """Is this a variable of a check cell?"""
    return name in _assigned


def is_learners_name(name) -> bool:
    """Does the check cell that runs now assign a variable of this name, which a cell of the learner's defines too?"""
    return bool(_running) and name in _running[-1].learners


class Names:
    """Who means what by the names of a notebook.

    variables: its globals. learners: {name: object} of those that the check cell uses too.
    """

    def __init__(self, cell, exercise):
        """cell: the frame of a check cell that has just begun. exercise: its name."""
        self.variables, self.parts = cell.f_globals, set(_parts_of(cell.f_code))
        self._inside = False  # does the learner's code run now?
        self.mine, early = assigned_by(cell.f_code), assigned_by(cell.f_code, before=cell.f_lasti)
        _assigned.update(self.mine)
        found = {name: self.variables[name] for name in self.mine - early if name in self.variables}
        self.learners = {name: value for name, value in found.items() if value is not _left.get(name, _NOTHING)}
        self._take_back(exercise)

    def _take_back(self, exercise):
        """Names that the check cell reads mean what the set-up cell imports, or what Python means by them."""
        read = {name for code in self.parts for name in code.co_names} - self.mine - {exercise}
        for name in read & self.variables.keys():
            meant = imports_of(exercise).get(name, getattr(builtins, name, None))
            if meant is not None and self.variables[name] is not meant:
                self.learners[name], self.variables[name] = self.variables[name], meant
                self.mine.add(name)

    @contextmanager
    def of_the_learner(self):
        """While the learner's code runs: its names mean what its own cells gave them, or nothing."""
        if self._inside:
            yield
            return
        hidden = {name: self.variables.pop(name) for name in [*self.variables] if self._hides(name)}
        self.variables.update(self.learners)
        self._inside = True
        try:
            yield
        finally:  # the learner's code may have rebound one of them, declaring it global
            self._inside = False
            self.learners = {name: self.variables.pop(name) for name in self.mine if name in self.variables}
            self.variables.update(hidden)

    def _hides(self, name) -> bool:
        return name in self.mine or (name in _assigned and self.variables[name] is _left.get(name, _NOTHING))

    def leave(self):
        """The check cell ends: the learner's names mean what they meant before."""
        _left.update((name, self.variables[name]) for name in self.mine if name in self.variables)
        self.variables.update(self.learners)
        for name in self.learners:
            _left.pop(name, None)

    def alone(self, function):
        """A function of the check cell that sees the variables as they are now, whatever they mean later."""
        frozen = dict(self.variables)

        def bound(value):
            if not isinstance(value, FunctionType) or value.__code__ not in self.parts:
                return value
            return FunctionType(value.__code__, frozen, value.__name__, value.__defaults__, value.__closure__)

        frozen.update((name, bound(value)) for name, value in self.variables.items())
        return bound(function)


@contextmanager
def names_of(cell, exercise):
    """Keep the names of this check cell apart from the learner's."""
    _running.append(Names(cell, exercise))
    try:
        yield
    finally:
        _running.pop().leave()


@contextmanager
def learners_names():
    """In a check cell: the names mean what they mean to the learner. Elsewhere they are the learner's anyway.

    The learner's code runs inside of this block, and so np.empty's arrays are `uncleared.marked` there.
    """
    if not _running:
        yield
        return
    with _running[-1].of_the_learner(), uncleared.marked():
        yield


def among_learners_names(function):
    """`function()`, written in a check cell, which calls the learner's code: each gets its own names."""
    if not _running:
        return function
    names, inside = _running[-1], _running[-1].alone(function)

    def call():
        with names.of_the_learner():
            return inside()

    return call


def assigned_by(code, before=None) -> set:
    """Global variables that a cell's code assigns (before that offset); imports do not count: others have them too."""
    steps = list(dis.get_instructions(code))
    return {
        step.argval
        for last, step in zip([None, *steps], steps)
        if step.opname in ("STORE_NAME", "STORE_GLOBAL")
        and not last.opname.startswith("IMPORT_")
        and (before is None or step.offset < before)
    }


def _parts_of(code):
    """This code, and that of the functions, lambdas and comprehensions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _parts_of(constant)


@cache
def imports_of(exercise) -> dict:
    """{name: object} that the set-up cell of this exercise's notebook imports; {} if it has no notebook."""
    for lesson in layout.lessons("solutions"):
        cells = catalog.cells_of(layout.notebook("solutions", lesson))
        if any(cell.mark.get("exercise") == exercise for cell in cells):
            setup = next((cell.source for cell in cells if cell.id == "setup"), "")
            return {name: value for node in ast.parse(setup).body for name, value in _imported(node)}
    return {}


def _imported(node):
    """(name, object) of each name that an import statement binds."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            module = importlib.import_module(alias.name)
            yield (alias.asname, module) if alias.asname else (alias.name, module)
    elif isinstance(node, ast.ImportFrom):
        module = importlib.import_module(node.module)
        for alias in node.names:
            found = getattr(module, alias.name, None)
            found = importlib.import_module(f"{node.module}.{alias.name}") if found is None else found
            yield alias.asname or alias.name, found
