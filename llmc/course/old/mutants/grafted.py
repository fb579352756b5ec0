"""Which expression of a learner's function is the first to be wrong? What our solution has there is put in its place.

An expression is named if our solution never has what comes out of it, and the function gives the right outputs once it
gets what our solution makes of the same numbers instead. Both are tried, in several calls. Then the mistake is in that
expression, or in the lines that make what goes into it, as far as our solution has not these numbers, too.
"""

import ast
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from llmc.course.old.mutants.elsewhere import dtype_of
from llmc.course.old.mutants.picked import close
from llmc.course.old.mutants.replay import Replay
from llmc.course.old.mutants.solution import Solution
from llmc.course.old.mutants.traced import CLOSED, Trace

SECONDS = 1.5  # of processor time that the search for one place may take
MANY = 50_000  # numbers of one expression, in all turns of its loop, that are compared
OPERATIONS = (ast.BinOp, ast.UnaryOp, ast.Call, ast.IfExp)
HIDDEN = (*CLOSED, ast.List, ast.Set, ast.Dict, ast.Compare, ast.BoolOp, ast.Starred)  # whose parts are not followed
LEAST = 2  # calls in which all of it must hold
MOST = 2  # lines before the expression that may hold the mistake, too


@dataclass(frozen=True)
class Graft:
    """The learner's expression, and that of our solution which makes it right, as a sentence quotes them.

    before: names of the learner's that go into it and may be wrong, too; none if all of it is right.
    """

    theirs: str
    ours: str
    before: list[str]


class Watched(Trace):
    """A trace that keeps what each expression gave, turn by turn; `at`, if not None, gives the numbers `instead`."""

    at, instead = None, None

    def __init__(self, tree):
        self.values, self.too_many, self.nodes = {}, set(), []  # {number of an expression: its values}
        loops = [node.target for node in ast.walk(tree) if isinstance(node, ast.For)]
        self.counters = {n.id for target in loops for n in ast.walk(target) if isinstance(n, ast.Name)}
        super().__init__(tree)

    def number(self, node, parts):
        """Of a new expression, which is kept."""
        self.nodes.append(node)
        return super().number(node, parts)

    def follows(self, number) -> bool:
        """Is all that goes into that expression followed? An array as an index is not."""
        nodes = list(ast.walk(self.nodes[number]))
        indices = [n for node in nodes if isinstance(node, ast.Subscript) for n in ast.walk(node.slice)]
        names = {n.id for n in indices if isinstance(n, ast.Name)}
        return not any(isinstance(node, HIDDEN) for node in nodes) and names <= self.counters

    def seen(self, number, value):
        """Note the value; what the function goes on with is another one at the graft."""
        if number == self.at:
            value = self._grafted(number, value)
        kept = self.values.setdefault(number, [])
        if number not in self.too_many and _is_numeric(value) and sum(map(np.size, kept)) <= MANY:
            kept.append(np.array(value))
        else:
            self.too_many.add(number)
        step = super().seen(number, value)
        self.last[number].number = number
        return step

    def _grafted(self, number, value):
        """The next numbers of `instead`, in the shape of this value."""
        turn, shape = len(self.values.get(number, [])), np.shape(value)
        if isinstance(self.instead, np.ndarray) and self.instead.size == 1:
            new = np.broadcast_to(self.instead.reshape(()), shape)
        elif isinstance(self.instead, tuple):  # one array for one value, along whose axes it is the same
            new = np.broadcast_to(self.instead[0], shape)
        else:
            new = self.instead[turn * np.size(value) :][: np.size(value)].reshape(shape)
        if "out=" in self.texts[number]:  # it has been written there
            value[...] = new
            return value
        return new.copy() if isinstance(value, np.ndarray) else new[()]

    def all_of(self, number):
        """Every number that an expression gave, one after the other; None where they are none, or too many."""
        values = self.values.get(number)
        if not values or number in self.too_many:
            return None
        return np.concatenate([value.ravel() for value in values])


