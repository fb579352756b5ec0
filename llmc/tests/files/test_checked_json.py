"""JSON from outside, its structure changed in thousands of ways: each reader takes it or refuses it in one sentence."""

import copy
import json
import math
import os
import random

import pytest

from llmc.course.exercises import catalog, layout, notebooks, own_files, own_folder, pulling
from llmc.course.learner import board, journal
from llmc.data.corpora import download, tinystories
from llmc.distributed.ranks import from_text
from llmc.errors import UserError
from llmc.tests.course.test_own_folder import course_in, lesson, solution
from llmc.training import TrainSettings
from llmc.training.sweep import result

CASES = int(os.environ.get("LLMC_FUZZ", 500))  # for each reader; -s prints how many were read
RUN = {"learning_rate": 0.1, "status": "finished", "run_dir": "r", "message": ""}
DOCUMENTS = {
    "notebook": lesson("01_f"),
    "notebook as pulled": lesson("01_f"),
    "notebook to run": lesson("01_f"),
    "exercises": solution("f", "01_f"),
    "state of a copy": {"cells": {"01_f.ipynb": {"text": "0"}}, "files": {"01_f.ipynb": None}, "course": "0"},
    "progress": {"version": 1, "done": {"f": "2025-01-31"}, "worked": {"f": "2025-01-31"}, "hints": {"f": 2}},
    "results of a sweep": {"settings": result._shared(TrainSettings()), "runs": [RUN, {**RUN, "learning_rate": 1}]},
    "stories": [{"story": "Once.", "words": ["a"]}, {"story": "Twice."}],
    "listing of a hub": [{"path": "s/a.bin", "lfs": {"oid": "0"}}, {"path": "README.md"}],
    "message of a rank": {"path": "/run", "step": 3},
}
ODD = "\0"  # stands for one of these, which Python's own writer does not write
TEXTS = [*("[" * depth + "]" * depth for depth in (50, 150, 5_000, 60_000)), "9" * 5000, "1e999"]
VALUES = [None, True, -1, 0.5, 10**400, math.nan, math.inf, "", "x\0y", "\ud800", "é" * 300, [], {}, ODD, ODD]
VALUES += [[[1]], [None], {"a": None}, {"": {"\udc00": 1}}, "../..", ["a", 1], [{}]]


def places(value):
    """(container, key) of every value inside a value."""
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield value, key
        yield from places(part)


def mutated(document, draw):
    """Its bytes after one to three changes of structure, and sometimes one of the text."""
    whole = [copy.deepcopy(document)]
    for _ in range(draw.choice((1, 1, 2, 3))):
        container, key = draw.choice([*places(whole)])
        new = copy.deepcopy(draw.choice([*VALUES, [container[key]], {"a": container[key]}]))
        if draw.random() < 0.8 or container is whole:
            container[key] = new
        elif isinstance(container.pop(key), str | list | dict) and isinstance(container, dict):
            container[draw.choice(("x\ny", "\ud800", "", "id", "data"))] = new
    text = json.dumps(whole[0], ensure_ascii=draw.random() < 0.5).replace('"\\u0000"', draw.choice(TEXTS))
    raw = text.encode("utf-8", "surrogatepass")
    return raw[: draw.randrange(len(raw))] if draw.random() < 0.1 else raw


@pytest.fixture
def use(tmp_path, monkeypatch):
    """path, and {name of a document: function that reads it there, or its bytes, and uses what it gets}."""
    root, path = course_in(tmp_path / "course"), tmp_path / "01_f.ipynb"
    course, marker = own_files.course_notebooks(root, tmp_path), tmp_path / layout.MARKER
    marker.write_text("")
    monkeypatch.setattr(download, "PAUSE", 0)
    monkeypatch.setattr(download, "urlopen", lambda *_, **__: path.open("rb"))
    monkeypatch.setattr(pulling, "write_over", lambda path, mine, data: True)
    given = json.dumps(lesson("01_f")).encode()

    def merged():
        own_folder._brought(tmp_path, path.name, course[path.name], own_files.read_state(tmp_path))

    def remembered(raw):
        path.write_text(json.dumps(lesson("01_f")))
        marker.write_bytes(raw)
        merged()

    return path, {
        "notebook": lambda raw: merged(),
        "notebook as pulled": lambda raw: pulling._bring(path, given, given.replace(b"## 1", b"News. ## 1")),
        "notebook to run": lambda raw: notebooks.to_text(notebooks.read(path)),
        "exercises": lambda raw: board.Board(catalog.exercises_of(path, "01_f"), {})._repr_html_(),
        "state of a copy": remembered,
        "progress": lambda raw: journal.read(path),
        "results of a sweep": lambda raw: result.table(result.read_results(path, TrainSettings()).values()),
        "stories": lambda raw: list(tinystories.stories([path])),
        "listing of a hub": lambda raw: download.hub_files("who/what"),
        "message of a rank": lambda raw: from_text(memoryview(raw), {"path": str, "step": int}),
    }


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_changed_structure_is_read_or_refused(use, name):
    draw, read, (path, readers) = random.Random(name), -1, use
    for case in range(CASES + 1):
        raw = mutated(DOCUMENTS[name], draw) if case else json.dumps(DOCUMENTS[name]).encode()
        path.write_bytes(raw)
        try:
            readers[name](raw)
            read += 1
        except UserError as error:
            assert case and str(error).endswith(".") and "\n" not in str(error), (case, str(error))
        except Exception as error:
            raise AssertionError(f"{name}, case {case}: {error!r} for {raw[:2000]!r}") from error
    print(f"{name:20} {CASES:6,} files: {read:6,} read, {CASES - read:6,} refused")
