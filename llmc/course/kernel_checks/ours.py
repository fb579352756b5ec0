"""What should a launch leave? Our solution says it: as a model in Python where there is one, else as CUDA C."""

import ast
import copy
import time
from functools import lru_cache

import numpy as np

from llmc.course.exercises import layout
from llmc.course.exercises.catalog import cells_of
from llmc.course.kernel_checks import runs


def after_launch(exercise, model, kernel, sizes, arguments, how) -> list | None:
    """The arguments as our solution leaves them; None where there is no solution.

    model: a modelled.Model, or None. sizes: (grid, block). how: (indices of outputs, bytes of shared memory, options).
    """
    ours, (outputs, shared_mem, options) = copy.deepcopy(list(arguments)), how
    if model is not None:
        with np.errstate(all="ignore"):
            model.function(time.thread_time() + model.seconds)(*sizes, *ours)
        return ours
    code = source_of(exercise)
    if code is None:
        return None
    runs.emulate(code, kernel, *sizes, ours, outputs=outputs, shared_mem=shared_mem, options=options)
    return ours


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
