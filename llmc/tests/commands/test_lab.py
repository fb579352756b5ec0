"""`llmc lab`: which folder it opens, the copy that it offers, its terminals' PATH. JupyterLab itself is not run."""

import os
from pathlib import Path

import pytest

from llmc.cli import main
from llmc.commands import lab
from llmc.course.exercises import layout
from llmc.course.learner import journal
from llmc.tests.course.test_own_folder import change_course, course_in, sources, start

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A course; `llmc lab` finds it, and is in it."""
    root = course_in(tmp_path / "the course")
    monkeypatch.setattr(layout, "checkout", lambda: root)
    monkeypatch.setenv("LLMC_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setenv("SHELL", "/bin/zsh")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def opened(monkeypatch):
    """The words of the JupyterLab that would have been started."""
    words = []
    monkeypatch.setattr(lab, "_become_jupyterlab", lambda command: words.extend(command) or 0)
    return words


@pytest.mark.parametrize("kind", ["folder", "pipe", "deep", "state"])
def test_it_starts_beside_a_notebook_that_is_none(root, opened, capsys, kind):
    start(root / "my-course", root)
    path = root / "my-course" / ("01_f.ipynb" if kind != "state" else layout.MARKER)
    path.unlink()
    if kind in ("folder", "pipe"):
        path.mkdir() if kind == "folder" or os.name == "nt" else os.mkfifo(path)
    else:
        path.write_text('{"cells": ' + 60_000 * "[" if kind == "deep" else '{"cells": 3, "files": {}}')
    change_course(root, "notebooks", text="# 01\n\n## 1 · It\n\nNews.")
    assert main(["lab"]) == 0 and opened
    said = capsys.readouterr().err
    assert said.count("\n") == (kind != "state") and said.startswith(f"llmc: {path}"[: len(said)])


def test_it_makes_a_copy_unasked(root, opened):
    assert main(["lab", "--", "--no-browser", "--port", "9999"]) == 0
    assert opened[1:3] == ["-m", "jupyterlab"] and opened[-3:] == ["--no-browser", "--port", "9999"]
    assert f"--ServerApp.root_dir={root}" in opened and (root / "my-course" / layout.MARKER).is_file()
    assert "--LabApp.default_url=/lab/tree/my-course/00_start_here.ipynb" in opened
    assert "--ServerApp.terminado_settings={'shell_command': ['/bin/zsh']}" in opened or os.name == "nt"


def test_the_checkout_is_opened_for_whoever_names_it_or_works_there(root, opened):
    assert main(["lab", "."]) == 0
    was = journal.recording(True)
    journal.record_try("f")
    journal.recording(was)
    assert main(["lab"]) == 0 and not list(root.glob(f"*/{layout.MARKER}"))
    assert opened.count("--LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb") == 2


def test_as_root_it_starts_as_well(root, opened, monkeypatch):
    for user in (0, 1000):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user, raising=False)
        assert main(["lab"]) == 0
    assert opened.count("--allow-root") == 1 and "--LabApp.news_url=None" in opened


def test_a_copy_is_found_and_brought_up_to_date(root, opened, capsys):
    start(root / "mine", root)
    assert main(["lab"]) == 0
    assert capsys.readouterr().out == ""
    change_course(root, "notebooks", text="# 01\n\n## 1 · It\n\nNews.")
    assert main(["lab"]) == 0
    assert "New from the course: 01_f.ipynb." in capsys.readouterr().out
    assert "News." in sources(root / "mine" / "01_f.ipynb")["text"]


def test_a_copy_elsewhere_and_the_checkout_are_both_seen(root, opened, tmp_path):
    start(tmp_path / "mine", root)
    assert main(["lab", str(tmp_path / "mine"), "--", "--no-browser"]) == 0
    assert f"--ServerApp.root_dir={tmp_path}" in opened and opened[-1] == "--no-browser"
    assert "--LabApp.default_url=/lab/tree/mine/00_start_here.ipynb" in opened


def test_a_folder_that_is_no_copy(root, opened, tmp_path, capsys):
    assert main(["lab", str(tmp_path)]) == 2 and not opened
    assert "is not a copy of the course" in capsys.readouterr().err


def test_a_notebook_that_cannot_be_merged_is_no_reason_not_to_open(root, opened, capsys):
    start(root / "mine", root)
    (root / "mine" / "01_f.ipynb").write_text("{", encoding="utf-8")
    change_course(root, "notebooks", text="# 01\n\n## 1 · It\n\nNews.")
    assert main(["lab"]) == 0 and opened
    assert "01_f.ipynb is damaged" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="Windows has no exec")
def test_its_terminals_find_llmc(monkeypatch):
    def execve(program, words, environment):
        raise SystemExit(environment["PATH"])

    monkeypatch.setattr(lab.os, "execve", execve)
    monkeypatch.setattr(lab, "path_variable", lambda: "/ours:/usr/bin")
    with pytest.raises(SystemExit, match="^/ours:/usr/bin$"):
        lab._become_jupyterlab(["python", "-m", "jupyterlab"])


def test_without_jupyterlab(root, monkeypatch, capsys):
    monkeypatch.setattr(lab, "find_spec", lambda name: None)
    assert main(["lab"]) == 2 and "pip install jupyterlab" in capsys.readouterr().err
