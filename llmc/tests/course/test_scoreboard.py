"""The parity scoreboard: green for a right backend, red row by row for a wrong one, text and HTML."""

import numpy as np
import pytest

from llmc.course.your_layers.plug import learner_backend
from llmc.errors import UserError
from llmc.parity.cases import CASES
from llmc.parity.scoreboard import fixture, scoreboard, scoreboard_llmc


@pytest.mark.parametrize("name", [case.name for case in CASES])
@pytest.mark.parametrize("recipe", ["A", "B"])
def test_the_reference_is_green(name, recipe):
    board = scoreboard("numpy", name, recipe)
    assert board.okay and len(board.rows) == 1 + 1 + 16 + 10
    assert board.summary == "28 of 28 rows are green. overall okay: 1" and board._repr_html_().count("✓") == 28


def test_a_backward_mistake_leaves_the_forward_rows_green():
    def gelu_backward(dout, x):
        return dout

    board = scoreboard(learner_backend([gelu_backward]))
    green = [row.name for row in board.rows if row.okay]
    assert {"logits", "loss", "dlnfw", "dlnfb"} <= set(green) and "dfcw" not in green and not board.okay
    assert "✗ dfcw" in str(board) and "overall okay: 0" in str(board)


def test_nan_is_red():
    with np.errstate(all="ignore"):
        board = scoreboard(learner_backend({"gelu_forward": lambda x: x * np.nan}))
    assert not any(row.okay for row in board.rows)


def test_unknown_fixture_is_refused():
    with pytest.raises(UserError, match="choose one of odd, "):
        fixture("large")


def test_without_files_of_llmc_there_is_no_board(monkeypatch, tmp_path):
    monkeypatch.delenv("LLMC_REFERENCE_DIR", raising=False)
    assert scoreboard_llmc() is None
    monkeypatch.setenv("LLMC_REFERENCE_DIR", str(tmp_path))
    assert scoreboard_llmc() is None
