"""The search for the change, of the solution or of the learner's function, that explains one wrong array."""

import ast
import copy
import operator
import re
import time
from collections.abc import Callable
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np

from llmc.course.old.mutants import beside_ours, bounds, outdated, paired, running
from llmc.course.old.mutants.accidental import Kinds, accidental, does_nothing
from llmc.course.old.mutants.arrays import CHANGED, arrays
from llmc.course.old.mutants.clearer import clearer
from llmc.course.old.mutants.copied import added_one_by_one, copies
from llmc.course.old.mutants.elsewhere import Elsewhere, dtype_of, wrong_entries
from llmc.course.old.mutants.fitted import fitted
from llmc.course.old.mutants.helpers import where_it_belongs
from llmc.course.old.mutants.idle import stands_still, turning
from llmc.course.old.mutants.learners import learners, useless_in
from llmc.course.old.mutants.meeting import FEW, SHARE, Found, meeting
from llmc.course.old.mutants.picked import ROUNDING, Pick, close
from llmc.course.old.mutants.places import shortened
from llmc.course.old.mutants.private import private_names
from llmc.course.old.mutants.python_source import made_by, mutants, pairs
from llmc.course.old.mutants.replay import ORDINALS, Replay
from llmc.course.old.mutants.solution import Solution
from llmc.course.own_names import learners_names

SAYING = (bounds, outdated, running, paired)
LUCKY = re.compile(  # it may suit these numbers alone; where a loop begins is no such number
    r"with -?[\d.]\S* in place of -?[\d.](?!.*`(?:for \w+ in )?range\()|.*\b(plus|minus) `"
)
SCALED = re.compile(r"with `.*` (?:times|divided by|plus|minus) ")
LEAVES_OUT = "without "
LEFT_OUT = re.compile(r"without the factor `[^`]+` (?=in `)")
TINY = 2  # characters of a quotation that nobody finds, `1`, even where there is no other
SMALL = 1e-3  # of numbers that are far smaller than the right ones: what may remain unexplained
MOST_PLACES = 3  # that are named for one change
SECONDS = 6.0  # of processor time that a whole search may take
RIVALS = 0.3  # seconds of processor time, from the first change that mends, for one of another line
ENDLESS = 0.2  # seconds after which a changed `while` loop is taken for one that never ends
_share = 1.0  # of all these seconds that a search takes now


@contextmanager
def hurried(share):
    """Inside, a search ends after this share of its time: it finds what it would on a machine as much slower."""
    global _share
    was, _share = _share, share
    try:
        yield
    finally:
        _share = was


def first_mutant(solution, fits, likely=lambda words: True) -> str | None:
    """Words of the first mutant, of those with likely(words), that fits(its function); two mistakes come last."""
    end = time.thread_time() + _share * solution.seconds
    for several in (mutants, pairs):
        with closing(several(solution.tree, solution.more)) as changes:
            for words in changes:
                if time.thread_time() > end:
                    return None
                with suppress(Exception):  # most mutants stop with one
                    if likely(words) and fits(solution.function(end)):
                        return words
    return None


def change_that_gives(program, calls, same=operator.eq, several=mutants, solution=None) -> str | None:
    """Words of the first single change of a program with which each call gives what stands beside it; None without one.

    program: a Solution, or `learners` of a function. calls: [(arguments, what the function should return)]. same(a, b):
    are two of these the same? several: which changes are made. solution: ours, if it is a learner's: a new condition
    gives way to leaving out what that has not, for it may only go around it.
    """
    end, lines = time.thread_time() + program.seconds, ast.unparse(program.tree).splitlines()
    condition = None
    with closing(several(program.tree, program.more)) as changes:
        for words in changes:
            if time.thread_time() > end:
                break
            if condition and not words.startswith(LEAVES_OUT):
                continue
            with suppress(Exception):  # most mutants stop with one
                function = program.function(min(end, time.thread_time() + ENDLESS))
                right = all(same(function(*copy.deepcopy(arguments)), result) for arguments, result in calls)
                if right and not does_nothing(program.tree):
                    now, told = ast.unparse(program.tree).splitlines(), placed(words, lines, program.tree)
                    if not condition and solution and beside_ours.changes_a_condition(lines, now):
                        condition = told
                    elif not condition or beside_ours.comes_nearer(solution, lines, now):
                        return told
    return condition


