"""Lesson 03: what the linear layer should return and cost, in float64, and what each well-known mistake returns.

References return the dtype of x. Mistakes are {output: {words after "out equals ": (array, where to look)}}.
Some of them are possible only where sizes agree (C_in = C_out, B·T = C_out), so the checks use such sizes too.
"""

from typing import NamedTuple

import numpy as np

from llmc.course.old.checks.explain import WrongAnswer, describe
from llmc.course.old.checks.polynomials import compared

# where to look; a test holds these titles against the headings of notebooks/03_matmul.ipynb
FORWARD = 'lesson 03, section "2 · Forward"'
RESHAPE = 'lesson 03, section "A trap: reshape does not transpose"'
BIAS = 'lesson 03, section "3.2 · The bias"'
WEIGHT = 'lesson 03, section "3.3 · The weight"'
INPUT = 'lesson 03, section "3.4 · The input"'
FLOPS = 'lesson 03, section "4.1 · Count the operations"'
BYTES = 'lesson 03, section "4.3 · Count the bytes"'


class Gradients(NamedTuple):
    """dx (…, C_in), dw (C_out, C_in), db (C_out,)."""

    dx: np.ndarray
    dw: np.ndarray
    db: np.ndarray


class Cost(NamedTuple):
    """Floating-point operations, bytes, and forward operations per byte, of one linear layer without its bias."""

    forward_flops: float
    backward_flops: float
    forward_bytes: float
    intensity: float


def forward(x, w, b):
    """out (…, C_out) of x (…, C_in), w (C_out, C_in), b (C_out,) or None: the definition, index by index."""
    out = np.einsum("...i,oi->...o", np.asarray(x, np.float64), np.asarray(w, np.float64))  # (…, C_out)
    return (out if b is None else out + b).astype(x.dtype)


def backward(dout, x, w) -> Gradients:
    """Gradients of sum(out · dout), index by index."""
    d, rows, w64 = _rows(dout), _rows(x), np.asarray(w, np.float64)  # (N, C_out), (N, C_in)
    dx = np.einsum("no,oi->ni", d, w64).reshape(x.shape)  # (…, C_in)
    dw, db = np.einsum("no,ni->oi", d, rows), np.einsum("no->o", d)  # (C_out, C_in), (C_out,)
    return Gradients(dx.astype(x.dtype), dw.astype(x.dtype), db.astype(x.dtype))


def cost(B, T, C_in, C_out, itemsize=4) -> Cost:
    """Multiply and add count 1 each; each array crosses between memory and processor once."""
    flops = 2.0 * B * T * C_in * C_out
    moved = float(itemsize) * (B * T * C_in + C_out * C_in + B * T * C_out)
    return Cost(flops, 2 * flops, moved, flops / moved)


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


def gradients_of(got, expected) -> Gradients:
    """The learner's dx, dw, db. Raises WrongAnswer when one is missing, or when they come in another order."""
    got, shapes = Gradients(*results(got, *Gradients._fields)), [array.shape for array in expected]
    found = [np.shape(array) for array in got]
    if found != shapes and sorted(found) == sorted(shapes):  # the right arrays, by their shapes, in other places
        name, shape = next((n, s) for n, s, wanted in zip(got._fields, found, shapes) if s != wanted)
        there = got._fields[shapes.index(shape)]
        raise WrongAnswer(f"the value returned as {name} has the shape of {there}, {shape}: return dx, dw, db.")
    return got


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


def cost_mistakes(B, T, C_in, C_out, itemsize=4) -> dict:
    """Known wrong numbers."""
    right, N = cost(B, T, C_in, C_out, itemsize), B * T
    flops, x, w, out = right.forward_flops, N * C_in, C_out * C_in, N * C_out  # FLOPs; numbers in each array
    wrong = {
        "forward_flops": {
            "B·T·C_in·C_out: a multiply and an add are two operations": flops / 2,
            "the operations of one sequence: B is missing": flops / B,
            "the operations of one token: B·T is missing": flops / N,
            "the operations of forward and backward together: this should be the forward pass only": 3 * flops,
            "the operations with the bias added, which does not count": flops + out,
            "the operations with 2C_in − 1 for each output; count as many additions as multiplications, 2C_in (the "
            "first one adds to zero, or to the bias)": flops - out,
        },
        "backward_flops": {
            "the operations of one product: backward has two": flops,
            "the operations of forward and backward together": 3 * flops,
            "the operations with one addition too few in each sum; count as many additions as multiplications": (
                2 * flops - x - w
            ),
        },
        "forward_bytes": {
            "the number of numbers: itemsize is missing": right.forward_bytes / itemsize,
            "the bytes of float32 whatever itemsize says": 4.0 * (x + w + out),
            "the bytes with those of the bias, which does not count": right.forward_bytes + itemsize * C_out,
            "bits: a byte has 8 of them": 8 * right.forward_bytes,
            "the bytes with out read and written: it is written only": right.forward_bytes + itemsize * out,
            "the bytes of x and w: out is written too": float(itemsize) * (x + w),
            "the bytes of x and out: w is read too": float(itemsize) * (x + out),
            "the bytes with w read again for every token; once is enough": float(itemsize) * (x + N * w + out),
        },
        "intensity": {
            "bytes per operation; it should be operations per byte": 1 / right.intensity,
            "backward operations per byte; only those of the forward pass count": 2 * right.intensity,
            "operations per number, not per byte": right.intensity * itemsize,
            "forward and backward operations per byte; only those of the forward pass count": 3 * right.intensity,
            "only its whole part": right.forward_flops // right.forward_bytes,
        },
    }
    places = {"forward_flops": FLOPS, "backward_flops": FLOPS, "forward_bytes": BYTES, "intensity": BYTES}
    return {name: {text: (array, places[name]) for text, array in table.items()} for name, table in wrong.items()}


def formula_of(function, name):
    """A function of nothing that says what the learner's function counts as `name`, found by more calls; or None."""
    if name == "intensity":
        return None
    pick = lambda numbers: tuple(numbers)[Cost._fields.index(name)]  # noqa: E731
    sizes, once = ("itemsize", "B", "T", "C_in", "C_out"), lambda term: len(set(term)) == len(term)
    return lambda: compared(name, function, cost, sizes, 5, pick, once)
