"""`llmc update` in the checkout itself: notebooks that were run or edited do not stop git, and nothing is lost."""

import shutil
import subprocess
from functools import partial

import pytest

from llmc.cli import main
from llmc.commands import update
from llmc.course.exercises import layout, own_files, own_folder, pulling
from llmc.course.exercises.pulling import is_clone, pull
from llmc.errors import UserError
from llmc.tests.course.test_own_folder import change_course, course_in, edit, read, run_all, sources, start

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
LESSON, EXERCISE = "notebooks/01_f.ipynb", "exercises/01_f.ipynb"


def git(folder, *words):
    names = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")
    return subprocess.run(["git", *names, *words], cwd=folder, capture_output=True, text=True)


def commit(folder):
    git(folder, "add", "--all")
    assert git(folder, "commit", "--quiet", "--message", "change").returncode == 0


@pytest.fixture
def upstream(tmp_path):
    """The course's own repository."""
    root = course_in(tmp_path / "upstream")
    (root / "pyproject.toml").write_text("one\n", encoding="utf-8")
    git(root, "init", "--quiet")
    commit(root)
    return root


@pytest.fixture
def clone(upstream, tmp_path):
    git(tmp_path, "clone", "--quiet", str(upstream), "my clone")
    return tmp_path / "my clone"


def news(upstream, words="News."):
    """A new version of the lesson."""
    change_course(upstream, "notebooks", text=f"# 01\n\n## 1 · It\n\n{words}")
    commit(upstream)


def differing(clone):
    return git(clone, "status", "--porcelain").stdout.split("\n")[:-1]


def test_a_lesson_that_was_run_stops_git_and_not_us(upstream, clone):
    run_all(clone / LESSON)
    news(upstream)
    assert "would be overwritten" in git(clone, "pull").stderr
    assert pull(clone) == ["The course has changed (1 commit)."]
    assert "News." in sources(clone / LESSON)["text"] and differing(clone) == []


def test_what_the_course_has_not_changed_keeps_every_byte(upstream, clone):
    run_all(clone / LESSON)
    edit(clone / EXERCISE, "answer", "def f(x): return 2")
    git(clone, "add", EXERCISE)
    before = (clone / LESSON).read_bytes(), (clone / EXERCISE).read_bytes()
    (upstream / "pyproject.toml").write_text("two\n", encoding="utf-8")
    commit(upstream)
    told = pull(clone)
    assert before == ((clone / LESSON).read_bytes(), (clone / EXERCISE).read_bytes())
    assert "packages may have changed" in told[-1] and "install -e ." in told[-1]
    assert pull(clone) == ["The course has nothing new."]


def test_edits_are_merged_cell_by_cell_and_what_both_changed_stays_ours(upstream, clone):
    edit(clone / LESSON, "run", "2 + 3")
    edit(clone / EXERCISE, "answer", "def f(x): return 2")
    news(upstream)
    assert f"{LESSON}: cells 1 updated, 1 kept." in pull(clone)
    assert "News." in sources(clone / LESSON)["text"] and sources(clone / LESSON)["run"] == "2 + 3"
    assert sources(clone / EXERCISE)["answer"] == "def f(x): return 2"
    edit(clone / LESSON, "text", "Mine.")
    news(upstream, "Later news.")
    assert any("you had edited: text" in line for line in pull(clone))
    assert sources(clone / LESSON)["text"] == "Mine."


@pytest.mark.parametrize("edited", [True, False])
def test_a_notebook_that_the_course_drops(upstream, clone, edited):
    edit(clone / LESSON, "text", "Mine.") if edited else run_all(clone / LESSON)
    git(upstream, "rm", "--quiet", LESSON)
    commit(upstream)
    told, own = pull(clone), clone / "notebooks" / "yours_01_f.ipynb"
    assert not (clone / LESSON).exists()
    assert own.exists() == edited == any("yours is now yours_01_f.ipynb" in line for line in told)
    assert not edited or sources(own)["text"] == "Mine."


@pytest.mark.parametrize(
    ("path", "text", "says"),
    [
        ("exercises/AGENTS.md", "Mine.\n", "git could not pull: error: .*AGENTS.md"),  # changed, and no notebook
        (LESSON, '{"cells": [{"source": "x"}]}', "01_f.ipynb is damaged"),
    ],
)
def test_when_it_cannot_be_done_all_is_as_before(upstream, clone, path, text, says):
    run_all(clone / LESSON)
    (clone / path).write_text(text, encoding="utf-8")
    before = (clone / LESSON).read_bytes()
    (upstream / "exercises" / "AGENTS.md").write_text("News.\n", encoding="utf-8")
    news(upstream)
    with pytest.raises(UserError, match=says) as caught:
        pull(clone)
    assert "\n" not in str(caught.value) and (clone / LESSON).read_bytes() == before
    assert (clone / path).read_text(encoding="utf-8") == text


