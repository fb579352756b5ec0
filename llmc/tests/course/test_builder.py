"""Solutions to exercises: stubs, markers, byte-identical output, and no learner's work overwritten."""

import json
from pathlib import Path

import pytest

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
    mark = {"exercise": "f", "role": "answer", "minutes": 5, "difficulty": 1}
    cells = [cell("# Title", "markdown"), cell("secret", tags=["solution-only"]), cell(SOURCE, llmc=mark)]
    (tmp_path / "solutions").mkdir()
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "solutions" / "01_f.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    return tmp_path


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
    assert [c["cell_type"] for c in built["cells"]] == ["markdown", "code"]
    assert built["cells"][1]["execution_count"] is None
    assert "secret" not in first.decode()


def test_a_learners_work_is_not_overwritten(root):
    builder.build(root)
    target = root / "exercises" / "01_f.ipynb"
    notebook = notebooks.read(target)
    notebook.cells[1].source = "def f(x):\n    return x + 1"
    notebooks.write(target, notebook)
    mine = target.read_bytes()
    with pytest.raises(UserError, match="--force"):
        builder.build(root)
    assert target.read_bytes() == mine
    assert builder.build(root, force=True) == [target]


def test_replacing_stubs_gives_the_solution_back():
    """Solving an exercise means replacing its stubs: every other line of code is the solution's."""
    for path in sorted((ROOT / "solutions").glob("*.ipynb")):
        solution = {c["id"]: c for c in notebooks.read(path).cells}
        for made in builder.exercise_from(path).cells:
            source = solution[made["id"]].source
            if builder.BEGIN not in source:
                assert made.source == source
                continue
            head, tail = source.split(builder.BEGIN)[0], source.split(builder.END)[-1]
            assert made.source.startswith(head)
            assert made.source.endswith(tuple(stub + tail for stub in builder.STUBS.values()))


def test_main_says_which_differ(root, monkeypatch, capsys):
    monkeypatch.setattr(builder, "checkout", lambda: root)
    assert builder.main(["build", "--check"]) == 1
    assert "exercises/01_f.ipynb is not up to date" in capsys.readouterr().out
    assert builder.main(["build"]) == 0 and builder.main(["build", "--check"]) == 0