def graft(solution, answer, replays) -> Graft | None:
    """The first wrong expression of the learner's; None where no graft makes the function right.

    answer: `learners` of the function. replays: calls, those that the learner's function may get right among them.
    """
    if not isinstance(solution, Solution):
        return None
    end = time.thread_time() + SECONDS
    in_time = (replay for replay in replays if time.thread_time() < end)
    calls = list(filter(None, (Call.of(solution, answer, replay) for replay in in_time)))
    if len(calls) < LEAST:
        return None
    for number, other in calls[0].candidates():
        if time.thread_time() > end:
            return None
        with suppress(Exception):  # shapes that do not fit
            if all(call.mended(answer, number, other) for call in calls) and not calls[0].needed(answer, number):
                return Graft(calls[0].theirs.texts[number], calls[0].ours.texts[other], calls[0].roots(number)[1])
    return None


@dataclass(frozen=True)
class Call:
    """One call that the learner's function gets wrong: what every expression gives in it, theirs and ours."""

    replay: Replay
    ours: Watched
    theirs: Watched

    @classmethod
    def of(cls, solution, answer, replay):
        """None where the learner's function is right, or cannot be watched."""
        ours, theirs = Watched.of(solution, replay), Watched.of(answer, replay)
        call = cls(replay, ours, theirs)
        return None if None in (ours, theirs) or call.right(theirs.outputs) else call

    def right(self, outputs) -> bool:
        """Are these what our solution gives?"""
        pairs = list(zip(outputs, self.ours.outputs))
        alike = len(outputs) == len(self.ours.outputs) and all(np.shape(one) == np.shape(it) for one, it in pairs)
        return alike and all(close(one, it, it, dtype_of(self.replay)) for one, it in pairs)

    def candidates(self) -> Iterator[tuple[int, int]]:
        """(number of an expression of theirs, of one of ours) that may belong together, by what this call shows."""
        for number, kind in enumerate(self.theirs.kinds):
            if kind in OPERATIONS and self.goes_wrong(number):
                others = [k for k, its in enumerate(self.ours.kinds) if its in OPERATIONS and self._says(k)]
                others.sort(key=lambda k: _operation(self.ours.nodes[k]) != _operation(self.theirs.nodes[number]))
                yield from ((number, other) for other in others if self.numbers_for(number, other) is not None)

    def mended(self, answer, number, other) -> bool:
        """Is the call right with that graft, and does the expression make wrong numbers of right ones?"""
        if not (self.goes_wrong(number) and self.of_the_same(number, other)):
            return False
        instead = self.numbers_for(number, other)
        if instead is None:
            return False
        grafted = type("Grafted", (Watched,), {"at": number, "instead": instead}).of(answer, self.replay)
        return grafted is not None and self.right(grafted.outputs)

    def _says(self, other) -> bool:
        """Is that expression of our solution short enough to be quoted whole, and are its numbers not all the same?"""
        values = self.ours.all_of(other)
        shown = "…" not in self.ours.texts[other] and self.ours.follows(other)
        return shown and values is not None and np.ptp(values.astype(np.float64)) > 0

    def needed(self, answer, number) -> bool:
        """Is an output that is right made of this expression? Then that is right, though our solution has none such."""
        values = self.theirs.all_of(number)
        other = type("Other", (Watched,), {"at": number, "instead": 1.37 * values + 0.11}).of(answer, self.replay)
        triples = zip(self.theirs.outputs, self.ours.outputs, other.outputs if other else self.theirs.outputs)
        right = ((mine, new) for mine, ours, new in triples if close(mine, ours, ours, dtype_of(self.replay)))
        return any(not np.array_equal(mine, new) for mine, new in right)

    def goes_wrong(self, number) -> bool:
        """Is it something that our solution never has, made of what is followed?"""
        values = self.theirs.all_of(number)
        if values is None or not self.theirs.follows(number) or self._known(values):
            return False
        roots = self.roots(number)
        return roots is not None and len(roots[1]) <= MOST

    def _known(self, values) -> bool:
        """Does an expression of our solution have just these numbers? A single one may be an index, or a length."""
        return values.size == 1 or any(_same(values, self.ours.all_of(k)) for k in range(len(self.ours.texts)))

    def roots(self, number, seen=()) -> tuple[list[np.ndarray], list[str]] | None:
        """What an expression of the learner's is made of: (numbers that our solution has, or was given; names).

        The names hold other numbers, which are made of those. None where not all of it is followed: what is handed to a
        function of the learner's, or taken from a list.
        """
        found, before = [], []
        for part in (part for part in self.theirs.parts[number] if isinstance(part, int)):
            named = self.theirs.kinds[part] in (ast.Name, ast.Subscript)
            if self._root(part) is None:
                return None
            values, given = self.theirs.all_of(part), self._given(part) if named else []
            if named and (values is None or self._known(values) or not given and self._is_argument(part)):
                found += [] if values is None else [values]
                before += [self.theirs.texts[part]] * (values is not None and self._takes_another(part, values))
                continue
            if named and not given:
                return None
            for step in (step for step in given or [part] if step not in seen):
                more = self.roots(step, (*seen, step))
                if more is None:
                    return None
                found, before = found + more[0], before + [self.theirs.texts[part]] * bool(given) + more[1]
        return found, list(dict.fromkeys(before))

    def _takes_another(self, number, values) -> bool:
        """Has our solution that name, too, and these numbers under another one alone? Then two may be exchanged."""
        text = self.theirs.texts[number]
        ours = [k for k, kind in enumerate(self.ours.kinds) if kind is ast.Name]
        same = {self.ours.texts[k] for k in ours if _same(values, self.ours.all_of(k))}
        return bool(same) and text not in same and any(self.ours.texts[k] == text for k in ours)

    def _is_argument(self, number) -> bool:
        """Is it an argument of the exercise's function, or a global, and not one of a helper's?"""
        names = [part for part in self.theirs.parts[self._root(number)] if not isinstance(part, int)]
        helpers = [node for node in self.theirs.tree.body[:-1] if isinstance(node, ast.FunctionDef)]
        theirs = {(node.name, a.arg) for node in helpers for a in ast.walk(node.args) if isinstance(a, ast.arg)}
        return not theirs & set(names)

    def _root(self, number) -> int | None:
        """The expression of which that one is a slice of a slice; None if that is not followed, as a list is not."""
        while number is not None and self.theirs.kinds[number] is ast.Subscript:
            number = next((part for part in self.theirs.parts[number] if isinstance(part, int)), None)
        return number

    def _given(self, number) -> list[int]:
        """Numbers of the expressions that gave a name, or the name of a slice, its value; none for an argument."""
        names = (part for part in self.theirs.parts[self._root(number)] if not isinstance(part, int))
        return [k for name in names for k in self.theirs.given.get(name, {})]

    def of_the_same(self, number, other) -> bool:
        """Does our solution make its numbers, with others, of those of which the learner's makes the wrong ones?"""
        given = [each for each in self.roots(number)[0] if each.size > 1]
        return any(_made_of(self.ours, step, given, set()) for step in self.ours.last[other].made_of)

    def numbers_for(self, number, other):
        """What the graft gives: as many numbers, or one array that is spread over axes; None where it does not fit."""
        values, new = self.theirs.all_of(number), self.ours.all_of(other)
        if new is None or new.size == 1:
            return new if new is not None and values.size == len(self.theirs.values[number]) > 1 else None
        if values.size == new.size:
            return None if _same(values, new) else new
        one, array = self.theirs.values[number], self.ours.values[other]
        fits = len(one) == len(array) == 1 and one[0].ndim == array[0].ndim
        fits = fits and all(a in (1, b) for a, b in zip(array[0].shape, one[0].shape))
        return (array[0],) if fits else None