@pytest.mark.parametrize("step", range(8))  # of git's, and of our writes
def test_killed_in_between(upstream, clone, monkeypatch, step):
    edit(clone / EXERCISE, "answer", "def f(x): return 2")
    run_all(clone / LESSON)
    news(upstream)
    change_course(upstream, "exercises", task="News.")
    commit(upstream)
    left = iter(range(step + 3))
    with monkeypatch.context() as killed, pytest.raises(SystemExit):
        for name, does in (("_git", pulling._git), ("write_over", pulling.write_over)):
            step_or_end = partial(
                lambda does, *words, **how: does(*words, **how) if next(left, -1) >= 0 else exit(), does
            )
            killed.setattr(pulling, name, step_or_end)
        pull(clone)
    assert sources(clone / EXERCISE)["answer"] == "def f(x): return 2"
    assert any("has changed (2 commits)" in line for line in pull(clone))
    assert sources(clone / EXERCISE)["answer"] == "def f(x): return 2" and sources(clone / EXERCISE)["task"] == "News."
    assert "News." in sources(clone / LESSON)["text"] and differing(clone) == [f" M {EXERCISE}"]


def test_what_a_killed_git_has_written_is_no_obstacle(upstream, clone):
    (upstream / "new.txt").write_text("News.\n", encoding="utf-8")
    news(upstream)
    for name in ("new.txt", LESSON):
        shutil.copy(upstream / name, clone / name)
    pull(clone)
    assert differing(clone) == []


def test_a_notebook_that_is_saved_meanwhile_is_merged_again(upstream, clone, copy, monkeypatch):
    write, places = own_files.write_bytes, [clone / "notebooks", copy]

    def slowly(path, data):
        if path.parent in places and path.suffix == ".new":
            places.remove(path.parent)
            edit(path.parent / "01_f.ipynb", "text", "## 1 · It\n\nSaved.")
        write(path, data)

    run_all(clone / LESSON)
    change_course(upstream, "notebooks", run="3 + 3")
    commit(upstream)
    monkeypatch.setattr(own_files, "write_bytes", slowly)
    pull(clone), own_folder.update(copy)
    for lesson in (clone / LESSON, copy / "01_f.ipynb"):
        assert sources(lesson)["text"] == "## 1 · It\n\nSaved." and sources(lesson)["run"] == "3 + 3"


def test_git_asks_the_folder_and_no_other(upstream, clone, monkeypatch):
    news(upstream)
    monkeypatch.setenv("GIT_DIR", str(upstream / ".git"))
    assert is_clone(clone) and pull(clone) == ["The course has changed (1 commit)."]
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(UserError, match="git could not pull: fatal: detected dubious ownership .*safe.directory"):
        is_clone(clone)


def test_what_is_no_clone(clone, tmp_path):
    assert is_clone(clone) and not is_clone(clone / "notebooks") and not is_clone(tmp_path)
    git(clone, "branch", "--unset-upstream")
    assert not is_clone(clone)


@pytest.fixture
def copy(clone, monkeypatch):
    """A learner's copy in the clone, which is the current folder."""
    start(clone / "mine", clone)
    monkeypatch.setattr(layout, "checkout", lambda: clone)
    monkeypatch.chdir(clone)
    return clone / "mine"


def test_update_pulls_and_then_brings_the_copy_up_to_date(upstream, clone, copy, monkeypatch, capfd):
    run_all(copy / "01_f.ipynb")
    news(upstream)
    calls = []
    monkeypatch.setattr(update, "_bring_in_new_process", lambda copy: calls.append(copy) or 0)
    assert main(["update"]) == 0 and calls == [copy]
    assert "The course has changed (1 commit)." in capfd.readouterr().out
    assert main(["update", "--no-pull", str(copy)]) == 0
    assert "New from the course: 01_f.ipynb." in capfd.readouterr().out
    assert "News." in sources(copy / "01_f.ipynb")["text"] and read(clone / LESSON)["cells"]


def test_update_without_a_network_still_brings_what_is_here(upstream, copy, monkeypatch, capfd):
    shutil.rmtree(upstream)
    monkeypatch.setattr(update, "_bring_in_new_process", lambda copy: print("brought") or 0)
    assert main(["update"]) == 2
    assert "llmc: git could not pull: " in (told := capfd.readouterr()).err and "brought" in told.out


def test_nothing_to_update(copy, capfd):
    shutil.rmtree(copy)
    shutil.rmtree(copy.parent / ".git")
    assert main(["update"]) == 2
    assert "nothing to update" in capfd.readouterr().err
