"""Lesson 22's finder, logs and budget, the dashboard and its buttons, the proposal, and where GPT-2 is looked for."""

import json
import re
from pathlib import Path
from types import SimpleNamespace as Made

import numpy as np
import pytest

from llmc.checkpoints import write_model
from llmc.config import GPT2Config
from llmc.course.lessons.train_gpt2 import broken, budget, conditions, finder, finder_runs, finetune, logs, places
from llmc.course.machine import proposal
from llmc.course.old.checks.explain import WrongAnswer
from llmc.model import GPT2
from llmc.training import learning_rate
from llmc.training.report import PAUSE, STOP

ROOT = Path(__file__).resolve().parents[3]
pytest.importorskip("matplotlib")


class Valley:
    """A run whose loss falls as long as rates stay below 10, and rises from there on, with some noise."""

    def __init__(self):
        self.rng, self.loss, self.W, self.count = np.random.default_rng(3), 3.0, np.zeros(2), 0

    def step(self, rate):
        noisy = self.loss + 0.05 * self.rng.normal()
        self.loss += -0.05 * min(rate, 1) if rate < 10 else 0.02 * rate
        return noisy


# ----------------------------------------------------------------------------------------------------------- finder


def test_rates_grow_by_one_factor_from_the_lowest_to_the_highest():
    rates = finder.grown(1e-3, 10.0, 9)
    assert rates[0] == 1e-3 and rates[-1] == pytest.approx(10.0) and np.allclose(rates[1:] / rates[:-1], 10**0.5)


def test_smoothing_is_the_weighted_mean():
    losses = np.array([3.0, 1.0, 4.0, 1.5])
    weights = 0.9 ** np.arange(4)[::-1]
    assert finder.smooth(losses)[-1] == pytest.approx((weights * losses).sum() / weights.sum())
    assert finder.smooth(losses)[0] == pytest.approx(3.0)


def test_the_test_ends_after_the_step_that_goes_over():
    test = finder.tested(Valley(), 0.1, 1e3, 100)
    assert 20 < len(test.rates) < 100
    over = test.smoothed > np.minimum.accumulate(test.smoothed) + 1
    assert over[-1] and not over[:-1].any()
    assert test.best == pytest.approx(test.rates[np.argmin(test.smoothed)] / 10)


@pytest.mark.parametrize("which", ["rates", "smoothed", "best"])
def test_mistakes_of_the_finder_are_wrong_and_unlike(which):
    test = finder.tested(Valley(), 0.1, 1e3, 100)
    right, known = {
        "rates": (finder.grown(0.1, 1e3, 100), finder.rate_mistakes(0.1, 1e3, 100)),
        "smoothed": (
            test.smoothed,
            finder.smooth_mistakes(test.losses, test.losses + np.linspace(0, 1, len(test.losses))),
        ),
        "best": (test.best, finder.best_mistakes(test)),
    }[which]
    arrays = [np.asarray(right), *(np.asarray(array) for array, _ in known.values())]
    assert all(array.shape == arrays[0].shape for array in arrays)
    pairs = [(a, b) for i, a in enumerate(arrays) for b in (arrays[:1] if which == "best" else arrays[:i]) if i]
    assert not any(np.allclose(a, b, rtol=1e-9, atol=0) for a, b in pairs)  # two wrong steps may be the same one


def test_steps_too_many_and_too_few_are_explained():
    test = finder.tested(Valley(), 0.1, 1e3, 100)
    explained = lambda n: finder_runs.explain_steps(n, test, Valley(), 0.1, 1e3, 100)  # noqa: E731
    assert explained(len(test.rates)) is None
    assert "it went on to the last rate" in explained(100)
    assert "the step that goes over, which counts" in explained(len(test.rates) - 1)
    assert explained(11).startswith("the test made 11 of at most 100 steps")
    assert "After 11 steps the smoothed loss was" in explained(11)


# ------------------------------------------------------------------------------------------------------------- logs


@pytest.mark.parametrize("which", [("none", "", 10), ("warmup", "0", 1), ("val_data", "other letters", 0)])
def test_the_logs_are_of_runs_that_can_be_made_again(which):
    """The letters differ a little from one Python to the next, so their losses do, too."""
    rows, val = logs.train(*which, steps=3)
    with np.load(logs.FILE) as file:
        stored, stored_val = (file[f"{'/'.join(map(str, which))}/{part}"] for part in ("rows", "val"))
    assert np.allclose(rows[:, 1], stored[:3, 1], rtol=1e-6)
    assert np.allclose(rows[:, 0], stored[:3, 0], atol=0.15) and abs(val[0] - stored_val[0]) < 0.1