def _made_of(ours, step, given, seen) -> bool:
    """Is this step, or something that it is made of, among the given arrays?"""
    if id(step) in seen or not isinstance(step.value, np.ndarray) or step.value.size == 1:
        return False
    seen.add(id(step))
    values = ours.all_of(getattr(step, "number", None))
    here = values is not None and any(_same(values, each) for each in given)
    return here or any(_made_of(ours, part, given, seen) for part in step.made_of)


def _same(one, other) -> bool:
    """Are these the same numbers but for rounding?"""
    if other is None or one.size != other.size:
        return False
    dtype = "float32" if np.float32 in (one.dtype, other.dtype) else "float64"
    finite = np.isfinite(one) & np.isfinite(other)
    return np.array_equal(one[~finite], other[~finite], equal_nan=True) and close(
        one[finite], other[finite], other[finite], dtype
    )


def _operation(node) -> str:
    """What is done on top of an expression: "Sub", "sum", "exp"."""
    if isinstance(node, ast.Call):
        return getattr(node.func, "attr", getattr(node.func, "id", ""))
    return type(getattr(node, "op", node)).__name__


def _is_numeric(value) -> bool:
    return isinstance(value, (bool, int, float, np.generic, np.ndarray)) and np.asarray(value).dtype.kind in "biuf"
