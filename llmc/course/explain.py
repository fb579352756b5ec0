"""How a mistake is told: an exception that is only its explanation, and the few sentences that several checks share.

A notebook shows `WrongAnswer` without a traceback, because none of the lines in it would be the learner's. Everywhere
else it is an ordinary AssertionError with the same text.
"""

import linecache
import re

import numpy as np

BOLD, PLAIN = "\x1b[1m", "\x1b[0m"  # red would be hard to read on the pink that JupyterLab puts behind errors


class WrongAnswer(AssertionError):
    """A check found a mistake; the message says which and where to look."""

    def _render_traceback_(self, *unused):
        """What IPython shows instead of a traceback: the message, its first line in bold."""
        first, *rest = str(self).splitlines()
        return [f"{BOLD}{first}{PLAIN}", *rest]


def describe(value) -> str:
    """What a learner needs to know of a value: "(3, 5, 7) float64" for an array, "None", "a list of 3", "0.1"."""
    if isinstance(value, np.ndarray):
        return f"{value.shape} {value.dtype}"
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
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
