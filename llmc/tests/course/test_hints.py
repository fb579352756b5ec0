"""`hint`: one more with each call, from the exercise's own notebook, remembered between sessions."""

import json
from pathlib import Path

import pytest

from llmc.course import hint
from llmc.course.exercises import catalog
from llmc.course.learner import hints, journal
from llmc.errors import UserError

ROOT = Path(__file__).resolve().parents[3]
EXERCISES = catalog.all_exercises()


@pytest.fixture(autouse=True)
def path(progress_file):
    return progress_file


needs_checkout = pytest.mark.skipif(not EXERCISES, reason="needs a checkout: the hints lie in the notebooks")


@needs_checkout
def test_one_more_with_each_call(path, monkeypatch):
    monkeypatch.chdir(ROOT / "exercises")  # from here, a copy that `make lab` has made in the checkout is not seen
    journal.record("something")
    told = [str(hint("layernorm_backward")) for _ in range(2)]
    monkeypatch.setattr(journal, "_seen", {})  # a new session
    told += [str(hint("layernorm_backward")) for _ in range(2)]
    assert [text.split(":")[0] for text in told] == ["Hint 1", "Hint 2", "Hint 3", "Hint 1"]
    assert "Hint 1 of 3" in told[0] and "last of 3" in told[2] and "solutions/01_layernorm.ipynb" in told[2]
    assert all(f"Hint {n}: " in told[3] for n in (1, 2, 3)) and "These are all the hints" in told[3]
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert stored["hints"] == {"layernorm_backward": 3} and set(stored["done"]) == {"something"}
    journal.record("something else")
    assert journal.hints_seen("layernorm_backward") == 3


@needs_checkout
def test_a_function_will_do():
    def layernorm_forward():
        pass

    assert hint(layernorm_forward)._repr_markdown_().startswith("**Hint 1: where to start**\n\n")


@needs_checkout
def test_remembered_for_the_session_where_nothing_is_recorded(path):
    journal.recording(False)
    assert [str(hint("layernorm_backward"))[:6] for _ in range(2)] == ["Hint 1", "Hint 2"]
    assert not path.exists()


@needs_checkout
@pytest.mark.parametrize(("name", "words"), [("layernorm_bakward", "layernorm_backward"), ("zzz", "progress()")])
def test_unknown_name_is_one_sentence(name, words):
    with pytest.raises(UserError) as caught:
        hint(name)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    lines = caught.value._render_traceback_()
    assert " ".join(lines) == str(caught.value) and max(map(len, lines)) <= 72


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.name)
def test_every_exercise_has_three_hints(exercise):
    found = hints.hints_of(ROOT / "solutions" / f"{exercise.lesson}.ipynb", exercise.name)
    assert [number for number, _, _ in found] == [1, 2, 3], f"three folded hints before {exercise.name}"
    assert all(title and text and "<" not in title for _, title, text in found)


def test_a_damaged_notebook_has_no_hints(tmp_path):
    path = tmp_path / "x.ipynb"
    path.write_text("<<<<<<< HEAD", encoding="utf-8")
    assert hints.hints_of(path, "f") == []