def placed(words, lines, tree) -> str:
    """Words for the change that the tree holds now, with its line if they quote nothing, or what the lines often have.

    lines: of the tree before the change.
    """
    words = clearer(words, lines, tree)
    piece = words.rpartition(" in `")[2].rstrip("`") if " in `" in words else words.rpartition(" `")[2].rstrip("`")
    plain = len(piece) > TINY and sum(line.count(piece) for line in lines) < 2
    if words.endswith("everywhere") or "`" in words and plain:
        return words
    now = ast.unparse(tree)
    if CHANGED in now:  # made on an array, in a line of its own, and not in one that can be quoted
        return words
    pairs = zip_longest(lines, now.splitlines())
    at, line = next(((k, old.strip()) for k, (old, new) in enumerate(pairs) if old and old != new), (0, ""))
    same = [k for k, each in enumerate(lines) if each.strip() == line]
    alike = [k for k in same if _function_of(k, lines) == _function_of(at, lines)]
    which = f", the {ORDINALS[alike.index(at)]} of {len(alike)} such lines" if 1 < len(alike) <= len(ORDINALS) else ""
    which += f", in the function {_function_of(at, lines)}" if len(alike) < len(same) else ""
    if shortened(line) in words:
        return words + which if shortened(piece) == shortened(line) else words
    return f"{words}, in the line {shortened(line)}{which}" if line else words


def _function_of(at, lines) -> str:
    """The name of the function that this line of a program stands in."""
    return next((line.split("(")[0].split()[1] for line in lines[at::-1] if line.lstrip().startswith("def ")), "")


def with_copies(tree, more):
    """Words for each change of `mutants`, and for copies of what is kept and changes afterwards."""
    yield from copies(tree)
    yield from mutants(tree, more)


def quick(tree, more):
    """Words for the few changes of a learner's function that are tried before any others, because they say the most."""
    yield from made_by(tree, SAYING)


def changes_of_theirs(tree, more, also=()):
    """Words for each change of a learner's function, as `mutants` has them. also: (missing, moved), or nothing."""
    yield from made_by(tree, SAYING)
    yield from copies(tree)
    yield from added_one_by_one(tree)
    yield from mutants(tree, more, also)


