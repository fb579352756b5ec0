"""Exercises in CUDA C: how their stubs are built, and how their kept answers are tried."""

import json
import re

import pytest

from llmc.course.exercises import builder
from llmc.course.old.authoring import answers
from llmc.course.old.authoring.answers import replaced
from llmc.course.old.kernel_checks.source import unfinished
from llmc.tests.course.kernel_cells import SCALE, check_scale

pytestmark = pytest.mark.usefixtures("not_recorded", "one_second")


def test_the_builder_makes_a_stub_of_c(capsys):
    stub = builder.stub_source(SCALE, "here")
    assert stub.splitlines()[3:5] == ["    // YOUR CODE HERE (about 3 lines)", "    #error not done yet"]
    assert stub.splitlines()[:3] + stub.splitlines()[5:] == SCALE.splitlines()[:3] + SCALE.splitlines()[-1:]
    assert unfinished(stub) and not unfinished(SCALE) and not unfinished(f"/*\n{stub}*/")
    check_scale(stub)
    assert capsys.readouterr().out.startswith("not done yet: scale. Replace `#error not done yet`")


def test_markers_of_two_languages_in_one_cell():
    source = (
        f"def f():\n    ### BEGIN SOLUTION\n    # why\n    return 1\n    ### END SOLUTION\n\n\nscale = '''{SCALE}'''"
    )
    stub = builder.stub_source(source, "here")
    assert "    # YOUR CODE HERE (about 1 line)\n    raise NotImplementedError\n" in stub and "#error" in stub


def test_replaced_wants_each_text_once():
    assert replaced("a b", "a", "c", "b", "d") == "c d"
    for old in ("e", "a"):
        with pytest.raises(ValueError, match="should occur once"):
            replaced("a a", old, "x")


ANSWERS = """
from llmc.course.old.authoring.answers import replaced, right, wrong


@right("scale")
def scale_again(code):
    return code.replace("i < n", "n > i")


@wrong("scale", says="out of bounds, line 7")
def scale_everything(code):
    return replaced(code, "if (i < n)", "")
"""
CHECK = """import numpy as np
from llmc.course.old.kernel_checks.check import kernel_check

with kernel_check("scale") as c:
    inp, out = c.random(40), c.output(40)  # (n,) each
    c.launch(scale, 2, 32, (out, inp, np.float32(1.5), 40))
"""


@pytest.fixture
def course(tmp_path):
    """A course with one lesson, whose exercise is in CUDA C."""
    cells = [("answer", f'scale = r"""{SCALE}"""'), ("check", CHECK)]
    cells = [
        {"cell_type": "code", "id": role, "metadata": {"llmc": {"exercise": "scale", "role": role}}, "source": source}
        for role, source in cells
    ]
    (tmp_path / "solutions" / "answers").mkdir(parents=True)
    (tmp_path / "solutions" / "12_x.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    (tmp_path / "solutions" / "answers" / "12_x.py").write_text(ANSWERS, encoding="utf-8")
    return tmp_path


def test_answers_in_c(course, monkeypatch, capsys):
    monkeypatch.setattr(answers, "checkout", lambda: course)
    assert answers.main(["12"]) == 0
    assert re.search(r"scale +1 of 1 +1 of 1 +1 of 1", capsys.readouterr().out)
    assert answers.main(["12_x", "--messages"]) == 0
    assert "== scale: scale_everything\n✗ scale: out of bounds, line 7." in capsys.readouterr().out
    with pytest.raises(SystemExit):
        answers.main(["13"])
    assert "no lesson 13 has answers" in capsys.readouterr().err
