"""Answers to the exercises of lesson 10 as learners write them: right ones that look different, and wrong ones.

Each wrong answer comes with words that its check must say. CI runs them all;
`python -m llmc.course.old.authoring.answers 10` runs those of this lesson.
`GIVEN` is that of the exercise notebook.
"""

# ruff: noqa: F821
import copy

import numpy as np

from llmc.course.old.authoring.answers import right, wrong

# --------------------------------------------------------------------------------------- 1 accumulate_gradients


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
def accumulate_with_arrays(model, batches, lr):
    sizes = np.array([len(x) for x, _ in batches])
    weights = sizes / sizes.sum()
    losses = np.zeros(len(batches))
    for k, (x, y) in enumerate(batches):
        if k == 0:
            model.zero_grad()
        losses[k] = model.forward(x, y, weights[k])
        model.backward()
    model.update(lr)
    return np.dot(weights, losses)


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


@wrong("accumulate_gradients", says="the sum of the micro-batches' gradients: each must count its share")
def accumulate_without_share(model, batches, lr):
    model.zero_grad()
    losses = []
    for x, y in batches:
        losses.append(model.forward(x, y, dloss=1.0))
        model.backward()
    model.update(lr)
    return sum(losses) / len(losses)


@wrong("accumulate_gradients", says="the share 1/n for each: these micro-batches are not all of the same size")
def accumulate_one_over_n(model, batches, lr):
    n = len(batches)
    model.zero_grad()
    loss = 0.0
    for x, y in batches:
        loss += model.forward(x, y, dloss=1 / n) / n
        model.backward()
    model.update(lr)
    return loss


@wrong("accumulate_gradients", says="the gradient of the last micro-batch alone")
def accumulate_zeroes_in_the_loop(model, batches, lr):
    total = sum(x.size for x, _ in batches)
    loss = 0.0
    for x, y in batches:
        model.zero_grad()
        loss += model.forward(x, y, dloss=x.size / total) * x.size / total
        model.backward()
    model.update(lr)
    return loss


@wrong("accumulate_gradients", says="plus what the buffer held before: call zero_grad before the loop")
def accumulate_never_zeroes(model, batches, lr):
    total = sum(x.size for x, _ in batches)
    loss = 0.0
    for x, y in batches:
        loss += model.forward(x, y, dloss=x.size / total) * x.size / total
        model.backward()
    model.update(lr)
    return loss


@wrong("accumulate_gradients", says="plus what the buffer held before: call zero_grad before the loop")
def accumulate_zeroes_at_the_end(model, batches, lr):
    loss = accumulate_never_zeroes(model, batches, lr)
    model.zero_grad()
    return loss


@wrong("accumulate_gradients", says="3 updates were made from 3 micro-batches: make one, after the loop")
def accumulate_updates_each_time(model, batches, lr):
    total = sum(x.size for x, _ in batches)
    loss = 0.0
    for x, y in batches:
        model.zero_grad()
        loss += model.forward(x, y, dloss=1.0) * x.size / total
        model.backward()
        model.update(lr)
    return loss


@wrong("accumulate_gradients", says="no update was made")
def accumulate_forgets_the_update(model, batches, lr):
    total = sum(x.size for x, _ in batches)
    model.zero_grad()
    loss = 0.0
    for x, y in batches:
        loss += model.forward(x, y, dloss=x.size / total) * x.size / total
        model.backward()
    return loss


@wrong("accumulate_gradients", says="the gradient of the last micro-batch alone")
def accumulate_goes_backward_once(model, batches, lr):
    total = sum(x.size for x, _ in batches)
    model.zero_grad()
    loss = 0.0
    for x, y in batches:
        loss += model.forward(x, y, dloss=x.size / total) * x.size / total
    model.backward()
    model.update(lr)
    return loss


@wrong("accumulate_gradients", says="the learning rate was")
def accumulate_scales_the_rate(model, batches, lr):
    total = sum(x.size for x, _ in batches)
    model.zero_grad()
    loss = 0.0
    for x, y in batches:
        loss += model.forward(x, y, dloss=x.size / total) * x.size / total
        model.backward()
    model.update(lr / len(batches))
    return loss


@wrong(
    "accumulate_gradients",
    says="the mean of the micro-batches' losses: these micro-batches are not all of the same size",
)
def accumulate_returns_the_mean_of_means(model, batches, lr):
    total = sum(x.size for x, _ in batches)
    model.zero_grad()
    losses = []
    for x, y in batches:
        losses.append(model.forward(x, y, dloss=x.size / total))
        model.backward()
    model.update(lr)
    return np.mean(losses)


@wrong("accumulate_gradients", says="the loss of the last micro-batch alone")
def accumulate_returns_the_last_loss(model, batches, lr):
    total = sum(x.size for x, _ in batches)
    model.zero_grad()
    for x, y in batches:
        loss = model.forward(x, y, dloss=x.size / total)
        model.backward()
    model.update(lr)
    return loss


@wrong("accumulate_gradients", says="the share applied twice")
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


@wrong("accumulate_gradients", says="x and y must be (b, t) with at most")
def accumulate_puts_them_together(model, batches, lr):
    x, y = (np.concatenate(parts) for parts in zip(*batches))
    model.zero_grad()
    loss = model.forward(x, y, dloss=1.0)
    model.backward()
    model.update(lr)
    return loss


@wrong("accumulate_gradients", says="backward needs forward(x, y, dloss=...) right before it")
def accumulate_without_dloss(model, batches, lr):
    model.zero_grad()
    loss = 0.0
    for x, y in batches:
        loss += model.forward(x, y) / len(batches)
        model.backward()
    model.update(lr)
    return loss


@wrong("accumulate_gradients", says="the loss is None")
def accumulate_returns_nothing(model, batches, lr):
    total = sum(x.size for x, _ in batches)
    model.zero_grad()
    for x, y in batches:
        model.forward(x, y, dloss=x.size / total)
        model.backward()
    model.update(lr)


