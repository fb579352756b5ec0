"""Tests of the checks: plausible wrong answers must be refused with the right explanation, and right ones must pass.

`solutions/answers/NN_topic.py` holds functions as a learner would write them, marked with the decorators below. Each
replaces the solution, as if it had been typed into the notebook, and the exercise's check cell runs on it. If the
answer is CUDA C, the function gets the solution's source and returns the answer's:

    @wrong("gelu_kernel", says="an access out of bounds")
    def gelu_without_a_check(code):
        return replaced(code, "if (i < n)", "")

    python -m llmc.course.old.authoring.answers [12 …] [--messages] [--seed 2]

prints the table exercises × (right passed, wrong refused, explained). Another seed gives the checks other numbers: what
is no longer said then was owed to chance.
"""

import argparse
import io
import json
import linecache
import runpy
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType

from llmc.course.exercises.layout import checkout
from llmc.course.learner import journal
from llmc.course.old.checks import check as check_cell
from llmc.course.old.checks import remedy
from llmc.course.old.checks.explain import WrongAnswer
from llmc.course.old.kernel_checks import mending


@dataclass(frozen=True)
class Answer:
    """An answer to one exercise. says: a part of the message it must get; None when it is right."""

    exercise: str
    function: FunctionType  # the answer, or for CUDA C a function that makes it from the solution
    says: str | None


@dataclass(frozen=True)
class Outcome:
    """What the check said: accepted or not, and the message."""

    answer: Answer
    accepted: bool
    message: str

    @property
    def as_it_should(self) -> bool:
        """Right and accepted, or wrong and refused with the words it must get."""
        says = self.answer.says
        return self.accepted if says is None else not self.accepted and says in self.message


def wrong(exercise, says):
    """Mark a function as a wrong answer whose message must contain `says`."""
    return lambda function: _mark(function, Answer(exercise, function, says))


def right(exercise):
    """Mark a function as a right answer."""
    return lambda function: _mark(function, Answer(exercise, function, None))


def _mark(function, answer):
    function.answer = answer
    return function


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
    """A solution notebook executed once, without a kernel, and the answers that lie beside it."""

    def __init__(self, root: Path, name: str):
        self.name = name
        notebook = root / "solutions" / f"{name}.ipynb"
        cells = [c for c in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == "code"]
        self.source = {cell["id"]: "".join(cell["source"]) for cell in cells}
        self.code = {cell: _compile(f"<{name} {cell}>", source) for cell, source in self.source.items()}
        marks = {cell["id"]: cell["metadata"].get("llmc", {}) for cell in cells}
        learners = [c["id"] for c in cells if "solution-only" not in c["metadata"].get("tags", [])]
        self.check_of = {m["exercise"]: self.code[i] for i, m in marks.items() if m.get("role") == "check"}
        self.answer_of = {m["exercise"]: self.source[i] for i, m in marks.items() if m.get("role") == "answer"}
        self.namespace = {"__name__": "__main__"}
        was_recording = journal.recording(False)
        for cell in learners:  # the variables of other cells no learner has
            if marks[cell].get("role") != "check":
                exec(self.code[cell], self.namespace)
        journal.recording(was_recording)
        self.module = runpy.run_path(str(root / "solutions" / "answers" / f"{name}.py"))
        self.answers = [f.answer for f in self.module.values() if isinstance(f, FunctionType) and hasattr(f, "answer")]

    def give(self, answer: Answer, seed=None) -> Outcome:
        """Run the check cell on this answer. Progress is not recorded, whatever the check says."""
        times = (mending.SECONDS, 0), (mending.LEISURE, remedy.LEISURE)  # long searches only where the message needs it
        for for_kernels, for_functions in times:
            namespace = {**self.module, **self.namespace}  # the helpers beside the answer, then the notebook's names
            namespace[answer.exercise] = self._typed_in(answer, namespace)
            with mending.searching(for_kernels), remedy.searching(for_functions):
                outcome = Outcome(answer, *self.check(answer.exercise, namespace, seed))
            if outcome.as_it_should:
                break
        return outcome

    def check(self, exercise, namespace, seed=None):
        """(accepted, message) of the check cell, run with these names."""
        was_recording, check_cell._seed = journal.recording(False), seed
        printed = io.StringIO()
        try:
            with redirect_stdout(printed):
                exec(self.check_of[exercise], namespace)
        except WrongAnswer as error:
            return False, str(error)
        finally:
            journal.recording(was_recording)
            check_cell._seed = None
        return printed.getvalue().startswith("✓"), printed.getvalue()

    def _typed_in(self, answer, namespace):
        """What the exercise's name stands for once the answer is in its cell: CUDA C, or a function."""
        function, solution = answer.function, self.namespace[answer.exercise]
        if isinstance(solution, str):
            return function(solution)
        mine = FunctionType(function.__code__, namespace, answer.exercise, function.__defaults__, function.__closure__)
        mine.__kwdefaults__ = function.__kwdefaults__
        return mine


def _compile(name, source):
    """Code of a cell whose lines explanations can quote, as IPython's can."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    return compile(source, name, "exec")


def table(outcomes) -> str:
    """Exercises × (right passed, wrong refused, right explanation given)."""
    rows = [f"{'exercise':<34}{'right passed':>14}{'wrong refused':>16}{'explained':>12}"]
    for exercise in dict.fromkeys(outcome.answer.exercise for outcome in outcomes):
        mine = [outcome for outcome in outcomes if outcome.answer.exercise == exercise]
        good = [outcome for outcome in mine if outcome.answer.says is None]
        bad = [outcome for outcome in mine if outcome.answer.says is not None]
        shares = (
            _share(o.accepted for o in good),
            _share(not o.accepted for o in bad),
            _share(o.as_it_should for o in bad),
        )
        rows.append(f"{exercise:<34}{shares[0]:>14}{shares[1]:>16}{shares[2]:>12}")
    return "\n".join(rows)


def _share(flags) -> str:
    """ "3 of 3"."""
    flags = list(flags)
    return f"{sum(flags)} of {len(flags)}"


def lessons(root: Path) -> list[str]:
    """Names of the lessons that have answers."""
    return sorted(path.stem for path in (root / "solutions" / "answers").glob("*.py"))


def main(argv=None) -> int:
    """Print the table; with --messages every message too. Exit status 1 when an outcome is not as it should be."""
    parser = argparse.ArgumentParser(
        prog="llmc.course.old.authoring.answers", description="Are the checks right about the answers?"
    )
    parser.add_argument("lessons", nargs="*", help="their numbers or names (12); all, if none is given")
    parser.add_argument("--messages", action="store_true", help="print what every check said")
    parser.add_argument("--seed", type=int, help="of the numbers that the checks draw; others in each run without it")
    options, root = parser.parse_args(argv), checkout()
    wanted = [name for name in lessons(root) if not options.lessons or name.startswith(tuple(options.lessons))]
    if not wanted:
        parser.error(f"no lesson {' or '.join(options.lessons)} has answers")
    outcomes = []
    for name in wanted:
        lesson = Lesson(root, name)
        outcomes += [lesson.give(answer, options.seed) for answer in lesson.answers]
    for outcome in outcomes:
        if options.messages or not outcome.as_it_should:
            print(f"== {outcome.answer.exercise}: {outcome.answer.function.__name__}\n{outcome.message}")
    print(table(outcomes))
    return 0 if outcomes and all(outcome.as_it_should for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
