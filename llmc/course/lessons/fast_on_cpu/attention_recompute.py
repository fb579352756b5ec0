"""Lesson 11, exercise 5: the gradients of one attention head, and what known mistakes give instead.

References go through the whole T × T table in float64 and return the dtype of q. Mistakes are {"dq": {sentence after
"dq equals ": (array, where to look)}, "dk": …, "dv": …}.
"""

from time import process_time
from typing import NamedTuple

import numpy as np

from llmc.course.lessons.attention.heads import scores, seen, softmax, softmax_backward
from llmc.course.lessons.matmul import results as learners_results
from llmc.course.measure import peak_bytes, resident_peak
from llmc.course.old.checks.comparison import compare
from llmc.course.old.checks.held import no_more_than  # noqa: F401, for the check
from llmc.course.own_names import learners_names

# where to look; a test compares this title with the headings of notebooks/11_fast_on_cpu.ipynb
ONE_NUMBER = 'lesson 11, section "5.2 · One number is enough"'


class Gradients(NamedTuple):
    """dq, dk, dv (T, hs)."""

    dq: np.ndarray
    dk: np.ndarray
    dv: np.ndarray


MULTIPLIED = (
    "the reference with exp(s - L) times a mask of zeros and ones: for a later key exp may be inf, and inf · 0 is NaN, "
    "so hide later keys with np.where, or with -inf before exp"
)


def forward(q, k, v):
    """out (T, hs), and the logarithm of each softmax's sum (T,), of one causal head; q, k, v (T, hs)."""
    s = scores(*_float64(q, k))  # (T, T)
    peak = s.max(axis=-1)  # (T,)
    stats = peak + np.log(np.exp(s - peak[:, None]).sum(axis=-1))  # (T,)
    return (softmax(s) @ np.asarray(v, np.float64)).astype(q.dtype), stats.astype(q.dtype)


def backward(dout, q, k, v) -> Gradients:
    """Gradients of sum(out · dout), row by row through the Jacobian of its softmax: slow, not the lesson's formula."""
    d64, q64, k64, v64 = _float64(dout, q, k, v)  # (T, hs) each
    p, dp = softmax(scores(q64, k64)), d64 @ v64.T  # (T, T) each
    ds = np.stack([softmax_backward(dp[i : i + 1], p[i : i + 1])[0] for i in range(len(p))])  # (T, T)
    return _from(p, ds, dout, q, k)


def backward_of_many(dout, q, k, v) -> Gradients:
    """The same for more than a few hundred positions, for which Jacobians would take too long."""
    p, dp = softmax(scores(*_float64(q, k))), np.asarray(dout, np.float64) @ np.asarray(v, np.float64).T  # (T, T) each
    return _from(p, p * (dp - (p * dp).sum(axis=-1, keepdims=True)), dout, q, k)


def _float64(*arrays):
    return [np.asarray(array, np.float64) for array in arrays]


def _from(p, ds, dout, q, k) -> Gradients:
    """Gradients that follow from probabilities p (T, T) and gradients ds (T, T) of the scaled scores."""
    d64, q64, k64 = _float64(dout, q, k)  # (T, hs) each
    scaled = ds / np.sqrt(q.shape[1])  # (T, T)
    return Gradients(*(array.astype(q.dtype) for array in (scaled @ k64, scaled.T @ q64, p.T @ d64)))


def inputs(c, T, hs):
    """dout, out (T, hs), stats (T,), q, k, v (T, hs): float32 arrays of the check c."""
    q, k, v, dout = (c.random(T, hs, dtype=np.float32) for _ in range(4))
    return dout, *forward(q, k, v), q, k, v


def gradients_of(results) -> Gradients:
    """The learner's dq, dk and dv, a tuple, or one array (3, T, hs). Raises WrongAnswer if it is something else."""
    results = tuple(results) if isinstance(results, np.ndarray) and results.ndim == 3 else results
    return Gradients(*learners_results(results, *Gradients._fields))


def same_gradients(results, inputs, new=None):
    """`compare` the learner's dq, dk and dv with those of many positions."""
    dout, _, _, q, k, v = inputs
    expected = backward_of_many(dout, q, k, v)
    gradients = gradients_of(results)
    first = _right_before(gradients.dq, expected.dq)
    new = new or f"T = {len(q)}{f', and the first {first} rows of dq are right' if first else ''}"
    for name, got in zip(expected._fields, gradients):
        compare(f"{name} for T = {len(q)}", got, getattr(expected, name), rtol=1e-3, look=ONE_NUMBER, new=new)


def _right_before(got, expected) -> int:
    """How many rows of dq (T, hs) are right before the first wrong one, if that is one of the last; else 0."""
    if np.shape(got) != expected.shape:
        return 0
    wrong = ~(np.abs(got - expected).max(axis=1) <= 1e-3 * np.abs(expected).max())  # (T,)
    first = int(wrong.argmax())
    return first if 2 * first > len(wrong) else 0