def test_every_run_is_there_and_its_log_is_read_back(tmp_path):
    from llmc.training import read_log

    runs = broken.runs()
    assert len(runs) == len(logs.names()) and {run.setting for run in runs} == {None, *logs.BROKEN}
    (tmp_path / "main.log").write_text(runs[5].log, encoding="utf-8")
    found = read_log(tmp_path / "main.log")
    assert np.allclose([row[1] for row in found["train"]], runs[5].rows[:, 0], atol=1e-4)
    assert [row[0] for row in found["val"]] == list(range(0, logs.STEPS + 1, logs.EVERY))


def test_a_broken_schedule_is_that_of_the_package():
    run = next(run for run in broken.runs() if run.value == "linear")
    rates = [learning_rate(step, 3e-3, 40, logs.STEPS, kind="linear") for step in range(logs.STEPS)]
    assert np.allclose(run.rows[:, 1], rates, rtol=1e-6)


def test_answers_about_logs_are_explained():
    cases = broken.cases(np.random.default_rng(0))
    assert broken.explain([(run, run.setting) for run in cases], None) is None
    for answer, words in (
        (lambda run: run.setting or "warmup", "Only healthy runs are wrong"),
        (lambda run: "schedule", "got the same answer"),
        (lambda run: None if run.setting == "val_data" else run.setting, "All other kinds are right"),
        (lambda run: None if run.value == "0.03" else run.setting, "With learning_rate at 0.0002 the answer is right"),
        (lambda run: "rate", "return one of 'learning_rate'"),
    ):
        with pytest.raises(WrongAnswer, match=words):
            broken.explain([(run, answer(run)) for run in cases], None)


def _asks_in_the_wrong_order(log, healthy):
    if log > 1:
        return "warmup"
    if log > 2:
        return "schedule"
    return None


def _notes_in_the_wrong_order(log, healthy):
    answer = None
    if log > 1:
        answer = "warmup"
    elif log > 2:
        answer = "schedule"
    return answer


def _lists_in_the_wrong_order(log, healthy):
    found = [("warmup", log > 1), ("schedule", log > 2)]
    return next((name for name, holds in found if holds), None)


def _asks_another(log, healthy):
    return _lists_in_the_wrong_order(log, healthy)


@pytest.mark.parametrize(
    "log, right, words",
    [
        (
            3,
            "schedule",
            r"condition of line \d+, `log > 1`, holds, and comes before .*, `log > 2`, which holds as well",
        ),
        (0, "warmup", r"`log > 1`, does not hold for this log: 0 > 1\."),
        (2, "val_data", "'val_data' does not occur in your function"),
        (0, None, "^$"),
    ],
)
def test_conditions_that_stand_in_a_list(log, right, words):
    said = conditions.told(_lists_in_the_wrong_order, (log, ""), right, {_lists_in_the_wrong_order(log, "")})
    assert re.search(words, "".join(said))


def test_a_condition_of_another_function_is_not_missed():
    assert conditions.told(_asks_another, (0, ""), "schedule", {None}) == []
    assert "'val_data' does not occur" in "".join(conditions.told(_asks_another, (0, ""), "val_data", {None}))


@pytest.mark.parametrize("function", [_asks_in_the_wrong_order, _notes_in_the_wrong_order])
@pytest.mark.parametrize(
    "log, right, words",
    [
        (3, "schedule", r"condition of line \d+, `log > 1`, holds, and answers before .*, `log > 2`, is asked"),
        (0, "warmup", r"`log > 1`, does not hold for this log: 0 > 1\."),
        (2, None, r"`log > 1`, holds for this healthy log: 2 > 1, and answers 'warmup'\."),
        (2, "val_data", "'val_data' does not occur in your function"),
        (0, None, "^$"),
    ],
)
def test_conditions_that_answered(function, log, right, words):
    said = conditions.told(function, (log, ""), right, {function(log, "")})
    assert re.search(words, "".join(said))


