"""`python -m llmc.course.exercises.cells FILE…`: run a notebook's code cells, and store nothing. Status 1 if one fails.

With Jupyter installed they run in a kernel, as in JupyterLab. Without it they run in this process, as plain Python:
figures are drawn and thrown away, and `display` prints. So `make gpu-test` runs lessons on a machine without Jupyter.
"""

import ast
import json
import os
import sys
import traceback
import types
from importlib.util import find_spec
from pathlib import Path

from llmc.errors import UserError

JUPYTER = "nbclient", "nbformat", "ipykernel"


def has_jupyter() -> bool:
    """Is everything installed that starting a kernel needs?"""
    return all(find_spec(name) for name in JUPYTER)


def run(path) -> str:
    """What the cells printed. Raises UserError when one fails."""
    return _in_a_kernel(Path(path)) if has_jupyter() else _plainly(Path(path))


def _in_a_kernel(path) -> str:
    from llmc.course.exercises.notebooks import execute

    outputs = (output for cell in execute(path).cells for output in cell.get("outputs", []))
    return "".join(output.get("text", "") for output in outputs)


def _plainly(path) -> str:
    """In this process, in the notebook's folder."""
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    printed, names, here = Tee(), {"__name__": "__main__"}, os.getcwd()
    sys.modules.update(_stand_ins())
    before, sys.stdout = sys.stdout, printed
    os.chdir(path.resolve().parent)
    try:
        for number, cell in enumerate(cells, 1):
            _run_cell("".join(cell["source"]), f"{path.name}, cell {number}", names)
    finally:
        sys.stdout = before
        os.chdir(here)
    return printed.text


def _run_cell(source, place, names):
    """Run a cell; the value of its last line is rendered as Jupyter would, and thrown away."""
    import matplotlib.pyplot as plt

    try:
        tree = ast.parse(source, place)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, place, "exec"), names)
        if last is not None:
            _display(eval(compile(ast.Expression(last.value), place, "eval"), names))
    except Exception:
        raise UserError(f"{place} failed:\n{traceback.format_exc()}") from None
    finally:
        plt.close("all")


def _display(*values):
    """Render each value as HTML, where it can be, and print it as text."""
    for value in values:
        if value is not None:
            getattr(value, "_repr_html_", str)()
            print(repr(value))


class Tee:
    """Standard output that keeps what is printed instead of showing it."""

    text = ""

    def write(self, text):
        """Keep it."""
        self.text += text
        return len(text)

    def flush(self):
        """Nothing to do."""


def _stand_ins() -> dict:
    """The few parts of IPython that lessons import, for where it is not installed."""
    if sys.modules.get("IPython") or find_spec("IPython"):
        return {}
    module, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    module.get_ipython, module.version_info = (lambda: None), (8, 24)  # matplotlib asks for both
    module.display, display.display = display, _display
    display.HTML = display.Markdown = str
    return {"IPython": module, "IPython.display": display}


def main(paths) -> int:
    """Run each notebook; 1 when a cell failed, or a solution says that it is not done."""
    failed = 0
    for path in map(Path, paths):
        try:
            printed = run(path)
        except UserError as error:
            print(error, file=sys.stderr)
            failed = 1
            continue
        if path.resolve().parent.name == "solutions" and "not done yet" in printed.lower():
            print(f"{path.name}: a solution says that it is not done.", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
