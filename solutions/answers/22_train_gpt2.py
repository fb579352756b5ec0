"""Answers to the exercises of lesson 22 as learners write them: right ones that look different, and wrong ones.

Each wrong answer comes with words that its check must say. CI runs them all;
`python -m llmc.course.old.authoring.answers 22` runs those of this lesson.
`columns` and `GIVEN` are those of the exercise notebook.
"""

# ruff: noqa: F821
import numpy as np

from llmc.course.old.authoring.answers import right, wrong

# ------------------------------------------------------------------------------------------------------ 1 find_rate


@right("find_rate")
def find_with_geomspace(run, lowest, highest, steps):
    kept = run.state()
    rates = np.geomspace(lowest, highest, steps)
    smoothed, s, w = [], 0.0, 0.0
    for rate in rates:
        loss = run.step(rate)
        s, w = 0.9 * s + 0.1 * loss, 0.9 * w + 0.1
        smoothed.append(s / w)
        if smoothed[-1] - np.min(smoothed) > 1:
            break
    run.restore(kept)
    smoothed = np.array(smoothed)
    return rates[: len(smoothed)], smoothed, rates[smoothed.argmin()] / 10


@right("find_rate")
def find_with_a_running_least(run, lowest, highest, steps):
    state = run.state()
    logs = np.linspace(np.log(lowest), np.log(highest), steps)
    out, best, least, s = np.zeros((2, steps)), None, np.inf, 0
    n = 0
    while n < steps:
        rate = np.exp(logs[n])
        s += 0.1 * (run.step(rate) - s)
        out[:, n] = rate, s / (1 - 0.9 ** (n + 1))
        if out[1, n] < least:
            least, best = out[1, n], rate
        n += 1
        if out[1, n - 1] > least + 1:
            break
    run.restore(state)
    return out[0, :n].copy(), out[1, :n].copy(), 0.1 * best


@right("find_rate")
def find_and_smooth_afterwards(run, lowest, highest, steps):
    state, rates, losses = run.state(), [lowest], []
    factor = (highest / lowest) ** (1 / (steps - 1))

    def smooth():
        weights = 0.9 ** np.arange(len(losses))[::-1]
        return np.dot(weights, losses) / weights.sum()

    smoothed = []
    try:
        while True:
            losses.append(run.step(rates[-1]))
            smoothed.append(smooth())
            if len(losses) == steps or smoothed[-1] > min(smoothed) + 1:
                break
            rates.append(rates[-1] * factor)
    finally:
        run.restore(state)
    return np.array(rates), np.array(smoothed), rates[smoothed.index(min(smoothed))] / 10


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


@wrong("find_rate", says="rates that grow by the same amount: multiply by the same factor instead")
def find_with_linspace(run, lowest, highest, steps):
    rates, smoothed, _ = _find(run, np.linspace(lowest, highest, steps))
    return rates, smoothed, rates[smoothed.argmin()] / 10


@wrong("find_rate", says="there are steps - 1 of them between steps rates")
def find_never_reaches_the_highest(run, lowest, highest, steps):
    rates, smoothed, _ = _find(run, lowest * (highest / lowest) ** (np.arange(steps) / steps))
    return rates, smoothed, rates[smoothed.argmin()] / 10


@wrong("find_rate", says="rates that come one step late, the lowest one twice")
def find_one_step_late(run, lowest, highest, steps):
    rates, smoothed, _ = _find(run, [lowest, *np.geomspace(lowest, highest, steps)[:-1]])
    return rates, smoothed, rates[smoothed.argmin()] / 10


@wrong("find_rate", says="begin with lowest")
def find_from_the_highest(run, lowest, highest, steps):
    rates, smoothed, _ = _find(run, np.geomspace(highest, lowest, steps))
    return rates, smoothed, rates[smoothed.argmin()] / 10


@wrong("find_rate", says="rates that are ten times as large from step to step")
def find_by_powers_of_ten(run, lowest, highest, steps):
    rates, smoothed, _ = _find(run, [lowest * 10.0**k for k in range(steps)])
    return rates, smoothed, rates[smoothed.argmin()] / 10


@wrong("find_rate", says="it went on to the last rate")
def find_goes_on(run, lowest, highest, steps):
    rates, smoothed, _ = _find(run, np.geomspace(lowest, highest, steps), margin=np.inf)
    return rates, smoothed, rates[smoothed.argmin()] / 10


