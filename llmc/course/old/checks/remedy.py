"""The change of a learner's function with which the whole check passes: it names the place, and what belongs there.

The numbers of one array say less than all the asserts of a check's cell. So the cell runs again with each small change
of the learner's function, until one passes it on two draws of numbers. Whatever the cell demands is then fulfilled, of
arrays, lists, files' names or errors, and no solution is needed.
"""

import ast
import copy
import inspect
import re
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from types import FunctionType

import numpy as np

from llmc.course.old.checks.evidence import is_explaining
from llmc.course.old.checks.leftovers import KEEPS, default_of
from llmc.course.old.checks.once_more import Again, Late, Timed, quietly
from llmc.course.old.checks.remains import what_remains
from llmc.course.old.checks.same_deeds import alike, done
from llmc.course.old.mutants import beside_ours, missing, moved
from llmc.course.old.mutants.accidental import Kinds, accidental, does_nothing
from llmc.course.old.mutants.clearer import unclear
from llmc.course.old.mutants.helpers import where_it_belongs
from llmc.course.old.mutants.idle import stands_still, turning
from llmc.course.old.mutants.learners import given_to_names, learners, own, useless_in
from llmc.course.old.mutants.search import LUCKY, RIVALS, SCALED, changes_of_theirs, placed
from llmc.course.old.mutants.solution import Solution
from llmc.course.old.mutants.traced import Trace
from llmc.course.own_names import learners_names

ALL_OF_IT = "your function gives the right"  # in all the calls that there were
SECONDS, LEISURE = 2.0, 12.0  # of processor time; where nobody waits
LONG = 4.0  # seconds of processor time that a whole check may take, if that leaves any for this search
PATIENCE = 1.5  # seconds for a run of the cell, after which a changed function is taken for one that never ends
SHORT = 0.2  # the same for a single call
COUNTED = "as more calls show"  # in a message of `polynomials`, which tells what a sum has too much
READ_ONLY = "is read-only"  # of an input: nothing mends that but another array to write to
NO_COPY = re.compile(r"(?!.*\bcop(?:y|ies)\b|.*\bout=|with = in place of)")
# An error in the first line, and the changes that only hide it: NumPy's numbers divide by 0 without a word.
HIDING = {
    READ_ONLY: NO_COPY,
    "ZeroDivisionError": re.compile(r"with `np\."),
    ", an int; got": re.compile(r"with `\w+` in"),
}
NEW_AXIS = re.compile(r"\bNone\]`")
STOPS = re.compile(r"with = in place of [-+*]= in `\w+ [-+*]= [\d.]+`")  # a counter that does not count any more
A_COUNT = re.compile(r"without the term `[^`]*\d")  # of a sum of counts: another one may be left out as well
FOR_A_NAME = re.compile(r"with `\w+` in place of `(\w+)`")
GUARD = re.compile(r"without the term `[\d.]+(?:e-?\d+)?` in `.*/ ?(?:np\.sqrt)?\(")  # where it keeps 0 / 0 away
EQUALS = " equals "  # in the first line of a message that names the mistake
# of settings: whatever else would pass leaves one out, or takes others
SAYS_ALL = re.compile(r" cannot be set[:;] | must be .+, not [^,]+$")
RIGHT_WITH = " the count is right: "  # in one that has tried what mends it
# Words of changes that may make up for a mistake: none of the second kind is named beside a sentence on that array, and
# none but the first beside one on the whole answer.
PLAIN = r"without (?!the term)|from |with (?:the lines? |[-+*/]?= in place of|0 in place of `-1`)"
ELSEWHERE = r"with `?(?:max|min|int)\(|with `.*` (?:times|divided by|plus|minus|exchanged)"
EXCHANGED = r"with (?!the lines?\b).* in the other order"  # of two arguments, say
BEHIND = r"with the line `\w+\[[^`]*\] = [^`]*` behind the line `"  # which so does not see it yet
# of an order that leaves another array wrong: it may not be the one that is meant
ORDER = re.compile(r"with the lines? .*in the other order")
NAMED, KNOWN = re.compile(f"(?!{PLAIN})"), re.compile(f"{ELSEWHERE}|{EXCHANGED}|{BEHIND}")
# Beside a first line that says what to do, these pass by accident: an option turned over, a piece left out everywhere,
# a name for another one everywhere.
ODDLY = re.compile(
    r"with (?:True|False) in place of (?:True|False)|(?:without .*|with `\w+` in place of `\w+`), everywhere$"
)
GENERIC = re.compile(
    r"wrong values|never written|as it was before|NaN|infinite|dtype|shape|your code stopped|is all zeros"
)  # in the first line of others
MEASURED = re.compile(r"\bgot\b|your answer is|you return")  # in those that say no more than that it is wrong
WATCHED = 3  # calls in which it is seen whether loops make a turn
SEEDS, FURTHER = (11, 12), range(13, 21)  # the latter for a change that is to be named, as many as are quickly done
QUICKLY = 1.0  # seconds of processor time
SHOWN = 20  # characters by which a change is recognised before its line is looked up
# All that it changes is a dtype, what something begins with, or the dtype of what has been rounded before.
ODD = re.compile(
    r"with `np\.\w+\(np\.(?:zeros|ones|empty|full)|without (?:zeros|ones|empty|full)(?:_like)? in "
    r"|with `[^`]*float(?:16|32)\)\.astype\("
)
PASSES = "our function passes "  # all of the check, or all that comes before its speed is measured
WHOLE = "this whole check"
ELSE_RIGHT = "The mistake is in "  # and all else is right: what two changes that meet tell, less than one that mends
OURS = re.compile(r"(?P<array>✗ .+?) has the values that our solution gives (?P<words>.+)\.$", re.MULTILINE)
PLACE, QUOTED, NAME = re.compile(r",? in (?:the line )?`"), re.compile(r"`([^`]+)`"), re.compile(r"[A-Za-z_]\w*")
ONE_ARRAY = re.compile(
    r"^Your function gives the right (?P<name>.+?) (?P<words>(?:with|without|from) .+)\.$", re.MULTILINE
)

