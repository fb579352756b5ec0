"""What the builder adds to every exercise, so that no author can forget it.

- To a check cell the imports of its first line. So after a restart of the kernel, the check starts even when
  nothing else has run yet, and says what to run first; a NameError would not.
- Below a check the links onward: the lesson's section, the solution, the next exercise.
"""

import ast
from pathlib import Path

from llmc.course.exercises.catalog import cells_of, section
from llmc.course.exercises.layout import link
from llmc.errors import UserError

TESTS = "**What the check tests."  # how the cell below a check begins; the links come after it


def with_imports(source: str, setup: str) -> str:
    """The check cell with those imports of the set-up cell that the names in its `with` line need."""
    statement = ast.parse(source).body[0]  # `with check("…") as c:`
    used = {node.id for item in statement.items for node in ast.walk(item.context_expr) if isinstance(node, ast.Name)}
    lines = []
    for imported in ast.parse(setup).body:
        if isinstance(imported, ast.Import | ast.ImportFrom):
            imported.names = [alias for alias in imported.names if (alias.asname or alias.name) in used]
            lines += [ast.unparse(imported)] * bool(imported.names)
    return "\n".join([*lines, "", source])


def links_below(solution: Path, exercise: str) -> str:
    """The text of the cell below a check. Raises UserError when the exercise does not name a section of its lesson."""
    cells = cells_of(solution)
    answer = next(cell for cell in cells if cell.mark.get("exercise") == exercise and cell.mark["role"] == "answer")
    links = [
        f"**Lesson:** {_section(solution, answer)}",
        f"**Solution:** [{exercise}]({link(f'../solutions/{solution.name}', answer.id)})",
        *_next(solution, cells[cells.index(answer) + 1 :]),
    ]
    return " · ".join(links)


def _section(solution, answer) -> str:
    """A link to the section that the answer's metadata names by the beginning of its heading."""
    lesson, beginning = solution.parents[1] / "notebooks" / solution.name, answer.mark.get("section", "")
    found = section(lesson, beginning) if beginning else None
    if found is None:
        raise UserError(
            f'{solution}: no heading of the lesson begins with {beginning!r}; correct the "section" in the metadata of'
            f' the cell {answer.id}, for example to "3.1".'
        )
    return f"[{found.heading}]({link(f'../notebooks/{solution.name}', found.cell)})"


def _next(solution, behind) -> list[str]:
    """A link to the task of the next exercise, or, at the end, to the next lesson. behind: the cells after it."""
    if any(cell.mark.get("role") == "answer" for cell in behind):
        task = next(cell for cell in behind if cell.kind == "markdown" and cell.source.startswith("## "))
        heading = task.source.splitlines()[0].removeprefix("## ")
        return [f"**Next exercise:** [{heading}]({link(solution.name, task.id)})"]
    lessons = sorted((solution.parents[1] / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    names = [path.name for path in lessons if path.name > solution.name]
    return [f"**Next lesson:** [{name.removesuffix('.ipynb')}]({link(f'../notebooks/{name}')})" for name in names[:1]]
