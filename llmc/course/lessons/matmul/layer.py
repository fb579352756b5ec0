"""Lesson 03's linear layer and its known mistakes, for lessons 07 and 11, as long as they use the old checks.

Mistakes are {output: {words after "out equals ": (array, where to look)}}.
"""

import numpy as np

from llmc.course.old.checks.explain import WrongAnswer, describe

# where to look
FORWARD = 'lesson 03, section "2 · Forward"'
RESHAPE = 'lesson 03, section "A trap: reshape does not transpose"'
BIAS = 'lesson 03, section "3.2 · The bias"'
WEIGHT = 'lesson 03, section "3.3 · The weight"'
INPUT = 'lesson 03, section "3.4 · The input"'


def forward(x, w, b):
    """out (…, C_out) of x (…, C_in), w (C_out, C_in), b (C_out,) or None: the definition, index by index."""
    out = np.einsum("...i,oi->...o", np.asarray(x, np.float64), np.asarray(w, np.float64))  # (…, C_out)
    return (out if b is None else out + b).astype(x.dtype)


def results(got, *names):
    """What a function returned, as a tuple. Raises WrongAnswer unless it is one value, or row, for each name."""
    wanted = f"{len(names)} values are expected, {', '.join(names)}"
    if got is None:
        raise WrongAnswer(f"nothing was returned, and {wanted}.")
    rows = isinstance(got, np.ndarray) and got.shape[:1] == (len(names),)  # which unpacks as a tuple does
    if not (rows or isinstance(got, tuple | list)):
        raise WrongAnswer(f"{wanted}, but one was returned: {describe(got)}.")
    if len(got) != len(names):
        raise WrongAnswer(f"{wanted}, but {len(got) or 'none'} {'was' if len(got) == 1 else 'were'} returned.")
    return tuple(got)


def _rows(x):
    """(…, C) -> (N, C) in float64."""
    return np.asarray(x, np.float64).reshape(-1, x.shape[-1])


def forward_mistakes(x, w, b) -> dict:
    """Known wrong out. The last ones are possible only where C_in = C_out, or T = C_out."""
    rows, w, b = _rows(x), np.asarray(w, np.float64), np.asarray(b, np.float64)
    C_out, C_in = w.shape
    shape = (*x.shape[:-1], C_out)
    wrong = {
        "x · wᵀ: b is missing": (rows @ w.T, FORWARD),
        "x · wᵀ + 2b: b is added twice": (rows @ w.T + 2 * b, FORWARD),
        "x · wᵀ - b: b is subtracted": (rows @ w.T - b, FORWARD),
        "x · wᵀ / C_in + b: the products should be summed, not averaged": (rows @ w.T / C_in + b, FORWARD),
        "w · xᵀ reshaped to the shape of out; it should be transposed": ((w @ rows.T).ravel(), RESHAPE),
        "the reference with x.reshape(C_in, -1) in place of xᵀ": ((w @ rows.reshape(C_in, -1)).T + b, RESHAPE),
    }
    if C_in == C_out:
        wrong["x · w + b: w is not transposed"] = (rows @ w + b, FORWARD)
        wrong["(x + b) · wᵀ: b is added before the product"] = ((rows + b) @ w.T, FORWARD)
    else:
        wrong["the reference with w.reshape(C_in, C_out) in place of wᵀ"] = (rows @ w.reshape(C_in, C_out) + b, RESHAPE)
    if x.ndim > 1 and x.shape[-2] == C_out:
        product = (rows @ w.T).reshape(shape)  # (…, T, C_out)
        wrong["x · wᵀ with b added down the rows; b[o] belongs to column o"] = (product + b[:, None], FORWARD)
    return {"out": {text: (array.reshape(shape), where) for text, (array, where) in wrong.items()}}


def backward_mistakes(dout, x, w) -> dict:
    """Known wrong dx, dw and db."""
    d, rows, w = _rows(dout), _rows(x), np.asarray(w, np.float64)
    return {"dx": _wrong_dx(d, rows, w, x.shape), "dw": _wrong_dw(d, rows, dout, x), "db": _wrong_db(d, rows, dout)}


def _wrong_dx(d, rows, w, shape):
    """(…, C_in): possible only with square weights; with others the shapes do not fit."""
    if w.shape[0] != w.shape[1]:
        return {}
    wrong = {
        "dout · wᵀ: w is transposed, as in the forward pass": d @ w.T,
        "dout itself: w is missing": d,
        "x · w: dout is missing": rows @ w,
    }
    return {text: (array.reshape(shape), INPUT) for text, array in wrong.items()}


def _wrong_dw(d, rows, dout, x):
    """(C_out, C_in)."""
    C_out, C_in = d.shape[1], rows.shape[1]
    wrong = {
        "the reference with dout.reshape(C_out, -1) in place of doutᵀ": (d.reshape(C_out, -1) @ rows, RESHAPE),
        "the product of two sums; it should be the sum of each row's product": (
            np.outer(d.sum(axis=0), rows.sum(axis=0)),
            WEIGHT,
        ),
    }
    if C_in == C_out:
        wrong["xᵀ · dout, the transpose of doutᵀ · x"] = (rows.T @ d, WEIGHT)
    if x.ndim > 2:
        for which, at in (("first", 0), ("last", -1)):
            part = _rows(dout[at]).T @ _rows(x[at])  # (C_out, C_in)
            wrong[f"the part of the {which} sequence only: all B·T rows use w"] = (part, WEIGHT)
    return wrong


def _wrong_db(d, rows, dout):
    """(C_out,)."""
    wrong = {
        "the sum of all of dout, in every entry": np.full(d.shape[1], d.sum()),
        "dw summed over C_in: b is added without x": np.einsum("no,ni->o", d, rows),
    }
    if d.shape[0] == d.shape[1]:
        wrong["the sums of dout's rows; it should be those of its columns"] = d.sum(axis=1)
    elif d.shape[0] > d.shape[1]:
        text = "the sums of the first C_out rows of dout (B·T, C_out); it should be those of its C_out columns"
        wrong[text] = d[: d.shape[1]].sum(axis=1)
    if dout.ndim > 2:
        wrong["the part of the first sequence only: all B·T rows use b"] = _rows(dout[0]).sum(axis=0)
        wrong["the part of the last sequence only: all B·T rows use b"] = _rows(dout[-1]).sum(axis=0)
    return {text: (array, BIAS) for text, array in wrong.items()}
