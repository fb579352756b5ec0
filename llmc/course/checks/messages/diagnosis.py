"""What a check says about a wrong answer: a Diagnosis, made of values, which is put into words once, here, at the end.

    ✗ layernorm_backward: dx equals the reference without the mean(dnorm) term.       the cause
    → Where to look: lesson 01, section "3.6 · The two means fall out".               the place

    140 of 140 entries are wrong. The first of them: …                                one table, or one picture

A notebook shows the cause in bold, a section of a lesson as a link, and folds away what else is known.
"""

import os
import re
import sys
from dataclasses import dataclass, field
from enum import StrEnum
from html import escape

import numpy as np

from llmc.course.checks.messages.heatmap import Picture
from llmc.course.exercises.catalog import SECTION, section_link, with_headings
from llmc.terminal import in_notebook

BOLD, PLAIN = "\x1b[1m", "\x1b[0m"  # red would be hard to read on the pink that JupyterLab puts behind errors
# JupyterLab breaks the lines of an error in the middle of words; these break between words, and tables not at all.
STYLE = "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,13px);padding-left:8px;"
STYLE += "white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere"
TABLE = "white-space:pre;overflow-x:auto"


class Kind(StrEnum):
    """Which explainer found it, from the surest to the one that knows least."""

    RULE = "a rule of the exercise"
    EXCEPTION = "an exception"
    SHAPE = "type, shape or dtype"
    BUFFER = "what a buffer holds"
    NAMED = "a named mistake"
    PATTERN = "a pattern of the numbers"
    EDIT_OF_OURS = "a generated edit of our solution"
    STATE = "state that is kept between calls"
    REPAIR = "an edit of the learner's text"
    EMULATOR = "the emulator's report"
    DEMAND = "right, but too slow or too much"
    PLACE = "only where it is wrong"


@dataclass
class Diagnosis:
    """sentence: the cause. more: further sentences that a reader needs. look: where to look, perhaps 'lesson 01, …'.

    output: which result is wrong. table: lines. picture: where it is wrong, in place of the table. folded: the call and
    what else is known, which a notebook hides until asked.
    """

    kind: Kind
    sentence: str
    output: str = ""
    more: list[str] = field(default_factory=list)
    look: str = ""
    table: list[str] = field(default_factory=list)
    picture: Picture | None = None
    folded: list[str] = field(default_factory=list)


class WrongAnswer(AssertionError):
    """A check found a mistake. It holds the Diagnosis; a plain sentence becomes one.

    A notebook shows it without a traceback, because none of its lines would be the learner's. Everywhere else it is an
    ordinary AssertionError with the same text.
    """

    def __init__(self, diagnosis="", kind=Kind.RULE, **more):
        diagnosis = diagnosis if isinstance(diagnosis, Diagnosis) else Diagnosis(kind, str(diagnosis), **more)
        super().__init__(diagnosis.sentence)
        self.diagnosis, self.exercise, self._shown = diagnosis, "", False

    def __str__(self):
        it = self.diagnosis
        head = f"✗ {self.exercise}: " if self.exercise else ""
        lines = [head + stopped(it.sentence), *it.more, *_place(it), *([""] if it.table else []), *it.table]
        return "\n".join([*lines, *it.folded])

    def _render_traceback_(self, *unused):
        """What IPython shows instead of a traceback: the exercise's name; the message follows as HTML, with links."""
        if not self._shown:  # IPython asks more than once
            self._shown = show_after_cell(self._repr_html_(), str(self))
        if self._shown:
            return [f"{BOLD}✗ {self.exercise or 'not right yet'}{PLAIN}"]
        first, *rest = str(self).splitlines()
        return [f"{BOLD}{first}{PLAIN}", *rest]

    def _repr_html_(self):
        it = self.diagnosis
        first, *rest = stopped(it.sentence).split("\n")
        parts = [f"<div><b>{_linked(first)}</b></div>", *(_line(line) for line in [*rest, *it.more, *_place(it)])]
        table = it.table[: 3 if it.picture else None]
        parts += [f'<div style="{TABLE}">\n{escape(chr(10).join(table))}</div>'] if table else []
        parts += [it.picture.html()] if it.picture else []
        if it.folded:
            parts.append(f"<details><summary>The call</summary>{''.join(map(_line, it.folded))}</details>")
        return f'<div class="mathjax_ignore" style="{STYLE}">{"".join(parts)}</div>'  # else two dollars are a formula


def _place(diagnosis) -> list[str]:
    return [f"→ Where to look: {with_headings(diagnosis.look)}."] if diagnosis.look else []


def _line(line) -> str:
    """A line of code keeps its spaces; in a sentence, sections of lessons are links."""
    return f'<div style="{TABLE}">{escape(line)}</div>' if line.startswith("    ") else f"<div>{_linked(line)}</div>"


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


# --------------------------------------------------------------------------------------- sentences that several share


def stopped(sentence) -> str:
    """With a full stop, unless it ends with a mark."""
    return sentence if sentence.endswith((".", "?", "!", ":")) else sentence + "."


def with_verb(name, verb) -> str:
    """ "dx is", but "logits are": an output's name with its verb."""
    many = {"is": "are", "was": "were", "has": "have", "holds": "hold", "equals": "equal"}
    return f"{name} {many[verb] if re.fullmatch(r'[a-z_]{2,}[^aious]s', name) else verb}"


def describe(value) -> str:
    """What a learner needs to know about a value: "(3, 5, 7) float64" for an array, "None", "a list of 3", "0.1"."""
    if isinstance(value, np.ndarray):
        return f"{value.shape} {value.dtype}"
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, np.random.Generator):
        return "(a generator)"
    if isinstance(value, float):
        return f"{value:.6g}"
    if callable(value):
        return getattr(value, "__name__", f"a {type(value).__name__}")
    text = repr(value)
    named = len(text) > 40 or type(value).__repr__ is object.__repr__  # which shows an address
    return f"a {type(value).__name__}" if named else text


def describe_result(value) -> str:
    """The same for what a function returned; a tuple's parts are listed: "2 values: (3, 5) float64; None"."""
    if isinstance(value, tuple):
        return f"{len(value)} values: " + "; ".join(describe(item) for item in value)
    return describe(value)


def arrays_in(line: str, variables: dict) -> str:
    """Shapes of the arrays that a source line names, and what is None: "x (3, 5, 7), mean (3, 5), b None"."""
    names = dict.fromkeys(re.findall(r"[A-Za-z_]\w*", line))  # each once, in the order of the line
    values = [(name, variables[name]) for name in names if name in variables]
    found = [(name, value) for name, value in values if value is None or isinstance(value, np.ndarray)]
    return ", ".join(f"{name} {getattr(value, 'shape', None)}" for name, value in found)


def listed(names, last="and", many=6) -> str:
    """ "dx, dw and db"; of more than `many`, only the first ones."""
    names = [*map(str, names)]
    if len(names) > many:
        return f"{', '.join(names[:many])} and {len(names) - many} more"
    return f" {last} ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