@wrong("find_rate", says="compare with the least so far")
def find_compares_with_the_first(run, lowest, highest, steps):
    over = lambda smoothed, losses: smoothed[-1] > smoothed[0] + 1  # noqa: E731
    rates, smoothed, _ = _find(run, np.geomspace(lowest, highest, steps), over=over)
    return rates, smoothed, rates[smoothed.argmin()] / 10


@wrong("find_rate", says="compare smoothed ones")
def find_compares_single_losses(run, lowest, highest, steps):
    over = lambda smoothed, losses: losses[-1] > min(losses) + 1  # noqa: E731
    rates, smoothed, _ = _find(run, np.geomspace(lowest, highest, steps), over=over)
    return rates, smoothed, rates[smoothed.argmin()] / 10


@wrong("find_rate", says="noise does that too, so allow 1 nat")
def find_ends_when_it_rises(run, lowest, highest, steps):
    over = lambda smoothed, losses: len(smoothed) > 1 and smoothed[-1] > smoothed[-2]  # noqa: E731
    rates, smoothed, _ = _find(run, np.geomspace(lowest, highest, steps), over=over)
    return rates, smoothed, rates[smoothed.argmin()] / 10


@wrong("find_rate", says="numbers, and the run made")
def find_leaves_out_the_last(run, lowest, highest, steps):
    rates, smoothed, _ = _find(run, np.geomspace(lowest, highest, steps), before=True)
    return rates, smoothed, rates[smoothed.argmin()] / 10


@wrong("find_rate", says="the losses themselves: smooth them")
def find_does_not_smooth(run, lowest, highest, steps):
    rates, smoothed, losses = _find(run, np.geomspace(lowest, highest, steps))
    return rates, losses, rates[losses.argmin()] / 10


@wrong("find_rate", says="smoothed equals the reference without the correction")
def find_without_the_correction(run, lowest, highest, steps):
    rates, smoothed, _ = _find(run, np.geomspace(lowest, highest, steps), correct=False)
    return rates, smoothed, rates[smoothed.argmin()] / 10


@wrong("find_rate", says="smoothed equals the reference without the correction")
def find_returns_the_uncorrected(run, lowest, highest, steps):
    rates, smoothed, losses = _find(run, np.geomspace(lowest, highest, steps))
    s, raw = 0.0, []
    for loss in losses:
        s = 0.9 * s + 0.1 * loss
        raw.append(s)
    return rates, np.array(raw), rates[smoothed.argmin()] / 10


@wrong("find_rate", says="take a tenth of it")
def find_returns_the_least(run, lowest, highest, steps):
    rates, smoothed, _ = _find(run, np.geomspace(lowest, highest, steps))
    return rates, smoothed, rates[smoothed.argmin()]


@wrong("find_rate", says="a tenth of the least smoothed loss: return a tenth of its RATE")
def find_returns_a_loss(run, lowest, highest, steps):
    rates, smoothed, _ = _find(run, np.geomspace(lowest, highest, steps))
    return rates, smoothed, smoothed.min() / 10


@wrong("find_rate", says="a tenth of the rate of the least single loss")
def find_takes_a_single_loss(run, lowest, highest, steps):
    rates, smoothed, losses = _find(run, np.geomspace(lowest, highest, steps))
    return rates, smoothed, rates[losses.argmin()] / 10


@wrong("find_rate", says="the run was not left as it was")
def find_leaves_the_run_changed(run, lowest, highest, steps):
    rates, smoothed, _ = _find(run, np.geomspace(lowest, highest, steps), restore=False)
    return rates, smoothed, rates[smoothed.argmin()] / 10


@wrong("find_rate", says="not its place in the text")
def find_restores_the_weights_only(run, lowest, highest, steps):
    W = run.W.copy()
    rates, smoothed, _ = _find(run, np.geomspace(lowest, highest, steps), restore=False)
    run.W = W
    return rates, smoothed, rates[smoothed.argmin()] / 10


@wrong("find_rate", says="they are those after the last step. A step changes the array run.W itself: keep a copy")
def find_keeps_the_array_itself(run, lowest, highest, steps):
    state = run.W, run.count
    rates, smoothed, _ = _find(run, np.geomspace(lowest, highest, steps), restore=False)
    run.restore(state)
    return rates, smoothed, rates[smoothed.argmin()] / 10


