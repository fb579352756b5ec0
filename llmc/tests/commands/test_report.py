"""`llmc report`: from a learner's notebook as JupyterLab saves it, and without what is private."""

import json
from pathlib import Path

import pytest

from llmc.cli import main
from llmc.course.exercises import layout

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.skipif(not (ROOT / "solutions").is_dir(), reason="needs a checkout")
SHOWN = "✗ embed: wpe is not added.\nThe call was embed(tokens (3, 5) int32)."


def save(outputs, folder, monkeypatch):
    """Write the notebook of a copy, which we then are in, with these outputs below an answer and its check."""
    monkeypatch.setattr("llmc.commands.report.expanduser", lambda home: str(folder))
    monkeypatch.chdir(folder)
    Path("exercises").mkdir(), Path(layout.MARKER).write_text("{}")
    cell = {"cell_type": "code", "source": ["f =", " 1"], "outputs": outputs}
    cells = [{**cell, "metadata": {"llmc": {"exercise": "embed", "role": role}}} for role in ("answer", "check")]
    Path("exercises", "exercise_00_start_here.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")


def test_an_answer_and_what_its_check_says(tmp_path, monkeypatch, capsys):
    wrong = {"output_type": "error", "evalue": SHOWN, "traceback": ["\x1b[1m✗ embed\x1b[0m"]}
    shown = [{"text/html": "<b>✗</b>", "text/plain": SHOWN}, {"text/html": ["<i>1 &lt; ", "2"], "text/plain": "<HTML>"}]
    outputs = [{"text": [f"'{tmp_path}' ", f"{ROOT}\n"]}, wrong, *({"data": data} for data in shown)]
    save(outputs, tmp_path, monkeypatch)
    assert main(["report", "embed"]) == 0
    *parts, machine = capsys.readouterr().out.split("\n\n")
    assert parts[:3] == ["**My answer to embed**", "````python\nf = 1\n````", "**What the check says**"]
    assert parts[3:] == [f"````text\n'~' …\n{SHOWN}\n1 < 2\n````", "**This machine**"]
    assert all(name in machine for name in "system: llmc numpy numba jupyterlab GPU: CuPy: commit:".split())
    assert main(["report"]) == 0 and capsys.readouterr().out == f"**This machine**\n\n{machine}"


@pytest.mark.parametrize(
    ("name", "outputs", "words"),
    [
        ("embd", [], "there is no exercise 'embd'; did you mean embed?"),
        ("embed", [], "exercises/exercise_00_start_here.ipynb holds no message from embed's check; run "),
        ("embed", "what?", "is damaged: cells[0].outputs is missing or has the wrong type; save it again"),
        ("embed", None, "no notebook here contains embed; run this command in your copy"),
    ],
)
def test_what_cannot_be_reported_is_one_sentence(name, outputs, words, tmp_path, monkeypatch, capsys):
    save(outputs, tmp_path, monkeypatch)
    if outputs is None:
        monkeypatch.setattr(layout, "notebook", lambda kind, lesson: None)
    assert main(["report", name]) == 2 and words in (err := capsys.readouterr().err) and err.count("\n") == 1
