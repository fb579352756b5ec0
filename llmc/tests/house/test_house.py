"""The rules of the house (.github/CONTRIBUTING.md) that can be checked by looking at the files and at `import llmc`."""

import json
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from llmc.course.authoring.wrapping import wrap
from llmc.course.exercises.catalog import SECTION, cells_of, exercises_of, section_link

ROOT = Path(__file__).resolve().parents[3]
TIME = re.compile(r"\*\*Time\*\* about (\d+) minutes")  # in a lesson's first cell
TOP_LEVEL = """README.md CHANGELOG.md CITATION.cff environment.yml pyproject.toml Makefile LICENSE notebooks exercises
    solutions data llmc docs
    .binder .ci .devcontainer .github .gitignore .gitattributes conftest.py""".split()
LESSONS = """00_start_here 01_layernorm 02_embeddings 03_matmul 04_gelu_residual 05_softmax_crossentropy 06_attention
    07_gpt2_model 08_tokens 09_adamw 10_training_loop 11_fast_on_cpu 12_first_kernels 13_reductions 14_backward_kernels
    15_matmul_kernels 16_attention_kernels 17_gpu_training 18_number_formats 19_tensor_cores
    20_mixed_precision_training 21_many_gpus 22_train_gpt2 23_sample_gpt2 24_evaluate_and_reproduce
    25_fp8_training""".split()
OPTIONAL = {"torch", "cupy", "numba", "matplotlib", "tiktoken", "tqdm", "IPython"}
MAGICS = {"matplotlib", "config", "timeit", "time"}  # an unknown one would pass under nbval; these always exist
# Written so that the pattern does not find itself here.
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|Users)/[\w.-]+/|(?<![\w.])/(?:root|work)/|\b[A-Za-z]:\\{1,2}(?:Users)\\")
EXEMPT = re.compile(r"^\s*#\s*(NBVAL|PYTEST_VALIDATE)_\w+", re.MULTILINE)


def tracked_files():
    """Paths that git tracks: a learner's own files among them are nobody's business."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True)
    if listing.returncode:
        pytest.skip("not a git checkout")
    names = [name for name in listing.stdout.decode().split("\0") if name]
    return [Path(name) for name in names if (ROOT / name).is_file()]


def notebooks(*folders):
    return [pytest.param(path, id=f"{path.parent.name}/{path.stem}") for f in folders for path in glob(f)]


def glob(folder):
    return sorted((ROOT / folder).glob("*.ipynb"))


def code_cells(path):
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


every_notebook = pytest.mark.parametrize("path", notebooks("notebooks", "solutions", "exercises"))
stored_notebook = pytest.mark.parametrize("path", notebooks("notebooks", "solutions"))


# ----- import ------------------------------------------------------------------------------------------------------


def fresh_import(module):
    """(seconds of processor time, optional libraries that came along) of `import module` in a new interpreter."""
    code = (
        f"import sys, time; start = time.process_time(); import {module}; print(time.process_time() - start, "
        f"*sorted({OPTIONAL} & sys.modules.keys()))"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    seconds, *came_along = run.stdout.split()
    return float(seconds), came_along


def test_import_is_quick():
    assert min(fresh_import("llmc")[0] for _ in range(3)) < 0.5


@pytest.mark.parametrize("module", ["llmc", "llmc.model", "llmc.cli"])
def test_import_needs_numpy_alone(module):
    assert fresh_import(module)[1] == []


# ----- files -------------------------------------------------------------------------------------------------------


def test_what_lies_at_the_top():
    assert sorted({path.parts[0] for path in tracked_files()}) == sorted(TOP_LEVEL)


def test_no_path_of_a_developer_machine():
    found = []
    for path in tracked_files():
        try:
            text = (ROOT / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # binary
        found += [f"{path.as_posix()}: {match[0]}" for match in MACHINE_PATH.finditer(text)]
    assert found == []


@pytest.mark.parametrize(
    "command", [["check", "--output-format=concise"], ["format", "--check"]], ids=["check", "format"]
)
def test_ruff(command):
    pytest.importorskip("ruff")
    run = subprocess.run([sys.executable, "-m", "ruff", *command], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, f"{run.stdout}{run.stderr}\nmend with: ruff check --fix . ; ruff format ."


def misspelt(*places):
    """What codespell says of these, as `make lint` runs it."""
    pytest.importorskip("codespell_lib")
    run = subprocess.run([sys.executable, "-m", "codespell_lib", *places], cwd=ROOT, capture_output=True, text=True)
    assert bool(run.stdout) == bool(run.returncode) and not run.stderr, run.stderr
    return run.stdout


def test_spelling():
    places = re.search(r"^SPELLED := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)[1]
    assert not misspelt(*(str(path) for place in places.split() for path in ROOT.glob(place)))


def test_spelling_is_that_of_a_notebooks_cells_and_not_of_what_they_print(tmp_path):
    typo = "wh" + "cih"
    code = nbformat.v4.new_code_cell(f"# {typo} line", outputs=[nbformat.v4.new_output("stream", text=typo)])
    cells = [code, nbformat.v4.new_markdown_cell(f"A cell\n{typo}")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "typos.ipynb")
    assert misspelt(str(tmp_path)).count(f"{typo} ==> which\n") == len(cells)


def test_readme_maps_all_lessons():
    """A lesson that exists: `| [01_x](notebooks/01_x.ipynb) | …`; one that does not yet: `| 02_y | … planned … |`."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| *\[?(\d\d_\w+)(\]\(\S+\))? *\|(.*)$", readme, re.MULTILINE)
    assert [name for name, _, _ in rows] == LESSONS
    for name, link, rest in rows:
        if (ROOT / "notebooks" / f"{name}.ipynb").exists():
            assert link == f"](notebooks/{name}.ipynb)", f"README's row of {name} must link to the notebook"
            assert "planned" not in rest, f"{name} exists; README calls it planned"
        else:
            assert not link and "planned" in rest, f"{name} does not exist; README must call it planned, without a link"


