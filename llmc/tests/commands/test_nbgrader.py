"""`llmc exercises export --nbgrader`: what nbgrader is told of each cell, and the points that three learners get."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from llmc.cli import main
from llmc.course.authoring.graded import graded_check
from llmc.course.exercises import builder, nbgrader, notebooks

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.skipif(not (ROOT / "solutions").is_dir(), reason="needs a checkout")


def test_stubs_and_points(lesson="12_first_kernels.ipynb"):  # which has answers in Python and in CUDA C
    ours = {cell.id: cell for cell in nbgrader.source_of(ROOT / "solutions" / lesson).cells}
    for given in notebooks.read(ROOT / "exercises" / lesson).cells:
        mark, cell = given.metadata.get("llmc", {}), ours.get(given.id)
        if mark.get("role") == "answer":
            minutes, expected = mark["minutes"], {"grade_id": mark["exercise"], "solution": True}
            assert builder.stub_source(cell.source, "") == given.source
        elif mark:
            expected = {"grade_id": f"{mark['exercise']}-check", "grade": True, "locked": True, "points": minutes}
            assert cell.source.replace("graded_", "").endswith(given.source[given.source.index("\nwith") :])
        assert not mark or cell.metadata["nbgrader"] == nbgrader.PLAIN | expected
    with pytest.raises(AssertionError, match="embed: not done yet"), graded_check("embed"):
        raise NotImplementedError


def test_a_folder_that_is_not_empty_and_an_export_that_fails(tmp_path, capsys, monkeypatch):
    (tmp_path / "mine").touch()
    assert main(["exercises", "export", "--nbgrader", str(tmp_path)]) == 2 and "is not empty" in capsys.readouterr().err
    monkeypatch.delattr(nbgrader, "SETTINGS")  # the last thing that it writes
    pytest.raises(NameError, main, ["exercises", "export", "--nbgrader", str(tmp_path / "course")])
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_points_of_three_learners(tmp_path, monkeypatch, lesson="00_start_here"):
    book = pytest.importorskip("nbgrader.api", reason="in no extra: it is large, and adds its menus to JupyterLab")
    monkeypatch.setenv("LLMC_PROGRESS", str(tmp_path / "progress.json"))
    assert main(["exercises", "export", "--nbgrader", str(tmp_path / "course")]) == 0
    monkeypatch.chdir(tmp_path / "course")
    run, path = [sys.executable, "-m", "nbgrader"], Path(lesson, f"{lesson}.ipynb")
    subprocess.run([*run, "generate_assignment", lesson], env=notebooks.environment(), check=True)
    notebook = nbformat.read("release" / path, 4)
    stubs = {cell.id: cell.source for cell in notebook.cells}
    right = {cell.id: cell.source for cell in notebooks.read("source" / path).cells}
    assert stubs == {id: builder.stub_source(source, "") for id, source in right.items()}
    noisy = right["causal-answer"].replace("    e = ", "    np.log(np.zeros(1))\n    e = ")  # a warning is no mistake
    wrong = right | {"embed-answer": "embed = abs", "embed-check": "1", "loss-answer": "", "causal-answer": noisy}
    for name, sources in {"ada": right, "ben": wrong, "eve": stubs}.items():
        notebook.cells = [nbformat.from_dict(cell | {"source": sources[cell.id]}) for cell in notebook.cells]
        notebooks.write("submitted" / Path(name) / path, notebook)
    subprocess.run([*run, "autograde", lesson], env=notebooks.environment(), check=True)
    with book.Gradebook("sqlite:///gradebook.db") as grades:
        assert [grades.find_submission(lesson, name).score for name in ("ada", "ben", "eve")] == [15, 4 + 4, 0]
    assert not (tmp_path / "progress.json").exists()
