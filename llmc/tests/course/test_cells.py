"""Notebooks run without Jupyter: cells in order, in their folder, and what is wrong is told with the cell's number."""

import json
import sys

import pytest

from llmc import cuda
from llmc.cli import main as llmc
from llmc.course.exercises import cells
from llmc.errors import UserError
from llmc.parity.cases import CASES
from llmc.tests import on_gpu
from llmc.tests.llmc_files import write_files


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    """notebook("x = 1", "x"): a file of these cells; nobody has Jupyter or IPython."""
    monkeypatch.setattr(cells, "find_spec", lambda name: None)
    for name in ("IPython", "IPython.display"):
        monkeypatch.setitem(sys.modules, name, None)

    def make(*sources, folder="notebooks"):
        path = tmp_path / folder / "lesson.ipynb"
        path.parent.mkdir(exist_ok=True)
        written = [{"cell_type": "code", "source": [source]} for source in sources]
        path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": ["# Title"]}, *written]}))
        return path

    return make


def test_cells_share_names_and_show_their_last_line(notebook):
    path = notebook("import os\nx = 20", "y = x + 1", "print(os.path.basename(os.getcwd()))\n2 * y")
    assert cells.run(path) == "notebooks\n42\n"


def test_what_lessons_take_from_ipython_and_matplotlib_is_there(notebook):
    draws = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
    assert "shown" in cells.run(notebook("from IPython.display import display", "display('shown')", draws))


def test_the_cell_that_fails_is_named(notebook):
    path = notebook("x = 1", "x / 0")
    with pytest.raises(UserError, match="lesson.ipynb, cell 2 failed:(.|\n)*ZeroDivisionError"):
        cells.run(path)
    assert cells.main([path]) == 1 and cells.main([notebook("x = 1")]) == 0


def test_a_solution_that_is_not_done_fails(notebook):
    assert cells.main([notebook("print('not done yet')", folder="solutions")]) == 1
    assert cells.main([notebook("print('not done yet')")]) == 0


def test_without_a_gpu_it_says_so_in_one_sentence():
    if not cuda.reason():
        pytest.skip("there is a GPU")
    with pytest.raises(UserError, match="^no GPU can be used here: .*[.]$"):
        on_gpu.main([])
    with pytest.raises(SystemExit):
        on_gpu.main(["--part", "all"])


def test_the_files_for_verify_are_right(tmp_path, capsys):
    model, state, losses = write_files(CASES[0], tmp_path)
    for recipe in "AB":
        assert llmc(["verify", str(model), str(state), "--losses", str(losses), "--recipe", recipe]) == 0
        assert capsys.readouterr().out.endswith("overall okay: 1\n")
