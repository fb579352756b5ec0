"""Links in a notebook that moves from the checkout into a learner's copy.

`../exercises/01_layernorm.ipynb` in a lesson becomes `exercises/exercise_01_layernorm.ipynb`, also in the copy,
and a link that shows the path shows the new one;
`../llmc/model.py` becomes the path from the copy to the checkout.
"""

import os
import re
from pathlib import Path, PurePosixPath
from urllib.parse import quote, unquote

from llmc.course.exercises.layout import place_in_copy
from llmc.errors import UserError

# Markdown's with what it shows, if that is a path; HTML's. No address or fragment.
LINK = re.compile(r'((?<=\[)[\w/.]+\.ipynb)?(\]\(|(?:href|src)=")(?![\w.+-]+:|[/#])([^)\s"#]+)')


def relinked(cell, inside: PurePosixPath, root: Path, copy: Path) -> dict:
    """The cell (a dict) of the notebook `inside` of the checkout `root`, with links that work in the copy."""

    def new(link):
        target = PurePosixPath(os.path.normpath(inside.parent / unquote(link[3])))
        if not (root / target).exists():  # no link, only brackets that look like one
            return link[0]
        place = place_in_copy(target)
        path = _way(copy / place_in_copy(inside).parent, copy / place if place else root / target)
        name = str(place) if place and link[1] == str(target) else link[1] or ""
        return name + link[2] + quote(path)

    if cell["cell_type"] == "markdown":
        return {**cell, "source": _lines(LINK.sub(new, "".join(cell["source"])))}
    return {**cell, "outputs": [_output(output, new) for output in cell["outputs"]]} if cell.get("outputs") else cell


def _output(output, new) -> dict:
    """The same for the tables of links that lesson 00 stores."""
    html = (output.get("data") or {}).get("text/html")
    if html is None:
        return output
    return {**output, "data": {**output["data"], "text/html": _lines(LINK.sub(new, "".join(html)))}}


def _lines(text) -> list[str]:
    return text.splitlines(keepends=True)


def _way(start: Path, target: Path) -> str:
    """The relative path from a folder to a file, with "/" on every system."""
    try:
        return Path(os.path.relpath(target, start)).as_posix()
    except ValueError as error:
        raise UserError(f"{start} is on a different drive from {target}; choose a folder on the same drive.") from error
