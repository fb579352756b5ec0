"""Lesson 10's reference against its derivative and the package, its disk, and what a resume needs."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest

from llmc.course import awkward, gradient_check
from llmc.course.lessons.training_loop import exercises, saving, settings
from llmc.course.mutation.program import solution_of
from llmc.training.outliers import WINDOW, OutlierDetector
from llmc.training.settings import TrainSettings

ROOT = Path(__file__).resolve().parents[3]
RNG = np.random.default_rng(9)
START, NEW = {"a": b"old weights"}, b"new!"


def test_gradient_is_the_derivative_of_the_loss():
    W, (x, y) = awkward(RNG, 5, 5), RNG.integers(0, 5, (2, 3, 5))
    loss = lambda W: np.asarray(exercises.bigram(W, x, y)[0])  # noqa: E731
    assert gradient_check(loss, W, exercises.bigram(W, x, y)[1], np.ones(()), report=False) < 1e-7


def test_z_scores_are_the_package_s():
    values, detector = awkward(RNG, 200), OutlierDetector()
    mine = solution_of("z_scores").function()(values, WINDOW)
    for value, z in zip(values, mine, strict=True):
        detector.add(value)
        assert (detector.z is None and np.isnan(z)) or z == pytest.approx(detector.z, rel=1e-9)


def test_settings_are_the_package_s_and_not_the_best_of_those_tried():
    names = vars(TrainSettings())
    assert settings.refused({name: names[name] for name in settings.RANGES}, settings.RANGES, {}) is None
    runs = [((4, 1e-3, 1), 2.5), ((4, 3e-3, 1), 2.3), ((16, 1e-3, 1), 2.7), ((16, 1e-3, 0.1), 3.0)]
    of_three = "of the 3 settings that your function tries, it returns those with"
    assert settings.not_the_least(runs, (4, 1e-3), "loss").startswith(f"{of_three} a loss of 2.500, and the smallest")
    assert "those with the largest loss, 2.700" in settings.not_the_least(runs[:3], (16, 1e-3), "loss")
    assert settings.not_the_least(runs, (4, 3e-3), "loss") == settings.not_the_least(runs, (8, 3e-3), "loss") == ""


def test_what_a_power_cut_leaves_beside_what_kill_leaves():
    log = [("write", "t", NEW), ("sync", "t"), ("sync_folder",), ("write", "u", NEW), ("rename", "u", "a")]
    kill, power = (
        {(crash.after, crash.done, *sorted(crash.files.items())) for crash in saving.crashes(START, log, power)}
        for power in (False, True)
    )
    assert kill < power and (len(log), True, ("a", NEW), ("t", NEW)) in kill
    files = [dict(left) for after, _, *left in power if after > 3]
    assert all(each["t"] == NEW for each in files)  # what was synced stays
    assert {each.get("u") for each in files} == {None, b"", NEW[:2], NEW}


def test_every_part_of_the_state_counts_and_nothing_else():
    cells = json.loads((ROOT / "solutions" / "10_training_loop.ipynb").read_text(encoding="utf-8"))["cells"]
    names, matters = {"np": np}, set()
    for cell in cells:
        exec("".join(cell["source"]) if cell["id"] in ("given-run", "given-step", "state-of-answer") else "", names)
    for seed in range(1, 7):
        run = exercises.begun(names["Run"](RNG.integers(0, 6, 200), seed), steps=19)
        state, expected = names["state_of"](run), [run.train_step() for _ in range(30)]
        for left_out in ("", *exercises.KEPT):
            resumed = names["Run"](run.tokens, seed=0)
            vars(resumed).update({name: copy.copy(value) for name, value in state.items() if name != left_out})
            with np.errstate(all="ignore"):  # without v the first steps are wild
                if [resumed.train_step() for _ in range(30)] != expected:
                    matters.add(left_out)
    assert matters == exercises.KEPT.keys()