@wrong("find_rate", says="a run that is restored after every step")
def find_restores_after_every_step(run, lowest, highest, steps):
    state, s, rates, smoothed = run.state(), 0.0, [], []
    for k, rate in enumerate(np.geomspace(lowest, highest, steps)):
        s = 0.9 * s + 0.1 * run.step(rate)
        run.restore(state)
        rates.append(rate)
        smoothed.append(s / (1 - 0.9 ** (k + 1)))
        if smoothed[-1] > min(smoothed) + 1:
            break
    return np.array(rates), np.array(smoothed), rates[int(np.argmin(smoothed))] / 10


@wrong("find_rate", says="with 0.95 in place of 0.9")
def find_smooths_more(run, lowest, highest, steps):
    rates, smoothed, _ = _find(run, np.geomspace(lowest, highest, steps), beta=0.95)
    return rates, smoothed, rates[smoothed.argmin()] / 10


@wrong("find_rate", says="nothing was returned")
def find_returns_nothing(run, lowest, highest, steps):
    _find(run, np.geomspace(lowest, highest, steps))


# ------------------------------------------------------------------------------------------------- 2 broken_setting


@right("broken_setting")
def broken_by_single_numbers(log, healthy):
    a, b = columns(log), columns(healthy)
    first, peak, late = (a["lr"][k] / b["lr"][k] for k in (0, 39, 300))
    if abs(first / peak - 1) > 0.05:
        return "warmup"
    if abs(peak - 1) > 0.02:
        return "learning_rate"
    if abs(late - 1) > 0.02 or abs(a["lr"][150] / b["lr"][150] - 1) > 0.02:
        return "schedule"
    if a["val"][-1] > 4:
        return "val_data"
    rough = lambda loss: np.abs(np.diff(loss[250:])).mean()  # noqa: E731
    if rough(a["loss"]) > 1.4 * rough(b["loss"]):
        return "batch_size"
    return "weight_decay" if a["val"][-1] - b["val"][-1] > 0.2 else None


@right("broken_setting")
def broken_by_lines(log, healthy):
    def rates(text):
        return [line.split("lr:")[1].split()[0] for line in text.splitlines() if "lr:" in line]

    def numbers(text, key):
        return [float(line.split(key)[1].split()[0]) for line in text.splitlines() if key in line]

    mine, theirs = rates(log), rates(healthy)
    if mine != theirs:
        if mine[:40] == theirs[:40]:
            return "schedule"
        shares = [float(x) / float(y) for x, y in zip(mine[:200:20], theirs[:200:20])]
        return "learning_rate" if max(shares) < 1.2 * min(shares) else "warmup"
    if numbers(log, "tel:")[-1] > numbers(log, "tel:")[0]:
        return "val_data"
    loss, good = np.array(numbers(log, "trl:")), np.array(numbers(healthy, "trl:"))
    if loss[-100:].std() > 1.4 * good[-100:].std():
        return "batch_size"
    return "weight_decay" if loss[-100:].min() > good[-100:].mean() + 0.05 else None


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


@wrong("broken_setting", says="The condition that would answer 'weight_decay', line")
def broken_with_a_distance_too_large(log, healthy):
    run, good = columns(log), columns(healthy)  # noqa: F821  (the exercise notebook has it)
    rate, right = run["lr"], good["lr"]
    if (rate != right).any():
        if (rate[:40] == right[:40]).all():
            return "schedule"
        return "learning_rate" if abs(rate.argmax() - right.argmax()) < 5 else "warmup"
    if run["val"][-1] > 1.5 * good["val"][-1]:
        return "val_data"
    noise, usual = (np.diff(c["loss"]).std() for c in (run, good))
    if noise > 1.4 * usual:
        return "batch_size"
    return "weight_decay" if run["val"][-1] > good["val"][-1] + 2.0 else None


@wrong("broken_setting", says="the broken setting was 'val_data'")
def broken_without_validation(log, healthy):
    return _broken(columns, log, healthy, val=False)


@wrong("broken_setting", says="Only healthy runs are wrong")
def broken_is_never_none(log, healthy):
    return _broken(columns, log, healthy) or "weight_decay"


