"""The checks of the course are tested: right answers pass, wrong ones are refused with the right explanation.

Of the wrong answers a third is given here, every third of each exercise. LLMC_TEST_ALL=1 gives all of them, as does
`python -m llmc.course.old.authoring.answers`; CI does.
"""

import os
import re
from pathlib import Path

import pytest

from llmc.course.learner import journal
from llmc.course.old.authoring.answers import Lesson, lessons, table
from llmc.course.old.mutants.search import hurried

ROOT = Path(__file__).resolve().parents[3]
SHARE = 1 / 3  # of a search's time: what is right here is right on a machine that is three times as slow
NAMES = lessons(ROOT) if (ROOT / "solutions").is_dir() else []

pytestmark = pytest.mark.skipif(not NAMES, reason="needs a checkout: the answers lie beside the solutions")


@pytest.fixture(scope="module", params=NAMES)
def lesson(request):
    return Lesson(ROOT, request.param)


@pytest.fixture(scope="module")
def outcomes(lesson):
    results = [given(lesson, answer) for answer in chosen(lesson)]
    print("\n" + table(results))
    return results


def chosen(lesson):
    """The answers to give: all, or the right ones and every third of the wrong ones."""
    if os.environ.get("LLMC_TEST_ALL") == "1":
        return lesson.answers
    right = [answer for answer in lesson.answers if answer.says is None]
    wrong = ([a for a in lesson.answers if a.exercise == name and a.says is not None] for name in lesson.check_of)
    return right + [answer for answers in wrong for answer in answers[::3]]


def given(lesson, answer):
    """The outcome after a short search for the mistake, which takes most of the time; after a whole one, if need be.

    `python -m llmc.course.old.authoring.answers` begins with as long a search as a learner waits for.
    """
    with hurried(SHARE):
        outcome = lesson.give(answer, seed=1)
    return outcome if outcome.as_it_should else lesson.give(answer, seed=1)


def test_every_outcome_is_as_it_should_be(outcomes):
    told = [
        f"{o.answer.function.__name__} should say {o.answer.says!r}\n{o.message}"
        for o in outcomes
        if not o.as_it_should
    ]
    assert not told, "\n\n".join(told)


def test_every_exercise_has_enough_answers(lesson):
    for exercise in lesson.check_of:
        mine = [answer for answer in lesson.answers if answer.exercise == exercise]
        assert sum(answer.says is None for answer in mine) >= 2, f"{exercise} needs 2 right answers"
        assert sum(answer.says is not None for answer in mine) >= 5, f"{exercise} needs 5 wrong answers"
    assert lesson.check_of.keys() == {answer.exercise for answer in lesson.answers}


def test_answers_are_never_recorded(lesson, tmp_path, monkeypatch):
    monkeypatch.setenv("LLMC_PROGRESS", str(tmp_path / "progress.json"))
    was = journal.recording(True)
    try:
        assert lesson.give(next(answer for answer in lesson.answers if answer.says is None)).accepted
        assert not list(tmp_path.iterdir())
        assert journal.recording(True) is True
    finally:
        journal.recording(was)


def test_sections_that_messages_name_exist(outcomes, lesson):
    """A message that sends somebody to a section which was renamed is worse than none."""
    own = lesson.name[:2]
    named = {
        place
        for o in outcomes
        for place in re.findall(r'(?:lesson (\d\d), )?section "([^"]+)"', " ".join(o.message.split()))
    }
    for number, title in named:
        (notebook,) = (ROOT / "notebooks").glob(f"{number or own}_*.ipynb")
        headings = re.findall(r'"#+ (.*?)(?:\\n)?"', notebook.read_text(encoding="utf-8"))
        assert any(heading.startswith(title) for heading in headings), f"{title!r} is no section of {notebook.name}"


NEVER_SAID = {  # {(lesson, kept answer): words that would be false of it}
    ("03_matmul", "forward_that_makes_three_axes_of_every_x"): "reshape it back",
    ("13_reductions", "tree_sum_of_eight_warps"): "`return`",
    ("18_number_formats", "quantize_by_errors_in_units_of_the_scale"): "Its codes end at",
    ("18_number_formats", "stochastic_that_takes_infinity_for_nan"): "gives the right patterns with",
    ("23_sample_gpt2", "top_p_with_a_mask_of_the_ranking"): "; or ",
}


@pytest.mark.parametrize(("where", "words"), NEVER_SAID.items(), ids=[name for _, name in NEVER_SAID])
def test_what_would_be_false_of_an_answer_is_not_said(where, words):
    lesson = Lesson(ROOT, where[0])
    (answer,) = (each for each in lesson.answers if each.function.__name__ == where[1])
    assert words not in lesson.give(answer).message
