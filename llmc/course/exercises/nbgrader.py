"""`llmc exercises export --nbgrader DIR`: the exercises as a course of nbgrader, which collects and grades notebooks.

DIR/source/01_layernorm/01_layernorm.ipynb holds our solutions. `nbgrader generate_assignment` puts the stubs of
exercises/ in their place, because DIR's settings name `preprocessors`: its own stub is always the same, and not CUDA C.
"""

import re
from pathlib import Path

from llmc.course.exercises import builder, catalog, notebooks
from llmc.course.exercises.additions import with_imports
from llmc.course.exercises.own_files import refuse_bad_place, write_bytes
from llmc.files.atomic_write import atomic_folder

PLAIN = {"schema_version": 3, "grade": False, "locked": False, "solution": False, "task": False}  # nbgrader's metadata
GRADED = PLAIN | {"grade": True, "locked": True}
LINK = re.compile(r"\[([^\]]+)\]\((?:\.\./|\d\d_)[^)]+\)")  # to files that the students do not have
CHECKS = "from llmc.course.authoring.graded import graded_check, graded_kernel_check"
SETTINGS = """# nbgrader's settings for this course, as `llmc exercises export` wrote them; change what you like.
from llmc.course.exercises.nbgrader import preprocessors
c.CourseDirectory.course_id = "llmc"
c.ExecutePreprocessor.timeout = 300  # seconds that a cell may take: some checks compile kernels, or measure
c.GenerateAssignment.preprocessors = preprocessors()  # stubs as in the course's exercises/
"""


def export(folder: Path, root: Path) -> str:
    """Write the course of the checkout `root` into a new folder; say how to go on. Raises UserError where it cannot."""
    refuse_bad_place(folder, root)
    solutions = sorted((root / "solutions").glob("*.ipynb"))
    with atomic_folder(folder) as temporary:
        for path in solutions:
            notebooks.write(temporary / "source" / path.stem / path.name, source_of(path))
        write_bytes(temporary / "nbgrader_config.py", SETTINGS.encode())
    return f"{folder} holds {len(solutions)} assignments; in it, run `nbgrader generate_assignment 00_start_here`."


def source_of(solution: Path):
    """The notebook, with answers, that becomes nbgrader's assignment. Points are minutes, as in `exercises grade`."""
    notebook = notebooks.read(solution)
    notebook.cells = [c for c in notebook.cells if builder.SOLUTION_ONLY not in c.metadata.get("tags", [])]
    setup = next(cell.source for cell in notebook.cells if cell.cell_type == "code")
    minutes = {exercise.name: exercise.minutes for exercise in catalog.exercises_of(solution, solution.stem)}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = LINK.sub(r"\1", cell.source)
            continue
        cell.outputs, cell.execution_count = [], None
        name, role = (cell.metadata.get("llmc", {}).get(key) for key in ("exercise", "role"))
        if role == "answer":
            cell.metadata["nbgrader"] = PLAIN | {"grade_id": name, "solution": True}
        elif role == "check":
            cell.source = with_imports(cell.source.replace("with ", "with graded_", 1), f"{setup}\n{CHECKS}")
            cell.metadata["nbgrader"] = GRADED | {"grade_id": f"{name}-check", "points": minutes[name]}
    return notebook


def preprocessors() -> list:
    """The steps of `nbgrader generate_assignment`, with our stubs. Needs nbgrader."""
    from nbgrader.converters import GenerateAssignment
    from nbgrader.preprocessors import ClearSolutions

    class Stubs(ClearSolutions):
        def preprocess_cell(self, cell, resources, cell_index):
            if builder.BEGIN not in cell.source:  # a cell that the teacher added
                return super().preprocess_cell(cell, resources, cell_index)
            cell.source = builder.stub_source(cell.source, f"cell {cell_index}")
            return cell, resources

    return [Stubs if s is ClearSolutions else s for s in GenerateAssignment.class_traits()["preprocessors"].default()]
