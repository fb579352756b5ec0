"""The CUDA C of our solutions, where the checkout has them."""

import ast
from functools import lru_cache

from llmc.course.exercises import layout
from llmc.course.exercises.catalog import cells_of


@lru_cache
def source_of(exercise) -> str | None:
    """The CUDA C of an exercise's solution; None in a copy of the course without its solutions."""
    root = layout.checkout()
    for notebook in sorted((root / "solutions").glob("*.ipynb")) if root else []:
        for cell in cells_of(notebook):
            if cell.mark.get("role") == "answer" and cell.mark.get("exercise") == exercise:
                return _assigned(ast.parse(cell.source), exercise)
    return None


def _assigned(tree, name):
    """The text in `name = "…"`."""
    for line in tree.body:
        if isinstance(line, ast.Assign) and getattr(line.targets[0], "id", "") == name:
            return line.value.value if isinstance(line.value, ast.Constant) else None
    return None
