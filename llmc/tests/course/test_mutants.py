"""A sample of each solution's mutants must be refused; `python -m llmc.course.authoring.mutants` tries all of them."""

from pathlib import Path

import pytest

from llmc.course.authoring.answers import Lesson, lessons
from llmc.course.authoring.mutants import equivalent, tried

ROOT = Path(__file__).resolve().parents[3]
NAMES = lessons(ROOT) if (ROOT / "solutions").is_dir() else []
COUNT = 12  # of each exercise

pytestmark = pytest.mark.skipif(not NAMES, reason="needs a checkout: mutants are made of the solutions")


@pytest.mark.parametrize("name", NAMES)
def test_mutants_are_refused(name):
    lesson, listed = Lesson(ROOT, name), equivalent(ROOT)
    for exercise in lesson.check_of:
        if isinstance(lesson.namespace[exercise], str):  # CUDA C
            continue
        accepted = [outcome.words for outcome in tried(lesson, exercise, COUNT) if outcome.accepted]
        holes = [words for words in accepted if words not in listed.get(exercise, {})]
        assert not holes, f"the check of {exercise} accepts the solution {holes}"


def test_what_is_right_after_all_has_a_reason():
    exercises = {exercise for name in NAMES for exercise in Lesson(ROOT, name).check_of}
    for exercise, reasons in equivalent(ROOT).items():
        assert exercise in exercises
        assert all(len(reason) > 10 for reason in reasons.values())
