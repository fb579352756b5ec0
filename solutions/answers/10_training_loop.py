"""Answers to the exercises of lesson 10 as strangers write them, with words that wrong ones must get."""

# ruff: noqa: F821
import copy

import numpy as np

from llmc.course.authoring.answers import right, wrong


@right("accumulate_gradients")
def accumulate_and_divide(model, batches, lr):
    model.zero_grad()
    tokens, nats = 0, 0.0
    for x, y in batches:
        nats += model.forward(x, y, dloss=x.size) * x.size
        model.backward()
        tokens += x.size
    model.grads /= tokens
    model.update(lr)
    return nats / tokens


@right("accumulate_gradients")
def accumulate_row_by_row(model, batches, lr):
    rows = [(x[i : i + 1], y[i : i + 1]) for x, y in batches for i in range(len(x))]
    model.zero_grad()
    loss = 0
    for x, y in rows:
        loss += model.forward(x, y, dloss=1 / len(rows)) / len(rows)
        model.backward()
    model.update(lr)
    return loss


@wrong(
    "accumulate_gradients",
    says="passes this whole check with `model.grads` in place of `share * model.grads`",
)
def accumulate_shares_twice(model, batches, lr):
    total = sum(x.size for x, _ in batches)
    model.zero_grad()
    loss, gradient = 0.0, 0.0
    for x, y in batches:
        share = x.size / total
        model.zero_grad()
        loss += share * model.forward(x, y, dloss=share)
        model.backward()
        gradient = gradient + share * model.grads
    model.grads[...] = gradient
    model.update(lr)
    return loss


