"""The picture of where an array is wrong, below the message in a notebook."""

import numpy as np
import pytest

from llmc.course import WrongAnswer, compare
from llmc.course.checks.messages import diagnosis as explain
from llmc.course.checks.messages.heatmap import picture

RNG = np.random.default_rng(0)


def caught(got, expected, **options):
    with pytest.raises(WrongAnswer) as error:
        compare("dx", got, expected, **options)
    return error.value


def spoilt(shape, where):
    """(got, expected): expected plus 1 to 2 at these places."""
    expected, wrong = RNG.normal(size=shape), np.zeros(shape, bool)
    wrong[where] = True
    return expected + wrong * RNG.uniform(1, 2, shape), expected


def drawn(shape, where):
    """(title and table, rows of the picture as text)."""
    html = caught(*spoilt(shape, where)).diagnosis.picture.html()
    rows = [row.split("<td ")[1:] for row in html.split("<tr ")[1:]]
    return html, ["".join("✗" if "×</td>" in cell else "·" for cell in row) for row in rows]


def test_rows_and_columns():
    html, rows = drawn((3, 4), np.s_[1])
    assert "Where dx is wrong: rows are axis 0 (3), columns axis 1 (4)" in html and rows == ["····", "✗✗✗✗", "····"]
    assert "columns axis 0 (9)" in drawn((9,), np.s_[::2])[0]


def test_leading_axes_are_flattened_or_left_out():
    assert "rows are axis 0 and 1 (2 · 3), columns axis 2 (4)" in drawn((2, 3, 4), np.s_[1, 2])[0]
    html, rows = drawn((2, 3, 4, 4), np.s_[..., np.triu(np.ones((4, 4), bool), 1)])
    assert "the same for all of axis 0 and 1; rows are axis 2 (4), columns axis 3 (4)" in html
    assert rows == ["·✗✗✗", "··✗✗", "···✗", "····"]


def test_large_arrays_are_drawn_in_blocks():
    html, rows = drawn((8, 300, 500), np.s_[3, 20:100])
    assert len(rows) == 24 and [("✗" in row) for row in rows] == [i == 9 for i in range(24)]
    assert "a mark stands for 100 × 11 entries" in html and len(html) < 400_000


@pytest.mark.parametrize(
    ("shape", "where"),
    [((3, 4), np.s_[...]), ((3, 4), np.s_[1, 2]), ((60, 300), np.s_[::2, ::3])],
    ids=["all", "one", "in every block"],
)
def test_none_where_it_would_tell_nothing(shape, where):
    assert caught(*spoilt(shape, where)).diagnosis.picture is None


def test_infinite_errors_and_zero_dimensions():
    expected = RNG.normal(size=(3, 4))
    expected[0, :2] = -np.inf
    assert picture("s", np.zeros((3, 4)), expected, np.isinf(expected)).html().count("×</td>") == 2
    assert picture("s", np.array(1.0), np.array(2.0), np.array(True)) is None


CELL = """
import numpy as np
from llmc.course import check, compare, recording
recording(False)
with check("f") as c:
    x = c.random(3, 4)
    y = c.call(lambda x: np.where(np.arange(3)[:, None] == 1, 7.0, x), x)
    compare("y", y, x)
"""


def test_in_a_notebook_it_stands_below_the_message():
    nbformat = pytest.importorskip("nbformat")
    from nbclient import NotebookClient

    from llmc.course.exercises.notebooks import environment

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    as_in_jupyterlab = {name: value for name, value in environment().items() if name != "PYTEST_VERSION"}
    NotebookClient(notebook, kernel_name="python3", allow_errors=True, timeout=60).execute(env=as_in_jupyterlab)
    error, shown = notebook.cells[0].outputs
    assert error.output_type == "error" and error.traceback == ["\x1b[1m✗ f\x1b[0m"]
    told = shown.data["text/html"]
    assert told.index("<b>y has wrong values") < told.index("Where y is wrong") and "Traceback" not in told
    assert "y has wrong values" in shown.data["text/plain"]


def test_under_pytest_the_error_is_the_whole_message(monkeypatch):
    monkeypatch.setattr(explain, "in_notebook", lambda: True)
    monkeypatch.setenv("PYTEST_VERSION", "8")
    first, *rest = explain.WrongAnswer("✗ f: y has wrong values.\nLook at x.")._render_traceback_()
    assert "y has wrong values" in first and rest == ["Look at x."]