_seconds = SECONDS


@contextmanager
def searching(seconds):
    """Inside the block, a search takes so many seconds of processor time; none with 0."""
    global _seconds
    was, _seconds = _seconds, seconds
    try:
        yield
    finally:
        _seconds = was


def with_remedy(check, cell, message, named=False) -> str:
    """The message, with that sentence. Whatever happens in the search, the message is there.

    It stands behind a first line that is GENERIC, and behind all sentences of a check that says more.

    named: its first line says what the mistake is, so that no change may stand there which makes up for it elsewhere.

    A change that mends one array is no longer named if the check still refuses that array, nor one that may suit these
    numbers alone, unless the whole check passes with it.
    """
    with suppress(Exception, KeyboardInterrupt):  # who does not want to wait presses Stop
        remains = None if KEEPS in message else _remains(check, cell)
        if remains:
            first, *others = message.splitlines()
            return "\n".join([first, remains, *others])
        if SAYS_ALL.search(message.split("\n")[0]):
            return message
        said = ONE_ARRAY.search(message)
        search = None if ALL_OF_IT in message else _search(check, cell)
        if search is None:
            return message
        with quietly():
            kept = search.verdict(said["words"], said["name"]) if said else None
            head = message.split("\n")[0]
            named = named or RIGHT_WITH in head
            known = NAMED if named else KNOWN if EQUALS in head else None
            known = known or next((kinds for words, kinds in HIDING.items() if words in head), None)
            told = named or (MEASURED if MEASURED.search(head) else not GENERIC.search(head))
            found = None if kept else search.sentence(COUNTED in message, known, told)
        told_twice = said and found and found.endswith(said["words"])
        makes_up = said and EQUALS in head and KNOWN.match(said["words"])
        if kept is False or told_twice or makes_up or kept is None and said and _unsure(said["words"]):
            message = message.replace(f"{said[0]}\n", "")
        first, *others = (_without_coincidence(message, found, search.given()) if found else message).splitlines()
        others = [line for line in others if not (found and PASSES in found and line.startswith(ELSE_RIGHT))]
        at = _behind_its_sentences(others) if told else 0
        return "\n".join([first, *others[:at], *[f"{found}."] * bool(found), *others[at:]])
    return message


