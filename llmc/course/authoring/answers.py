"""Tests of the checks: wrong answers must be refused with the right explanation, and right ones must pass.

A check is given three kinds of answers, as if they had been typed into the notebook:

    named mistakes    the exercise's own table: each must get its own words
    kept answers      `solutions/answers/NN_topic.py`: in strangers' style, two right and about three wrong per exercise
    generated edits   every small edit of the solution; one that passes is a hole, or is listed in equivalent.json

    @wrong("gelu_kernel", says="out of bounds")
    def gelu_without_a_check(code):                    # for CUDA C: from the solution's source to the answer's
        return replaced(code, "if (i < n)", "")

    python -m llmc.course.authoring.answers [12 …] [--one-in N] [--generated] [--messages]

prints the answers that did not get what they should, and how many did.
"""

import argparse
import ast
import io
import json
import linecache
import runpy
import sys
import warnings
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import FunctionType

from llmc.course.checks import check as check_cell
from llmc.course.checks.exercise import exercise_named
from llmc.course.checks.messages.diagnosis import Diagnosis, Kind, WrongAnswer
from llmc.course.exercises.layout import checkout
from llmc.course.kernel_checks import runs
from llmc.course.learner import journal
from llmc.course.mutation import c_edits, named, python_edits
from llmc.course.mutation.program import TICK, edited, plain
from llmc.course.mutation.schemata import with_edit

LIKELY = 1  # the rank below which a generated edit must be refused
MORE = 1000  # loop turns that an edit may take beyond twice those of the solution
SECONDS = 2  # of one launch of an edited kernel; one that never ends is refused like a learner's


@dataclass(frozen=True)
class Answer:
    """An answer to one exercise. says: a part of the message it must get; None when it is right.

    made: a function, or for CUDA C a function that makes the answer from the solution, or the whole cell as text.
    """

    exercise: str
    name: str
    made: object
    says: str | None


@dataclass(frozen=True)
class Outcome:
    """What the check said: accepted or not, the message, and the Diagnosis of a wrong one."""

    answer: Answer
    accepted: bool
    message: str
    diagnosis: Diagnosis | None = None

    @property
    def as_it_should(self) -> bool:
        """Right and accepted, or wrong and refused with the words it must get."""
        says = self.answer.says
        return self.accepted if says is None else not self.accepted and says in self.message


def wrong(exercise, says=""):
    """Mark a function as a wrong answer whose message must contain `says`."""

    def mark(function):
        function.answer = Answer(exercise, function.__name__, function, says)
        return function

    return mark


def right(exercise):
    """Mark a function as a right answer."""
    return wrong(exercise, None)


def replaced(code, *pairs):
    """CUDA C with texts replaced, given as pairs (old, new): replaced(code, "a", "b", "c", "d").

    ValueError unless the code contains each old text exactly once: the solution may have changed.
    """
    for old, new in zip(pairs[::2], pairs[1::2], strict=True):
        if code.count(old) != 1:
            raise ValueError(f"{old!r} occurs {code.count(old)} times in the solution, and should occur once")
        code = code.replace(old, new)
    return code