def test_learning_rates_of_a_log_are_measured():
    said = {(run.setting, run.value): broken._of_rates(run) for run in broken.runs()}
    assert "are 10 times those" in said["learning_rate", "0.03"]
    assert "is that of step 399; in the healthy log it is that of step 39" in said["warmup", "400"]
    assert "in the first 40 steps, and others after them" in said["schedule", "linear"]
    assert all("in every step" in said[key] for key in said if key[0] in ("batch_size", "weight_decay", None))


# ----------------------------------------------------------------------------------------------------------- budget


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (None, "nothing was returned"),
        ([1], "return a dict"),
        ({"steps": 3}, "'steps' cannot be set"),
        ({"layers": True}, "layers must be a whole number from 1 to 8, not True"),
        ({"layers": 1.0}, "layers must be"),
        ({"schedule": "step"}, "schedule must be"),
        ({"layers": 2, "learning_rate": 1}, None),
    ],
)
def test_settings_of_a_budget(settings, words):
    found = budget.explain_settings(settings, dict.fromkeys(budget.RANGES))
    assert (found is None) if words is None else words in found


def test_given_settings_that_were_changed_are_restored():
    given = {"layers": 1, "channels": 64}
    with pytest.raises(WrongAnswer, match="changes GIVEN itself: layers was not as given"):
        budget.restore(given, {"layers": 2, "channels": 64})
    assert given == {"layers": 2, "channels": 64}
    budget.restore(given, given.copy())


def test_what_train_letters_returns_is_no_dict_of_settings():
    assert "that is what train_letters returns" in budget.explain_settings((3.9, [5.0, 4.0], 100), {})


@pytest.mark.parametrize(
    "best, words",
    [
        (0.1, "what helps is learning_rate 0.1"),
        (0.01, "what helps is the given learning_rate"),
        (10, "what helps is learning_rate 3"),
        (1, "none of these"),
    ],
)
def test_another_learning_rate_is_advised_only_if_it_helps(best, words):
    standard = {"learning_rate": 3e-3, "beta2": 0.95, "warmup": 0.1, "schedule": "cosine", "weight_decay": 0.1}
    standard |= {"layers": 1, "channels": 8, "batch_size": 4}
    chosen, tried = standard | {"learning_rate": 1.0}, []

    def again(share, **settings):
        tried.append((share, settings["learning_rate"]))
        return 3 + np.log10(settings["learning_rate"] / best) ** 2, [], 0

    run, given = (3.9, [5.0] * 2000, 200_000), (3.8, [5.0] * 20, 10_000)
    assert words in budget.explain_run(run, given, chosen, standard, again)
    assert [share for share, _ in tried] == [budget.TRIED] * 5 and tried[0][1] == 1.0


def test_where_to_look_exists():
    cells = json.loads((ROOT / "notebooks" / "22_train_gpt2.ipynb").read_text(encoding="utf-8"))["cells"]
    lines = [line for c in cells if c["cell_type"] == "markdown" for line in "".join(c["source"]).splitlines()]
    headings = [line.lstrip("# ") for line in lines if line.startswith("#")]
    for name, place in vars(places).items():
        if name.isupper():
            assert place.split('"')[1] in headings, place


# -------------------------------------------------------------------------------------------------------- dashboard


def report(step=2, **changes):
    run = Made(settings=Made(steps=4, clip=1.0), baselines={"uniform": 5.0}, bytes_per_token=2.0)
    history = {"train": [(k, 5.0 - k, 1e-3, 0.5 + k) for k in range(step)], "val": [(0, 5.0)]}
    facts = dict(loss=4.0, last=False, tokens_per_second=9.0, seconds_left=1.0, mfu=0.25, sample=None)
    return Made(**(facts | dict(step=step, run=run, history=history) | changes))


def test_dashboard_draws_what_there_is():
    from matplotlib.figure import Figure

    from llmc.course.figures.dashboard import draw_dashboard

    figure = Figure(figsize=(10, 5.6), layout="constrained")
    for r, speeds in ((report(0, loss=None, mfu=None), []), (report(3), [(1, 8.0, 0.2), (3, 9.0, 0.25)])):
        draw_dashboard(figure, r, speeds)
        titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == [
        "Step 3 of 4",
        "9 tokens/s, 25% of the limit (36)",
        "Gradient norm 2.50, 67% clipped",
        *titles[3:],
    ]
    assert titles[3] == "Learning rate 1.0e-03"


