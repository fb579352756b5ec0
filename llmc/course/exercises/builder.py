"""solutions/NN_topic.ipynb -> exercises/NN_topic.ipynb: `llmc exercises build [--check]`.

Code between `### BEGIN SOLUTION` and `### END SOLUTION` becomes a stub; outputs, and cells tagged "solution-only", go.
Check cells get imports at their beginning, and links onward below them (additions.py). Everything else is the
same, so an exercise is solved by replacing its stubs and nothing else. In CUDA C, held in a string, the markers are
comments (`// ### BEGIN SOLUTION`), and the stub is one that no compiler accepts.
"""

import argparse
import sys
from pathlib import Path

from llmc.course.exercises import additions, notebooks
from llmc.course.exercises.layout import checkout
from llmc.course.exercises.stubs import STUB, STUB_IN_C
from llmc.errors import UserError
from llmc.terminal import llmc_command

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
STUBS = {"#": STUB, "//": STUB_IN_C}  # what begins a comment -> what fails until it is replaced
SOLUTION_ONLY = "solution-only"  # the tag of cells that exercises do not have


def stub_source(source: str, where: str) -> str:
    """The cell with each solution replaced by a stub. Raises UserError when the markers do not pair up."""
    kept, inside = [], None
    for line in source.split("\n"):
        comment = "//" if line.lstrip().startswith("//") else "#"
        marker = line.strip().removeprefix("//").lstrip()
        if (marker == BEGIN and inside is not None) or (marker == END and inside is None):
            raise UserError(f"{where}: {marker!r} without its partner; each {BEGIN!r} needs one {END!r} after it.")
        if marker == BEGIN:
            inside, indent = [], line[: len(line) - len(line.lstrip())]
        elif marker == END:
            kept += [f"{indent}{comment} YOUR CODE HERE ({_about(inside, comment)})", indent + STUBS[comment]]
            inside = None
        else:
            (kept if inside is None else inside).append(line)
    if inside is not None:
        raise UserError(f"{where}: {BEGIN!r} without its partner; each one needs {END!r} after it.")
    return "\n".join(kept)


def _about(lines, comment="#") -> str:
    """ "about 6 lines": what a learner should expect to write, not counting comments and blank lines."""
    count = sum(bool(line.strip()) and not line.strip().startswith(comment) for line in lines)
    return f"about {count} line{'s' * (count != 1)}"


def exercise_from(path: Path):
    """The exercise notebook for a solution file. Raises UserError when something in the solution is amiss."""
    notebook = notebooks.read(path)
    notebook.cells = [cell for cell in notebook.cells if SOLUTION_ONLY not in cell.metadata.get("tags", [])]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell in code:
        cell.source = stub_source(cell.source, f"{path}, cell {cell['id']}")
        cell.outputs, cell.execution_count = [], None
        if _mark(cell).get("role") == "check":
            cell.source = additions.with_imports(cell.source, code[0].source)
    _add_links(path, notebook)
    return notebook


def _add_links(path, notebook):
    """The links onward, in a cell of their own below each check and the sentence on what it tests."""
    from nbformat.v4 import new_markdown_cell

    for check in [cell for cell in notebook.cells if _mark(cell).get("role") == "check"]:
        name, place = _mark(check)["exercise"], notebook.cells.index(check) + 1
        if place < len(notebook.cells) and notebook.cells[place].source.startswith(additions.TESTS):
            place += 1
        links = new_markdown_cell(additions.links_below(path, name), id=f"{name.replace('_', '-')}-links")
        notebook.cells.insert(place, links)


def _mark(cell) -> dict:
    return cell.metadata.get("llmc", {})


def build(root: Path, check: bool = False, force: bool = False) -> list[Path]:
    """Write exercises/ from solutions/ below root; return the files that were not up to date. check: write nothing.

    Raises UserError rather than overwrite an exercise notebook that somebody has worked on, unless forced.
    """
    stale = []
    for source in sorted((root / "solutions").glob("*.ipynb")):
        target = root / "exercises" / source.name
        exercise = exercise_from(source)
        if target.exists() and target.read_bytes() == notebooks.to_text(exercise).encode():
            continue
        stale.append(target)
        if not check:
            if not force and target.exists() and worked_on(notebooks.read(target)):
                raise UserError(f"{target} holds answers or outputs; move it elsewhere, or overwrite it with --force.")
            notebooks.write(target, exercise)
    return stale


def worked_on(notebook) -> bool:
    """Has somebody run cells of this exercise notebook, or replaced a stub?"""
    for cell in notebook.cells:
        if cell.cell_type == "code" and (cell.outputs or cell.execution_count):
            return True
        stubs = sum(stub in cell.source for stub in STUBS.values())
        if _mark(cell).get("role") == "answer" and not stubs:
            return True
    return False


def main(argv=None) -> int:
    """`llmc exercises build [--check] [--force]`; exit status 1 when --check finds a difference."""
    parser = argparse.ArgumentParser(prog="llmc exercises", description="Make exercises/ from solutions/.")
    parser.add_argument("action", choices=("build",))
    parser.add_argument("--check", action="store_true", help="write nothing; say which exercises are not up to date")
    parser.add_argument("--force", action="store_true", help="overwrite exercises that somebody has worked on")
    options = parser.parse_args(argv)
    root = checkout()
    if root is None:
        raise UserError("the course is not here; run this inside a clone of it.")
    stale = build(root, options.check, options.force)
    for path in stale:
        what = f"is not up to date: run `{llmc_command('exercises', 'build')}`" if options.check else "written"
        print(f"{path.relative_to(root).as_posix()} {what}")
    if not stale:
        print("exercises/ is up to date.")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