@right("validation_loss")
def validate_with_recursion(model, tokens, B, T, lengths):
    def nats(tokens):
        n = len(tokens) - 1
        if n <= 0:
            return 0.0
        t = min(n, T)
        b = min(n // t, B)
        x, y = tokens[: b * t].reshape(b, t), tokens[1 : b * t + 1].reshape(b, t)
        return b * t * model.loss(x, y) + nats(tokens[b * t :])

    total = nats(tokens)
    return total / (len(tokens) - 1), total * np.log2(np.e) / sum(lengths[token] for token in tokens[1:])


@right("validation_loss")
def validate_with_average(model, tokens, B, T, lengths):
    x, y = tokens[:-1], tokens[1:]
    edges = [*range(0, len(x), T), len(x)]
    rows = list(zip(edges, edges[1:]))
    losses = [model.loss(x[None, a:b], y[None, a:b]) for a, b in rows]
    loss = np.average(losses, weights=[b - a for a, b in rows])
    return loss, loss / np.log(2) / lengths[y].mean()


@right("z_scores")
def z_with_windows(values, window):
    z = np.full(values.shape, np.nan)
    if len(values) >= window:
        views = np.lib.stride_tricks.sliding_window_view(values, window)
        spread = views.std(axis=1)
        distance = views[:, -1] - views.mean(axis=1)
        z[window - 1 :] = np.where(spread > 0, distance / np.where(spread > 0, spread, 1), 0)
    return z


@right("z_scores")
def z_with_a_list(values, window):
    recent, z = [], []
    for value in values:
        recent.append(float(value))
        if len(recent) > window:
            recent.pop(0)
        if len(recent) < window:
            z.append(float("nan"))
            continue
        mean = sum(recent) / window
        variance = sum((v - mean) ** 2 for v in recent) / window
        z.append((value - mean) / variance**0.5 if variance else 0.0)
    return np.array(z)


@right("state_of")
def state_with_deepcopy(run):
    wanted = "params m v t step seed epoch place rng recent".split()
    return {name: copy.deepcopy(value) for name, value in vars(run).items() if name in wanted}


@right("state_of")
def state_line_by_line(run):
    state = {"params": np.array(run.params), "m": run.m + 0, "v": np.copy(run.v)}
    state["t"], state["step"] = int(run.t), int(run.step)
    state.update(seed=run.seed, epoch=run.epoch, place=run.place, rng=run.rng)
    state["recent"] = run.recent[:]
    return state


def _all(run, *without):
    """Everything that is needed, but for some names."""
    arrays = {name: getattr(run, name).copy() for name in ("params", "m", "v")}
    numbers = {name: getattr(run, name) for name in ("t", "step", "seed", "epoch", "place", "rng")}
    state = arrays | numbers | {"recent": list(run.recent)}
    return {name: value for name, value in state.items() if name not in without}


@wrong("state_of", says="'recent' does not hold exactly what the run held: keep a copy, in its own type")
def state_shares_the_list(run):
    return _all(run) | {"recent": run.recent}


@wrong("state_of", says="'params' does not hold exactly what the run held")
def state_as_text(run):
    rounded = np.array([[float(f"{w:.4f}") for w in row] for row in run.params], np.float32)
    return _all(run) | {"params": rounded}


@wrong("state_of", says="'tokens' need not be kept: no step depends on it")
def state_everything(run):
    return {
        name: value for name, value in copy.deepcopy(vars(run)).items() if name not in ("grads", "logits", "losses")
    }


@right("write_whole")
def write_under_a_hidden_name(disk, name, data):
    hidden = f".{name}.new"
    disk.write(hidden, data)
    disk.sync(hidden)
    disk.sync_folder()  # not needed, and no harm
    disk.rename(hidden, name)
    disk.sync_folder()


@right("write_whole")
def write_with_a_loop(disk, name, data):
    temporary = "tmp-" + name
    steps = [("write", temporary, data), ("sync", temporary), ("rename", temporary, name), ("sync_folder",)]
    for step, *arguments in steps:
        getattr(disk, step)(*arguments)


@right("best_settings")
def settings_of_a_small_batch():
    return GIVEN | {"batch_size": 2, "learning_rate": 2e-3, "beta2": 0.99}


@right("best_settings")
def settings_with_another_schedule():
    return dict(batch_size=4, learning_rate=0.004, warmup=50, schedule="wsd", weight_decay=0)


@wrong("best_settings", says="nats per letter with warmup 200; the given settings reach")
def settings_all_warmup():
    return {"warmup": 200}


@wrong("best_settings", says="batch_size must be a whole number from 2 to 64, not 128")
def settings_with_a_batch_beyond_the_range():
    return GIVEN | {"batch_size": 128}


@wrong("z_scores", says="it is 0 where ALL of a window is equal, and only there")
def z_with_a_threshold_of_1e_30(values, window):
    z = np.full_like(values, np.nan)
    for last in range(window, len(values) + 1):
        part = values[last - window : last]
        z[last - 1] = 0.0 if np.std(part) <= 1e-30 else (part[-1] - np.mean(part)) / np.std(part)
    return z


@wrong("accumulate_gradients", says="your code took something out of `batches`, which was given to it")
def accumulate_takes_the_batches_away(model, batches, lr):
    total, loss = sum(x.size for x, _ in batches), 0.0
    model.zero_grad()
    while batches:
        x, y = batches.pop(0)
        loss += model.forward(x, y, x.size / total) * x.size / total
        model.backward()
    model.update(lr)
    return loss


@wrong("accumulate_gradients", says="equals the reference with each share of the tokens so far")
def accumulation_with_a_running_total(model, batches, lr):
    model.zero_grad()
    seen, loss = 0, 0.0
    for x, y in batches:
        seen += x.size
        loss += (model.forward(x, y, dloss=x.size / seen) - loss) * x.size / seen
        model.backward()
    model.update(lr)
    return loss


@wrong("write_whole", says="kill -9 may leave no file under model.bin")
def whole_with_a_backup(disk, name, data):
    new, backup = name + ".new", name + ".bak"
    disk.write(new, data)
    disk.sync(new)
    had_old = name in disk.files
    if had_old:
        disk.rename(name, backup)
    disk.rename(new, name)
    disk.sync_folder()
    if had_old:
        disk.remove(backup)
        disk.sync_folder()


@wrong("validation_loss", says="the model should get each row of T = 4 tokens once")
def validate_what_fills_up_the_last_row(model, tokens, B, T, lengths):
    x, y = tokens[:-1], tokens[1:]
    n = len(x)
    missing = -n % T
    X = np.pad(x, (0, missing)).reshape(-1, T)
    Y = np.pad(y, (0, missing)).reshape(-1, T)
    nats = 0.0
    for r in range(0, len(X), B):
        a, b = X[r : r + B], Y[r : r + B]
        real = min(a.size, n - r * T)
        nats += model.loss(a, b) * real
    return nats / n, nats / np.log(2) / lengths[y].sum()


@wrong("write_whole", says="a power cut after write_whole has returned may undo it: call sync_folder() at the end")
def write_syncs_where_it_replaces(disk, name, data):
    replaces = name in disk.files
    scratch = f"{name}.scratch"
    disk.write(scratch, data)
    disk.sync(scratch)
    disk.rename(scratch, name)
    if replaces:
        disk.sync_folder()


@wrong("write_whole", says="sweep.bin.tmp, another file in the folder, does not survive")
def save_that_clears_every_temporary_file(disk, name, data):
    tmp = name + ".tmp"
    for left in [other for other in disk.files if other.endswith(".tmp")]:
        disk.remove(left)  # of a save that was killed
    disk.write(tmp, data)
    disk.sync(tmp)
    disk.rename(tmp, name)
    disk.sync_folder()


@wrong("validation_loss", says="the model should get each row of T = 4 tokens once")
def validate_with_the_rest_first(model, tokens, B, T, lengths):
    x, y, rest = tokens[:-1], tokens[1:], (len(tokens) - 1) % T
    edges = [0] * (rest > 0) + [*range(rest, len(x) + 1, T)]
    nats = sum(model.loss(x[None, a:b], y[None, a:b]) * (b - a) for a, b in zip(edges, edges[1:]))
    return nats / len(x), nats / np.log(2) / lengths[y].sum()


@wrong("z_scores", says="small differences between large values are lost")
def z_from_running_sums_of_what_lies_above_the_first(values, window):
    n = len(values)
    z = np.full(n, np.nan)
    if n < window:
        return z
    shifted = values - values[0]  # against cancellation
    s1 = np.concatenate([[0.0], np.cumsum(shifted)])
    s2 = np.concatenate([[0.0], np.cumsum(shifted**2)])
    mean = (s1[window:] - s1[:-window]) / window
    var = np.maximum((s2[window:] - s2[:-window]) / window - mean**2, 0.0)
    spread = np.sqrt(var)
    safe = np.where(spread > 0, spread, 1.0)
    z[window - 1 :] = np.where(spread > 0, (shifted[window - 1 :] - mean) / safe, 0.0)
    return z
