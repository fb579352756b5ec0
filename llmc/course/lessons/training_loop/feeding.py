"""Lesson 10: what does a learner's function give the model, and what does it do with the losses?

In a text in which no token occurs twice, a token is a place. So the function is called once more on such a text, and
the model's notes show which rows came, from where, and which targets. If all of that is right, the losses of several
models show with which weights they were added up.
"""

import io
from contextlib import redirect_stdout
from functools import partial

import numpy as np

from llmc.course.lessons.training_loop.steps import bigram_loss, validation
from llmc.course.old.checks.beside import first_difference
from llmc.course.old.checks.weights import as_a_sum
from llmc.course.own_names import learners_names

MODELS = 4  # more than there are batches
MOST = 4  # places that a sentence lists


def looking_into(*arguments):
    """`what_was_fed` with these arguments, to be called when somebody asks."""
    return partial(what_was_fed, *arguments)


def what_was_fed(function, kind, n, B, T) -> str | None:
    """A sentence about validation_loss on a text of n targets; None if nothing is found. kind: the model's class."""
    rng = np.random.default_rng(1)
    tokens, lengths = rng.permutation(n + 1), rng.integers(2, 30, n + 1)
    runs = [_run(function, kind, rng, tokens, B, T, lengths) for _ in range(-(-n // T) + MODELS)]
    if None in runs:
        return None
    read, places = runs[0][0], np.argsort(tokens)  # (n + 1,)   token -> place
    fed = [(places[x], places[y]) for x, y in read]
    told = _filled_up(fed, n) or _targets(fed) or _rows(fed) or _counted(fed, n, B, T) or _begins(fed, n, T)
    return told or _weights(runs, tokens, lengths)


def _run(function, kind, rng, tokens, B, T, lengths):
    """(what the model read, its table, what was returned), or None."""
    model = kind(rng.normal(0, 1, (len(tokens),) * 2), B, T)
    try:
        with learners_names(), redirect_stdout(io.StringIO()):
            loss, bits = function(model, tokens.copy(), B, T, lengths.copy())
        return model.read, model.W.copy(), (float(loss), float(bits))
    except Exception:
        return None


def _pairs(fed):
    """(x, y), (tokens,) each: the places of all tokens and targets, in the order in which the model got them."""
    return (np.concatenate([part.ravel() for part in each]) for each in zip(*fed))


def _filled_up(fed, n):
    """Is each target there, in order, and then one and the same token several times?"""
    x, y = _pairs(fed)
    if x.size <= n or not (np.array_equal(x[:n], np.arange(n)) and np.array_equal(y[:n], x[:n] + 1)):
        return None
    if (x[n:].tolist(), y[n:].tolist()) == ([n], [0]):
        around = "the first token of the text, as what follows the last one. Nothing follows it: it is a target only"
        return f"the model gets one target too many: {around}"
    if len(set(y[n:].tolist())) > 1:  # places of the text, which `_counted` names
        return None
    return f"the model gets {n} targets, as it should, and {x.size - n} more, behind the end of the text"


def _targets(fed):
    """Is each target the token after its own?"""
    x, y = _pairs(fed)
    wrong = np.flatnonzero(y != x + 1)
    if not wrong.size:
        return None
    a, b = int(x[wrong[0]]), int(y[wrong[0]])
    some = "each" if wrong.size == x.size else f"{wrong.size} of {x.size}"
    told = f"the target of {some} of the tokens is not the next token"
    return f"{told}: at place {a} of the text it is the token of place {b}"


def _rows(fed):
    """Do the tokens of a row follow one another?"""
    for x, _ in fed:
        for row in x:
            if (np.diff(row) != 1).any():
                shown, _ = first_difference(row, row[0] + np.arange(len(row)), MOST)
                order = "a row should hold tokens that follow one another"
                return f"a row that the model gets holds the tokens of the places {shown} of the text: {order}"
    return None


def _counted(fed, n, B, T):
    """Is each target there once?"""
    times = np.bincount(np.concatenate([y.ravel() for _, y in fed]), minlength=n + 1)[1:]  # (n,) of targets 1 … n
    missing, twice = np.flatnonzero(times == 0) + 1, np.flatnonzero(times > 1) + 1
    said = []
    if missing.size:
        verb = "reaches" if missing.size == 1 else "reach"
        said.append(f"{_listed(missing)} never {verb} the model{_which_rows(missing, n, B, T)}")
    if twice.size:
        verb = "reaches" if twice.size == 1 else "reach"
        said.append(f"{_listed(twice)} {verb} the model more than once{_last_row(fed, twice, n, T)}")
    return f"with {n} targets in batches of {B} rows of {T}, {', and '.join(said)}" if said else None


def _which_rows(missing, n, B, T):
    rows = np.unique((missing - 1) // T)  # the r-th row has the targets r·T + 1 … r·T + T
    whole = sum(min(T, n - r * T) for r in rows) == missing.size
    if not whole:
        return ""
    if rows.tolist() == [n // T] and n % T:
        return ": that is the last row, which is shorter than T"
    fill = ", at the end, where no whole batch is left" if rows[0] % B == 0 and n // T - rows[0] < B else ""
    which = f"row {rows[0]}" if len(rows) == 1 else f"rows {', '.join(map(str, rows))}"
    return f": {which} of 0 … {(n - 1) // T}{fill}"


def _last_row(fed, twice, n, T):
    begin = int(fed[-1][0][-1, 0])
    right = n // T * T
    return f": the last row begins at place {begin}, and should begin at {right}" if n % T and begin < right else ""


def _begins(fed, n, T):
    """Does each row begin at a multiple of T?"""
    begins = sorted(int(row[0]) for x, _ in fed for row in x)
    right = list(range(0, n, T))
    if begins == right:
        return None
    yours, ours = first_difference(begins, right, MOST)
    return f"the rows that the model gets begin at the places {yours} of the text, and should at {ours}"


def _weights(runs, tokens, lengths):
    """All was fed rightly: how were the losses put together, or the bytes counted?"""
    read, n = runs[0][0], len(tokens) - 1
    parts = {f"batch {k}": np.array([bigram_loss(W, *run[k]) for run, W, _ in runs]) for k in range(len(read))}
    right = np.array([validation(W, tokens, lengths) for _, W, _ in runs])  # (models, 2)
    got = np.array([found for *_, found in runs])  # (models, 2)
    fed = "the model gets the right rows, each once"
    told = as_a_sum("the mean loss", got[:, 0], right[:, 0], parts)
    if told:
        return f"{fed}. But {told}"
    ratio = right[:, 1] / got[:, 1]
    if np.allclose(got[:, 0], right[:, 0]) and np.allclose(ratio, ratio[0]) and not np.isclose(ratio[0], 1):
        nbytes = int(lengths[tokens[1:]].sum())
        would = f"your bits per byte would be right if these {n} targets had {nbytes / ratio[0]:.6g} bytes"
        return f"{fed}, and the loss is right. But {would}, and they have {nbytes}"
    return None


def _listed(places):
    """ "the target at place 4", "the targets at places 37 … 44" for a run of them."""
    first, last = int(places[0]), int(places[-1])
    if first == last:
        return f"the target at place {first} of the text"
    shown = f"{first} … {last}" if last - first + 1 == places.size else _some(places)
    return f"the targets at the places {shown} of the text"


def _some(values):
    return ", ".join(map(str, values[:MOST])) + ", …" * (len(values) > MOST)
