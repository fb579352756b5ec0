"""A sample of each solution's mutants must be refused; `python -m llmc.course.old.authoring.mutants` tries all of them."""

import os
from pathlib import Path

import pytest

from llmc.course.old.authoring.answers import Lesson, lessons
from llmc.course.old.authoring.mutants import all_words, tried
from llmc.course.old.authoring.tried import covers, equivalent, is_listed

ROOT = Path(__file__).resolve().parents[3]
NAMES = lessons(ROOT) if (ROOT / "solutions").is_dir() else []
COUNT, KERNELS = (12, 3) if os.environ.get("LLMC_TEST_ALL") == "1" else (6, 2)  # of each; a kernel is compiled first

pytestmark = pytest.mark.skipif(not NAMES, reason="needs a checkout: mutants are made of the solutions")


@pytest.mark.parametrize("name", NAMES)
def test_mutants_are_refused(name):
    lesson, listed = Lesson(ROOT, name), equivalent(ROOT)
    for exercise in lesson.check_of:
        count = KERNELS if isinstance(lesson.namespace[exercise], str) else COUNT
        outcomes = list(tried(lesson, exercise, count))
        unfair = [outcome.words for outcome in outcomes if "llmc.course.old.mutants" in outcome.message]
        assert not unfair, f"the check of {exercise} refuses {unfair} for what the mutants themselves call"
        accepted = [outcome.words for outcome in outcomes if outcome.accepted]
        holes = [words for words in accepted if not is_listed(words, listed.get(exercise, {}))]
        assert not holes, f"the check of {exercise} accepts the solution {holes}"


@pytest.mark.parametrize("name", NAMES)
def test_what_is_right_after_all_is_a_mutant_and_has_a_reason(name):
    lesson, listed = Lesson(ROOT, name), equivalent(ROOT)
    for exercise in lesson.check_of.keys() & listed.keys():
        known = all_words(lesson, exercise)
        assert all(any(covers(entry, words) for words in known) for entry in listed[exercise])
        assert all(len(reason) > 10 for reason in listed[exercise].values())


def test_every_exercise_that_is_listed_exists():
    assert equivalent(ROOT).keys() <= {exercise for name in NAMES for exercise in Lesson(ROOT, name).check_of}
