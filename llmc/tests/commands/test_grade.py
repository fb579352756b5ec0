"""`llmc exercises grade` on a learner's folder: right, wrong, cheated and empty."""

import json
from pathlib import Path

import pytest

from llmc.cli import main
from llmc.course.exercises import catalog

ROOT = Path(__file__).resolve().parents[3]
LESSON = "00_start_here"
pytestmark = pytest.mark.skipif(not (ROOT / "solutions").is_dir(), reason="needs a checkout")


def test_what_passes_the_courses_own_checks(tmp_path, capsys):
    notebook = json.loads((ROOT / "exercises" / f"{LESSON}.ipynb").read_text(encoding="utf-8"))
    solved = {cell.id: cell.source for cell in catalog.cells_of(ROOT / "solutions" / f"{LESSON}.ipynb")}
    cheated = False
    for cell in notebook["cells"]:
        mark = cell["metadata"].get("llmc", {})
        if mark.get("role") == "answer" and mark["exercise"] in ("embed", "next_token_loss"):
            cell["source"] = solved[cell["id"]]
        elif mark.get("role") == "answer" and mark["exercise"] == "causal_softmax":
            cell["source"] = "causal_softmax = abs"
        elif mark.get("role") == "check" and mark["exercise"] == "causal_softmax":
            cell["source"], cheated = "1", True
    checks = [cell for cell in notebook["cells"] if cell["metadata"].get("llmc", {}).get("role") == "check"]
    notebook["cells"].remove(next(cell for cell in checks if cell["metadata"]["llmc"]["exercise"] == "next_token_loss"))
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / f"exercise_{LESSON}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    assert main(["exercises", "grade", str(tmp_path / "ada")]) == 0 and cheated
    told = capsys.readouterr().out
    assert told.startswith("ada\n") and "2 of 4   open: causal_softmax, descend" in told
    assert "2 of 4 exercises, worth" in told


def test_what_ends_the_kernel_costs_what_comes_after_it_only(tmp_path, capsys):
    path = tmp_path / f"exercise_{LESSON}.ipynb"
    notebook = json.loads((ROOT / "exercises" / f"{LESSON}.ipynb").read_text(encoding="utf-8"))
    next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")["source"] = "import os; os._exit(1)"
    path.write_text(json.dumps(notebook), encoding="utf-8")
    assert main(["exercises", "grade", str(tmp_path)]) == 0
    assert "0 of 4   open: embed, " in capsys.readouterr().out


def test_a_folder_without_exercises(tmp_path, capsys):
    assert main(["exercises", "grade", str(tmp_path)]) == 2
    assert "there are no exercise notebooks in" in capsys.readouterr().err