@wrong("broken_setting", says="All 25 logs got the same answer.")
def broken_is_always_the_rate(log, healthy):
    return "learning_rate"


@wrong("broken_setting", says="With learning_rate at 0.03 the answer is right")
def broken_rate_only_too_high(log, healthy):
    found = _broken(columns, log, healthy)
    if found == "learning_rate" and columns(log)["lr"].max() < columns(healthy)["lr"].max():
        return None
    return found


@wrong("broken_setting", says="With warmup at 0 the answer is right")
def broken_warmup_only_at_the_start(log, healthy):
    found = _broken(columns, log, healthy)
    at_once = columns(log)["lr"][0] > 10 * columns(healthy)["lr"][0]
    return "learning_rate" if found == "warmup" and not at_once else found


@wrong("broken_setting", says="With schedule at constant the answer is right")
def broken_schedule_only_at_the_end(log, healthy):
    found = _broken(columns, log, healthy)
    if found == "schedule" and columns(log)["lr"][-1] < 1e-4:
        return None
    return found


@wrong("broken_setting", says="All the wrong answers are None")
def broken_wants_too_much(log, healthy):
    return _broken(columns, log, healthy, noise=5, level=1.0)


@wrong("broken_setting", says="the broken setting was 'batch_size'")
def broken_takes_noise_for_level(log, healthy):
    return _broken(columns, log, healthy, noise=np.inf, level=0.05)


@wrong("broken_setting", says="(12 of 25 logs got a wrong answer)")
def broken_ignores_the_rates(log, healthy):
    return _broken(columns, log, healthy, rates=False, level=0.02)


@wrong("broken_setting", says="or None for a healthy run; you returned 'lr'")
def broken_names_a_column(log, healthy):
    return "lr" if _broken(columns, log, healthy) == "learning_rate" else _broken(columns, log, healthy)


@wrong("broken_setting", says="or None for a healthy run; you returned 'none'")
def broken_says_none_in_words(log, healthy):
    return _broken(columns, log, healthy) or "none"


# ---------------------------------------------------------------------------------------------------- 3 best_budget


@right("best_budget")
def budget_for_a_tiny_model():
    return dict(layers=1, channels=16, length=16, batch_size=8, learning_rate=1e-2)


@right("best_budget")
def budget_with_all_settings():
    settings = GIVEN.copy()
    settings.update(layers=1, channels=24, length=16, batch_size=4, learning_rate=0.008, schedule="wsd", beta2=0.99)
    return settings


@wrong("best_budget", says="These are the given settings")
def budget_unchanged():
    return {}


@wrong("best_budget", says="a smaller model sees more")
def budget_for_a_larger_model():
    return {"channels": 128}


@wrong("best_budget", says="a smaller model sees more")
def budget_with_a_smaller_batch_alone():
    return {"batch_size": 4}


@wrong("best_budget", says="The loss rose far above where it began. In a fifth of the budget")
def budget_with_a_wild_rate():
    return {"layers": 1, "channels": 32, "length": 16, "batch_size": 8, "learning_rate": 10.0, "warmup": 0.0}


@wrong("best_budget", says="With batch_size 8 and all else as it is there are")
def budget_in_large_batches():
    return {"layers": 1, "channels": 32, "length": 32, "batch_size": 32, "learning_rate": 1e-2}


@wrong("best_budget", says="'steps' cannot be set; the settings are layers")
def budget_sets_the_steps():
    return {"steps": 5000}


@wrong("best_budget", says="channels must be a whole number from 8 to 256, and a multiple of 4, not 10")
def budget_with_ten_channels():
    return {"channels": 10}


@wrong("best_budget", says="batch_size must be a whole number from 4 to 64, not 2")
def budget_with_two_rows():
    return {"batch_size": 2}


@wrong("best_budget", says="warmup must be a share of the steps, from 0 to 1, not 50")
def budget_counts_the_warmup_in_steps():
    return {"warmup": 50}


@wrong("best_budget", says="return a dict")
def budget_as_a_list():
    return [1, 32, 16, 4, 1e-2]


@wrong("best_budget", says="nothing was returned")
def budget_returns_nothing():
    GIVEN | {"layers": 1}


