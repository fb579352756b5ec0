"""How a mistake is explained: an exception that is only its explanation, and sentences that several checks share.

A notebook shows `WrongAnswer` without a traceback, because none of its lines would be the learner's. Everywhere else it
is an ordinary AssertionError with the same text.
"""

import linecache
import os
import re
import sys
from html import escape
from itertools import groupby

import numpy as np

from llmc.course.exercises.catalog import SECTION, section_link
from llmc.terminal import in_notebook

BOLD, PLAIN = "\x1b[1m", "\x1b[0m"  # red would be hard to read on the pink that JupyterLab puts behind errors
HEAD = re.compile(r"✗ (\w+): ")  # how the message of a check begins
# JupyterLab breaks the lines of an error in the middle of words; these it breaks between them, and tables nowhere.
STYLE = "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,13px);padding-left:8px;"
STYLE += "white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere"
TABLE = "white-space:pre;overflow-x:auto"


class Named(str):
    """A message that names the mistake: only a change that leaves something out, or moves a line, may be added to it.

    Others that pass the check, too, would make up for the mistake elsewhere.
    """


class WrongAnswer(AssertionError):
    """A check found a mistake; the message says which one, and where to look.

    picture: a `heatmap.Picture` of where an array is wrong; below the message in a notebook, inside it elsewhere.
    explained: does the message show the cause? Then no change is searched for that happens to pass the check, too.
    """

    def __init__(self, message="", picture=None, explained=False):
        super().__init__(message)
        self.message, self.picture, self.explained = str(message), picture, explained
        self._shown = False

    def __str__(self):
        return "\n".join(filter(None, [self.message, self.picture and self.picture.text()]))

    def _render_traceback_(self, *unused):
        """What IPython shows instead of a traceback: the exercise's name; the message follows as HTML, with links."""
        if not self._shown:  # IPython asks more than once
            self._shown = show_after_cell(self._repr_html_(), str(self))
        name = HEAD.match(self.message)
        if self._shown:
            return [f"{BOLD}✗ {name[1] if name else 'not right yet'}{PLAIN}"]
        first, *rest = str(self).splitlines()
        return [f"{BOLD}{first}{PLAIN}", *rest]

    def _repr_html_(self):
        """The message, its first line in bold, sections of lessons as links; then the picture."""
        first, *rest = HEAD.sub("", self.message, count=1).splitlines() or [""]
        parts = [f"<div><b>{_linked(first)}</b></div>"]
        for table, lines in groupby(rest, key=lambda line: line.startswith("    ")):
            html = "\n".join(map(escape if table else _linked, lines))
            parts.append(f'<div style="{TABLE}">{html}</div>' if table else f"<div>{html}</div>")
        text = f'<div class="mathjax_ignore" style="{STYLE}">{"".join(parts)}</div>'  # else two dollars are a formula
        return text + (self.picture.html() if self.picture else "")


def _linked(line) -> str:
    """HTML of a line; `lesson 01, section "2 · Forward"` opens that section where it is found."""
    pieces, end = [], 0
    for match in SECTION.finditer(line):
        target, words = section_link(*match.groups()), escape(match[0])
        pieces += [escape(line[end : match.start()]), f'<a href="{escape(target)}">{words}</a>' if target else words]
        end = match.end()
    return "".join([*pieces, escape(line[end:])])


def show_after_cell(html, text) -> bool:
    """Show HTML (or plain text) below everything that the running cell prints; False where nobody would see it.

    That is outside of notebooks, and under pytest, whose report has the error and no other output.
    """
    if not in_notebook() or "PYTEST_VERSION" in os.environ:
        return False
    from IPython.display import display

    events = sys.modules["IPython"].get_ipython().events

    def show(result=None):
        events.unregister("post_run_cell", show)
        display({"text/html": html, "text/plain": text}, raw=True)

    events.register("post_run_cell", show)
    return True


def stopped(sentence) -> str:
    """With a full stop, unless it is a question."""
    return sentence if sentence.endswith("?") else sentence + "."


def describe(value) -> str:
    """What a learner needs to know about a value: "(3, 5, 7) float64" for an array, "None", "a list of 3", "0.1"."""
    if isinstance(value, np.ndarray):
        return f"{value.shape} {value.dtype}"
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, np.random.Generator):
        return "(a generator)"
    text = repr(value)
    return text if len(text) <= 40 else f"a {type(value).__name__}"


def describe_result(value) -> str:
    """The same for what a function returned; a tuple's parts are listed: "2 values: (3, 5) float64; None"."""
    if isinstance(value, tuple):
        return f"{len(value)} values: " + "; ".join(describe(item) for item in value)
    return describe(value)


def source_line(filename: str, number: int) -> str:
    """That line of a file or notebook cell, stripped; empty when the source is not known."""
    return linecache.getline(filename, number).strip()


def arrays_in(line: str, variables: dict) -> str:
    """Shapes of the arrays that a source line names, and what is None: "x (3, 5, 7), mean (3, 5), b None"."""
    names = dict.fromkeys(re.findall(r"[A-Za-z_]\w*", line))  # each once, in the order of the line
    values = [(name, variables[name]) for name in names if name in variables]
    found = [(name, value) for name, value in values if value is None or isinstance(value, np.ndarray)]
    return ", ".join(f"{name} {getattr(value, 'shape', None)}" for name, value in found)


def listed(names, many=6) -> str:
    """ "dx, dw and db"; of more than `many` only how many they are."""
    if len(names) > many:
        return f"{len(names)} other results"
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
