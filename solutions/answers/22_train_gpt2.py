"""Answers to the exercises of lesson 22 as strangers write them, with words that wrong ones must get."""

# ruff: noqa: F821
import copy

import numpy as np

from llmc.course.authoring.answers import right, wrong


@right("find_rate")
def find_on_a_copy(run, lowest, highest, steps):
    trial, planned, smoothed, mean, weight = copy.deepcopy(run), np.geomspace(lowest, highest, steps), [], 0.0, 0.0
    for rate in planned:
        loss = trial.step(rate)
        mean, weight = mean + 0.1 * (loss - mean), weight + 0.1 * (1 - weight)
        smoothed.append(mean / weight)
        if smoothed[-1] > min(smoothed) + 1:
            break
    return planned[: len(smoothed)].copy(), np.array(smoothed), float(planned[np.argmin(smoothed)] / 10)


def _find(run, rates, margin=1.0, beta=0.9, correct=True, over=None, restore=True, before=False):
    """The solution with some of it exchanged."""
    state, s, tried, smoothed, losses = run.state(), 0.0, [], [], []
    over = over or (lambda smoothed, losses: smoothed[-1] > min(smoothed) + margin)
    for k, rate in enumerate(rates):
        losses.append(run.step(rate))
        s = beta * s + (1 - beta) * losses[-1]
        tried.append(rate)
        smoothed.append(s / (1 - beta ** (k + 1)) if correct else s)
        if over(smoothed, losses):
            if before:
                tried.pop(), smoothed.pop(), losses.pop()
            break
    if restore:
        run.restore(state)
    return np.array(tried), np.array(smoothed), np.array(losses)


@right("find_rate")
def find_on_a_run_of_its_own(run, lowest, highest, steps):
    trial = type(run)(run.W, run.starts)
    trial.count = run.count
    rates, smoothed, _ = _find(trial, np.geomspace(lowest, highest, steps), restore=False)
    return rates, smoothed, rates[smoothed.argmin()] / 10


@wrong("find_rate", says="in place of `len(losses) > 10 and smoothed")
def find_waits_ten_steps(run, lowest, highest, steps):
    over = lambda smoothed, losses: len(losses) > 10 and smoothed[-1] > min(smoothed) + 1  # noqa: E731
    rates, smoothed, _ = _find(run, np.geomspace(lowest, highest, steps), over=over)
    return rates, smoothed, rates[smoothed.argmin()] / 10


@wrong("find_rate", says="the smoothed loss is least in step")
def find_halfway_to_the_least(run, lowest, highest, steps):
    rates, smoothed, _ = _find(run, np.geomspace(lowest, highest, steps))
    return rates, smoothed, rates[smoothed.argmin() // 2]


@wrong("find_rate", says="the weights are those after the last step. This test went on to its last rate")
def find_restores_only_early(run, lowest, highest, steps):
    start, planned = run.state(), np.geomspace(lowest, highest, steps)
    rates, smoothed, _ = _find(run, planned, restore=False)
    if len(rates) < steps:
        run.restore(start)
    return rates, smoothed, rates[smoothed.argmin()] / 10


@right("broken_setting")
def broken_by_medians(log, healthy):
    a, b = columns(log), columns(healthy)
    if not (a["lr"] == b["lr"]).all():
        if a["lr"][0] != b["lr"][0]:
            return (
                "learning_rate" if 0.9 < (a["lr"][0] / a["lr"].max()) / (b["lr"][0] / b["lr"].max()) < 1.1 else "warmup"
            )
        return "schedule"
    if a["val"].mean() > 1.5 * b["val"].mean():
        return "val_data"
    if np.median(np.abs(np.diff(a["loss"][-300:], 2))) > 1.35 * np.median(np.abs(np.diff(b["loss"][-300:], 2))):
        return "batch_size"
    return "weight_decay" if np.median(a["loss"][-50:]) > np.median(b["loss"][-50:]) + 0.15 else None


def _broken(columns, log, healthy, rates=True, val=True, noise=1.5, level=0.15):
    a, b = columns(log), columns(healthy)
    if rates and not np.allclose(a["lr"], b["lr"], atol=2e-6):
        if np.allclose(a["lr"][:40], b["lr"][:40], atol=2e-6):
            return "schedule"
        same = np.allclose(a["lr"] / a["lr"].max(), b["lr"] / b["lr"].max(), atol=0.01)
        return "learning_rate" if same else "warmup"
    if val and a["val"][-1] > a["loss"][-50:].mean() + 1:
        return "val_data"
    if np.std(np.diff(a["loss"][-200:])) > noise * np.std(np.diff(b["loss"][-200:])):
        return "batch_size"
    return "weight_decay" if a["loss"][-100:].mean() > b["loss"][-100:].mean() + level else None


@right("broken_setting")
def broken_by_levels(log, healthy):
    return _broken(columns, log, healthy)


@wrong("broken_setting", says="Only the answers for healthy runs are wrong")
def broken_is_never_none(log, healthy):
    return _broken(columns, log, healthy) or "weight_decay"


@wrong("broken_setting", says="With 'warmup' at 0 the answer is right")
def broken_warmup_only_at_the_start(log, healthy):
    found = _broken(columns, log, healthy)
    at_once = columns(log)["lr"][0] > 10 * columns(healthy)["lr"][0]
    return "learning_rate" if found == "warmup" and not at_once else found


@wrong("broken_setting", says="and your answer is")
def broken_asks_for_decay_first(log, healthy):
    run, ok = columns(log), columns(healthy)
    if run["val"][-1] > ok["val"][-1] + 0.2:
        return "weight_decay"
    if run["val"][-1] > 1.25 * ok["val"][-1]:
        return "val_data"
    return _broken(columns, log, healthy)


@right("best_budget")
def budget_with_all_settings():
    settings = GIVEN.copy()
    settings.update(layers=1, channels=24, length=16, batch_size=4, learning_rate=0.008, schedule="wsd", beta2=0.99)
    return settings


@right("best_budget")
def budget_that_is_searched():
    small = GIVEN | {"layers": 1, "channels": 16, "length": 16}
    tried = {rate: train_letters(**small | {"learning_rate": rate}, share=0.2)[0] for rate in (3e-3, 1e-2)}
    return small | {"learning_rate": min(tried, key=tried.get)}


@wrong(
    "best_budget", says="Of the 2 settings that your function tries, it returns those with the largest number of bits, "
)
def budget_of_the_most_bits():
    candidates = [
        {"layers": 1, "channels": 32, "batch_size": 4},
        {"layers": 1, "channels": 16, "length": 16, "learning_rate": 1e-2},
    ]
    scores = [train_letters(**GIVEN | settings, share=0.1)[0] for settings in candidates]
    return candidates[int(np.argmax(scores))]


@wrong("best_budget", says="a smaller model sees more")
def budget_with_a_smaller_batch():
    return {"batch_size": 4}


@wrong("best_budget", says="changes GIVEN itself: layers, channels and length were no longer as given")
def budget_written_into_given():
    settings = GIVEN
    settings["layers"], settings["length"] = 1, 16
    settings["channels"] = 16
    return settings