class Lesson:
    """A solution notebook executed once, without a kernel, and the answers that belong to it."""

    def __init__(self, root: Path, name: str):
        self.name = name
        notebook = root / "solutions" / f"{name}.ipynb"
        cells = [c for c in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == "code"]
        marks = {cell["id"]: cell["metadata"].get("llmc", {}) for cell in cells}
        source = {cell["id"]: "".join(cell["source"]) for cell in cells}
        code = {cell: _compile(f"<{name} {cell}>", text) for cell, text in source.items()}
        learners = [c["id"] for c in cells if "solution-only" not in c["metadata"].get("tags", [])]
        self.check_of = {m["exercise"]: code[i] for i, m in marks.items() if m.get("role") == "check"}
        self.answer_of = {m["exercise"]: source[i] for i, m in marks.items() if m.get("role") == "answer"}
        self.namespace = {"__name__": "__main__"}
        was_recording = journal.recording(False)
        for cell in learners:  # no learner has the variables of other cells
            if marks[cell].get("role") != "check":
                exec(code[cell], self.namespace)
        journal.recording(was_recording)
        self.module = runpy.run_path(str(root / "solutions" / "answers" / f"{name}.py"))
        self.answers = [f.answer for f in self.module.values() if isinstance(f, FunctionType) and hasattr(f, "answer")]

    def mistakes(self) -> list[Answer]:
        """The named mistakes of all its exercises, each a whole cell."""
        return [
            Answer(name, mistake.words, named.applied(self.answer_of[name], mistake), mistake.made)
            for name in self.answer_of
            for mistake in named.mistakes(exercise_named(name).mistakes)
        ]

    def give(self, answer: Answer, seed=None, explains=True) -> Outcome:
        """Run the check cell on this answer. Progress is not recorded, whatever the check says."""
        namespace = {**self.module, **self.namespace}  # the helpers beside the answer, then the notebook's names
        with suppress(_Stops):
            self._type_in(answer, namespace)
            return Outcome(answer, *self.check(answer.exercise, namespace, seed, explains))
        return Outcome(answer, False, "its cell stops")

    def check(self, exercise, namespace, seed=None, explains=True):
        """(accepted, message, Diagnosis) of the check cell, run with these names."""
        was_recording, check_cell._seed, check_cell.check.explains = journal.recording(False), seed, explains
        printed = io.StringIO()
        try:
            with redirect_stdout(printed), warnings.catch_warnings():
                warnings.simplefilter("ignore" if not explains else "default")
                exec(self.check_of[exercise], namespace)
        except WrongAnswer as error:
            return False, str(error), error.diagnosis
        finally:
            journal.recording(was_recording)
            check_cell._seed, check_cell.check.explains = None, True
        return printed.getvalue().startswith("✓"), printed.getvalue(), None

    def _type_in(self, answer, namespace):
        """Bind the exercise's name in `namespace` to the answer."""
        made, solution = answer.made, self.namespace[answer.exercise]
        if isinstance(made, str):
            try:
                exec(_compile(f"<{answer.exercise}: {answer.name}>", made), namespace)
            except Exception as error:
                raise _Stops from error
        elif isinstance(solution, str):
            namespace[answer.exercise] = made(solution)
        else:
            mine = FunctionType(made.__code__, namespace, answer.exercise, made.__defaults__, made.__closure__)
            mine.__kwdefaults__ = made.__kwdefaults__
            namespace[answer.exercise] = mine

    def generated(self, exercise, chosen=list):
        """(words, accepted) for each likely edit of a solution, given to its check. chosen: picks some of them."""
        solution, turns = self.namespace[exercise], count()
        tree = plain(ast.parse(self.answer_of[exercise]))
        self.namespace[TICK] = turns.__next__
        ours = self.give(Answer(exercise, "solution", ast.unparse(tree), None), 1, False)
        if not ours.accepted and ours.diagnosis.kind is not Kind.DEMAND:  # a busy machine may be too slow
            raise AssertionError(f"{exercise}: without explanations, its check refuses our solution: {ours.message}")
        if isinstance(solution, str):
            for edit in chosen(likely(c_edits.edits(solution))):
                code = with_edit(solution, edit)
                with runs.patience(SECONDS):
                    outcome = self.give(Answer(exercise, edit.words, lambda _, code=code: code, ""), 1, False)
                yield edit.words, outcome.accepted
            return
        most = 2 * next(turns) + MORE
        own = [line for line in tree.body if isinstance(line, ast.FunctionDef | ast.ClassDef)]
        for edit in chosen(likely(python_edits.edits(own))):
            with edited(edit.changes):
                text = ast.unparse(tree)
            self.namespace[TICK] = iter(range(most)).__next__  # one that never ends stops with StopIteration
            outcome = self.give(Answer(exercise, edit.words, text, ""), 1, False)
            yield edit.words, outcome.accepted