def _behind_its_sentences(lines) -> int:
    """Where what a check says in sentences ends: what it knows of an answer comes before a change that passes it."""
    ends = (k for k, line in enumerate(lines) if not line or line.startswith(("→", " ", "The call was ", "expected ")))
    return next(ends, len(lines))


def _unsure(words) -> bool:
    """May this change, with which another array is refused, be what makes that one wrong?"""
    return bool(LUCKY.match(words) or GUARD.match(words) or ORDER.match(words))


def _without_coincidence(message, found, given) -> str:
    """The message without a change of our solution that gives the same numbers, and has nothing to do with `found`.

    given: the names of the arguments. Other names are ours in one of them, and the learner's in the other.
    """
    ours = OURS.match(message)
    named = set(NAME.findall(_what(ours["words"]))) if ours else set()
    theirs = set(NAME.findall(_what(found)))
    if PASSES not in found or not named or not theirs or not named <= given or named & theirs:
        return message
    first, *others = message.splitlines()
    kept = [line for line in others if not line.startswith("In our solution ")]
    return "\n".join([f"{ours['array']} has wrong values.", *kept])


def _what(words) -> str:
    """The quotations of what is changed in words for a change, without those of where."""
    return " ".join(QUOTED.findall(PLACE.split(words)[0]))


def _remains(check, cell) -> str | None:
    """A sentence if the answer, as the notebook defines it, keeps something from one call to the next; or None."""
    if not _seconds or not is_explaining() or check.calls_are_long():
        return None
    with quietly():
        return what_remains(cell.f_globals.get(check.name), list(check._evidence.small))


def _search(check, cell):
    """For the answer that the check has refused, in the frame `cell`; None where none can be made."""
    function = cell.f_globals.get(check.name)
    if cell.f_code.co_flags & inspect.CO_OPTIMIZED or not (_seconds and is_explaining()):
        return None
    if not isinstance(getattr(function, "py_func", function), FunctionType):
        return None
    now = time.thread_time()
    seconds = _seconds if _seconds > LONG else min(_seconds, LONG - (now - check.began))
    with quietly(), learners_names():
        answer = learners(function)
    return _Search(check, cell, answer, now + seconds) if answer and seconds > 0 else None


