"""The checks of the course are tested: right answers pass, wrong ones are refused with the right explanation.

Kept answers and named mistakes are all given here; of the generated edits of the solutions, a few of each exercise.
`python -m llmc.course.authoring.answers --generated` gives all of them, which takes hours.
"""

import random
import re
from pathlib import Path

import pytest

from llmc.course.authoring.answers import Lesson, equivalent, lessons, summary
from llmc.course.checks.exercise import exercise_named
from llmc.course.exercises import catalog
from llmc.course.learner import journal
from llmc.course.mutation import named

ROOT = Path(__file__).resolve().parents[3]
NAMES = lessons(ROOT) if (ROOT / "solutions").is_dir() else []
FEW = 4  # generated edits of each exercise
MOST_LINES = 10  # of a check cell

pytestmark = pytest.mark.skipif(not NAMES, reason="needs a checkout: the answers lie beside the solutions")


@pytest.fixture(scope="module", params=NAMES)
def lesson(request):
    return Lesson(ROOT, request.param)


def test_kept_answers(lesson):
    outcomes = [lesson.give(answer, seed=1) for answer in lesson.answers]
    print(summary(outcomes))
    told = [f"{o.answer.name} should say {o.answer.says!r}\n{o.message}" for o in outcomes if not o.as_it_should]
    assert not told, "\n\n".join(told)


def test_named_mistakes(lesson):
    """Each is refused with its own words: one that another explainer answers first is never said."""
    outcomes = [lesson.give(mistake, seed=1) for mistake in lesson.mistakes()]
    told = [f"{o.answer.exercise}: {o.answer.says!r}\n{o.message}" for o in outcomes if not o.as_it_should]
    assert not told, "\n\n".join(told)


def test_a_few_generated_edits(lesson):
    listed = equivalent(ROOT)
    for exercise in lesson.check_of:
        number = random.Random(exercise)
        tried = lesson.generated(exercise, lambda edits, number=number: number.sample(edits, min(FEW, len(edits))))
        holes = [words for words, accepted in tried if accepted and words not in listed.get(exercise, {})]
        assert not holes, f"{exercise} accepts its solution {holes}"


def test_every_exercise_is_an_object_with_answers(lesson):
    for exercise in lesson.check_of:
        mine = [answer for answer in lesson.answers if answer.exercise == exercise]
        assert sum(answer.says is None for answer in mine) >= 2, f"{exercise} needs 2 right answers"
        assert sum(answer.says is not None for answer in mine) >= 2, f"{exercise} needs 2 wrong answers"
        assert exercise_named(exercise).lesson == lesson.name[:2]
    assert lesson.check_of.keys() == {answer.exercise for answer in lesson.answers}


def test_check_cells_are_short_and_say_nothing(lesson):
    for cell in catalog.cells_of(ROOT / "solutions" / f"{lesson.name}.ipynb"):
        if cell.mark.get("role") == "check":
            assert len(cell.source.splitlines()) <= MOST_LINES, f"the check of {cell.mark['exercise']} is too long"
            assert not re.search(r"\b(known|look|where)=", cell.source)


def test_answers_are_never_recorded(lesson, tmp_path, monkeypatch):
    monkeypatch.setenv("LLMC_PROGRESS", str(tmp_path / "progress.json"))
    was = journal.recording(True)
    try:
        assert lesson.give(next(answer for answer in lesson.answers if answer.says is None)).accepted
        assert not list(tmp_path.iterdir())
        assert journal.recording(True) is True
    finally:
        journal.recording(was)


def test_sections_that_are_named_exist(lesson):
    """A message that sends somebody to a section which was renamed is worse than none."""
    for name in lesson.check_of:
        exercise = exercise_named(name)
        looks = exercise.look.values() if isinstance(exercise.look, dict) else [exercise.look]
        looks = [*looks, *(mistake.place for mistake in named.mistakes(exercise.mistakes))]
        for number, title in catalog.SECTION.findall(" ".join(exercise.place(look) for look in looks if look)):
            (notebook,) = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
            assert catalog.section(notebook, title), f"{name}: {title!r} is no section of {notebook.name}"
