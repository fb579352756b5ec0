"""Notebooks as git likes them: `python -m llmc.course.exercises.notebooks run|format FILE…`

run      execute from top to bottom in the notebook's own folder, store the outputs (PNGs smaller), write canonical JSON
format   canonical JSON alone: sorted keys, stable cell ids, no timestamps, no versions of this machine

A notebook that raises, or writes to stderr, is left as it was.
"""

import argparse
import json
import os
import re
import sys
import time
from pathlib import Path

from llmc.course.figures.png import kept_metadata, make_small
from llmc.errors import UserError
from llmc.files.atomic_write import atomic_write
from llmc.files.checked_json import read_json
from llmc.terminal import path_variable

KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
KEPT = ("llmc", "tags", "jupyter")  # cell metadata that means something; the rest is what an editor left behind
LARGEST = 1_500_000  # bytes: more, and a code-hosting page refuses to draw the notebook
WIDGET = "application/vnd.jupyter.widget-view+json"  # shows only while its kernel lives
OUTPUTS = [{"data": ({"text/html": (str, [str], None)}, None)}]
CELL = {"id": (str, None), "cell_type": str, "metadata": dict, "source": (str, [str]), "outputs": (OUTPUTS, None)}
NOTEBOOK = {"cells": [CELL]}
SAVE_AGAIN = "save it again from JupyterLab"
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def read(path: Path):
    """The notebook in that file, canonical, in nbformat 4.5. Raises UserError when there is none."""
    import nbformat

    try:
        raw = read_json(path, NOTEBOOK, SAVE_AGAIN)
        _give_ids(raw["cells"])
        raw["nbformat"], raw["nbformat_minor"] = 4, 5
        notebook = canonical(nbformat.v4.reads(json.dumps(raw)))
        to_text(notebook)  # what cannot be written again is no notebook
        return notebook
    except (TypeError, AttributeError) as error:
        raise UserError(f"{path} is not a Jupyter notebook; {SAVE_AGAIN}.") from error


def write(path: Path, notebook):
    """Store in canonical form."""
    with atomic_write(path, "w") as file:
        file.write(to_text(notebook))


def to_text(notebook) -> str:
    """Canonical JSON (sorted keys, indent 1, newline at the end): one notebook, the same bytes on every machine."""
    import nbformat

    return nbformat.writes(notebook).rstrip("\n") + "\n"


def canonical(notebook):
    """Only metadata that means something, and no traces of time. Changes and returns the notebook."""
    notebook.metadata = {"kernelspec": dict(KERNEL), "language_info": {"name": "python"}}
    for cell in notebook.cells:
        cell.metadata = {key: cell.metadata[key] for key in KEPT if key in cell.metadata}
        for output in cell.get("outputs", []):
            if "metadata" in output:
                output.metadata = kept_metadata(output.metadata)
    return notebook


def _give_ids(cells):
    """A unique id for every cell: its own; its position where it has none; a number appended where it is a copy."""
    taken = set()
    for position, cell in enumerate(cells):
        wanted = name = cell.get("id") or f"cell-{position:02}"
        n = 2
        while name in taken:
            name, n = f"{wanted}-{n}", n + 1
        taken.add(name)
        cell["id"] = name


def execute(path: Path, timeout: float = 300):
    """Run all cells in the notebook's folder; return the notebook with its outputs. Raises UserError if one fails."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    notebook = read(path)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    client = NotebookClient(
        notebook,
        timeout=timeout,
        kernel_name=KERNEL["name"],
        resources={"metadata": {"path": str(Path(path).resolve().parent)}},
        record_timing=False,
        coalesce_streams=True,
        store_widget_state=False,
    )
    try:
        client.execute(env=environment())
    except CellExecutionError as error:
        raise UserError(f"{path} failed: {ANSI.sub('', str(error)).strip()}") from error
    except (CellTimeoutError, DeadKernelError) as error:
        raise UserError(f"{path} failed: {error}") from error
    _clean_outputs(path, notebook)
    for cell in notebook.cells:
        make_small(cell.get("outputs", []))
    return canonical(notebook)


def environment():
    """The kernel imports this llmc, even if it is not installed, sees this environment as activated, and draws inline.

    What a lesson says about a measurement must hold where its output is stored (`llmc.course.measure.finding`).
    """
    root = str(Path(__file__).resolve().parents[3])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    own = {"PYTHONPATH": path, "PATH": path_variable(), "VIRTUAL_ENV": sys.prefix, "LLMC_FINDINGS": "assert"}
    return {name: value for name, value in os.environ.items() if name != "MPLBACKEND"} | own


def _clean_outputs(path, notebook):
    """Drop dead widgets; refuse stderr and anything that names this machine's folders."""
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type != "code":
            continue
        cell.outputs = [output for output in cell.outputs if WIDGET not in output.get("data", {})]
        for output in cell.outputs:
            if output.get("name") == "stderr":
                raise UserError(f"{path}, cell {number}, writes to stderr: {output['text'].strip()[:500]}")
            if any(folder in json.dumps(output) for folder in _own_folders(path)):
                raise UserError(f"{path}, cell {number}, prints a path of this machine; print a relative one.")


def _own_folders(path):
    """The notebook's folder and the home folder as JSON spells them; a home of "/" tells nothing."""
    folders = [Path(path).resolve().parent, Path.home()]
    return [json.dumps(str(folder))[1:-1] for folder in folders if len(folder.parts) > 1]


def run(path: Path, timeout: float) -> str:
    """Execute the notebook and store it; return a line about it."""
    start = time.perf_counter()
    notebook = execute(path, timeout)
    size = len(to_text(notebook).encode())
    if size > LARGEST:
        raise UserError(f"{path} would be {size / 1e6:.1f} MB; draw fewer or smaller figures (1.5 MB is the limit).")
    write(path, notebook)
    return f"{path}: {len(notebook.cells)} cells, {time.perf_counter() - start:.1f} s, {size / 1000:.0f} kB"


def main(argv=None) -> int:
    """Command line; exit status 2 on bad input or a failing notebook."""
    about = __doc__.splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m llmc.course.exercises.notebooks", description=about)
    parser.add_argument("action", choices=("run", "format"))
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--timeout", type=float, default=300, help="seconds that one cell may take")
    options = parser.parse_args(argv)
    failed = False
    for path in options.files:
        try:
            if options.action == "run":
                print(run(path, options.timeout), flush=True)
            else:
                write(path, read(path))
        except UserError as error:
            print(f"llmc: {error}", file=sys.stderr)
            failed = True
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