@dataclass
class Search:
    """One wrong array: `replay` is the call that made it, `pick` takes it from that call's outputs."""

    solution: Solution  # or a kernel's Model
    replays: list
    replay: Replay
    pick: Pick
    got: np.ndarray
    target: np.ndarray
    rehearsed: Callable  # makes calls of the solution on other numbers

    def __post_init__(self):
        seconds = SECONDS if self.solution.of_arrays else self.solution.seconds  # a kernel has repairs of its own
        self.deadline = time.thread_time() + _share * seconds

    def explanation(self, function) -> Found | None:
        """Single changes first, of the solution, then of the learner's function; two mistakes come last."""
        whole = self.solution.function(self.deadline)  # before it is changed
        sizes = not self.solution.of_arrays  # of kernels
        self.elsewhere = Elsewhere(self.replays, self.replay, self.pick, whole, function, self.rehearsed, sizes)
        with learners_names():
            answer = learners(function) if self.solution.of_arrays else None
        if answer is not None and self._made_by(answer):
            self.lines = ast.unparse(answer.tree).splitlines()
            words = self.mending(answer, quick)
            if words:
                return Found(yours=words)
        lost = not np.isfinite(self.got).any()  # which many changes of our solution explain
        found, unseen = None if lost else self._in_the_solution(mutants), False
        if found and self.solution.of_arrays:
            unseen = bool(private_names(found.ours, self.solution.tree))
        elif not lost and not found and self.solution.of_arrays and np.ptp(self.got[np.isfinite(self.got)]) > 0:
            found, unseen = self._in_the_solution(lambda tree, more: arrays(tree)), True  # which has no line
            found = found or self._in_the_solution(lambda tree, more: arrays(tree), partly=True)
        if found and not unseen:
            return found
        with learners_names():
            answer = learners(function)
        if answer is not None and self._made_by(answer):
            self.lines = ast.unparse(answer.tree).splitlines()
            found = self._in_the_answer(answer) or found  # in names that the learner knows
            found = found or (None if lost else self._fitted(answer) or meeting(self, answer))
        return found or (None if lost else self._in_the_solution(pairs))

    def _in_the_solution(self, several, partly=False):
        """The first change of it, of this kind, that gives the learner's numbers; partly: of this array alone.

        What is left out of a kernel may give the same in another place: then both are named.
        """
        found, only, lines = [], [], ast.unparse(self.solution.tree).splitlines() if self.solution.of_arrays else []
        with closing(self.made(self.solution, several, self.end(), only)) as made:
            for words, array in made:
                if not self.explains(array) or LUCKY.match(words) and self.thin():
                    continue
                if self.elsewhere.same(lambda: self.solution.function(self.end()), partly):
                    words = placed(words, lines, self.solution.tree) if self.solution.of_arrays else words
                    found.append(words.removeprefix(only[0]) if only else words)
                    left_out = LEFT_OUT.match(words)
                    if not left_out or self.solution.of_arrays or len(found) == MOST_PLACES:
                        break
                    only[:] = [left_out[0]]
        return Found(ours=", or ".join(found), partly=partly) if found else None

    def end(self) -> float:
        """When a part of the search that begins now ends, as time.thread_time()."""
        return min(time.thread_time() + _share * self.solution.seconds, self.deadline)

    def _fitted(self, answer):
        """The constant that is another number than it should be."""
        return fitted(self, answer) if isinstance(self.solution, Solution) else None

    def _in_the_answer(self, answer):
        """The first change of the learner's function that makes this array right, and no other one wrong."""
        words = self.mending(answer)
        return Found(yours=words) if words else None

    def mending(self, answer, changes=changes_of_theirs) -> str | None:
        """The same, of the learner's function as its tree is now; its words, and those of one of another line.

        changes: which are tried.
        """
        end, unread = self.end(), useless_in(answer.tree)
        calls = [replay.run for replay in self.replays]
        turns, before = turning(answer, calls), replace(answer, tree=copy.deepcopy(answer.tree))
        found, kinds, last = {}, None, end  # found: {line: (words, the lines with that change)}
        with closing(self.made(answer, changes, end)) as made:
            for words, array in made:
                if time.thread_time() > last:
                    break
                right = close(array, self.target, self.target, self.dtype) and not unread.match(words)
                right = right and self.elsewhere.mended(lambda: answer.function(end), LUCKY.match(words))
                if not right or stands_still(answer, turns, calls):
                    continue
                kinds = kinds or Kinds(before, calls)
                after = ast.unparse(answer.tree).splitlines()
                lucky = beside_ours.makes_up(self.solution, words, self.lines, after)
                lucky |= does_nothing(answer.tree) or beside_ours.out_of_order(self.solution, self.lines, after)
                line = beside_ours.first_changed(self.lines, after)
                rival = found and SCALED.match(words)  # which would make up for what the first one mends
                if lucky or rival or line in found or accidental(words, kinds, lambda: Kinds(answer, calls)):
                    continue
                found[line] = self.placed(words, answer), after
                if len(found) > 1 or changes is quick:
                    break
                last = time.thread_time() + RIVALS
        mends = lambda: self.elsewhere.mended(lambda: answer.function(end))  # noqa: E731
        belong = [where_it_belongs(words, self.lines, now, answer, mends) for words, now in found.values()]
        return ", or ".join(filter(None, belong)) or None

    def placed(self, words, answer) -> str:
        """The words for the change that the learner's tree holds now, with its line."""
        return placed(words, self.lines, answer.tree)

    def made(self, program, several, end, only=()):
        """(words, array) of every change of a program that still gives an array of the right shape.

        only: how the words must begin, if it holds something; it may be filled on the way.
        """
        with closing(several(program.tree, program.more)) as changes:  # which makes the tree whole again
            for words in changes:
                if time.thread_time() > end:
                    return
                if only and not words.startswith(only[0]):
                    continue
                try:
                    array = self.pick(self.replay.run(program.function(end)))
                except Exception:  # most mutants stop with one: a shape that does not fit, a name without a value
                    continue
                if np.shape(array) == self.got.shape:
                    yield words, array

    def _made_by(self, answer) -> bool:
        """Does the learner's function, run again, give the array that the check saw?"""
        try:
            array = self.pick(self.replay.run(answer.function(self.end())))
        except Exception:  # it needs more than its source: what an earlier call left, a class of its own
            return False
        return np.shape(array) == self.got.shape and close(array, self.got, self.target, self.dtype)

    @property
    def dtype(self) -> str:
        return dtype_of(self.replay)

    def thin(self) -> bool:
        """Are too few entries wrong, in all calls together, to tell a lucky number?"""
        return wrong_entries(self.got, self.target, self.dtype) + self.elsewhere.wrong_entries() < FEW

    def explains(self, array, got=None) -> bool:
        """Is the error of `got` the error of `array`, except for a small share?"""
        got, target, dtype = self.got if got is None else got, self.target, self.dtype
        if not (np.isfinite(array) == np.isfinite(got)).all():
            return False
        finite = np.isfinite(got) & np.isfinite(target)
        error, largest = np.abs(array - target)[finite], np.abs(target[finite])
        if not finite.any():
            return False
        rounding = ROUNDING[dtype] * largest.max()
        broken = (~np.isfinite(got) & np.isfinite(target)).any()  # NaN: the places tell enough
        if broken:
            return np.abs(array - got)[finite].max() <= SHARE[dtype] * error.max() + rounding
        if error.max() <= 20 * rounding or dtype == "float32" and (error > 20 * rounding).sum() < FEW:
            return False
        small = max(SMALL * np.abs(got)[finite].max(), rounding)  # two numbers that are nearly 0 need not be the same
        return np.abs(array - got)[finite].max() <= min(SHARE[dtype] * error.max() + rounding, small)