def test_buttons_answer_the_run():
    from llmc.course.figures.dashboard import Dashboard

    board = Dashboard()
    assert board(report(1)) is None
    board.pause()
    assert board(report(2)) == PAUSE == board(report(2)) and len(board.speeds) == 2
    assert board(report(4, last=True)) is None  # a run that is over waits for nobody
    board.resume()
    assert board(report(3, sample="text")) is None and board.sample == "text"
    board.pause()
    board.stop()
    assert board(report(3)) == STOP


def test_the_status_of_a_stopped_run():
    """The report after a stop is not of a step and has no loss of its own; that of the last step stays."""
    from llmc.course.figures.dashboard import Dashboard

    board = Dashboard()
    board.stop()
    for last, words in ((False, "stopping"), (True, "stopped")):
        board(report(3, loss=None, last=last))
        assert board._status().endswith(f" · {words}") and "step 3/4 · loss 3.000" in board._status()


def test_a_run_is_steered_from_outside_of_its_thread(tmp_path):
    import asyncio

    from llmc.course.figures.dashboard import Dashboard
    from llmc.tests.tiny_corpus import write_corpus
    from llmc.training import TrainSettings

    write_corpus(tmp_path / "data")
    small = dict(batch_size=2, sequence_length=16, steps=4000, warmup=2, val_every=4000, sample_tokens=8)
    settings = TrainSettings(**small, data=str(tmp_path / "data"), out=str(tmp_path / "run"))
    board, again = Dashboard(), Dashboard()

    async def steer():
        run = asyncio.create_task(board.train(settings))
        while len(board.speeds) < 3:
            await asyncio.sleep(0.01)
        board.pause()
        await asyncio.sleep(0.3)
        held = board.speeds[-1][0]
        await asyncio.sleep(0.3)
        assert board.speeds[-1][0] == held and not run.done()
        board.resume()
        while board.speeds[-1][0] <= held:
            await asyncio.sleep(0.01)
        run.cancel()  # what the kernel does when the toolbar's button is pressed
        result = await run
        return result, await again.resume_run(result.run_dir, steps=result.steps + 2)

    stopped, more = asyncio.run(steer())
    assert stopped.interrupted and stopped.steps < 4000
    assert more.steps == stopped.steps + 2 and not more.interrupted


def test_buttons_are_drawn_by_ipywidgets():
    pytest.importorskip("ipywidgets")
    from llmc.course.figures.dashboard import _buttons

    pressed = []
    pause, resume, stop = _buttons([lambda button, name=name: pressed.append(name) for name in ("p", "r", "s")])
    for button in (stop, pause, resume):
        button.click()
    assert pressed == ["s", "p", "r"]


# ------------------------------------------------------------------------------------------- proposal and fine-tuning


def test_a_proposal_fits_into_its_minutes(monkeypatch):
    class Quick:
        def __init__(self, settings):
            self.settings, self.config = settings, Made(num_parameters=536_064)

        def train_step(self):
            clock[0] += 0.1

        def validate(self):
            clock[0] += 1.0

    clock = [0.0]
    monkeypatch.setattr(proposal, "Trainer", Quick)
    monkeypatch.setattr(proposal, "perf_counter", lambda: clock[0])
    made = proposal.propose(minutes=2)
    assert made.settings.steps == 960 and made.ms == pytest.approx(100)
    assert 0.1 * 960 + proposal.VALIDATIONS <= 2 * 60
    assert "960 steps" in str(made) and "--steps 960" in made.command()


def test_gpt2_is_found_where_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(finetune, "preset", lambda name: GPT2Config(maxT=64, V=16, L=1, NH=1, C=8))
    assert finetune.find_gpt2([tmp_path]) is None
    (tmp_path / "gpt2.bin").write_bytes(b"half a download")
    assert finetune.find_gpt2([tmp_path]) is None
    write_model(tmp_path / "gpt2_124M.bin", GPT2(GPT2Config(maxT=64, V=16, L=1, NH=1, C=8)))
    assert finetune.find_gpt2([tmp_path / "no", tmp_path]) == tmp_path / "gpt2_124M.bin"
    monkeypatch.setattr(finetune.cuda, "device", lambda: "emulator")
    settings = finetune.finetune_settings(tmp_path / "gpt2_124M.bin")
    assert (settings.batch_size, settings.sequence_length, settings.steps) == (4, 64, 40)
    monkeypatch.setattr(finetune.cuda, "device", lambda: "gpu")
    assert finetune.finetune_settings("x").steps == 74 and finetune.finetune_settings("x").sequence_length == 1024