def test_readme_says_how_long_it_takes():
    """Each row has the minutes of the lesson's first cell and of its exercises; the first screen has their sum."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    reading = exercises = count = 0
    for name, row in re.findall(r"^\| \[(\d\d_\w+)\]\(\S+\) \|(.*)$", readme, re.MULTILINE):
        lesson, solution = ROOT / "notebooks" / f"{name}.ipynb", ROOT / "solutions" / f"{name}.ipynb"
        minutes = [int(TIME.search(cells_of(lesson)[0].source)[1])]
        if solution.exists():
            minutes.append(sum(exercise.minutes for exercise in exercises_of(solution, name)))
        assert f"| {' + '.join(map(str, minutes))} min |" in row, f"README's row of {name}: the notebooks say {minutes}"
        reading, exercises, count = reading + minutes[0], exercises + sum(minutes[1:]), count + 1
    said = re.search(r"about (\d+) hours for (\d+) lessons: (\d+) of reading .*?, (\d+) of ex", readme)
    hours = [(reading + exercises) / 60, reading / 60, exercises / 60]
    assert int(said[2]) == count
    assert all(abs(int(a) - b) <= 2 for a, b in zip((said[1], said[3], said[4]), hours)), hours


@pytest.mark.parametrize("path", notebooks("solutions"))
def test_an_exercise_takes_as_long_everywhere(path):
    """Minutes and difficulty: of the board, in the task's own heading, and the minutes in the lesson's list."""
    lesson, tasks, headings = cells_of(ROOT / "notebooks" / path.name)[-1].source, [], []
    for cell in cells_of(path):
        headings += re.findall(r"^## \d+ · .*\n\n\*(\d+) minutes · (●+)", cell.source)
        tasks += headings[-1:] if cell.mark.get("role") == "answer" else []
    exercises = exercises_of(path, path.stem)
    assert [(str(e.minutes), "●" * e.difficulty) for e in exercises] == tasks
    listed = [re.search(rf"`{e.name}`.*\| {e.minutes}\b", lesson, re.MULTILINE) for e in exercises]
    assert all(listed), [e.name for e, found in zip(exercises, listed) if not found]


def test_contributing_names_tests_that_exist():
    page = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "llmc" / "tests").rglob("test_*.py"))
    assert not [name for name in re.findall(r"`(test_\w+)`", page) if f"def {name}(" not in tests]
    assert not [name for name in re.findall(r"`(llmc/[\w/.]+)`", page) if not (ROOT / name).exists()]


# ----- notebooks ---------------------------------------------------------------------------------------------------


def test_names_are_the_curriculum():
    stems = {folder: {path.stem for path in glob(folder)} for folder in ("notebooks", "solutions", "exercises")}
    assert stems["notebooks"] and set().union(*stems.values()) <= set(LESSONS)
    assert stems["exercises"] == stems["solutions"] <= stems["notebooks"]


@every_notebook
def test_canonical(path):
    """What `python -m llmc.course.exercises.notebooks` writes, so that a diff shows what changed and nothing else."""
    data = path.read_bytes()
    assert len(data) < 1_500_000
    notebook = nbformat.reads(data.decode("utf-8"), as_version=4)
    nbformat.validate(notebook)
    assert data.decode("utf-8") == nbformat.writes(notebook).rstrip("\n") + "\n"
    assert notebook.metadata.kernelspec.name == "python3"
    assert code_cells(path), "a notebook without code tests nothing"


@every_notebook
def test_markdown_has_one_sentence_a_line(path):
    """So that a diff shows the sentence that changed, and nothing else."""
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            command = f"python -m llmc.course.authoring.wrapping {path.relative_to(ROOT)}"
            assert wrap(cell.source) == cell.source, f"cell {cell.id}: run `{command}`"


@pytest.mark.parametrize("path", notebooks("notebooks"))
def test_a_lesson_has_at_most_80_cells(path):
    assert len(nbformat.read(path, as_version=4).cells) <= 80


@every_notebook
def test_no_cell_is_exempt_from_failing(path):
    """Marks, shell lines and unknown magics are how a broken cell would pass under nbval."""
    for number, cell in enumerate(code_cells(path)):
        tags = [tag for tag in cell.metadata.get("tags", []) if tag.startswith(("nbval", "raises", "skip"))]
        assert not tags and not EXEMPT.search(cell.source), f"cell {number}: {tags or EXEMPT.search(cell.source)[0]}"
        assert not re.search(r"^\s*(!|.*= *!)", cell.source, re.MULTILINE), f"cell {number}: shell line"
        assert set(re.findall(r"^\s*%%?(\w+)", cell.source, re.MULTILINE)) <= MAGICS, f"cell {number}: unknown magic"


@pytest.mark.parametrize("path", notebooks("exercises"))
def test_exercises_have_no_outputs(path):
    filled = [i for i, cell in enumerate(code_cells(path)) if cell.outputs or cell.execution_count is not None]
    assert not filled, (
        f"{path.name}: cells {filled} hold outputs; is this your own work? Keep a copy, then `make exercises`"
    )


@stored_notebook
def test_outputs_are_of_one_clean_run(path):
    cells = code_cells(path)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), "run it with `make notebooks`"
    for number, output in ((number, output) for number, cell in enumerate(cells) for output in cell.outputs):
        assert output.output_type != "error", f"cell {number} stores an error"
        assert output.get("name") != "stderr", f"cell {number} stores stderr: {output.text[:200]}"
        assert "\r" not in output.get("text", ""), f"cell {number} stores a progress bar"
        assert "ipykernel_" not in json.dumps(output), f"cell {number} shows a path of the kernel's temporary folder"


@pytest.mark.parametrize("path", notebooks("solutions"))
def test_solutions_are_done(path):
    shown = json.dumps([cell.outputs for cell in code_cells(path)]).lower()
    assert "not done yet" not in shown


@every_notebook
def test_nothing_is_said_to_the_linter(path):
    """What a learner reads has no `# noqa`; pyproject.toml says what ruff lets pass in notebooks."""
    assert not [cell.id for cell in code_cells(path) if "noqa" in cell.source]


def named_sections():
    """(lesson's number, beginning of the heading, file that names it) for all code, notebooks and answers."""
    sources = [path for path in tracked_files() if path.suffix in (".py", ".ipynb") and "tests" not in path.parts]
    for path in sources:
        text = (ROOT / path).read_text(encoding="utf-8").replace("\\'", "'").replace('\\"', '"')
        yield from ((number, title, path.as_posix()) for number, title in SECTION.findall(text))


def test_every_section_that_is_named_exists():
    """`lesson 01, section "2 · Forward"` in a message becomes a link, which must lead somewhere.

    A title in braces is a variable of a lesson's exercises, for which test_answers.py looks.
    """
    named = set(named_sections())
    missing = [place for place in sorted(named) if place[1][0] not in "…{" and not section_link(*place[:2])]
    assert len(named) > 30 and not missing
