"""How a mistake is told: an exception that is only its explanation, and the few sentences that several checks share.

A notebook shows `WrongAnswer` without a traceback, because none of the lines in it would be the learner's. Everywhere
else it is an ordinary AssertionError with the same text.
"""

import linecache
import re
import sys

import numpy as np

BOLD, PLAIN = "\x1b[1m", "\x1b[0m"  # red would be hard to read on the pink that JupyterLab puts behind errors


class WrongAnswer(AssertionError):
    """A check found a mistake; the message says which and where to look.

    picture: a `heatmap.Picture` of where an array is wrong; below the message in a notebook, in it elsewhere.
    """

    def __init__(self, message="", picture=None):
        super().__init__(message)
        self.message, self.picture = str(message), picture
        self._drawn = False

    def __str__(self):
        return self.message if self.picture is None else f"{self.message}\n{self.picture.text()}"

    def _render_traceback_(self, *unused):
        """What IPython shows instead of a traceback: the message, its first line in bold."""
        if self.picture is not None and not self._drawn:  # IPython asks more than once
            self._drawn = show_after_cell(self.picture.html())
        first, *rest = (self.message if self._drawn else str(self)).splitlines()
        return [f"{BOLD}{first}{PLAIN}", *rest]


def show_after_cell(html) -> bool:
    """Show HTML below what the running cell of a notebook has said so far; False where no notebook would see it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if getattr(shell, "kernel", None) is None:
        return False
    from IPython.display import HTML, display

    def show(result=None):
        shell.events.unregister("post_run_cell", show)
        display(HTML(html))

    shell.events.register("post_run_cell", show)
    return True


def describe(value) -> str:
    """What a learner needs to know of a value: "(3, 5, 7) float64" for an array, "None", "a list of 3", "0.1"."""
    if isinstance(value, np.ndarray):
        return f"{value.shape} {value.dtype}"
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, np.random.Generator):
        return "(a generator)"
    text = repr(value)
    return text if len(text) <= 40 else f"a {type(value).__name__}"


def describe_result(value) -> str:
    """The same for what a function returned; a tuple is opened: "2 values: (3, 5) float64; None"."""
    if isinstance(value, tuple):
        return f"{len(value)} values: " + "; ".join(describe(item) for item in value)
    return describe(value)


def source_line(filename: str, number: int) -> str:
    """That line of a file or notebook cell, stripped; empty when the source is not known."""
    return linecache.getline(filename, number).strip()


def arrays_in(line: str, variables: dict) -> str:
    """Shapes of the arrays that a source line names: "x (3, 5, 7), mean (3, 5)"."""
    names = dict.fromkeys(re.findall(r"[A-Za-z_]\w*", line))  # each once, in the order of the line
    found = [(name, variables[name]) for name in names if isinstance(variables.get(name), np.ndarray)]
    return ", ".join(f"{name} {array.shape}" for name, array in found)