def likely(edits) -> list:
    """Those that leave something out, or change a sign, axis or bound: others are often as right as the solution."""
    return [edit for edit in edits if edit.rank < LIKELY and not edit.said]


class _Stops(Exception):
    """An answer's own cell raised an error."""


def _compile(name, source):
    """Code of a cell whose lines explanations can quote, as they can with IPython's."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    return compile(source, name, "exec")


def equivalent(root) -> dict:
    """{exercise: {words: reason}} for the generated edits that are as right as the solution."""
    return json.loads((root / "solutions" / "answers" / "equivalent.json").read_text(encoding="utf-8"))


def summary(outcomes) -> str:
    """How many right answers passed, and how many wrong ones were refused with their words."""
    good, bad = ([o for o in outcomes if (o.answer.says is None) == right] for right in (True, False))
    passed, refused = sum(o.accepted for o in good), sum(not o.accepted for o in bad)
    explained = sum(o.as_it_should for o in bad)
    right = f"{passed} of {len(good)} right answers passed"
    return f"{right}; {refused} of {len(bad)} wrong ones were refused, {explained} with their words"


def lessons(root: Path) -> list[str]:
    """Names of the lessons that have answers."""
    return sorted(path.stem for path in (root / "solutions" / "answers").glob("*.py"))


def main(argv=None) -> int:
    """Print what is wrong with the checks. Exit status 1 if anything is."""
    parser = argparse.ArgumentParser(prog="llmc.course.authoring.answers", description="Are the checks right?")
    parser.add_argument("lessons", nargs="*", help="their numbers or names (12); all, if none is given")
    parser.add_argument("--generated", action="store_true", help="try all generated edits (minutes for each lesson)")
    parser.add_argument(
        "--one-in", type=int, default=1, metavar="N", help="check one in N of the wrong answers (default: all)"
    )
    parser.add_argument("--messages", action="store_true", help="print what every check said")
    parser.add_argument("--seed", type=int, default=1, help="seed for the numbers that the checks draw")
    options, root = parser.parse_args(argv), checkout()
    wanted = [name for name in lessons(root) if not options.lessons or name.startswith(tuple(options.lessons))]
    if not wanted:
        parser.error(f"no lesson {' or '.join(options.lessons)} has answers")
    if options.generated:
        return _holes(root, wanted)
    outcomes = []
    for name in wanted:
        lesson = Lesson(root, name)
        right, wrong = ([each for each in lesson.answers if (each.says is None) == good] for good in (True, False))
        some = [*right, *[*wrong, *lesson.mistakes()][:: options.one_in]]
        outcomes += [lesson.give(answer, options.seed) for answer in some]
    for outcome in outcomes:
        if options.messages or not outcome.as_it_should:
            says = f" (should say: {outcome.answer.says})" if outcome.answer.says and not outcome.as_it_should else ""
            print(f"== {outcome.answer.exercise}: {outcome.answer.name}{says}\n{outcome.message}")
    print(summary(outcomes))
    return 0 if outcomes and all(outcome.as_it_should for outcome in outcomes) else 1


def _holes(root, wanted) -> int:
    """Print for each exercise how many generated edits its check accepts, and which of them have no reason."""
    listed, holes = equivalent(root), 0
    for lesson in (Lesson(root, name) for name in wanted):
        for exercise in lesson.check_of:
            tried = list(lesson.generated(exercise))
            passed = [words for words, accepted in tried if accepted]
            mine = [words for words in passed if words not in listed.get(exercise, {})]
            print(
                f"{exercise:<34}{len(tried):>5} edits, {len(passed):>3} accepted, {len(mine):>3} are holes", flush=True
            )
            print("".join(f"    accepted {words}\n" for words in mine), end="")
            holes += len(mine)
    return 1 if holes else 0


if __name__ == "__main__":
    sys.exit(main())
