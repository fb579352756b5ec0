"""`llmc exercises grade`: what others have done, by running their notebooks again with the course's own check cells.

Each notebook runs in a kernel of its own, and each check draws new inputs. What passes is read from the progress file
of that run. It is the learners' code that runs: grade strangers' notebooks in a container.
"""

import tempfile
from contextlib import suppress
from pathlib import Path

from llmc.course.exercises import catalog, notebooks, own_files
from llmc.course.learner import journal
from llmc.course.learner.board import spelled
from llmc.errors import UserError

SECONDS = 300  # that a cell may take; then it is interrupted, and the next one runs


def grade(folder: Path, root: Path) -> str:
    """A table of the exercises that pass in the notebooks below the folder. Raises UserError where there are none."""
    rows, done, all_of_them = [], [], []
    for path in sorted(folder.rglob("*.ipynb")):
        lesson = path.stem.removeprefix("exercise_")
        solution = root / "solutions" / f"{lesson}.ipynb"
        theirs = catalog.exercises_of(path, lesson)
        if not theirs or not solution.is_file() or path.parent.name in ("solutions", ".ipynb_checkpoints"):
            continue
        exercises = catalog.exercises_of(solution, lesson)
        passed = passing(path, own_files.built(solution))
        right = [exercise for exercise in exercises if exercise.name in passed]
        missing = ", ".join(exercise.name for exercise in exercises if exercise not in right)
        rows.append(f"  {lesson:<28} {len(right)} of {len(exercises)}{f'   open: {missing}' if missing else ''}")
        done, all_of_them = done + right, all_of_them + exercises
    if not rows:
        raise UserError(f"there are no exercise notebooks in {folder}; give a learner's copy of the course.")
    minutes = [spelled(sum(exercise.minutes for exercise in some)) for some in (done, all_of_them)]
    rows.append(f"  {len(done)} of {len(all_of_them)} exercises, worth {minutes[0]} of {minutes[1]}")
    return "\n".join([folder.name, *rows])


def passing(path: Path, course: list) -> set:
    """Names of the exercises whose check passes. course: the cells of the exercise notebook as they are given."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from nbformat.v4 import new_code_cell

    notebook = notebooks.read(path)
    checks = {cell["metadata"]["llmc"]["exercise"]: cell["source"] for cell in course if _role(cell) == "check"}
    for cell in notebook.cells:
        if _role(cell) == "check":
            cell.source = "".join(checks.pop(cell.metadata.llmc.exercise, "pass"))
    notebook.cells += [new_code_cell("".join(source)) for source in checks.values()]  # those that somebody deleted
    with tempfile.TemporaryDirectory(prefix="llmc-grade-") as folder:
        progress = Path(folder, "progress.json")
        client = NotebookClient(
            notebook,
            timeout=SECONDS,
            interrupt_on_timeout=True,
            allow_errors=True,
            kernel_name=notebooks.KERNEL["name"],
            resources={"metadata": {"path": str(path.parent)}},
        )
        with suppress(CellTimeoutError, DeadKernelError):  # what has passed by then counts
            client.execute(env=notebooks.environment() | {"LLMC_PROGRESS": str(progress)})
        return set(journal.read(progress)["done"])


def _role(cell):
    return (cell["metadata"].get("llmc") or {}).get("role")