class _Search:
    """end: when it ends, as time.thread_time()."""

    def __init__(self, check, cell, answer, end):
        self.check, self.cell, self.answer, self.end = check, cell, answer, end
        self.names = [name for name, value in cell.f_globals.items() if value is type(check)]
        self.timed, self.calls, self.refusal = False, [], ""

    def sentence(self, alone=False, known=None, told=False) -> str | None:
        """What was found; None if nothing was. alone: a change of another line must not do as well.

        known: what no words may begin with where the message names the mistake, for such a change may make up for it;
        a number must then be the only one that does. told: it says what to do, so that no change may lead away
        from our solution.
        """
        if not self.names or self._passes(SEEDS[0], calls=self.calls):
            return None  # a matter of chance, or of what was there before: no change is to be believed
        if self._passes(SEEDS[0], anew=True) and not self._passes(SEEDS[0]):  # or it only took too long before
            changed = default_of(self.cell.f_globals[self.check.name], self._defined(self.end))
            kept = f"{KEEPS}{changed}" if changed else f"{KEEPS}, in a global or a default argument, say"
            return f"Defined anew before each of its calls, your function passes this whole check: {kept}"
        wrong = self._wrong_call()
        words = wrong and self._change(lambda: self._right_in(*wrong), alone, known, told)
        words = words or self._change(lambda: True, alone, known, told)
        so_far = "all of this check that comes before its speed is measured" if self.timed else WHOLE
        return words and f"Your function passes {so_far} {words}"

    def verdict(self, words, name) -> bool | None:
        """Does the whole check pass with the change of these words? None if it then refuses another array than `name`,
        in which there may be a mistake of its own."""
        lines = ast.unparse(self.answer.tree).splitlines()
        with closing(changes_of_theirs(self.answer.tree, self.answer.more)) as changes:
            for each in changes:
                likely = words.startswith(each[:SHOWN]) or unclear(each, lines)
                if likely and placed(each, lines, self.answer.tree) == words:
                    if all(self._passes(seed) for seed in SEEDS):
                        return True
                    array = name.split(" for ")[0]
                    subjects = (array, f"the {array}", f"what was added to {array}")
                    about_it = self.refusal.startswith(tuple(f"{each} " for each in subjects))
                    return False if about_it or self.refusal.startswith("right, but") else None
        return None  # a constant, say, or two changes

    def _change(self, likely, alone, known, told) -> str | None:
        """Words of the first change, and of one of another line that does as well. likely(): may this be one?

        alone: None if another line can be changed instead, as in a sum of which it is only known that it is too large.
        known: the same if the change is one of a number; no words that it matches. told: the same, as far as RIVALS
        allows, and none that leads away, or that turns a condition around; where it is MEASURED, both are named, and
        such a condition may be one that decides.
        """
        lines, useless, found = ast.unparse(self.answer.tree).splitlines(), useless_in(self.answer.tree), {}
        solution = self.check._evidence.solution()
        reads, turns = beside_ours.reads_of_ignored(solution, self.answer.tree), self._turns()
        kinds, only, twice = None, False, set()
        whole, end = replace(self.answer, tree=copy.deepcopy(self.answer.tree)), self.end  # as it is before any change
        computed = {name for name, value in given_to_names(whole.tree) if not isinstance(value, ast.Name)}
        with closing(changes_of_theirs(self.answer.tree, self.answer.more, (missing, moved))) as changes:
            for words in changes:
                if time.thread_time() > end:
                    break
                useless_here = useless.match(words) or STOPS.match(words) or told and ODDLY.match(words)
                if useless_here or known and known.match(words):
                    continue
                if alone and beside_ours.CONSTANT.match(words):
                    continue  # of a right term, which then makes up for one that is wrong
                if alone and (name := FOR_A_NAME.match(words)) and name[1] in computed:
                    continue  # what that name holds is wrong, and another one is as large by chance
                if likely() and all(self._passes(seed, likely=True) for seed in SEEDS):
                    now = ast.unparse(self.answer.tree).splitlines()
                    lucky = bool(ODD.match(words)) or beside_ours.only_fits(solution, words)
                    if told and NAMED.match(words):
                        lucky |= beside_ours.leads_away(solution, lines, now)
                    lucky |= beside_ours.makes_up(solution, words, lines, now) or does_nothing(self.answer.tree)
                    lucky |= beside_ours.out_of_order(solution, lines, now)
                    lucky |= beside_ours.brings_in(solution, lines, now)
                    lucky |= told and beside_ours.turns_a_condition(solution, lines, now, told is not MEASURED)
                    lucky |= beside_ours.breaks_a_pair(words, lines, now)
                    if lucky or beside_ours.changes_a_right_line(solution, lines, now):
                        continue
                    if beside_ours.reads_of_ignored(solution, self.answer.tree) > reads:
                        continue  # of an argument that our solution does without: it only suits this check's demands
                    if NEW_AXIS.search(words) and self._pairs_all():
                        continue
                    if turns and stands_still(self._watched(), turns, self._some_calls()):
                        continue
                    kinds = kinds or self._kinds(whole)
                    if accidental(words, kinds, lambda: self._kinds(self.answer)):
                        continue
                    if not self._passes_further():
                        continue
                    line = beside_ours.first_changed(lines, now)
                    doubtful = alone or A_COUNT.match(words) or known and beside_ours.CONSTANT.match(words)
                    if line in found:
                        again = found[line][-1] == words and not FOR_A_NAME.match(words)  # in another place of it
                        twice |= {line} if again else set()
                        continue
                    if found and (doubtful or SCALED.match(words)) and not only:
                        continue
                    told_of = placed(words, lines, self.answer.tree)
                    found[line], only = (told_of, now, words), only or doubtful
                    if len(found) > 1:
                        break
                    end = end if only else min(end, time.thread_time() + RIVALS)
        if twice or len(found) > 1 and (only or told and told is not MEASURED):
            return None  # one of them makes up for the mistake, and nobody knows which
        mends = lambda: all(self._passes(seed) for seed in SEEDS)  # noqa: E731
        belong = [where_it_belongs(words, lines, now, self.answer, mends) for words, now, _ in found.values()]
        return ", or ".join(filter(None, belong)) or None

    def _pairs_all(self) -> bool:
        """Has an operand with a new axis two more than the other one now? The mean of all pairs may still be right."""
        trace = Trace.of(replace(self.answer, before=self._before()), self.calls[0].replay) if self.calls else None
        for step in trace.steps if trace else ():
            axes = [np.ndim(part.value) for part in step.made_of]
            new = [NEW_AXIS.search(part.text) for part in step.made_of]
            if step.kind is ast.BinOp and len(axes) == 2 and any(new) and abs(axes[0] - axes[1]) > 1:
                return True
        return False

    def given(self) -> set:
        """The names of the learner's arguments."""
        return set(inspect.signature(self.cell.f_globals[self.check.name]).parameters)

    def _turns(self) -> set:
        """The loops of the learner's that make a turn in the first calls."""
        loops = any(isinstance(node, ast.For | ast.While) for node in ast.walk(self.answer.tree))
        return turning(self._watched(), self._some_calls()) if loops else set()

    def _kinds(self, program) -> Kinds:
        """What the names and conditions of this program hold in the calls."""
        watched = replace(program, before=self._before(), seconds=SHORT)
        return Kinds(watched, [partial(done, call=call) for call in self.calls])

    def _watched(self):
        """The learner's function, as its tree is now, for `turning`."""
        return replace(self.answer, before=self._before(), seconds=SHORT)

    def _some_calls(self) -> list:
        return [partial(done, call=call) for call in self.calls[:WATCHED]]

    def _wrong_call(self):
        """(the first call in which the learner's function differs from our solution, what that does); or None."""
        solution = self.check._evidence.solution()
        for call in self.calls if isinstance(solution, Solution) else ():
            with suppress(Exception):  # our solution must not be given this
                right = done(solution.function(time.thread_time() + PATIENCE), call)
                if not alike(call.did, right):
                    return call, right
        return None

    def _right_in(self, call, right) -> bool:
        """Does the function, as its tree is now, do in this call what is right? Much sooner known than by the cell."""
        with suppress(Exception), learners_names():
            return alike(done(self._defined(self._deadline(SHORT)), call), right)
        return False

    def _passes(self, seed, anew=False, calls=None, likely=False) -> bool:
        """Does the check's cell accept the learner's function, as its tree is now?

        anew: it is defined before each call. calls: a list for what it is given. likely: it may end a little late.
        """
        deadline = time.thread_time() + PATIENCE if likely else self._deadline(PATIENCE)
        mine = {"seed": seed, "deadline": deadline, "anew": None, "seen": calls}
        try:
            function = self._defined(mine["deadline"])
            if anew:
                mine["anew"] = staticmethod(
                    lambda called: self._defined(mine["deadline"]) if called is function else called
                )
            again = type("Again", (Again, type(self.check)), mine)
            names = {**dict.fromkeys(self.names, again), self.check.name: function}
            exec(self.cell.f_code, {**self.cell.f_globals, **names})
        except Timed:
            self.timed = True
        except (Exception, Late) as error:
            self.refusal = str(error)
            return False
        return True

    def _passes_further(self) -> bool:
        """The same on other numbers, as often as can be done QUICKLY."""
        end = time.thread_time() + QUICKLY
        return all(self._passes(seed, likely=True) for seed in FURTHER if time.thread_time() < end)

    def _deadline(self, seconds):
        return min(self.end, time.thread_time() + seconds)

    def _defined(self, deadline):
        return replace(self.answer, before=self._before()).function(deadline)

    def _before(self) -> dict:
        """What the function's notebook defines, without what an earlier call left there."""
        return {name: own(value) for name, value in self.answer.before.items()}