# ------------------------------------------------------------------------------------------- 2 validation_loss


@right("validation_loss")
def validate_row_by_row(model, tokens, B, T, lengths):
    nats, n, size = 0.0, 0, 0
    for start in range(0, len(tokens) - 1, T):
        row = tokens[start : start + T + 1]
        x, y = row[None, :-1], row[None, 1:]
        nats += model.forward(x, y) * y.size
        n += y.size
        size += int(lengths[y].sum())
    return nats / n, nats / size / np.log(2)


@right("validation_loss")
def validate_with_recursion(model, tokens, B, T, lengths):
    def nats(tokens):
        n = len(tokens) - 1
        if n <= 0:
            return 0.0
        t = min(n, T)
        b = min(n // t, B)
        x, y = tokens[: b * t].reshape(b, t), tokens[1 : b * t + 1].reshape(b, t)
        return b * t * model.forward(x, y) + nats(tokens[b * t :])

    total = nats(tokens)
    return total / (len(tokens) - 1), total * np.log2(np.e) / sum(lengths[token] for token in tokens[1:])


@right("validation_loss")
def validate_with_average(model, tokens, B, T, lengths):
    x, y = tokens[:-1], tokens[1:]
    edges = [*range(0, len(x), T), len(x)]
    rows = list(zip(edges, edges[1:]))
    losses = [model.forward(x[None, a:b], y[None, a:b]) for a, b in rows]
    loss = np.average(losses, weights=[b - a for a, b in rows])
    return loss, loss / np.log(2) / lengths[y].mean()


def _cut(tokens, B, T, tail=True):
    x, y = tokens[:-1], tokens[1:]
    rows = len(x) // T
    pieces = [
        (x[T * r : T * min(r + B, rows)].reshape(-1, T), y[T * r : T * min(r + B, rows)].reshape(-1, T))
        for r in range(0, rows, B)
    ]
    if tail and rows * T < len(x):
        pieces.append((x[None, rows * T :], y[None, rows * T :]))
    return pieces


def _bits(loss, tokens, lengths):
    return loss * (len(tokens) - 1) / np.log(2) / lengths[tokens[1:]].sum()


def _loss(model, pieces):
    return sum(model.forward(x, y) * x.size for x, y in pieces) / sum(x.size for x, _ in pieces)


@wrong("validation_loss", says="the mean of the batches' means: the last batches are smaller")
def validate_mean_of_means(model, tokens, B, T, lengths):
    loss = np.mean([model.forward(x, y) for x, y in _cut(tokens, B, T)])
    return loss, _bits(loss, tokens, lengths)


@wrong("validation_loss", says="without the row that is shorter than T")
def validate_without_the_tail(model, tokens, B, T, lengths):
    loss = _loss(model, _cut(tokens, B, T, tail=False))
    return loss, _bits(loss, tokens, lengths)


@wrong("validation_loss", says="without the rows that do not fill a batch")
def validate_full_batches(model, tokens, B, T, lengths):
    loss = _loss(model, [(x, y) for x, y in _cut(tokens, B, T) if x.size == B * T])
    return loss, _bits(loss, tokens, lengths)


@wrong("validation_loss", says="the loss with y = x: y is shifted by one token")
def validate_repeats(model, tokens, B, T, lengths):
    loss = _loss(model, [(x, x) for x, _ in _cut(tokens, B, T)])
    return loss, _bits(loss, tokens, lengths)


@wrong("validation_loss", says="divided by len(tokens): nothing predicts the first token")
def validate_counts_the_first(model, tokens, B, T, lengths):
    loss = _loss(model, _cut(tokens, B, T)) * (len(tokens) - 1) / len(tokens)
    return loss, _bits(loss, tokens, lengths)


@wrong("validation_loss", says="without some targets: neighbouring rows share a token")
def validate_rows_apart(model, tokens, B, T, lengths):
    rows = [tokens[a : a + T + 1] for a in range(0, len(tokens), T + 1)]
    loss = _loss(model, [(row[None, :-1], row[None, 1:]) for row in rows if len(row) > 1])
    return loss, _bits(loss, tokens, lengths)


@wrong("validation_loss", says="the sum over all tokens: divide it by their number")
def validate_forgets_to_divide(model, tokens, B, T, lengths):
    nats = _loss(model, _cut(tokens, B, T)) * (len(tokens) - 1)
    return nats, nats / np.log(2) / lengths[tokens[1:]].sum()


@wrong("validation_loss", says="x and y must be (b, t) with at most")
def validate_all_at_once(model, tokens, B, T, lengths):
    loss = model.forward(tokens[None, :-1], tokens[None, 1:])
    return loss, _bits(loss, tokens, lengths)


@wrong("validation_loss", says="nats per byte: divide by ln 2")
def validate_in_nats(model, tokens, B, T, lengths):
    loss = _loss(model, _cut(tokens, B, T))
    return loss, _bits(loss, tokens, lengths) * np.log(2)


@wrong("validation_loss", says="the bytes of x: count the bytes of the targets")
def validate_bytes_of_x(model, tokens, B, T, lengths):
    loss = _loss(model, _cut(tokens, B, T))
    return loss, loss * (len(tokens) - 1) / np.log(2) / lengths[tokens[:-1]].sum()


@wrong("validation_loss", says="the bytes of all tokens: the first one is not a target")
def validate_bytes_of_all(model, tokens, B, T, lengths):
    loss = _loss(model, _cut(tokens, B, T))
    return loss, loss * (len(tokens) - 1) / np.log(2) / lengths[tokens].sum()


@wrong("validation_loss", says="the mean length of the vocabulary")
def validate_mean_length(model, tokens, B, T, lengths):
    loss = _loss(model, _cut(tokens, B, T))
    return loss, loss / np.log(2) / lengths.mean()


@wrong("validation_loss", says="the loss is a mean, so multiply it by the number of tokens first")
def validate_divides_the_mean(model, tokens, B, T, lengths):
    loss = _loss(model, _cut(tokens, B, T))
    return loss, loss / np.log(2) / lengths[tokens[1:]].sum()


@wrong("validation_loss", says="bits per token: divide by the bytes per token")
def validate_bits_per_token(model, tokens, B, T, lengths):
    loss = _loss(model, _cut(tokens, B, T))
    return loss, loss / np.log(2)


@wrong("validation_loss", says="return two numbers")
def validate_only_the_loss(model, tokens, B, T, lengths):
    return _loss(model, _cut(tokens, B, T))


@wrong("validation_loss", says="the model was trained: a validation only goes forward")
def validate_trains(model, tokens, B, T, lengths):
    nats, n = 0.0, len(tokens) - 1
    for x, y in _cut(tokens, B, T):
        nats += model.forward(x, y, dloss=1.0) * x.size
        model.backward()
    return nats / n, _bits(nats / n, tokens, lengths)


# --------------------------------------------------------------------------------------------------- 3 z_scores


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


def _z_by(values, window, one):
    """The loop around one window."""
    z = np.full(len(values), np.nan)
    for i in range(window - 1, len(values)):
        z[i] = one(values, i, values[i - window + 1 : i + 1])
    return z


@wrong("z_scores", says="it is 0 only where ALL of a window is equal")
def z_of_windows_that_end_as_they_begin(values, window):
    return _z_by(values, window, lambda values, i, w: 0.0 if w[0] == w[-1] else (values[i] - w.mean()) / w.std())


@wrong("z_scores", says="it is 0 only where ALL of a window is equal")
def z_of_a_value_that_stays(values, window):
    return _z_by(values, window, lambda values, i, w: 0.0 if w[-1] == w[-2] else (values[i] - w.mean()) / w.std())


@wrong("z_scores", says="the window BEFORE the value, and 0 where that is not full")
def z_of_the_values_before(values, window):
    z = np.full(len(values), np.nan)
    for i in range(window - 1, len(values)):
        recent = values[i - window : i]
        spread = recent.std() if len(recent) else 0.0
        z[i] = (values[i] - recent.mean()) / spread if spread > 0 else 0.0
    return z


@wrong("z_scores", says="n - 1 in the variance (ddof=1)")
def z_with_ddof(values, window):
    return _z_by(values, window, lambda values, i, w: (values[i] - w.mean()) / w.std(ddof=1) if w.std() else 0.0)


@wrong("z_scores", says="the window BEFORE the value")
def z_without_itself(values, window):
    def one(values, i, w):
        before = values[max(0, i - window) : i]
        return (values[i] - before.mean()) / before.std()

    return _z_by(values, window, one)


@wrong("z_scores", says="over all values so far: take only the last")
def z_over_the_past(values, window):
    return _z_by(values, window, lambda values, i, w: (values[i] - values[: i + 1].mean()) / values[: i + 1].std())


@wrong("z_scores", says="over all values, even later ones")
def z_over_everything(values, window):
    z = (values - values.mean()) / values.std()
    z[: window - 1] = np.nan
    return z


@wrong("z_scores", says="the distance from the mean: divide it by the standard deviation")
def z_distance(values, window):
    return _z_by(values, window, lambda values, i, w: values[i] - w.mean())


@wrong("z_scores", says="divided by the variance: take its root")
def z_by_variance(values, window):
    return _z_by(values, window, lambda values, i, w: (values[i] - w.mean()) / w.var())


@wrong("z_scores", says="without its sign: a low value has a negative z-score")
def z_absolute(values, window):
    return _z_by(values, window, lambda values, i, w: abs(values[i] - w.mean()) / w.std())


@wrong("z_scores", says="the wrong sign")
def z_negative(values, window):
    return _z_by(values, window, lambda values, i, w: (w.mean() - values[i]) / w.std())


@wrong("z_scores", says="the first with 8 values up to and including itself")
def z_from_the_start(values, window):
    z = np.zeros(len(values))
    for i in range(len(values)):
        w = values[max(0, i - window + 1) : i + 1]
        z[i] = (values[i] - w.mean()) / w.std() if w.std() else 0.0
    return z


@wrong("z_scores", says="the first with 8 values up to and including itself")
def z_one_too_late(values, window):
    z = _z_by(values, window, lambda values, i, w: (values[i] - w.mean()) / w.std())
    z[window - 1 : window] = np.nan
    return z


@wrong("z_scores", says="where all of a window is equal z should be 0")
def z_divides_by_zero(values, window):
    return _z_by(values, window, lambda values, i, w: (values[i] - w.mean()) / w.std())


@wrong("z_scores", says="far from 0, z is")
def z_from_squares(values, window):
    def one(values, i, w):
        variance = (w * w).mean() - w.mean() ** 2
        return (values[i] - w.mean()) / np.sqrt(variance) if variance > 0 else 0.0

    return _z_by(values, window, one)


@wrong("z_scores", says="return an array of shape (40,)")
def z_only_full_windows(values, window):
    return _z_by(values, window, lambda values, i, w: (values[i] - w.mean()) / w.std())[window - 1 :]


# --------------------------------------------------------------------------------------------------- 4 state_of


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


@wrong("state_of", says="'m' is missing: AdamW's first moment would start at 0 again")
def state_weights_alone(run):
    return _all(run, "m", "v", "t", "recent")


@wrong("state_of", says="'v' is missing: AdamW's second moment would start at 0 again")
def state_without_v(run):
    return _all(run, "v")


@wrong("state_of", says="'t' is missing: AdamW's bias correction would begin again")
def state_without_t(run):
    return _all(run, "t")


@wrong("state_of", says="'step' is missing: the warmup of the learning rate would begin again")
def state_without_step(run):
    return _all(run, "step")


@wrong("state_of", says="'place' is missing: the run would return to the beginning of its epoch")
def state_without_place(run):
    return _all(run, "place")


@wrong("state_of", says="'epoch' is missing: the text would come in the order of the first epoch")
def state_without_epoch(run):
    return _all(run, "epoch")


@wrong("state_of", says="'rng' is missing: the noise would be different")
def state_without_rng(run):
    return _all(run, "rng")


@wrong("state_of", says="'recent' is missing: the z-scores would be missing")
def state_without_recent(run):
    return _all(run, "recent")


@wrong("state_of", says="'params' is the run's own array, which training will change: keep a copy")
def state_without_copies(run):
    return {name: getattr(run, name) for name in _all(run)}


@wrong("state_of", says="'recent' is the run's own list, which training will change: keep a copy")
def state_shares_the_list(run):
    return _all(run) | {"recent": run.recent}


@wrong("state_of", says="'m' is the run's own array")
def state_keeps_a_view(run):
    return _all(run) | {"m": run.m[:]}


@wrong("state_of", says="'params' was kept as float16 but is float32 in the run")
def state_in_half_precision(run):
    return _all(run) | {"params": run.params.astype(np.float16)}


@wrong("state_of", says="'params' does not hold exactly what the run held")
def state_as_text(run):
    rounded = np.array([[float(f"{w:.4f}") for w in row] for row in run.params], np.float32)
    return _all(run) | {"params": rounded}


@wrong("state_of", says="'tokens' need not be kept: the text is already in a file of its own")
def state_everything(run):
    return {
        name: value for name, value in copy.deepcopy(vars(run)).items() if name not in ("grads", "logits", "losses")
    }


@wrong("state_of", says="'grads' need not be kept: gradients are zeroed and recomputed in every step")
def state_with_gradients(run):
    return _all(run) | {"grads": run.grads.copy()}


@wrong("state_of", says="'weights' is not an attribute of a Run: use the names in its __init__")
def state_with_other_names(run):
    return _all(run, "params") | {"weights": run.params.copy()}


@wrong("state_of", says="return a dict {name: value}")
def state_as_a_list(run):
    return list(_all(run).values())


@wrong("state_of", says="'m' should be an array")
def state_as_lists(run):
    return _all(run) | {"m": run.m.tolist()}


# ------------------------------------------------------------------------------------------------ 5 write_whole


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


@wrong("write_whole", says="sync the temporary file after its bytes are written, not before.")
def write_that_syncs_the_empty_file(disk, name, data):
    temporary = name + ".tmp"
    disk.write(temporary, b"")
    disk.sync(temporary)
    disk.write(temporary, data)
    disk.rename(temporary, name)
    disk.sync_folder()


@wrong("write_whole", says="tmp, another file in the folder, does not survive")
def written_by_way_of_one_name(disk, name, data):
    disk.write("tmp", data)
    disk.sync("tmp")
    disk.rename("tmp", name)
    disk.sync_folder()


@wrong("write_whole", says="writing to model.bin itself empties it first")
def write_in_place(disk, name, data):
    disk.write(name, data)
    disk.sync(name)
    disk.sync_folder()


@wrong(
    "write_whole",
    says="a power cut may leave an empty file under model.bin: sync the temporary file before you rename it",
)
def write_without_sync(disk, name, data):
    disk.write(name + ".tmp", data)
    disk.rename(name + ".tmp", name)
    disk.sync_folder()


@wrong("write_whole", says="the sync comes too late")
def write_syncs_too_late(disk, name, data):
    disk.write(name + ".tmp", data)
    disk.rename(name + ".tmp", name)
    disk.sync(name)
    disk.sync_folder()


@wrong(
    "write_whole",
    says="a power cut after write_whole has returned may bring back the old file: call sync_folder() at the end",
)
def write_without_folder(disk, name, data):
    disk.write(name + ".tmp", data)
    disk.sync(name + ".tmp")
    disk.rename(name + ".tmp", name)


@wrong(
    "write_whole",
    says="a power cut after write_whole has returned may bring back the old file: call sync_folder() at the end",
)
def write_syncs_the_folder_early(disk, name, data):
    disk.write(name + ".tmp", data)
    disk.sync(name + ".tmp")
    disk.sync_folder()
    disk.rename(name + ".tmp", name)


@wrong("write_whole", says="for a moment model.bin is gone: rename replaces the old file by itself")
def write_removes_first(disk, name, data):
    disk.write(name + ".tmp", data)
    disk.sync(name + ".tmp")
    if name in disk.files:
        disk.remove(name)
    disk.rename(name + ".tmp", name)
    disk.sync_folder()


@wrong("write_whole", says="for a moment model.bin is gone: rename replaces the old file by itself")
def write_keeps_a_backup(disk, name, data):
    disk.write(name + ".tmp", data)
    disk.sync(name + ".tmp")
    if name in disk.files:
        disk.rename(name, name + ".bak")
    disk.rename(name + ".tmp", name)
    disk.sync_folder()


@wrong("write_whole", says="the file that was synced is not the one that was renamed")
def write_syncs_the_old_one(disk, name, data):
    disk.write(name + ".tmp", data)
    if name in disk.files:
        disk.sync(name)
    disk.rename(name + ".tmp", name)
    disk.sync_folder()


@wrong("write_whole", says="writing to model.bin itself empties it first")
def write_copies(disk, name, data):
    disk.write(name + ".tmp", data)
    disk.sync(name + ".tmp")
    disk.write(name, data)
    disk.sync(name)
    disk.remove(name + ".tmp")
    disk.sync_folder()


@wrong("write_whole", says="model.bin.bak is left over at the end")
def write_leaves_a_copy(disk, name, data):
    disk.write(name + ".bak", data)
    disk.write(name + ".tmp", data)
    disk.sync(name + ".tmp")
    disk.rename(name + ".tmp", name)
    disk.sync_folder()


@wrong("write_whole", says="main.log, another file in the folder, does not survive")
def write_uses_a_taken_name(disk, name, data):
    disk.write("main.log", data)
    disk.sync("main.log")
    disk.rename("main.log", name)
    disk.sync_folder()


@wrong("write_whole", says="there is no file 'model.bin.tmp'")
def write_renames_first(disk, name, data):
    disk.rename(name + ".tmp", name)
    disk.write(name + ".tmp", data)
    disk.sync_folder()


@wrong("write_whole", says="after write_whole has returned, model.bin should hold")
def write_forgets_to_rename(disk, name, data):
    disk.write(name + ".tmp", data)
    disk.sync(name + ".tmp")
    disk.sync_folder()


@wrong("write_whole", says="nothing was done to the disk")
def write_does_nothing(disk, name, data):
    return data


# ---------------------------------------------------------------------------------------------- 6 best_settings


@right("best_settings")
def settings_of_a_small_batch():
    return GIVEN | {"batch_size": 2, "learning_rate": 2e-3, "beta2": 0.99}


@right("best_settings")
def settings_with_another_schedule():
    return dict(batch_size=4, learning_rate=0.004, warmup=50, schedule="wsd", weight_decay=0)


@wrong("best_settings", says="you returned the given settings, learning_rate 0.001")
def settings_as_given():
    return dict(GIVEN)


@wrong("best_settings", says="of 4 settings that your function tries it returns those with the largest loss, 2.65")
def settings_of_the_highest_loss():
    best, best_loss = {}, 0.0
    for batch_size in (4, 16):
        for rate in (1e-3, 3e-3):
            tried = GIVEN | {"batch_size": batch_size, "learning_rate": rate}
            loss, _ = train_letters(*tried.values())
            if loss > best_loss:
                best, best_loss = tried, loss
    return best


@wrong("best_settings", says="with a quarter of the batch size and all else as it is, the run ends at 2.3")
def settings_with_a_higher_rate():
    return {"learning_rate": 3e-3}


@wrong("best_settings", says="the loss rose far above where it began")
def settings_that_diverge():
    return {"learning_rate": 1.0, "batch_size": 8}


@wrong("best_settings", says="so it never reached its learning rate")
def settings_all_warmup():
    return {"warmup": 200}


@wrong("best_settings", says="with a quarter of the batch size and all else as it is")
def settings_with_a_large_batch():
    return {"batch_size": 64, "learning_rate": 1e-2}


@wrong("best_settings", says="times the learning rate and all else as it is, the run ends")
def settings_whose_rate_follows_the_batch():
    return {"batch_size": 4, "learning_rate": GIVEN["learning_rate"] / 4}


@wrong("best_settings", says="of the learning rate and all else as it is, the run ends")
def settings_a_hundred_times_too_high():
    return {"batch_size": 4, "learning_rate": 0.3, "schedule": "wsd"}


@wrong("best_settings", says="with the given beta2 and all else as it is, the run ends")
def settings_that_forget_at_once():
    return {"batch_size": 8, "learning_rate": 3e-3, "beta2": 0.0}


@wrong("best_settings", says="'lr' cannot be set; the settings are")
def settings_with_another_name():
    return {"batch_size": 4, "lr": 3e-3}


@wrong("best_settings", says="batch_size must be a whole number from 2 to 64, not 1")
def settings_of_one_row():
    return {"batch_size": 1, "learning_rate": 3e-3}


@wrong("best_settings", says="learning_rate must be a number above 0, not '3e-3'")
def settings_as_text():
    return {"batch_size": 4, "learning_rate": "3e-3"}


@wrong("best_settings", says="return a dict like {'batch_size': 8")
def settings_as_a_pair():
    return 4, 3e-3


# ------------------------------------------------------------------------------------- found by answers of strangers


@wrong("accumulate_gradients", says="the loss AFTER the update")
def accumulate_looks_again(model, batches, lr):
    accumulate_with_arrays(model, batches, lr)
    total = sum(x.size for x, _ in batches)
    return sum(model.forward(x, y) * x.size for x, y in batches) / total


@wrong("validation_loss", says="it would see less context")
def validate_token_by_token(model, tokens, B, T, lengths):
    x, y = tokens[:-1], tokens[1:]
    nats = sum(model.forward(x[i : i + 1, None], y[i : i + 1, None]) for i in range(len(x)))
    return nats / len(x), nats / np.log(2) / lengths[y].sum()


@wrong("validation_loss", says="begin at the places 0, 3, 7, 11, … of the text, and should at 0, 4, 8, 12, …")
def validate_with_the_rest_first(model, tokens, B, T, lengths):
    x, y, rest = tokens[:-1], tokens[1:], (len(tokens) - 1) % T
    edges = [0] * (rest > 0) + [*range(rest, len(x) + 1, T)]
    nats = sum(model.forward(x[None, a:b], y[None, a:b]) * (b - a) for a, b in zip(edges, edges[1:]))
    return nats / len(x), nats / np.log(2) / lengths[y].sum()


@wrong("z_scores", says="equals the reference with 1e-08 added to the standard deviation: divide by the standard")
def z_with_a_small_number_below(values, window):
    z = np.full(len(values), np.nan)
    for i in range(window - 1, len(values)):
        recent = values[i - window + 1 : i + 1]
        z[i] = (values[i] - recent.mean()) / (recent.std() + 1e-8)
    return z


@wrong("write_whole", says="after write_whole has returned, state.bin should hold")
def write_one_name_only(disk, name, data):
    disk.write("model.tmp", data)
    disk.sync("model.tmp")
    disk.rename("model.tmp", "model.bin")
    disk.sync_folder()


@wrong("state_of", says="'recent' should be a list, to which the next step can append")
def state_with_a_tuple(run):
    return _all(run) | {"recent": tuple(run.recent)}


# ----------------------------------------------------------------------------------------- what strangers wrote


@wrong("validation_loss", says="the reference without the last target of each whole row")
def validation_in_rows_that_share_nothing(model, tokens, B, T, lengths):
    total = count = 0
    pieces = [tokens[i : i + T] for i in range(0, len(tokens), T)]
    full = [piece for piece in pieces if len(piece) == T]
    groups = [np.stack(full[i : i + B]) for i in range(0, len(full), B)]
    groups += [piece[None] for piece in pieces if 1 < len(piece) < T]
    for rows in groups:
        total += model.forward(rows[:, :-1], rows[:, 1:]) * rows[:, 1:].size
        count += rows[:, 1:].size
    return total / count, total / np.log(2) / lengths[tokens[1:]].sum()


@wrong("validation_loss", says="the rows that do not fill a batch, divided by all tokens nevertheless")
def validation_of_full_batches(model, tokens, B, T, lengths):
    n, total = len(tokens) - 1, 0.0
    for i in range(0, n - B * T + 1, B * T):
        x, y = tokens[i : i + B * T], tokens[i + 1 : i + B * T + 1]
        total += model.forward(x.reshape(B, T), y.reshape(B, T)) * B * T
    return total / n, total / (np.log(2) * lengths[tokens[1:]].sum())


@right("validation_loss")
def validation_in_an_array(model, tokens, B, T, lengths):
    pieces = ((tokens[i : i + T + 1][:-1], tokens[i + 1 : i + T + 1]) for i in range(0, len(tokens) - 1, T))
    nats = sum(y.size * model.forward(x[None], y[None]) for x, y in pieces)
    return np.array([nats / (tokens.size - 1), nats / np.log(2) / np.take(lengths, tokens[1:]).sum()])


# ---------------------------------------------------------------------------------------- found by answers of strangers


@wrong("z_scores", says="a window that is one value too long")
def z_of_a_longer_window(values, window):
    z = np.full(len(values), np.nan)
    for i in range(window - 1, len(values)):
        recent = values[max(0, i - window) : i + 1]
        spread = np.sqrt(np.mean((recent - recent.mean()) ** 2))
        z[i] = (values[i] - recent.mean()) / spread if spread > 0 else 0
    return z


@wrong("z_scores", says="a window that is one value too short")
def z_of_a_shorter_window(values, window):
    z = np.full(len(values), np.nan)
    for i in range(window - 1, len(values)):
        recent = values[i - window + 2 : i + 1]
        z[i] = (values[i] - recent.mean()) / recent.std() if recent.std() > 0 else 0
    return z


@wrong("validation_loss", says="divided by all tokens; the shorter row is there")
def validation_of_whole_batches_and_the_short_row(model, tokens, B, T, lengths):
    x, y = tokens[:-1], tokens[1:]
    rows, nats = len(x) // T, 0.0
    for group in range(rows // B):
        part = slice(group * B * T, (group + 1) * B * T)
        nats += model.forward(x[part].reshape(B, T), y[part].reshape(B, T)) * B * T
    if rows * T < len(x):
        nats += model.forward(x[None, rows * T :], y[None, rows * T :]) * (len(x) - rows * T)
    return nats / len(y), nats / np.log(2) / lengths[y].sum()


@wrong("accumulate_gradients", says="the reference with the size of the first micro-batch for each of them")
def accumulate_as_if_all_were_as_large_as_the_first(model, batches, lr):
    model.zero_grad()
    total, nats = len(batches[0][0]) * len(batches), 0.0
    for x, y in batches:
        nats += model.forward(x, y, dloss=len(x) / total) * len(x) / total
        model.backward()
    model.update(lr)
    return nats


@wrong("z_scores", says="what is new here: values around 1e-40")
def z_with_a_threshold_of_1e_30(values, window):
    z = np.full_like(values, np.nan)
    for last in range(window, len(values) + 1):
        part = values[last - window : last]
        z[last - 1] = 0.0 if np.std(part) <= 1e-30 else (part[-1] - np.mean(part)) / np.std(part)
    return z


@wrong("z_scores", says="what is new here: values around")
def z_of_windows_that_are_close_to_equal(values, window):
    z = np.nan * values
    for k, part in enumerate(np.lib.stride_tricks.sliding_window_view(values, window) if len(values) >= window else []):
        z[k + window - 1] = 0 if np.allclose(part, part[0]) else (part[-1] - part.mean()) / part.std()
    return z


@wrong("validation_loss", says="more than once: the last row begins at place 43, and should begin at 44")
def validate_a_last_row_from_the_end(model, tokens, B, T, lengths):
    begins = list(range(0, len(tokens) - T, T))
    if len(tokens) - 1 > T:
        begins.append(len(tokens) - 1 - T)  # as long as the others
    else:
        begins, T = [0], len(tokens) - 1
    rows = np.array([tokens[a : a + T + 1] for a in dict.fromkeys(begins)])
    nats = sum(
        model.forward(rows[r : r + B, :-1], rows[r : r + B, 1:]) * rows[r : r + B, 1:].size
        for r in range(0, len(rows), B)
    )
    loss = nats / rows[:, 1:].size
    return loss, loss * (len(tokens) - 1) / np.log(2) / lengths[tokens[1:]].sum()


@wrong("validation_loss", says="as what follows the last one. Nothing follows it: it is a target only")
def validate_around_the_end(model, tokens, B, T, lengths):
    following = np.append(tokens[1:], tokens[0])
    nats = 0.0
    for a in range(0, len(tokens), T):
        x, y = tokens[None, a : a + T], following[None, a : a + T]
        nats += model.forward(x, y) * x.size
    return nats / len(tokens), nats / np.log(2) / lengths[tokens[1:]].sum()


@wrong("validation_loss", says="holds the tokens of the places 0, 11, 22, 33 of the text")
def validate_down_the_columns(model, tokens, B, T, lengths):
    n = len(tokens) - 1
    rows = n // T
    table = np.arange(rows * T).reshape(T, rows)
    nats = 0.0
    for r in range(0, rows, B):
        at = table[:, r : r + B].T
        nats += model.forward(tokens[at], tokens[at + 1]) * at.size
    if n % T:
        at = np.arange(rows * T, n)[None]
        nats += model.forward(tokens[at], tokens[at + 1]) * at.size
    return nats / n, nats / np.log(2) / lengths[tokens[1:]].sum()


@wrong("accumulate_gradients", says="look at gradient 1 and gradient 2")
def accumulate_with_the_share_so_far(model, batches, lr):
    sizes = np.cumsum([x.size for x, _ in batches])
    losses = []
    model.zero_grad()
    for (x, y), so_far in zip(batches, sizes):
        losses.append(model.forward(x, y, so_far / sizes[-1]) * x.size / sizes[-1])
        model.backward()
    model.update(lr)
    return sum(losses)


@wrong("accumulate_gradients", says="your code took something out of `batches`")
def accumulate_takes_the_batches_away(model, batches, lr):
    total, loss = sum(x.size for x, _ in batches), 0.0
    model.zero_grad()
    while batches:
        x, y = batches.pop(0)
        loss += model.forward(x, y, x.size / total) * x.size / total
        model.backward()
    model.update(lr)
    return loss


@wrong("validation_loss", says="…, 12, 15, 19, 23, … of the text, and should at …, 12, 16, 20, 24, …")
def validate_long_streams(model, tokens, B, T, lengths):
    x, y = tokens[:-1], tokens[1:]
    width = len(x) // B
    X, Y = (part[: B * width].reshape(B, width) for part in (x, y))
    pieces = [(X[:, c : c + T], Y[:, c : c + T]) for c in range(0, width, T)]
    pieces += [(x[None, c : c + T], y[None, c : c + T]) for c in range(B * width, len(x), T)]
    nats = sum(model.forward(a, b) * a.size for a, b in pieces)
    return nats / len(x), nats / np.log(2) / lengths[y].sum()


@wrong("accumulate_gradients", says="with each share of the tokens so far: divide by the number of all tokens")
def accumulation_with_a_running_total(model, batches, lr):
    model.zero_grad()
    seen, loss = 0, 0.0
    for x, y in batches:
        seen += x.size
        loss += (model.forward(x, y, dloss=x.size / seen) - loss) * x.size / seen
        model.backward()
    model.update(lr)
    return loss


@wrong("accumulate_gradients", says="with the line `model.zero_grad()` before the lines of `for x, y in batches:`")
def accumulation_clears_at_the_end(model, batches, lr):
    total, loss = sum(x.size for x, _ in batches), 0.0
    for x, y in batches:
        loss += x.size / total * model.forward(x, y, dloss=x.size / total)
        model.backward()
    model.update(lr)
    model.zero_grad()
    return loss


@wrong("write_whole", says="rename replaces the old file by itself.\n→ Where to look")
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


@wrong("write_whole", says="passes this whole check without the lines of `if name not in disk.files:`")
def whole_unless_it_is_new(disk, name, data):
    temporary = name + ".tmp"
    if name not in disk.files:
        disk.write(name, data)
        disk.sync(name)
        disk.sync_folder()
        return
    disk.write(temporary, data)
    disk.sync(temporary)
    disk.rename(temporary, name)
    disk.sync_folder()


@wrong("z_scores", says="the value in the middle of its window, so z changes with later values")
def z_around_the_value(values, window):
    z = np.full(len(values), np.nan)
    half = window // 2
    for i in range(window - 1, len(values)):
        around = values[max(0, i - half) : i - half + window]
        spread = np.std(around)
        z[i] = 0.0 if spread == 0 else (values[i] - np.mean(around)) / spread
    return z


@wrong("best_settings", says="that is what train_letters returns: a loss and losses")
def settings_that_are_a_result():
    chosen = GIVEN | {"batch_size": 4, "learning_rate": 3e-3}
    return train_letters(*chosen.values())


@wrong("accumulate_gradients", says="each size divided by that of the first micro-batch: divide by the size of all")
def accumulate_in_parts_of_the_first(model, batches, lr):
    model.zero_grad()
    full = batches[0][0].size
    loss, count = 0.0, 0
    for x, y in batches:
        mean = model.forward(x, y, dloss=x.size / full)
        model.backward()
        loss += mean * x.size
        count += x.size
    model.update(lr)
    return loss / count


@wrong("accumulate_gradients", says="times its micro-batch's loss: dloss is the share of the tokens alone")
def accumulate_times_the_loss(model, batches, lr):
    total = 0
    for x, _ in batches:
        total += x.size
    model.zero_grad()
    loss = 0.0
    for x, y in batches:
        part = model.forward(x, y) * x.size / total
        model.forward(x, y, dloss=part)
        model.backward()
        loss += part
    model.update(lr)
    return loss


@wrong("validation_loss", says="47 targets, as it should, and 1 more, behind the end of the text")
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
        nats += model.forward(a, b) * real
    return nats / n, nats / np.log(2) / lengths[y].sum()


@wrong("validation_loss", says="without end-of-text in the number of targets")
def validate_bits_of_targets_with_bytes(model, tokens, B, T, lengths):
    x, y = tokens[:-1], tokens[1:]
    rows = len(x) // T
    pieces = [
        (x[r * T : min(r + B, rows) * T].reshape(-1, T), y[r * T : min(r + B, rows) * T].reshape(-1, T))
        for r in range(0, rows, B)
    ]
    if len(x) > rows * T:
        pieces.append((x[None, rows * T :], y[None, rows * T :]))
    loss = sum(model.forward(a, b) * a.size for a, b in pieces) / len(y)
    bytes_of = lengths[y]
    n = np.count_nonzero(bytes_of)
    return loss, loss * n / (np.log(2) * bytes_of.sum())


def _moving_mean(a, window):
    return np.array([a[max(0, i - window + 1) : i + 1].mean() for i in range(len(a))])


@wrong("z_scores", says="each value's from its own moving mean")
def z_of_distances_from_moving_means(values, window):
    deviations = values - _moving_mean(values, window)
    spread = np.sqrt(_moving_mean(deviations**2, window))
    z = np.zeros(len(values))
    np.divide(deviations, spread, out=z, where=spread > 0)
    z[: window - 1] = np.nan
    return z


@wrong("validation_loss", says="the perplexity: return the loss itself, in nats")
def validate_with_the_perplexity(model, tokens, B, T, lengths):
    x, y = tokens[:-1], tokens[1:]
    rows, nats = len(x) // T, 0.0
    for r in range(0, rows, B):
        s = slice(r * T, min(r + B, rows) * T)
        nats += model.forward(x[s].reshape(-1, T), y[s].reshape(-1, T)) * (s.stop - s.start)
    if rows * T < len(x):
        nats += model.forward(x[None, rows * T :], y[None, rows * T :]) * (len(x) - rows * T)
    loss = nats / len(x)
    return np.exp(loss), nats / np.log(2) / lengths[y].sum()


@wrong("validation_loss", says="and 1 more, behind the end of the text")
def validate_what_fills_up_the_last_batch(model, tokens, B, T, lengths):
    n = len(tokens) - 1
    pad = -n % (B * T)
    x = np.append(tokens[:-1], np.full(pad, tokens[-2])).reshape(-1, B, T)
    y = np.append(tokens[1:], np.full(pad, tokens[-1])).reshape(-1, B, T)
    loss = np.mean([model.forward(a, b) for a, b in zip(x, y)])
    return loss, loss * n / np.log(2) / lengths[tokens[1:]].sum()


@wrong("accumulate_gradients", says="with x and y exchanged")
def accumulate_with_targets_first(model, batches, lr):
    model.zero_grad()
    n = sum(x.size for x, _ in batches)
    loss = 0.0
    for y, x in batches:
        loss += x.size / n * model.forward(x, y, dloss=x.size / n)
        model.backward()
    model.update(lr)
    return loss


@wrong("validation_loss", says="in it, and should have 0.06383")
def validate_as_if_all_rows_were_whole(model, tokens, B, T, lengths):
    n = len(tokens) - 1
    nats = 0.0
    for r in range(0, n, T):
        x = tokens[r : min(r + T, n)][None]
        y = tokens[r + 1 : min(r + T, n) + 1][None]
        nats += model.forward(x, y) * T
    return nats / n, nats / np.log(2) / lengths[tokens[1:]].sum()


@wrong("validation_loss", says="the mean of the bits per byte of the rows, weighted by their tokens")
def validate_bits_row_by_row(model, tokens, B, T, lengths):
    n = len(tokens) - 1
    nats = bits = 0.0
    for r in range(0, n, T):
        x = tokens[r : min(r + T, n)][None]
        y = tokens[r + 1 : min(r + T, n) + 1][None]
        part = model.forward(x, y) * x.size
        nats += part
        bits += part / np.log(2) / max(lengths[y].sum(), 1) * x.size
    return nats / n, bits / n


@wrong("accumulate_gradients", says="each is the mean of its own tokens already")
def accumulate_means_over_all_tokens(model, batches, lr):
    model.zero_grad()
    loss, n = 0.0, 0
    for x, y in batches:
        loss += model.forward(x, y, dloss=1.0) * x.size
        model.backward()
        n += x.size
    model.grads /= n
    model.update(lr)
    return loss / n


@wrong("write_whole", says="each write begins the file anew, so that only the last piece is in it")
def write_piece_by_piece(disk, name, data):
    part, piece = name + ".part", 4
    for first in range(0, len(data), piece):
        disk.write(part, data[first : first + piece])
        disk.sync(part)
    disk.rename(part, name)
    disk.sync_folder()


@wrong("write_whole", says="may leave no file model.bin: call sync_folder() at the end")
def write_syncs_where_it_replaces(disk, name, data):
    replaces = name in disk.files
    scratch = f"{name}.scratch"
    disk.write(scratch, data)
    disk.sync(scratch)
    disk.rename(scratch, name)
    if replaces:
        disk.sync_folder()


@wrong("write_whole", says="sweep.bin.tmp")
def save_that_clears_every_temporary_file(disk, name, data):
    tmp = name + ".tmp"
    for left in [other for other in disk.files if other.endswith(".tmp")]:
        disk.remove(left)  # of a save that was killed
    disk.write(tmp, data)
    disk.sync(tmp)
    disk.rename(tmp, name)
    disk.sync_folder()


@wrong("accumulate_gradients", says="the gradient of the first micro-batch alone: those of all add up")
def accumulate_returns_in_the_loop(model, batches, lr):
    total = sum(x.size for x, _ in batches)
    loss = 0.0
    model.zero_grad()
    for x, y in batches:
        share = x.size / total
        loss += share * model.forward(x, y, dloss=share)
        model.backward()
        model.update(lr)
        return loss


@wrong("validation_loss", says="reach the model more than once")
def validation_reads_the_last_row_again(model, tokens, B, T, lengths):
    n = len(tokens) - 1
    total = 0.0
    rows = n // T
    r = 0
    while r <= rows:
        here = range(r, min(r + B, rows))
        if len(here):
            x = np.stack([tokens[i * T : i * T + T] for i in here])
            y = np.stack([tokens[i * T + 1 : i * T + T + 1] for i in here])
            total += model.forward(x, y) * x.size
        r += B
    a = rows * T if n > rows * T else n - T
    if n - a > 0 and a >= 0:
        x, y = tokens[a:-1][None], tokens[a + 1 :][None]
        total += model.forward(x, y) * x.size
    loss = total / n
    return loss, total / np.log(2) / lengths[tokens[1:]].sum()


@wrong("z_scores", says="and the last of them should be 2, the others 0")
def z_of_values_taken_for_equal(values, window):
    out = np.full(len(values), np.nan)
    for i in range(window - 1, len(values)):
        w = values[i - window + 1 : i + 1]
        if np.isclose(w.min(), w.max(), rtol=1e-9, atol=0):
            out[i] = 0.0
        else:
            out[i] = (w[-1] - w.mean()) / w.std()
    return out


@wrong("z_scores", says="far from 0, and from the values before them, z is")
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
