"""Lesson 10's references against each other and the package, its known mistakes, its disk, and what a resume needs."""

import json
from pathlib import Path

import numpy as np
import pytest

from llmc.course import awkward, gradient_check
from llmc.course.lessons.training_loop import resuming, saving
from llmc.course.lessons.training_loop import settings as tuned
from llmc.course.lessons.training_loop import steps as lesson
from llmc.course.old.checks.explain import WrongAnswer
from llmc.evaluation import bits_per_byte
from llmc.training.outliers import WINDOW, OutlierDetector
from llmc.training.settings import TrainSettings

ROOT = Path(__file__).resolve().parents[3]
RNG = np.random.default_rng(9)
W = awkward(RNG, 5, 5)
BATCHES = [tuple(RNG.integers(0, 5, (2, b, 5))) for b in (3, 3, 2)]
OLD, NEW = b"old weights", b"new!"


def assert_unlike(right, wrongs):
    """Every mistake has the right shape, differs from the right array, and from every other mistake."""
    arrays = {"right": np.asarray(right)} | {text: np.asarray(array) for text, (array, _) in wrongs.items()}
    for i, (text, one) in enumerate(arrays.items()):
        assert one.shape == np.shape(right), text
        for other in list(arrays)[:i]:
            assert np.abs(one - arrays[other]).max() > 3e-4 * np.abs(one).max(), f"{text} is like {other}"


def solution(*cells):
    """Names that these cells of the solution notebook define."""
    notebook = json.loads((ROOT / "solutions" / "10_training_loop.ipynb").read_text(encoding="utf-8"))
    names = {"np": np}
    for cell in notebook["cells"]:
        if cell["id"] in cells:
            exec("".join(cell["source"]), names)
    return names


# ------------------------------------------------------------------------------------------------------- references


def test_gradient_is_the_derivative_of_the_loss():
    x, y = BATCHES[0]
    gradient = lesson.bigram_gradient(W, x, y)
    loss = lambda W: np.asarray(lesson.bigram_loss(W, x, y))  # noqa: E731
    assert gradient_check(loss, W, gradient, np.ones(()), report=False) < 1e-7


def test_micro_batches_are_the_whole_batch():
    x, y = (np.concatenate(parts) for parts in zip(*BATCHES))
    loss, gradient = lesson.accumulated(W, BATCHES)
    assert loss == pytest.approx(lesson.bigram_loss(W, x, y), rel=1e-14)
    np.testing.assert_allclose(gradient, lesson.bigram_gradient(W, x, y), rtol=1e-13, atol=1e-16)


def test_the_model_of_the_exercise_is_the_reference():
    model = solution("given-model")["Bigram"](W, 3, 5)
    model.zero_grad()
    loss = model.forward(*BATCHES[0], dloss=0.5)
    model.backward()
    assert loss == pytest.approx(lesson.bigram_loss(W, *BATCHES[0]), rel=1e-13)
    np.testing.assert_allclose(model.grads, 0.5 * lesson.bigram_gradient(W, *BATCHES[0]), atol=1e-15)


def test_validation_is_the_package_s():
    tokens, lengths = RNG.integers(0, 5, 48), np.array([0, 3, 1, 4, 2])
    loss, bits = lesson.validation(W, tokens, lengths)
    assert bits == pytest.approx(bits_per_byte(loss, tokens[1:], lengths), rel=1e-14)


@pytest.mark.parametrize("n", [1, 3, 4, 11, 12, 13, 24, 47])
def test_pieces_ask_for_every_token_once(n):
    tokens = np.arange(n + 1)
    pieces = lesson.pieces(tokens, B=3, T=4)
    assert [token for _, y in pieces for token in y.ravel()] == list(range(1, n + 1))
    assert all(x.shape == y.shape and x.shape[0] <= 3 and x.shape[1] <= 4 and (y == x + 1).all() for x, y in pieces)


def test_z_scores_are_the_package_s():
    values, detector = awkward(RNG, 200), OutlierDetector()
    mine = lesson.z_scores(values, WINDOW)
    for value, z in zip(values, mine, strict=True):
        detector.add(value)
        assert (detector.z is None and np.isnan(z)) or z == pytest.approx(detector.z, rel=1e-9)


def test_the_names_that_can_be_set_are_the_package_s():
    names = vars(TrainSettings())
    assert tuned.RANGES.keys() <= names.keys()
    assert tuned.explain_settings({name: names[name] for name in tuned.RANGES}, tuned.RANGES) is None


# ---------------------------------------------------------------------------------------------------- known mistakes


def test_mistakes_of_accumulation_are_wrong_and_unlike():
    loss, gradient = lesson.accumulated(W, BATCHES)
    known = lesson.accumulated_mistakes(W, BATCHES, before=0.5 * W, lr=0.3)
    assert_unlike(loss, known["loss"])
    assert_unlike(gradient, known["gradient"])


def test_mistakes_of_validation_are_wrong_and_unlike():
    tokens, lengths = RNG.integers(0, 5, 48), np.array([0, 13, 7, 24, 18])
    tokens[0] = 3  # one that has bytes
    loss, bits = lesson.validation(W, tokens, lengths)
    known = lesson.validation_mistakes(W, tokens, 3, 4, lengths)
    assert_unlike(loss, known["loss"])
    assert_unlike(bits, known["bits"])


def test_mistakes_of_z_scores_are_wrong_and_unlike():
    values = awkward(RNG, 40)
    known = lesson.z_mistakes(values, 8)
    large = {words: each for words, each in known.items() if "1e-" not in words}  # the others are small for these
    assert_unlike(lesson.z_scores(values, 8)[7:], large)