@wrong("find_rate", says="1 nat above that of the step before")
def end_by_the_step_before(run, lowest, highest, steps):
    before = run.state()
    rates, smoothed, losses, s = [], [], [], 0
    for k, rate in enumerate(np.geomspace(lowest, highest, steps)):
        losses.append(run.step(rate))
        s = 0.9 * s + 0.1 * losses[-1]
        rates.append(rate)
        smoothed.append(s / (1 - 0.9 ** (k + 1)))
        if smoothed[-1] > smoothed[-2 if k else -1] + 1:
            break
    run.restore(before)
    return np.array(rates), np.array(smoothed), rates[int(np.argmin(smoothed))] / 10


# ------------------------------------------------------------------------------------------- of strangers


@right("best_budget")
def budget_that_is_searched():
    small = GIVEN | {"layers": 1, "channels": 16, "length": 16}
    tried = {rate: train_letters(**small | {"learning_rate": rate}, share=0.2)[0] for rate in (3e-3, 1e-2)}
    return small | {"learning_rate": min(tried, key=tried.get)}


@wrong("best_budget", says="what helps is the given learning_rate")
def budget_with_a_rate_of_one():
    return {"layers": 1, "channels": 16, "length": 16, "batch_size": 8, "learning_rate": 1.0}


@wrong("best_budget", says="that is what train_letters returns: bits, losses, letters. Return the settings")
def budget_returns_the_run():
    return train_letters(**GIVEN)


@wrong("broken_setting", says="holds, and answers before the one that is right, line")
def broken_asks_for_decay_first(log, healthy):
    run, ok = columns(log), columns(healthy)
    if run["val"][-1] > ok["val"][-1] + 0.2:
        return "weight_decay"
    if run["val"][-1] > 1.25 * ok["val"][-1]:
        return "val_data"
    return _broken(columns, log, healthy)


@wrong("broken_setting", says="does not hold for this log: ")
def broken_takes_the_spread_of_losses(log, healthy):
    run, ok = columns(log), columns(healthy)
    found = _broken(columns, log, healthy)
    if found != "batch_size":
        return found
    if run["loss"].std() > 1.4 * ok["loss"].std():
        return "batch_size"
    return None


@wrong("best_budget", says="your function changes GIVEN itself: layers, channels and length were not as given any more")
def budget_written_into_given():
    settings = GIVEN
    settings["layers"] = 1
    settings["channels"] = 16
    settings["length"] = 16
    return settings


@wrong("find_rate", says="equals rates from 10**ln(lowest) on")
def find_by_natural_logarithms(run, lowest, highest, steps):
    rates, smoothed, _ = _find(run, np.logspace(np.log(lowest), np.log(highest), steps))
    return rates, smoothed, rates[smoothed.argmin()] / 10


@wrong("find_rate", says="a single loss is 1 nat above the least smoothed loss so far; compare the smoothed loss")
def find_compares_a_single_loss_with_smoothed_ones(run, lowest, highest, steps):
    over = lambda smoothed, losses: losses[-1] > min(smoothed) + 1  # noqa: E731
    rates, smoothed, _ = _find(run, np.geomspace(lowest, highest, steps), over=over)
    return rates, smoothed, rates[smoothed.argmin()] / 10


@wrong("find_rate", says="the smoothed loss falls most steeply")
def find_the_steepest(run, lowest, highest, steps):
    rates, smoothed, _ = _find(run, np.geomspace(lowest, highest, steps))
    return rates, smoothed, rates[int(np.argmin(np.gradient(smoothed)))]


