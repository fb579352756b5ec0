"""`llmc report [EXERCISE]`: print an answer, its check's message and this machine's facts, as Markdown for an issue."""

import re
import sys
from html import unescape
from os.path import expanduser
from pathlib import Path

import llmc
from llmc.course.exercises import catalog, layout, pulling
from llmc.course.exercises.notebooks import ANSI, SAVE_AGAIN
from llmc.course.learner.hints import unknown
from llmc.course.machine.doctor import examinations, examine
from llmc.errors import UserError
from llmc.files.checked_json import read_json
from llmc.terminal import llmc_command

ROWS = "system,Python,packages,memory,BLAS,BLAS in training,C++ compiler,GPU,CuPy,CUDA kernels".split(",")  # doctor's
TEXT = (str, [str], None)
OUTPUT = {"text": TEXT, "traceback": TEXT, "data": ({"text/plain": TEXT, "text/html": TEXT}, None)}
NOTEBOOK = {"cells": [{**catalog.CELL, "outputs": ([OUTPUT], None)}]}
FENCE = "`" * 4  # a docstring may hold a fence of three


def add_arguments(parser):
    """The argument of `llmc report`, for an argparse parser."""
    about = "name of an exercise, as in `llmc progress`: also print your answer and what its check says"
    parser.add_argument("exercise", metavar="EXERCISE", nargs="?", help=about)


def run(args) -> int:
    """Print the report. Always returns 0. Raises UserError if there is no such exercise, or nothing of it was saved."""
    parts = answer_and_message(args.exercise) if args.exercise else []
    rows = {row.what: row.found for row in examine([look for look in examinations() if look[0] in ROWS])}
    rows["commit"] = pulling.commit(Path(llmc.__file__).parents[1]) or "none: not a clone"
    parts.append(("This machine", "text", "\n".join(f"{what}: {found}" for what, found in rows.items())))
    print("\n\n".join(f"**{title}**\n\n{FENCE}{kind}\n{without_folders(text)}\n{FENCE}" for title, kind, text in parts))
    return 0


def answer_and_message(name) -> list[tuple]:
    """[(title, language, text)] for the learner's answer to an exercise and for the check's message below its cell."""
    lessons = {exercise.name: exercise.lesson for exercise in catalog.all_exercises()}
    if name not in lessons:
        raise UserError(unknown(name, lessons, f"`{llmc_command('progress')}`"))
    path = layout.notebook("exercises", lessons[name])
    if path is None:
        raise UserError(f"no notebook here contains {name}; run this command in your copy of the course.")
    answers, outputs = [], []  # of one cell each, or of several where somebody has split it
    for cell in read_json(path, NOTEBOOK, SAVE_AGAIN)["cells"]:
        mark = cell["metadata"].get("llmc") or {}
        if mark.get("exercise") == name:
            answers += ["".join(cell["source"])] * (mark.get("role") == "answer")
            outputs += (cell.get("outputs") or []) * (mark.get("role") == "check")
    answer, message = "\n\n".join(answers).strip(), message_in(outputs)
    if not (answer and message):
        lacks = f"{layout.from_here(path)} holds no message from {name}'s check"
        raise UserError(f"{lacks}; run your answer and the check, save the notebook, and run this again.")
    return [(f"My answer to {name}", "python", answer), ("What the check says", "text", message)]


def message_in(outputs) -> str:
    """What a cell shows, without colours and HTML; a line that the next output repeats is left out."""
    texts = [ANSI.sub("", _text(output)).strip() for output in outputs]
    return "\n".join(text for text, after in zip(texts, [*texts[1:], ""]) if not after.startswith(text))


def _text(output) -> str:
    data = output.get("data") or {}
    plain, html = ("".join(data.get(kind) or "") for kind in ("text/plain", "text/html"))
    if html and (not plain or plain.startswith("<")):  # <IPython.core.display.HTML object>
        return unescape(re.sub(r"<[^>]*>", "", html))
    return plain or "".join(output.get("text") or "") or "\n".join(output.get("traceback") or [])


def without_folders(text) -> str:
    """The text with ~ for the home folder and … for the course's and Python's folders, because issues are public."""
    for place in map(str, (expanduser("~"), layout.own_copy(), layout.checkout(), sys.prefix)):
        for spelled in (repr(place)[1:-1], place) * (len(place) > 4):  # as Windows's \ is quoted; no "/", no "None"
            text = text.replace(spelled, "~" if place == expanduser("~") else "…")
    return text