# ------------------------------------------------------------------------------------------------------------- disk


def ways():
    """{name: log of a way to save NEW under "a"}, and whether it is right."""
    write, sync, rename = ("write", "t", NEW), ("sync", "t"), ("rename", "t", "a")
    folder = ("sync_folder",)
    return {
        "right": ([write, sync, rename, folder], True),
        "in place": ([("write", "a", NEW), ("sync", "a"), folder], False),
        "no sync": ([write, rename, folder], False),
        "late sync": ([write, rename, ("sync", "a"), folder], False),
        "no folder": ([write, sync, rename], False),
        "removed": ([write, sync, ("remove", "a"), rename, folder], False),
    }


@pytest.mark.parametrize("name", ways())
def test_ways_to_save(name):
    log, right = ways()[name]
    try:
        wrong = saving.explain_saving({"a": OLD, "b": b"x"}, log, "a", NEW)
    except WrongAnswer as error:
        wrong = str(error)
    assert (wrong is None) == right
    assert right or "What was done:\n    1  disk." in wrong


@pytest.mark.parametrize(
    "start, steps, words, never",
    [
        ({}, [("write", "t", NEW), ("sync", "t"), ("rename", "t", "a")], "may leave no file a: call", "the old file"),
        (
            {"a": OLD},
            [("write", "u", NEW), *ways()["right"][0]],
            "u is left over at the end",
            "rename it",
        ),
    ],
)
def test_what_is_said_of_a_way_to_save_was_done(start, steps, words, never):
    wrong = saving.explain_saving(start, steps, "a", NEW)
    assert words in wrong and never not in wrong


def test_data_in_pieces_are_named_where_the_last_piece_is_left():
    pieces = [("write", "t", NEW[:2]), ("write", "t", NEW[2:]), ("sync", "t")]
    with pytest.raises(WrongAnswer, match="each write begins the file anew"):
        saving.explain_saving({"a": OLD}, [*pieces, ("rename", "t", "a"), ("sync_folder",)], "a", NEW)
    assert "anew" not in saving.explain_saving({"a": OLD}, pieces, "a", NEW)


def test_settings_that_are_not_the_best_of_those_tried():
    runs = [((4, 1e-3, 1), 2.5), ((4, 3e-3, 1), 2.3), ((16, 1e-3, 1), 2.7), ((16, 1e-3, 0.1), 3.0)]
    said = tuned.not_the_least(runs, (4, 1e-3), "loss")
    assert said.startswith(
        "of 3 settings that your function tries it returns those with a loss of 2.500, and the smallest"
    )
    assert "those with the largest loss, 2.700" in tuned.not_the_least(runs[:3], (16, 1e-3), "loss")
    assert tuned.not_the_least(runs, (4, 3e-3), "loss") == tuned.not_the_least(runs, (8, 3e-3), "loss") == ""


def test_a_power_cut_leaves_all_that_kill_leaves_and_more():
    log = ways()["no sync"][0]
    kill, power = (
        {(crash.after, crash.done, *sorted(crash.files.items())) for crash in saving.crashes({"a": OLD}, log, power)}
        for power in (False, True)
    )
    assert kill < power
    assert (len(log), True, ("a", NEW)) in kill  # the last line: everything is as it should be


def test_what_is_synced_stays():
    log = [("write", "t", NEW), ("sync", "t"), ("sync_folder",), ("write", "u", NEW)]
    left = [crash.files for crash in saving.crashes({}, log, power=True) if crash.after > 3]
    assert all(files["t"] == NEW for files in left)
    assert {files.get("u") for files in left} == {None, b"", NEW[:2], NEW}


# ---------------------------------------------------------------------------------------------------------- resuming


def resumed_losses(state, Run, tokens):
    run = Run(tokens, seed=0)
    for name, value in state.items():
        setattr(run, name, resuming._copy(value))
    with np.errstate(all="ignore"):  # without v the first steps are wild
        return [run.train_step() for _ in range(30)]


def test_every_part_of_the_state_counts_and_nothing_else():
    Run, matters = solution("given-run", "given-step")["Run"], set()
    for seed in range(1, 7):
        run = Run(np.random.default_rng(seed).integers(0, 6, 200), seed)
        for _ in range(19):
            run.train_step()
        state = resuming.right_state(run)
        expected = [run.train_step() for _ in range(30)]
        assert resumed_losses(state, Run, run.tokens) == expected
        for name in resuming.KEPT:
            rest = {other: value for other, value in state.items() if other != name}
            matters |= {name} if resumed_losses(rest, Run, run.tokens) != expected else set()
    assert matters == resuming.KEPT.keys()
    assert resuming.KEPT.keys() | resuming.LEFT.keys() == vars(run).keys()


# ------------------------------------------------------------------------------------------------------------- places


def test_where_to_look_exists():
    places = [value for module in (lesson, resuming, saving) for name, value in vars(module).items() if name.isupper()]
    for place in (p for p in places if isinstance(p, str) and "section" in p):
        number, title = place.split('"')[0].split()[1].strip(","), place.split('"')[1]
        path = next((ROOT / "notebooks").glob(f"{number}_*.ipynb"))
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        lines = [line for c in cells if c["cell_type"] == "markdown" for line in "".join(c["source"]).splitlines()]
        assert any(line.lstrip("# ").startswith(title) for line in lines if line.startswith("#")), title