@wrong("find_rate", says="it is least in step")
def find_halfway_to_the_least(run, lowest, highest, steps):
    rates, smoothed, _ = _find(run, np.geomspace(lowest, highest, steps))
    return rates, smoothed, rates[smoothed.argmin() // 2]


@wrong("find_rate", says="a test that ends early leaves it as it was, and one that goes on to its last step does not")
def find_restores_only_early(run, lowest, highest, steps):
    start, planned = run.state(), np.geomspace(lowest, highest, steps)
    rates, smoothed, _ = _find(run, planned, restore=False)
    if len(rates) < steps:
        run.restore(start)
    return rates, smoothed, rates[smoothed.argmin()] / 10


@wrong("find_rate", says="but as it was after step 1 of")
def find_takes_the_state_late(run, lowest, highest, steps):
    s, rates, smoothed, state = 0.0, [], [], None
    for k, rate in enumerate(np.geomspace(lowest, highest, steps)):
        s = 0.9 * s + 0.1 * run.step(rate)
        state = state or run.state()
        rates.append(rate)
        smoothed.append(s / (1 - 0.9 ** (k + 1)))
        if smoothed[-1] > min(smoothed) + 1:
            break
    run.restore(state)
    return np.array(rates), np.array(smoothed), rates[int(np.argmin(smoothed))] / 10


@wrong("find_rate", says="the corrected value kept in s: the next step goes on from the uncorrected one")
def find_keeps_the_corrected(run, lowest, highest, steps):
    state, s, rates, smoothed = run.state(), 0.0, [], []
    for k, rate in enumerate(np.geomspace(lowest, highest, steps)):
        s = (0.9 * s + 0.1 * run.step(rate)) / (1 - 0.9 ** (k + 1))
        rates.append(rate)
        smoothed.append(s)
        if smoothed[-1] > min(smoothed) + 1:
            break
    run.restore(state)
    return np.array(rates), np.array(smoothed), rates[int(np.argmin(smoothed))] / 10


@wrong("find_rate", says="of `steps` steps the last one was never made")
def find_makes_one_step_less(run, lowest, highest, steps):
    rates, smoothed, _ = _find(run, np.geomspace(lowest, highest, steps)[:-1])
    return rates, smoothed, rates[smoothed.argmin()] / 10


@right("find_rate")
def find_on_a_run_of_its_own(run, lowest, highest, steps):
    trial = type(run)(run.W, run.starts)
    trial.count = run.count
    rates, smoothed, _ = _find(trial, np.geomspace(lowest, highest, steps), restore=False)
    return rates, smoothed, rates[smoothed.argmin()] / 10


@wrong("broken_setting", says="holds for this log, and answers 'warmup'.")
def broken_calls_each_other_start_a_warmup(log, healthy):
    run, ok = columns(log), columns(healthy)
    if not np.array_equal(run["lr"][:40], ok["lr"][:40]):
        return "warmup"
    if not np.array_equal(run["lr"][40:], ok["lr"][40:]):
        return "learning_rate" if run["lr"].max() != ok["lr"].max() else "schedule"
    return _broken(columns, log, healthy)


@wrong("find_rate", says="the reference with 0.9**k in the correction: k counts from 0, so step k has k + 1 losses")
def find_with_one_power_less(run, lowest, highest, steps):
    state, s, rates, smoothed = run.state(), 0.0, [], []
    for k, rate in enumerate(np.geomspace(lowest, highest, steps)):
        s = 0.9 * s + 0.1 * run.step(rate)
        rates.append(rate)
        smoothed.append(s / (1 - 0.9 ** max(k, 1)))
        if smoothed[-1] > min(smoothed) + 1:
            break
    run.restore(state)
    return np.array(rates), np.array(smoothed), rates[int(np.argmin(smoothed))] / 10


@wrong("find_rate", says="and should have ended after")
def find_waits_ten_steps(run, lowest, highest, steps):
    over = lambda smoothed, losses: len(losses) > 10 and smoothed[-1] > min(smoothed) + 1  # noqa: E731
    rates, smoothed, _ = _find(run, np.geomspace(lowest, highest, steps), over=over)
    return rates, smoothed, rates[smoothed.argmin()] / 10


@wrong("find_rate", says="run.step was called 2 times with each rate")
def find_with_two_steps_of_each(run, lowest, highest, steps):
    state, s, rates, smoothed = run.state(), 0.0, [], []
    for k, rate in enumerate(np.geomspace(lowest, highest, steps)):
        run.step(rate)
        s = 0.9 * s + 0.1 * run.step(rate)
        rates.append(rate)
        smoothed.append(s / (1 - 0.9 ** (k + 1)))
        if smoothed[-1] > min(smoothed) + 1:
            break
    run.restore(state)
    return np.array(rates), np.array(smoothed), rates[int(np.argmin(smoothed))] / 10


@wrong("broken_setting", says="does not occur in your function")
def broken_with_a_setting_left_out(log, healthy):
    found, answer = _broken(columns, log, healthy), None
    for name in ("learning_rate", "warmup", "schedule", "batch_size", "weight_decay"):
        answer = name if found == name else answer
    return answer


@wrong("broken_setting", says=", and answers 'weight_decay'.")
def broken_notes_every_later_start(log, healthy):
    run, ok = columns(log), columns(healthy)
    answer = _broken(columns, log, healthy)
    if run["lr"].argmax() > ok["lr"].argmax() + 100:
        answer = "weight_decay"
    return answer


@wrong("best_budget", says="With layers 4, channels 128 and length 16, the run saw")
def budget_of_a_large_model():
    return {"layers": 4, "channels": 128, "length": 16}


@wrong("broken_setting", says="holds, and comes before the one that is right, line")
def broken_lists_decay_first(log, healthy):
    run, ok = columns(log), columns(healthy)
    equal = run["lr"] == ok["lr"]
    noise = np.std(run["loss"][1:] - run["loss"][:-1]) / np.std(ok["loss"][1:] - ok["loss"][:-1])
    worse = run["val"][-1] - ok["val"][-1]
    tests = [
        ("schedule", equal[:40].all() and not equal.all()),
        ("warmup", run["lr"].argmax() != ok["lr"].argmax()),
        ("learning_rate", not equal.all()),
        ("batch_size", noise > 1.4),
        ("weight_decay", worse > 0.2),
        ("val_data", run["val"][-1] > 1.5 * ok["val"][-1]),
    ]
    return next((name for name, hit in tests if hit), None)


@wrong("best_budget", says="Of 3 settings that your function tries it returns those with the largest number of bits, ")
def budget_of_the_most_bits():
    candidates = [
        {"channels": 96},
        {"layers": 1, "channels": 32, "batch_size": 4},
        {"layers": 1, "channels": 16, "length": 16, "learning_rate": 1e-2},
    ]
    scores = [train_letters(**GIVEN | settings, share=0.1)[0] for settings in candidates]
    return candidates[int(np.argmax(scores))]


@wrong("find_rate", says="begins with the first loss instead of 0, and is corrected as if")
def rate_corrected_from_the_first_loss(run, lowest, highest, steps):
    before = run.state()
    factor = (highest / lowest) ** (1 / (steps - 1))
    rates, smoothed = [], []
    s = None
    for k in range(steps):
        rate = lowest * factor**k
        loss = run.step(rate)
        s = loss if s is None else 0.9 * s + 0.1 * loss
        rates.append(rate)
        smoothed.append(s / (1 - 0.9 ** (k + 1)))
        if smoothed[-1] > min(smoothed) + 1:
            break
    run.restore(before)
    return np.array(rates), np.array(smoothed), rates[int(np.argmin(smoothed))] / 10


@wrong("broken_setting", says="which holds as well")
def setting_by_another_last_rate(log, healthy):
    run, good = columns(log), columns(healthy)
    if not np.array_equal(run["lr"], good["lr"]):
        if run["lr"][-1] != good["lr"][-1]:  # the curve ends somewhere else
            return "schedule"
        if run["lr"].argmax() == good["lr"].argmax():
            return "learning_rate"
        return "warmup"
    if run["val"][-1] > 1.5 * good["val"][-1]:
        return "val_data"
    if np.diff(run["loss"]).std() > 1.4 * np.diff(good["loss"]).std():
        return "batch_size"
    if run["val"][-1] > good["val"][-1] + 0.2:
        return "weight_decay"
    return None


@wrong("best_budget", says="warmup must be a share of the steps, from 0 to 1, not 100\nThe call")
def budget_with_a_warmup_in_steps():
    small = {"layers": 1, "channels": 16}
    rows = {"length": 16, "batch_size": 8}
    rate = {"learning_rate": 1e-2, "warmup": 100, "schedule": "cosine"}
    return small | rows | rate


@wrong("best_budget", says="With length 32 and all else as it is there are")
def budget_in_long_rows():
    return {"layers": 1, "channels": 32, "length": 128, "batch_size": 4, "learning_rate": 6e-3}


@wrong("best_budget", says="`update` changes `settings` itself and returns None")
def budget_that_returns_what_update_does():
    settings = {"layers": 1, "channels": 16, "length": 16, "batch_size": 8}
    return settings.update(learning_rate=1e-2)
