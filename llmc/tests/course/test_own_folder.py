"""A learner's own copy of the course: `llmc start` and `update` bring what is new and never touch what was written."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from llmc.cli import main
from llmc.course import hint, progress
from llmc.course.exercises import layout, notebooks, own_files
from llmc.course.exercises.own_folder import start, update
from llmc.course.learner import journal
from llmc.errors import UserError

ROOT = Path(__file__).resolve().parents[3]
HINTS = "".join(f"<details><summary>Hint {n}: title</summary>\n\ntext {n}\n</details>\n\n" for n in (1, 2, 3))
ANSWER = "def {0}(x):\n    ### BEGIN SOLUTION\n    return x\n    ### END SOLUTION"
TASK = "## 1 · Do {0}\n\nSee [the lesson](../notebooks/{1}.ipynb#cell-id=x), [the code](../llmc/a%20b.py).\n\n" + HINTS


def solution(name, lesson, task=TASK):
    """A solution notebook as a dict."""
    mark = {"exercise": name, "role": "answer", "minutes": 5, "difficulty": 1, "section": "1"}
    return as_notebook(
        {"cell_type": "markdown", "id": "task", "metadata": {}, "source": task.format(name, lesson)},
        {**code("answer", ANSWER.format(name)), "metadata": {"llmc": mark}},
        {**code("check", f"with {name}: 1"), "metadata": {"llmc": {"exercise": name, "role": "check"}}},
    )


def lesson(name):
    """A lesson as a dict: links, a cell that was run, a stored table of links."""
    task = f"[exercises/{name}.ipynb](../exercises/{name}.ipynb) ![x](images/x.png) [x](https://x/y) x[i](j) [this](#x)"
    text = {"cell_type": "markdown", "id": "text", "metadata": {}, "source": f"# {name}\n\n## 1 · It\n\n{task}"}
    data = {"text/html": [f'<a href="../llmc/a%20b.py">{name}</a>']}
    html = {"output_type": "display_data", "metadata": {}, "data": data}
    machine = {**code("machine", "doctor()"), "outputs": [html], "metadata": {"tags": ["this-machine"]}}
    return as_notebook(text, {**code("run", "2 + 2"), "outputs": [html]}, machine)


def code(name, source):
    return {"cell_type": "code", "id": name, "execution_count": 1, "outputs": [], "metadata": {}, "source": source}


def as_notebook(*cells):
    return {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def write(path, notebook):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook), encoding="utf-8")


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def sources(path):
    return {cell["id"]: "".join(cell["source"]) for cell in read(path)["cells"]}


def course_in(root):
    """A course with one lesson, in that folder."""
    write(root / "solutions" / "01_f.ipynb", solution("f", "01_f"))
    write(root / "notebooks" / "01_f.ipynb", lesson("01_f"))
    for name in ("notebooks/images/x.png", "llmc/a b.py", "exercises/AGENTS.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("Tutor.\n", encoding="utf-8")
    write(root / "exercises" / "01_f.ipynb", as_notebook(*own_files.built(root / "solutions" / "01_f.ipynb")))
    return root


@pytest.fixture
def root(tmp_path):
    return course_in(tmp_path / "the course")


@pytest.fixture
def mine(root, tmp_path):
    start(tmp_path / "my own", root)
    return tmp_path / "my own"


EXERCISE, LESSON, SOLUTION = "exercises/exercise_01_f.ipynb", "01_f.ipynb", "solutions/solution_01_f.ipynb"


def edit(path, name, text, **more):
    """Change a cell as JupyterLab would."""
    notebook = read(path)
    for cell in notebook["cells"]:
        if cell["id"] == name:
            cell.update(source=text.splitlines(keepends=True), **more)
    write(path, notebook)


def delete(path, name):
    """Delete a cell as JupyterLab would."""
    notebook = read(path)
    notebook["cells"] = [cell for cell in notebook["cells"] if cell["id"] != name]
    write(path, notebook)


def change_course(root, folder="solutions", **texts):
    """Other sources of cells in the course, by id."""
    for name, text in texts.items():
        edit(root / folder / "01_f.ipynb", name, text)


def run_all(path):
    """As JupyterLab saves a notebook that was run: outputs, counts, metadata of its own."""
    notebook = read(path)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell.update(outputs=[{"output_type": "stream", "name": "stdout", "text": ["mine"]}], execution_count=7)
    notebook["metadata"]["language_info"] = {"name": "python", "version": "3.99"}
    write(path, notebook)


def test_start(mine):
    files = {path.relative_to(mine).as_posix() for path in mine.rglob("*") if path.is_file()}
    assert files == {EXERCISE, LESSON, SOLUTION, "images/x.png", "AGENTS.md", ".llmc-course.json"}
    assert sources(mine / EXERCISE)["answer"].endswith("raise NotImplementedError")
    assert "### BEGIN SOLUTION" in sources(mine / SOLUTION)["answer"]
    assert notebooks.read(mine / EXERCISE).metadata.kernelspec.name == "python3"
    assert not [path for path in mine.parent.iterdir() if path.name.endswith(".tmp")]


def test_links_stay_in_the_copy_or_lead_to_the_checkout(mine):
    task = sources(mine / EXERCISE)["task"]
    assert "(../01_f.ipynb#cell-id=x)" in task and "(../../the%20course/llmc/a%20b.py)" in task
    assert sources(mine / EXERCISE)["f-links"].count("../solutions/solution_01_f.ipynb#cell-id=answer") == 1
    text = sources(mine / LESSON)["text"]
    assert f"[{EXERCISE}]({EXERCISE}) ![x](images/x.png) [x](https://x/y) x[i](j) [this](#x)" in text
    _, run, machine = read(mine / LESSON)["cells"]
    stored = run["outputs"][0]["data"]["text/html"]
    assert machine["outputs"] == [] and machine["execution_count"] is None
    assert "".join(stored) == '<a href="../the%20course/llmc/a%20b.py">01_f</a>'


def test_start_inside_the_clone_is_hidden_from_git(root):
    told = start(root / "mine", root)
    assert (root / "mine" / ".gitignore").read_text(encoding="utf-8") == "*\n"
    assert "(../../llmc/a%20b.py)" in sources(root / "mine" / EXERCISE)["task"]
    assert told[-1].endswith("llmc lab`.")


def test_start_brings_answers_from_the_checkout_which_updates_keep(root, tmp_path):
    edit(root / "exercises" / "01_f.ipynb", "answer", "def f(x): return 2")
    (tmp_path / "mine").mkdir()  # an empty folder will do
    told = start(tmp_path / "mine", root)
    assert any("with the answers" in line for line in told)
    change_course(root, task="Another task.")
    update(tmp_path / "mine", root)
    assert sources(tmp_path / "mine" / EXERCISE)["answer"] == "def f(x): return 2"


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("my own", "already holds a copy.*llmc update"),
        ("the course", "is not empty"),
        ("the course/solutions/01_f.ipynb", "is a file"),
        ("the course/notebooks/mine", "belongs to the course"),
        ("my own/AGENTS.md/x", "cannot write"),
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
    assert [path.name for path in tmp_path.iterdir()] == ["the course"]


def test_update_without_news_changes_no_byte(mine, root):
    edit(mine / EXERCISE, "answer", "def f(x): return 2")
    run_all(mine / LESSON)
    before = {path: path.read_bytes() for path in mine.rglob("*") if path.is_file()}
    assert "up to date" in update(mine, root)[0]
    assert before == {path: path.read_bytes() for path in mine.rglob("*") if path.is_file()}


def test_update_keeps_answers_and_brings_texts(mine, root):
    path = mine / EXERCISE
    out = [{"output_type": "stream", "name": "stdout", "text": ["4"]}]
    edit(path, "answer", "def f(x): return 2", outputs=out)
    edit(path, "check", sources(path)["check"], outputs=out)
    notebook = read(path)
    notebook["metadata"]["kernelspec"]["name"] = "my-kernel"
    own = {"cell_type": "markdown", "id": "own", "metadata": {"x": 1}, "source": "My notes."}
    notebook["cells"].insert(2, own)
    write(path, notebook)
    change_course(root, task="## Another task.")
    write(root / "solutions" / "02_g.ipynb", solution("g", "02_g"))
    write(root / "notebooks" / "02_g.ipynb", lesson("02_g"))
    told = "\n".join(update(mine, root))
    assert f"{EXERCISE}: cells 2 updated, 2 kept." in told  # the task, and the link to the next lesson
    assert f"New from the course: 02_g.ipynb, exercises/exercise_02_g.ipynb, {SOLUTION}" in told
    cells = read(path)["cells"]
    assert [cell["id"] for cell in cells] == ["task", "answer", "own", "check", "f-links"]
    assert "".join(cells[0]["source"]) == "## Another task." and cells[1]["source"] == ["def f(x): return 2"]
    assert cells[1]["outputs"] == cells[3]["outputs"] == out and cells[2] == own
    assert read(path)["metadata"]["kernelspec"]["name"] == "my-kernel"
    assert "up to date" in update(mine, root)[0]


@pytest.mark.parametrize("edited", [False, True])
def test_a_lesson_that_was_run_becomes_the_courses_and_one_that_was_edited_keeps_the_edits(mine, root, edited):
    run_all(mine / LESSON)
    if edited:
        edit(mine / LESSON, "run", "2 + 3")
    change_course(root, "notebooks", text="# 01\n\n## 1 · It\n\nNews.")
    told = update(mine, root)
    assert (f"{LESSON}: cells 1 updated, 1 kept." if edited else "New from the course: 01_f.ipynb.") in told
    assert "News." in sources(mine / LESSON)["text"] and (sources(mine / LESSON)["run"] == "2 + 3") == edited
    assert ("mine" in (mine / LESSON).read_text(encoding="utf-8")) == edited


def test_changed_by_both_stays_until_it_is_deleted(mine, root):
    path = mine / EXERCISE
    edit(path, "check", "f(1)  # mine")
    change_course(root, check="with f: 2")
    for _ in range(2):
        told = "\n".join(update(mine, root))
        assert f"{EXERCISE}: the course changed cells that you had edited: check. Yours are kept;" in told
        assert sources(path)["check"] == "f(1)  # mine"
    delete(path, "check")
    update(mine, root)
    assert sources(path)["check"].endswith("with f: 2")
    assert list(sources(path)) == ["task", "answer", "check", "f-links"]


def test_a_deleted_cell_stays_away_until_it_changes_and_what_the_course_drops_goes(mine, root):
    delete(mine / EXERCISE, "task")
    assert "up to date" in update(mine, root)[0]
    change_course(root, task="## News.")
    update(mine, root)
    assert list(sources(mine / EXERCISE)) == ["task", "answer", "check", "f-links"]
    delete(root / "solutions" / "01_f.ipynb", "task")
    assert EXERCISE in update(mine, root)[0]
    assert list(sources(mine / EXERCISE)) == ["answer", "check", "f-links"]


def test_without_its_memory_update_keeps_everything_that_differs(mine, root):
    (mine / layout.MARKER).write_text("{", encoding="utf-8")
    edit(mine / EXERCISE, "answer", "def f(x): return 2")
    change_course(root, task="News.")
    update(mine, root)
    told = sources(mine / EXERCISE)
    assert told["answer"] == "def f(x): return 2" and told["task"].startswith("## 1")


@pytest.mark.parametrize(
    ("notebook", "words"),
    [({"cells": [{"source": "x"}]}, r"cells\[0\]"), ([], "damaged"), (None, "is not a copy of the course; make one")],
)
def test_update_refuses(mine, root, notebook, words):
    path = mine / EXERCISE
    change_course(root, task="News.")
    write(root / "solutions" / "00_g.ipynb", solution("g", "00_g"))
    write(root / "notebooks" / "00_g.ipynb", lesson("00_g"))
    if notebook is None:
        (mine / layout.MARKER).unlink()
    else:
        write(path, notebook)
    before = path.read_bytes()
    with pytest.raises(UserError, match=words) as caught:
        update(mine, root)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before and not (mine / "00_g.ipynb").exists()


@pytest.mark.parametrize("name", ["AGENTS.md", "images/x.png"])
def test_other_files_follow_the_course_until_they_are_changed(mine, root, name):
    source = root / ("exercises/AGENTS.md" if name == "AGENTS.md" else "notebooks/images/x.png")
    source.write_text("Tutor well.\n", encoding="utf-8")
    assert f"New from the course: {name}." in update(mine, root)
    (mine / name).write_text("Mine.\n", encoding="utf-8")
    source.write_text("Tutor better.\n", encoding="utf-8")
    update(mine, root)
    assert (mine / name).read_text(encoding="utf-8") == "Mine.\n"


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the course as it is."""
    if not (ROOT / "solutions").is_dir():
        pytest.skip("needs a checkout")
    folder = tmp_path_factory.mktemp("copy") / "mine"
    assert main(["start", str(folder)]) == 0
    return folder


