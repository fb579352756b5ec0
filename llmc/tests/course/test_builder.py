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


def test_solution_becomes_a_stub():
    stub = builder.stub_source(SOURCE, "here")
    assert stub.splitlines()[2:] == ["    # YOUR CODE HERE (about 2 lines)", "    raise NotImplementedError"]


def test_solution_in_c_becomes_a_stub_in_c():
    stub = builder.stub_source(SOURCE_IN_C, "here").split("\n")
    assert stub[3:5] == ["    // YOUR CODE HERE (about 2 lines)", "    #error not done yet"]
    assert stub[:3] + stub[5:] == ['k = r"""', "void k()", "{", "}", '"""']


def test_stubs_of_both_languages_are_nobodys_work(root):
    target = root / "01_f.ipynb"
    for source, worked in (("raise NotImplementedError", False), ("#error not done yet", False), ("x = 1", True)):
        mark = {"exercise": "f", "role": "answer", "minutes": 5, "difficulty": 1}
        cells = [cell(source, llmc=mark) | {"execution_count": None}]
        notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        target.write_text(json.dumps(notebook), encoding="utf-8")
        assert builder.worked_on(notebooks.read(target)) is worked


@pytest.mark.parametrize(
    "lines",
    [
        ["### BEGIN SOLUTION"],
        ["### END SOLUTION"],
        ["### BEGIN SOLUTION"] * 2,
        ["// ### BEGIN SOLUTION"],
        ["// ### END SOLUTION"],
    ],
)
def test_markers_without_partner_are_named(root, lines):
    path = root / "solutions" / "01_f.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    notebook["cells"][2]["source"] = "\n".join(lines)
    path.write_text(json.dumps(notebook), encoding="utf-8")
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
    assert (
        check == 'import numpy as np\nfrom llmc.course import check\n\nwith check("f") as c, np.errstate():\n    f(1)'
    )


def test_links_below_a_check(root):
    links = builder.exercise_from(root / "solutions" / "01_f.ipynb").cells[6]
    lesson, solution_, after = links.source.split(" · **")
    assert links.id == "f-links"
    assert lesson == "**Lesson:** [1 · Why f](../notebooks/01_f.ipynb#cell-id=cell-00)"
    assert solution_ == "Solution:** [f](../solutions/01_f.ipynb#cell-id=cell-04)"
    assert after == "Next lesson:** [02_g](../notebooks/02_g.ipynb)"


def test_links_lead_to_the_next_exercise(root):
    more = [json.loads(json.dumps(made).replace('"f"', '"g"')) for made in solution()[3:]]
    more[0]["source"] = "## 2 · Now g"
    store(root / "solutions" / "01_f.ipynb", *solution(), *more)
    cells = builder.exercise_from(root / "solutions" / "01_f.ipynb").cells
    assert cells[6].source.endswith("**Next exercise:** [2 · Now g](01_f.ipynb#cell-id=cell-07)")
    assert cells[7].source == "## 2 · Now g" and cells[7].id == "cell-07" and cells[-1].id == "g-links"


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


def test_replacing_stubs_gives_the_solution_back():
    """Solving an exercise means replacing its stubs: all else is the solution's, or the builder's own."""
    for path in sorted((ROOT / "solutions").glob("*.ipynb")):
        solution = {c["id"]: c for c in notebooks.read(path).cells}
        for made in builder.exercise_from(path).cells:
            if made["id"].endswith("-links"):
                continue
            source = solution[made["id"]].source
            if builder.BEGIN not in source:
                assert made.source == source or made.source.endswith("\n\n" + source)
                continue
            head, tail = source.split(builder.BEGIN)[0], source.split(builder.END)[-1]
            assert made.source.startswith(head)
            assert made.source.endswith(tuple(stub + tail for stub in builder.STUBS.values()))


def set_up_cells():
    for path in sorted((ROOT / "solutions").glob("*.ipynb")):
        yield path, next(c.source for c in builder.exercise_from(path).cells if c.cell_type == "code")


def test_every_set_up_cell_brings_the_tools():
    """The first code cell imports glossary, hint and progress. Checks know by `hint` whether it has run."""
    for path, source in set_up_cells():
        names = {}
        exec(source, names)
        assert {"glossary", "hint", "progress"} <= names.keys(), f"{path.name}: import them in the first code cell"


def test_after_a_restart_every_check_says_what_to_run_first():
    for path in sorted((ROOT / "solutions").glob("*.ipynb")):
        for made in builder.exercise_from(path).cells:
            if made.metadata.get("llmc", {}).get("role") == "check":
                with pytest.raises(WrongAnswer, match="run the set-up cell at the top first"):
                    exec(made.source, {})


def test_main_says_which_differ(root, monkeypatch, capsys):
    monkeypatch.setattr(builder, "checkout", lambda: root)
    assert builder.main(["build", "--check"]) == 1
    assert "exercises/01_f.ipynb is not up to date" in capsys.readouterr().out
    assert builder.main(["build"]) == 0 and builder.main(["build", "--check"]) == 0
