"""A learner's own folder: `llmc exercises start` and `update` bring what is new and never touch what was written."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from llmc.cli import main
from llmc.course import hint, progress
from llmc.course.exercises import notebooks, own_folder
from llmc.course.exercises.merging import fingerprints, merge
from llmc.course.exercises.own_folder import start, update
from llmc.course.learner import journal
from llmc.errors import UserError

ROOT = Path(__file__).resolve().parents[3]
HINTS = "".join(f"<details><summary>Hint {n}: title</summary>\n\ntext {n}\n</details>\n\n" for n in (1, 2, 3))
ANSWER = "def {0}(x):\n    ### BEGIN SOLUTION\n    return x\n    ### END SOLUTION"
TASK = "## 1 · Do {0}\n\nSee [the lesson](../notebooks/{1}.ipynb), [others](../exercises/02_g.ipynb).\n\n" + HINTS


def solution(name, lesson, task=TASK):
    """A solution notebook as a dict."""
    mark = {"exercise": name, "role": "answer", "minutes": 5, "difficulty": 1}
    code = {"cell_type": "code", "execution_count": 1, "outputs": []}
    cells = [
        {"cell_type": "markdown", "id": "task", "metadata": {}, "source": task.format(name, lesson)},
        {**code, "id": "answer", "metadata": {"llmc": mark}, "source": ANSWER.format(name)},
        {**code, "id": "check", "metadata": {"llmc": {"exercise": name, "role": "check"}}, "source": f"{name}(1)"},
    ]
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def write(path, notebook):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook), encoding="utf-8")


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def sources(path):
    return {cell["id"]: "".join(cell["source"]) for cell in read(path)["cells"]}


@pytest.fixture
def root(tmp_path):
    """A course with one lesson."""
    root = tmp_path / "course"
    write(root / "solutions" / "01_f.ipynb", solution("f", "01_f"))
    (root / "exercises").mkdir()
    (root / "exercises" / "AGENTS.md").write_text("Tutor.\n", encoding="utf-8")
    return root


@pytest.fixture
def mine(root, tmp_path):
    start(tmp_path / "my own", root)
    return tmp_path / "my own"


def edit(path, name, text, **more):
    """Change a cell as JupyterLab would."""
    notebook = read(path)
    for cell in notebook["cells"]:
        if cell["id"] == name:
            cell.update(source=text.splitlines(keepends=True), **more)
    write(path, notebook)


def change_course(root, **texts):
    """Other sources of cells in the course, by id."""
    path = root / "solutions" / "01_f.ipynb"
    for name, text in texts.items():
        edit(path, name, text)


# ------------------------------------------------------------------------------------------------------------ start


def test_start(mine, root):
    assert sorted(path.name for path in mine.iterdir()) == [".llmc-exercises.json", "01_f.ipynb", "AGENTS.md"]
    told = sources(mine / "01_f.ipynb")
    assert "(../course/notebooks/01_f.ipynb)" in told["task"] and "(02_g.ipynb)" in told["task"]
    assert told["answer"].endswith("raise NotImplementedError")
    assert notebooks.read(mine / "01_f.ipynb").metadata.kernelspec.name == "python3"
    assert not [path for path in mine.parent.iterdir() if path.name.endswith(".tmp")]


def test_start_inside_the_clone_is_hidden_from_git(root):
    told = start(root / "mine", root)
    assert (root / "mine" / ".gitignore").read_text(encoding="utf-8") == "*\n"
    assert "(../notebooks/01_f.ipynb)" in sources(root / "mine" / "01_f.ipynb")["task"]
    assert "make lab" in told[-1] and "mine/" in told[-1]


def test_start_brings_answers_from_exercises(root, tmp_path):
    worked_in = root / "exercises" / "01_f.ipynb"
    start(tmp_path / "first", root)
    write(worked_in, read(tmp_path / "first" / "01_f.ipynb"))
    edit(worked_in, "answer", "def f(x): return 2")
    told = start(tmp_path / "second", root)
    assert any("with the answers" in line for line in told)
    assert sources(tmp_path / "second" / "01_f.ipynb")["answer"] == "def f(x): return 2"


def test_an_empty_folder_will_do(root, tmp_path):
    (tmp_path / "empty").mkdir()
    start(tmp_path / "empty", root)
    assert (tmp_path / "empty" / "01_f.ipynb").exists()


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("my own", "holds your exercises already"),
        ("course", "is not empty"),
        ("course/solutions/01_f.ipynb", "is a file"),
        ("course/notebooks/mine", "belongs to the course"),
        ("my own/AGENTS.md/x", "cannot make"),
    ],
)
def test_start_refuses(mine, root, tmp_path, place, words):
    before = sorted(root.rglob("*")) + sorted(mine.rglob("*"))
    with pytest.raises(UserError, match=words) as caught:
        start(tmp_path / place, root)
    assert "\n" not in str(caught.value)
    assert before == sorted(root.rglob("*")) + sorted(mine.rglob("*"))


def test_start_leaves_nothing_behind_when_it_fails(root, tmp_path):
    write(root / "exercises" / "01_f.ipynb", {"cells": 3})
    with pytest.raises(UserError, match="01_f.ipynb is damaged"):
        start(tmp_path / "x", root)
    assert [path.name for path in tmp_path.iterdir()] == ["course"]


# ----------------------------------------------------------------------------------------------------------- update


def test_update_without_news_changes_no_byte(mine, root):
    edit(mine / "01_f.ipynb", "answer", "def f(x): return 2")
    before = (mine / "01_f.ipynb").read_bytes()
    assert "up to date" in update(mine, root)[0]
    assert (mine / "01_f.ipynb").read_bytes() == before


def test_update_keeps_answers_and_brings_texts(mine, root):
    path = mine / "01_f.ipynb"
    out = [{"output_type": "stream", "name": "stdout", "text": ["4"]}]
    edit(path, "answer", "def f(x): return 2", outputs=out)
    edit(path, "check", "f(1)", outputs=out)
    notebook = read(path)
    notebook["metadata"]["kernelspec"]["name"] = "my-kernel"
    own = {"cell_type": "markdown", "id": "own", "metadata": {"x": 1}, "source": "My notes."}
    notebook["cells"].insert(2, own)
    write(path, notebook)
    change_course(root, task="Another task.")
    write(root / "solutions" / "02_g.ipynb", solution("g", "02_g"))
    told = "\n".join(update(mine, root))
    assert "01_f: cells 1 updated, 2 kept." in told and "02_g: new." in told
    cells = read(path)["cells"]
    assert [cell["id"] for cell in cells] == ["task", "answer", "own", "check"]
    assert "".join(cells[0]["source"]) == "Another task." and cells[1]["source"] == ["def f(x): return 2"]
    assert cells[1]["outputs"] == cells[3]["outputs"] == out and cells[2] == own
    assert read(path)["metadata"]["kernelspec"]["name"] == "my-kernel"
    assert "up to date" in update(mine, root)[0]


def test_changed_by_both(mine, root):
    """The learner's stays and is named; deleting it brings the course's."""
    path = mine / "01_f.ipynb"
    edit(path, "check", "f(1)  # mine")
    change_course(root, check="f(2)")
    for _ in range(2):
        assert "01_f: the course changed cells that you had edited: check." in "\n".join(update(mine, root))
        assert sources(path)["check"] == "f(1)  # mine"
    notebook = read(path)
    notebook["cells"] = [cell for cell in notebook["cells"] if cell["id"] != "check"]
    write(path, notebook)
    assert "1 added" in update(mine, root)[0]
    assert sources(path)["check"] == "f(2)" and list(sources(path)) == ["task", "answer", "check"]


def test_a_deleted_cell_stays_away_until_it_changes(mine, root):
    path = mine / "01_f.ipynb"
    notebook = read(path)
    del notebook["cells"][0]
    write(path, notebook)
    assert "up to date" in update(mine, root)[0]
    change_course(root, task="News.")
    update(mine, root)
    assert list(sources(path)) == ["task", "answer", "check"]


def test_what_the_course_drops(mine, root):
    path = mine / "01_f.ipynb"
    notebook = read(root / "solutions" / "01_f.ipynb")
    del notebook["cells"][0]
    write(root / "solutions" / "01_f.ipynb", notebook)
    assert "1 removed" in update(mine, root)[0]
    assert list(sources(path)) == ["answer", "check"]


def test_without_its_memory_update_keeps_everything_that_differs(mine, root):
    (mine / ".llmc-exercises.json").write_text("{", encoding="utf-8")
    edit(mine / "01_f.ipynb", "answer", "def f(x): return 2")
    change_course(root, task="News.")
    update(mine, root)
    told = sources(mine / "01_f.ipynb")
    assert told["answer"] == "def f(x): return 2" and told["task"].startswith("## 1")


@pytest.mark.parametrize(
    ("notebook", "words"),
    [({"cells": [{"source": "x"}]}, "no ids"), ([], "damaged"), (None, "not made by")],
)
def test_update_refuses(mine, root, notebook, words):
    path = mine / "01_f.ipynb"
    change_course(root, task="News.")
    write(root / "solutions" / "00_g.ipynb", solution("g", "00_g"))
    if notebook is None:
        (mine / ".llmc-exercises.json").unlink()
    else:
        write(path, notebook)
    before = path.read_bytes()
    with pytest.raises(UserError, match=words) as caught:
        update(mine, root)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before and not (mine / "00_g.ipynb").exists()


def test_assistants_page(mine, root):
    source, target = root / "exercises" / "AGENTS.md", mine / "AGENTS.md"
    source.write_text("Tutor well.\n", encoding="utf-8")
    assert "AGENTS.md: updated." in update(mine, root)
    target.write_text("Mine.\n", encoding="utf-8")
    source.write_text("Tutor better.\n", encoding="utf-8")
    update(mine, root)
    assert target.read_text(encoding="utf-8") == "Mine.\n"


def test_merge_puts_own_cells_where_they_were():
    def cells(*ids):
        return [{"id": i, "cell_type": "code", "source": i, "metadata": {}} for i in ids]

    course = cells("a", "b", "c")
    merged = merge(cells("x", "a", "y", "z", "c"), cells("new", "a", "b", "c"), fingerprints(course))
    assert [cell["id"] for cell in merged.cells] == ["x", "new", "a", "y", "z", "c"]
    assert merged.added == ["new"] and merged.kept == ["x", "y", "z"] and not merged.updated


# ------------------------------------------------------------------------------------------------- the real course


@pytest.fixture
def real(tmp_path, monkeypatch):
    if not (ROOT / "solutions").is_dir():
        pytest.skip("needs a checkout")
    monkeypatch.setenv("LLMC_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setattr(journal, "_seen", {})
    assert main(["exercises", "start", str(tmp_path / "mine")]) == 0
    monkeypatch.chdir(tmp_path / "mine")
    return tmp_path / "mine"


def test_links_hints_and_progress_work_in_the_folder(real):
    for path in real.glob("*.ipynb"):
        for cell in read(path)["cells"]:
            for link in notebook_links(cell):
                assert (real / link).exists() or not (ROOT / "notebooks" / Path(link).name).exists(), f"{path}: {link}"
    assert "Hint 1: " in str(hint("layernorm_backward"))
    board = progress()
    assert f"Next: {board.next.name} in {board.next.lesson}.ipynb" in str(board)
    assert f'href="{board.next.lesson}.ipynb#' in board._repr_html_()


def notebook_links(cell):
    """Relative links to notebooks in a Markdown cell."""
    text = "".join(cell["source"]) if cell["cell_type"] == "markdown" else ""
    return [link.split("#")[0] for link in re.findall(r"\]\(([^):\s]+\.ipynb[^)\s]*)\)", text)]


def test_a_check_runs_in_the_folder(real):
    """As a kernel does: the current folder is the notebook's."""
    cells = [cell for cell in read(real / "01_layernorm.ipynb")["cells"] if cell["cell_type"] == "code"][:3]
    code = "\n".join("".join(cell["source"]) for cell in cells)  # setup, stub, check
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    pipes = {"capture_output": True, "encoding": "utf-8"}
    done = subprocess.run([sys.executable, "-c", code], cwd=real, env=environment, **pipes)
    assert done.returncode == 0 and "not done yet" in done.stdout, done.stderr


def test_command_line(real, capsys):
    assert main(["exercises", "update", "."]) == 0
    assert "this folder is up to date" in capsys.readouterr().out
    assert main(["progress"]) == 0
    assert "exercises done" in capsys.readouterr().out
    assert main(["exercises", "start", "."]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["exercises"]) == main(["exercises", "update"]) == 2


def test_agents_page_says_tutor():
    page = ROOT / "exercises" / own_folder.FOR_ASSISTANTS
    if not page.parent.is_dir():
        pytest.skip("needs a checkout")
    text = page.read_text(encoding="utf-8")
    assert "tutor" in text and "Do not solve" in text and len(text) < 4000