@pytest.fixture
def real(copy, tmp_path, monkeypatch):
    monkeypatch.setenv("LLMC_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setattr(journal, "_seen", {})
    monkeypatch.chdir(copy)
    return copy


def test_every_link_of_the_real_course_leads_somewhere(real):
    """In the copy as in the checkout; what the lessons read lies in it too."""
    found = [(path, link) for path in real.rglob("*.ipynb") for cell in read(path)["cells"] for link in links(cell)]
    assert len(found) > 300
    assert not [(path.name, link) for path, link in found if not (path.parent / unquote(link)).exists()]
    inside = {path.relative_to(ROOT / "notebooks").parts[0] for path in (ROOT / "notebooks").rglob("*.*")}
    assert {name for name in inside if "." not in name} == set(layout.FOR_LESSONS)


def links(cell):
    """Relative links in a Markdown cell."""
    text = "".join(cell["source"]) if cell["cell_type"] == "markdown" else ""
    text = re.sub(r"```.*?```|`[^`]*`|\$[^$]*\$", "", text, flags=re.DOTALL)  # code and formulas have brackets too
    return [link.split("#")[0] for link in re.findall(r"\]\(([^):\s#][^):\s]*)\)", text)]


def test_hints_and_progress_work_in_the_copy(real, monkeypatch):
    monkeypatch.chdir(real / "exercises")
    assert "Hint 1: " in str(hint("layernorm_backward"))
    board = progress()
    assert f"Next: {board.next.name} in exercise_{board.next.lesson}.ipynb" in str(board)
    assert f'href="exercise_{board.next.lesson}.ipynb#' in board._repr_html_()


def test_a_check_runs_in_the_copy(real):
    """As a kernel does: the current folder is the notebook's."""
    path = real / "exercises" / "exercise_01_layernorm.ipynb"
    cells = [cell for cell in read(path)["cells"] if cell["cell_type"] == "code"][:3]
    source = "\n".join("".join(cell["source"]) for cell in cells)  # set-up, stub, check
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    pipes = {"capture_output": True, "encoding": "utf-8"}
    done = subprocess.run([sys.executable, "-c", source], cwd=path.parent, env=environment, **pipes)
    assert done.returncode == 0 and "not done yet" in done.stdout, done.stderr


def test_command_line(real, capsys):
    assert main(["exercises", "update", "--no-pull"]) == 0
    assert "is up to date" in capsys.readouterr().out
    assert main(["progress"]) == 0
    assert "exercises done" in capsys.readouterr().out
    assert main(["start", "."]) == main(["exercises", "start", "."]) == 2
    assert capsys.readouterr().err.count("\n") == 2
    assert main(["exercises"]) == main(["start"]) == 2


def test_the_copy_is_found(real, monkeypatch, root):
    """From within; from the checkout's top when it lies there; not from the checkout's own folders."""
    monkeypatch.chdir(real / "exercises")
    assert layout.own_copy() == real
    start(root / "mine", root)
    monkeypatch.setattr(layout, "checkout", lambda: root)
    for folder, copy in ((root, root / "mine"), (root / "notebooks", None), (root.parent, root / "mine")):
        monkeypatch.chdir(folder)
        assert layout.own_copy() == copy