def why_so_large(c, function, peak) -> str:
    """What is known of the bytes that a function takes for T = 1000: those for half as many positions tell."""
    half = inputs(c, 500, 4)
    for array in half:
        array.flags.writeable = not c.takes_read_only(function)
    needs = peak_bytes(lambda: function(*half))
    if peak > 3 * needs:
        return "T = 500 needs less than a third of that, so something grows with T × T"
    return f"T = 500 needs {needs / 1e6:.1f} MB"


def no_table_when_long(c, function, T=4000, hs=4, seconds=0.3):
    """Raise AssertionError if the function holds T × T bytes, in arrays of whatever library.

    Looks only at functions that need less than these seconds for a quarter of T: the others would take too long.
    """
    short, long = inputs(c, T // 4, hs), inputs(c, T, hs)
    for array in (*short, *long):
        array.flags.writeable = not c.takes_read_only(function)
    begin = process_time()
    with learners_names():
        function(*short)
    if process_time() - begin > seconds:
        return
    run, table = (lambda: function(*long)), 4 * T * T  # table: bytes
    peak, resident = peak_bytes(run), resident_peak(run) or 0
    takes = f"at T = {T} your code holds {max(peak, resident) / 1e6:.0f} MB at once"
    assert peak < table / 4 and resident < table / 2, (
        f"right, but {takes}: a table of T × T takes {table / 1e6:.0f} MB in float32, {T * T / 1e6:.0f} MB in bool"
    )


def mistakes(gradients, dout, out, stats, q, k, v) -> dict:
    """Known wrong dq, dk and dv. The length of blocks is taken from the learner's gradients."""
    d, o, L, q64, k64, v64 = _float64(dout, out, stats, q, k, v)
    T, root = len(q), np.sqrt(q.shape[1])
    raw, past = q64 @ k64.T, seen(T)  # (T, T) each
    s, dp, D = raw / root, d @ v64.T, (d * o).sum(axis=-1, keepdims=True)  # (T, T), (T, T), (T, 1)
    p = np.where(past, np.exp(np.minimum(s - L[:, None], 0)), 0)  # (T, T)
    right, wrong = _from(p, p * (dp - D), dout, q, k), {name: {} for name in Gradients._fields}
    exponents, dv = s - L[:, None], gradients.dv  # (T, T), (T, hs)
    tables = _tables(raw, s, L, past) | _turned_round(dv, exponents, d) | _hidden_as_0(dv, p, L, d)
    with np.errstate(all="ignore"):
        multiplied = np.exp(exponents) * past  # (T, T)   inf · 0 is NaN
    if not np.isfinite(multiplied).all():
        tables[MULTIPLIED] = multiplied
    for text, table in (tables | _masked_in_blocks(p)).items():
        for name, array in zip(wrong, _from(table, table * (dp - D), dout, q, k)):
            wrong[name][text] = (array, ONE_NUMBER)
    for text, ds in _score_gradients(p, dp, D, past, d, o, q64).items():
        for name, array in zip(("dq", "dk"), _from(p, ds, dout, q, k)):
            wrong[name][text] = (array, ONE_NUMBER)
    for text, table in {"dsᵀ · do": p * (dp - D), "dsᵀ · do / √hs": p * (dp - D) / root, "dpᵀ · do": dp * past}.items():
        wrong["dv"][f"{text}: dv comes from the probabilities, pᵀ · do"] = (table.T @ d, ONE_NUMBER)
    for name, other in (("dq", "dk"), ("dk", "dq")):
        array = getattr(right, name)
        wrong[name] |= {
            "the reference without the scale 1/√hs in front of the sum": (array * root, ONE_NUMBER),
            "the reference with 1/hs, which is the scale 1/√hs twice": (array / root, ONE_NUMBER),
            f"what {other} should be": (getattr(right, other), ONE_NUMBER),
        }
    block = _last_block(gradients.dv, p, d)
    if block:
        kept = (np.arange(T) >= (T - 1) // block * block)[:, None]  # (T, 1)   queries of the last block
        last = _from(p * kept, p * (dp - D) * kept, dout, q, k)
        text = f"what the last block of {block} queries adds: the earlier blocks are lost"
        wrong["dk"][text], wrong["dv"][text] = (last.dk, ONE_NUMBER), (last.dv, ONE_NUMBER)
    done = _queries_done(gradients.dv, p, d)
    if done:
        kept = (np.arange(T) < done)[:, None]  # (T, 1)   the first queries
        text = f"what the queries 0 … {done - 1} of {T} give: the last ones are left out"
        for name, array in zip(wrong, _from(p * kept, p * (dp - D) * kept, dout, q, k)):
            wrong[name][text] = (array, ONE_NUMBER)
    return wrong


def _tables(raw, s, L, past) -> dict:
    """Wrong probabilities (T, T); exponents are limited to 50, so that nothing overflows."""
    exp = lambda exponent: np.exp(np.minimum(exponent, 50))  # noqa: E731
    L = L[:, None]  # (T, 1)
    return {
        "the reference without the causal mask: later keys take part": exp(s - L),
        "the reference with a mask that also hides a query's own key: query i sees the keys 0 … i": (
            np.where(np.tril(past, -1), exp(s - L), 0)
        ),
        "the reference with a mask that is one too wide: query i sees key i + 1 as well": (
            np.where(np.tril(np.ones_like(past), 1), exp(s - L), 0)
        ),
        "the reference with p = exp(s + L): L is subtracted": np.where(past, exp(s + L), 0),
        "the reference with p = exp(s): L is not subtracted": np.where(past, exp(s), 0),
        "the reference with p = exp(s) / L: L is the logarithm of the sum": np.where(past, exp(s) / L, 0),
        "the reference with scores that are not divided by √hs": np.where(past, exp(raw - L), 0),
        "the reference with L of the key's row: L belongs to the query": np.where(past, exp(s - L.T), 0),
    }


def _masked_in_blocks(p) -> dict:
    """Probabilities (T, T) of blocks whose mask is that of the first one: their rows are counted from 0 each."""
    T, wrong = len(p), {}
    for block in (length for length in (16, 32, 50, 64, 100, 128) if length < T):
        row = (np.arange(T) % block)[:, None]  # (T, 1)   of a query in its block
        text = f"the reference with the mask of the first block of {block} queries in all of them"
        wrong[f"{text}: query i is at its own place in the sequence"] = np.where(np.arange(T) <= row, p, 0)  # (T, T)
    return wrong


def _turned_round(dv, exponents, d) -> dict:
    """Probabilities (T, T) of the wrong side of the mask, with the own key; those of the learner's blocks alone."""
    table = np.where(seen(len(d)).T, np.exp(np.minimum(exponents, 50)), 0)  # (T, T)
    text = "the reference with the mask the wrong way round: query i sees the keys from i on"
    return {text: _of_blocks(dv, table, d)}


def _hidden_as_0(dv, p, L, d) -> dict:
    """Probabilities (T, T) of later keys whose score became 0, not -inf; those of the learner's blocks alone."""
    text = "the reference with hidden scores that are 0 before exp: exp(0 - L) is not 0"
    filled = np.where(seen(len(p)), p, np.exp(np.minimum(-L, 50))[:, None])  # (T, T)
    return {f"{text}, so hide the keys after exp, or with -inf before it": _of_blocks(dv, filled, d)}


def _of_blocks(dv, table, d):
    """The table (T, T) without the keys behind a block of queries, of the length of block that gives dv (T, hs)."""
    T = len(table)
    row, key = np.arange(T)[:, None], np.arange(T)  # (T, 1), (T,)
    tables = (table * (key < (row // block + 1) * block) for block in range(2, T + 1))  # (T, T) each
    return next((each for each in tables if _is(dv, each.T @ d)), table)


def _score_gradients(p, dp, D, past, d, o, q) -> dict:
    """Wrong gradients (T, T) of the scores."""
    return {
        "the reference with ds = p · dp: D is not subtracted": p * dp,
        "the reference with ds = p · (dp + D): D is subtracted": p * (dp + D),
        "the reference with ds = dp - D: p is missing": np.where(past, dp - D, 0),
        "the reference with D = the sum of dp over a row: p is missing in it": (
            p * (dp - np.where(past, dp, 0).sum(axis=-1, keepdims=True))
        ),
        "the reference with D = do · q: it is do · o": p * (dp - (d * q).sum(axis=-1, keepdims=True)),
        "the reference with one D for all queries: every query has its own": p * (dp - (d * o).sum()),
        "the reference with D of the key's row: D belongs to the query": p * (dp - D.T),
    }


def _last_block(dv, p, d):
    """The length of the blocks if dv (T, hs) is what the last block of queries gives, else None."""
    T = len(p)
    first = {block: (T - 1) // block * block for block in range(1, T)}
    return next((block for block in first if _is(dv, p[first[block] :].T @ d[first[block] :])), None)


def _queries_done(dv, p, d):
    """How many queries gave something to dv (T, hs), if the last ones did not, else None."""
    return next((done for done in range(1, len(p)) if _is(dv, p[:done].T @ d[:done])), None)


def _is(dv, array) -> bool:
    return np.shape(dv) == array.shape and bool(np.abs(array - dv).max() < 1e-4 * np.abs(array).max())
