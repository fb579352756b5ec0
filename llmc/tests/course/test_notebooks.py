"""Canonical notebooks: the same bytes whoever saved them, and a run that fails leaves the file alone."""

import json

import pytest

from llmc.course.exercises import notebooks
from llmc.errors import UserError


def store(path, *sources, **extra):
    given = {"cell_type": "code", "id": "same", "metadata": {"scrolled": True}, "outputs": [], "execution_count": 9}
    cells = [{**given, "source": source} for source in sources]
    notebook = {"cells": cells, "metadata": {"language_info": {"version": "3.99"}}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(notebook | extra), encoding="utf-8")
    return path


def test_format_is_canonical_and_stable(tmp_path):
    path = store(tmp_path / "a.ipynb", "x = 1\ny = 2", "x")
    assert notebooks.main(["format", str(path)]) == 0
    first = path.read_bytes()
    notebook = json.loads(first)
    assert [cell["id"] for cell in notebook["cells"]] == ["same", "same-2"]
    assert notebook["cells"][0]["metadata"] == {} and notebook["cells"][0]["source"] == ["x = 1\n", "y = 2"]
    assert "3.99" not in first.decode() and first.endswith(b"}\n")
    notebooks.main(["format", str(path)])
    assert path.read_bytes() == first


def test_missing_ids_come_from_positions(tmp_path):
    path = store(tmp_path / "a.ipynb", "1", "2", nbformat_minor=4)
    path.write_text(path.read_text(encoding="utf-8").replace('"id": "same", ', ""), encoding="utf-8")
    assert [cell["id"] for cell in notebooks.read(path).cells] == ["cell-00", "cell-01"]


@pytest.mark.parametrize(("text", "says"), [("", "it is not JSON"), ("[1]", "damaged"), (None, "does not exist")])
def test_not_a_notebook(tmp_path, text, says):
    path = tmp_path / "a.ipynb"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=says):
        notebooks.read(path)


def test_run_stores_outputs(tmp_path):
    (tmp_path / "beside.txt").write_text("found", encoding="utf-8")
    path = store(tmp_path / "a.ipynb", "print(open('beside.txt').read())\nprint(1)", "import llmc\n40 + 2")
    assert notebooks.main(["run", str(path)]) == 0
    first, second = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert first["outputs"][0]["text"] == ["found\n", "1\n"] and second["outputs"][0]["data"]["text/plain"] == ["42"]
    assert (first["execution_count"], second["execution_count"]) == (1, 2)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("import sys; print('hm', file=sys.stderr)", "writes to stderr: hm"),
        ("import os; print(os.getcwd())", "prints a path of this machine"),
    ],
)
def test_a_failing_run_changes_nothing(tmp_path, capsys, source, says):
    path = store(tmp_path / "a.ipynb", source)
    before = path.read_bytes()
    assert notebooks.main(["run", str(path)]) == 2
    assert path.read_bytes() == before
    assert says in capsys.readouterr().err
