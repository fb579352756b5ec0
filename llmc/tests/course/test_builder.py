"""Solutions to exercises: stubs, markers, byte-identical output, and no learner's work overwritten."""

import json
from pathlib import Path

import pytest

from llmc.course import WrongAnswer
from llmc.course.exercises import builder, notebooks
from llmc.errors import UserError

ROOT = Path(__file__).resolve().parents[3]

SOURCE = '''def f(x):
    """Doc."""
    ### BEGIN SOLUTION
    # a remark

    y = x + 1
    return y
    ### END SOLUTION
'''
SETUP = "import numpy as np\nfrom llmc.course import (\n    check,\n    compare,\n)\nfrom llmc import model as unused"
SOURCE_IN_C = '''k = r"""
void k()
{
    // ### BEGIN SOLUTION
    // why
    #pragma unroll
    x();
    // ### END SOLUTION
}
"""'''


def cell(source, kind="code", **metadata):
    made = {"cell_type": kind, "metadata": metadata, "source": source}
    return made | ({"outputs": [], "execution_count": 3} if kind == "code" else {})


@pytest.fixture
def root(tmp_path):
    """A course with one solution."""
    store(tmp_path / "notebooks" / "01_f.ipynb", cell("# 01 · F\n\n## 1 · Why f\n", "markdown"))
    store(tmp_path / "notebooks" / "02_g.ipynb", cell("# 02 · G", "markdown"))
    store(tmp_path / "solutions" / "01_f.ipynb", *solution())
    return tmp_path


def solution(section="1"):
    """Cells: title, one that exercises lack, set-up, task, answer, check, what it tests."""
    mark = {"exercise": "f", "role": "answer", "minutes": 5, "difficulty": 1, "section": section}
    return [
        cell("# Title", "markdown"),
        cell("secret", tags=["solution-only"]),
        cell(SETUP, llmc={}),
        cell("## 1 · Write f", "markdown"),
        cell(SOURCE, llmc=mark),
        cell('with check("f") as c, np.errstate():\n    f(1)', llmc={"exercise": "f", "role": "check"}),
        cell("**What the check tests.** All.", "markdown"),
    ]


def store(path, *cells):
    path.parent.mkdir(exist_ok=True)
    cells = [{**made, "id": f"cell-{number:02}"} for number, made in enumerate(cells)]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(notebook), encoding="utf-8")


def test_exercises_are_up_to_date():
    if not (ROOT / "solutions").is_dir():
        pytest.skip("needs a checkout")
    assert not builder.build(ROOT, check=True), "run `make exercises`"


def test_a_solution_becomes_a_stub_in_each_language():
    stub = builder.stub_source(SOURCE + SOURCE_IN_C, "here").split("\n")
    assert stub[2:4] == ["    # YOUR CODE HERE (about 2 lines)", "    raise NotImplementedError"]
    assert stub[7:9] == ["    // YOUR CODE HERE (about 2 lines)", "    #error not done yet"]
    assert stub[:2] + stub[4:7] + stub[9:] == [*SOURCE.split("\n")[:2], 'k = r"""', "void k()", "{", "}", '"""']


@pytest.mark.parametrize(
    "lines",
    [["### BEGIN SOLUTION"], ["### END SOLUTION"], ["### BEGIN SOLUTION"] * 2, ["// ### BEGIN SOLUTION"]],
)
def test_markers_without_partner_are_named(root, lines):
    store(root / "solutions" / "01_f.ipynb", *solution()[:2], cell("\n".join(lines)), *solution()[3:])
    with pytest.raises(UserError, match="01_f.ipynb, cell cell-02"):
        builder.build(root)
    assert not (root / "exercises").exists()


def test_build_is_idempotent_and_check_writes_nothing(root):
    target = root / "exercises" / "01_f.ipynb"
    assert builder.build(root, check=True) == [target] and not target.exists()
    assert builder.build(root) == [target]
    first = target.read_bytes()
    assert builder.build(root) == [] and builder.build(root, check=True) == []
    assert target.read_bytes() == first and first.endswith(b"}\n")
    built = json.loads(first)
    assert [c["cell_type"][0] for c in built["cells"]] == list("mcmccmm")
    assert built["cells"][1]["execution_count"] is None
    assert "secret" not in first.decode()


def test_a_check_imports_what_its_first_line_needs(root):
    check = builder.exercise_from(root / "solutions" / "01_f.ipynb").cells[4].source
    assert check.startswith("import numpy as np\nfrom llmc.course import check\n\nwith check")


def test_links_below_a_check_lead_to_lesson_solution_and_what_comes_next(root):
    more = [json.loads(json.dumps(made).replace('"f"', '"g"')) for made in solution()[3:]]
    more[0]["source"] = "## 2 · Now g"
    store(root / "solutions" / "01_f.ipynb", *solution(), *more)
    cells = builder.exercise_from(root / "solutions" / "01_f.ipynb").cells
    lesson, solution_, after = cells[6].source.split(" · **")
    assert lesson == "**Lesson:** [1 · Why f](../notebooks/01_f.ipynb#cell-id=cell-00)"
    assert solution_ == "Solution:** [f](../solutions/01_f.ipynb#cell-id=cell-04)"
    assert after == "Next exercise:** [2 · Now g](01_f.ipynb#cell-id=cell-07)"
    assert (cells[6].id, cells[7].id, cells[-1].id) == ("f-links", "cell-07", "g-links")
    assert cells[-1].source.endswith("**Next lesson:** [02_g](../notebooks/02_g.ipynb)")


@pytest.mark.parametrize("section", ["", "7"])
def test_an_exercise_names_a_section_of_its_lesson(root, section):
    store(root / "solutions" / "01_f.ipynb", *solution(section))
    with pytest.raises(UserError, match=f"no heading of the lesson begins with '{section}'; correct the") as caught:
        builder.build(root)
    assert "\n" not in str(caught.value)


def test_a_learners_work_is_not_overwritten(root):
    builder.build(root)
    target = root / "exercises" / "01_f.ipynb"
    notebook = notebooks.read(target)
    notebook.cells[3].source = "def f(x):\n    return x + 1"
    notebooks.write(target, notebook)
    mine = target.read_bytes()
    with pytest.raises(UserError, match="--force"):
        builder.build(root)
    assert target.read_bytes() == mine
    assert builder.build(root, force=True) == [target]


@pytest.fixture(scope="module")
def built():
    """{name of an exercise notebook: its cells of code}."""
    paths = sorted((ROOT / "solutions").glob("*.ipynb"))
    return {path.name: [c for c in builder.exercise_from(path).cells if c.cell_type == "code"] for path in paths}


def test_every_set_up_cell_brings_the_tools(built):
    """The first code cell imports glossary, hint and progress. Checks know by `hint` whether it has run."""
    for path, cells in built.items():
        names = {}
        exec(cells[0].source, names)
        assert {"glossary", "hint", "progress"} <= names.keys(), f"{path}: import them in the first code cell"


def test_after_a_restart_every_check_says_what_to_run_first(built, monkeypatch):
    monkeypatch.setattr("llmc.course.checks.exercise.EXERCISES", {})
    for made in [cell for cells in built.values() for cell in cells]:
        if made.metadata.get("llmc", {}).get("role") == "check":
            with pytest.raises(WrongAnswer, match="run the set-up cell at the top first"):
                exec(made.source, {})
