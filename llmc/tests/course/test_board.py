"""The progress file survives damage and two notebooks at once; the board reads it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from llmc.course import progress
from llmc.course.exercises import layout
from llmc.course.exercises.catalog import Exercise
from llmc.course.learner import board, journal
from llmc.course.learner.board import Board
from llmc.errors import UserError

mkfifo = getattr(os, "mkfifo", None)
needs_pipes = pytest.mark.skipif(mkfifo is None, reason="no named pipes here")


@pytest.fixture
def path(progress_file):
    return progress_file


def test_record_keeps_the_first_time(path):
    journal.record("a")
    first = json.loads(path.read_text(encoding="utf-8"))
    journal.record("a")
    journal.record("b")
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert set(stored["done"]) == {"a", "b"} and stored["done"]["a"] == first["done"]["a"] < stored["worked"]["a"]
    assert [p.name for p in path.parent.iterdir()] == ["progress.json"]


@pytest.mark.parametrize("text", ["", "[]", '{"done": 3}', "\x00\x01"])
def test_damaged_file_is_kept_aside(path, capsys, text):
    path.write_text(text, encoding="utf-8")
    journal.record("a")
    assert set(journal.read(path)["done"]) == {"a"}
    assert path.with_name("progress.json.bak").read_text(encoding="utf-8") == text
    assert "progress.json was damaged" in capsys.readouterr().out


@pytest.mark.parametrize("make", [Path.mkdir, pytest.param(mkfifo, marks=needs_pipes)])
def test_what_is_no_regular_file_is_left_alone(path, make):
    make(path)
    kind = path.stat().st_mode
    with pytest.raises(UserError, match="give a file"):
        progress()
    assert journal.record("a").startswith("(Not recorded:")
    assert journal.hints_seen("a") == 0
    assert [p.name for p in path.parent.iterdir()] == ["progress.json"] and path.stat().st_mode == kind


def test_stale_lock_does_not_block_for_ever(path, monkeypatch):
    monkeypatch.setattr(journal, "PATIENCE", 0.1)
    path.with_name("progress.json.lock").touch()
    journal.record("a")
    assert set(journal.read(path)["done"]) == {"a"}


def test_two_notebooks_at_once(path):
    code = "import sys; from llmc.course.learner import journal; [journal.record(sys.argv[1] + i) for i in 'abcdefgh']"
    both = [subprocess.Popen([sys.executable, "-c", code, name]) for name in "xy"]
    assert [process.wait(60) for process in both] == [0, 0]
    assert len(journal.read(path)["done"]) == 16


EXERCISES = [Exercise("a", "01_x", 10, 1), Exercise("b", "01_x", 20, 2), Exercise("c", "02_y", 5, 3)]


def test_the_board_says_what_is_done_and_what_comes_next():
    shown = Board(EXERCISES, {"a"})
    assert shown.next.name == "b" and shown.minutes_left(EXERCISES) == 25
    assert "1 of 3 exercises done, about 25 min left. Next: b in exercises/01_x.ipynb" in str(shown)
    assert shown._repr_html_().count("✓") == 1 and shown._repr_html_().count("○") == 2
    assert "No exercises found" in str(Board([], set()))
    assert str(Board(EXERCISES, {"a", "b", "c"})).endswith("3 of 3 exercises done.")


@pytest.mark.parametrize(
    ("done", "worked", "name"),
    [
        ("", "", "a"),
        ("a", "a", "b"),
        ("b", "b", "c"),  # not back to a, which was skipped
        ("c", "c", "a"),  # nothing is open after the last: from the beginning
        ("a", "ac", "c"),  # c was tried last, and is open
        ("ab", "bax", "c"),  # x is no exercise of this course any more; b was done before a
        ("abc", "abc", None),
    ],
)
def test_resume_after_the_last_one_worked_on(done, worked, name):
    shown = Board(EXERCISES, set(done), {exercise: f"2025-01-0{day}" for day, exercise in enumerate(worked, 1)})
    assert (shown.next and shown.next.name) == name


def test_what_counts_as_work(path, monkeypatch):
    monkeypatch.setattr(journal, "all_exercises", lambda: EXERCISES)
    journal.record("a")
    assert progress().next.name == "b"
    journal.record_hint("c", 1)
    assert progress().next.name == "c"
    journal.record_try("b")
    assert progress().next.name == "b" and progress().done == {"a"}


def test_resume_here_links_to_the_task(path, monkeypatch):
    root = layout.checkout()
    if root is None:
        pytest.skip("needs a checkout")
    monkeypatch.chdir(root / "notebooks")
    shown = progress()
    first = shown.exercises[0]
    link = f'<a href="../exercises/{first.lesson}.ipynb#cell-id='
    assert f"<b>Resume here: {first.name}</b></a> ({first.minutes} min)" in shown._repr_html_()
    assert link in shown._repr_html_() and f"Next: {first.name} in ../exercises/{first.lesson}.ipynb" in str(shown)


class Handle:
    """Of a board on the page."""

    def __init__(self):
        self.drawn = []

    def update(self, bundle, raw):
        self.drawn.append(bundle["text/html"].count("✓"))


def test_boards_on_the_page_are_drawn_again(path, monkeypatch):
    handle = Handle()
    monkeypatch.setattr(board, "_shown", [(Board(EXERCISES, set()), handle)])
    journal.record("x")
    journal.record("a")
    assert handle.drawn == [0, 1]


def test_nothing_is_recorded_while_recording_is_off(path):
    journal.recording(False)
    assert journal.record("a") == "" and not path.exists()
