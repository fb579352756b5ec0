"""Lesson 04: the right gradients of residual blocks, in float64, and those of known mistakes.

The blocks of the exercises have tanh where GPT-2 has GELU, so that they need nothing from the exercises before them.
Mistakes are {sentence after "dx equals ": (array, where to look)}.
"""

from typing import NamedTuple

import numpy as np

from llmc.course.old.checks.contrast import outcome
from llmc.course.old.checks.evidence import is_explaining, last_call, learners_function

# where to look; a test compares these titles with the headings of notebooks/04_gelu_residual.ipynb
TANH = 'lesson 04, section "3.3 · The slope of tanh"'
FORK = 'lesson 04, section "4.2 · The fork"'
BLOCK = 'lesson 04, section "4.3 · A whole block"'
STACK = 'lesson 04, section "4.4 · Many blocks"'
LOOP = "your loop: k goes from N - 1 down to 0, both included"
NEARLY = 1e-3  # of the largest number: what is only rounded is off by less


class Block(NamedTuple):
    """Gradients of x + tanh(x · w1ᵀ) · w2ᵀ: dx (B, T, C), dw1 (H, C), dw2 (C, H)."""

    dx: np.ndarray
    dw1: np.ndarray
    dw2: np.ndarray


def block_forward(x, w1, w2):
    """x + tanh(x · w1ᵀ) · w2ᵀ; x (..., C), w1 (H, C), w2 (C, H)."""
    return x + np.tanh(x @ w1.T) @ w2.T


def block_backward(dout, x, w1, w2) -> Block:
    """Gradients of sum(block · dout), by einsum in float64."""
    dout, x, w1, w2 = (np.asarray(a, np.float64) for a in (dout, x, w1, w2))
    a = np.tanh(np.einsum("btc,hc->bth", x, w1))  # (B, T, H)
    dh = np.einsum("bto,oh->bth", dout, w2) * (1 - a * a)  # (B, T, H)
    branch = np.einsum("bth,hc->btc", dh, w1)  # (B, T, C)
    return Block(dout + branch, np.einsum("bth,btc->hc", dh, x), np.einsum("bto,bth->oh", dout, a))


def block_mistakes(dout, x, w1, w2) -> dict:
    """Known wrong dx, dw1 and dw2: the amounts that are added to the buffers."""
    right = block_backward(dout, x, w1, w2)
    h = x @ w1.T  # (B, T, H)
    a, da = np.tanh(h), dout @ w2  # (B, T, H)
    branch = right.dx - dout  # (B, T, C)
    no_slope = "the reference with the slope of tanh, 1 - a², missing"
    from_h = "the reference with 1 - h² instead of 1 - tanh²(h)"
    not_squared = "the reference with 1 - tanh(h) instead of 1 - tanh²(h)"
    halves = {no_slope: da, from_h: da * (1 - h * h), not_squared: da * (1 - a)}  # (B, T, H) each
    dx = {
        "the branch's gradient alone: the straight road's dout is missing": (branch, FORK),
        "dout alone: the branch's gradient is missing": (np.asarray(dout, np.float64), FORK),
        "dout minus the branch's gradient: gradients add at a fork": (dout - branch, FORK),
        "dout times the branch's gradient: gradients add at a fork": (dout * branch, FORK),
        "the mean of both roads: gradients add at a fork": (right.dx / 2, FORK),
        "the reference with dout counted twice": (right.dx + dout, FORK),
        "the reference with the branch counted twice": (right.dx + branch, FORK),
    }
    dx |= {text: (dout + dh @ w1, BLOCK) for text, dh in halves.items()}
    rows = tuple(range(x.ndim - 1))
    dw1 = {text: (np.tensordot(dh, x, (rows, rows)), BLOCK) for text, dh in halves.items()}
    dw2 = {"the reference with h instead of tanh(h)": (np.tensordot(dout, h, (rows, rows)), BLOCK)}
    return {"dx": dx, "dw1": dw1, "dw2": dw2}


def stream_forward(x0, w):
    """Inputs of N blocks x + tanh(x · wᵀ), and the output of the last: (N + 1, T, C) from x0 (T, C), w (N, C, C)."""
    stream = [x0]
    for each in w:
        stream.append(stream[-1] + np.tanh(stream[-1] @ each.T))  # (T, C)
    return np.array(stream)


def _stream(dout, branch, straight=True):
    """(N + 1, T, C) gradients from the last to the first; branch(k, d) is the gradient through block k's branch."""
    gradients = [np.asarray(dout, np.float64)]
    for k in branch.order:
        through = branch(k, gradients[-1])  # (T, C)
        gradients.append(gradients[-1] + through if straight else through)
    return np.array(gradients[::-1])


def _doubles(got) -> bool:
    """Does d[0] double with dout? Then it was computed, and not left as it was. False where nobody knows."""
    last, function = last_call(), learners_function()
    if last is None or not is_explaining():
        return False
    dout, *others = last.arguments
    again = outcome(function, 2 * dout, *others)
    return np.shape(again) == got.shape and bool(got[0].any()) and np.allclose(again[0], 2 * got[0], rtol=1e-6)


class _Branch:
    """Gradient through the branch tanh(x · wᵀ) of block k, right, or with one of its parts wrong."""

    def __init__(self, x, w, order=None, tanh_slope=True, transposed=False, inside_transposed=False):
        self.x, self.w, self.order = x, w, range(len(w))[::-1] if order is None else order
        self.tanh_slope, self.transposed, self.inside_transposed = tanh_slope, transposed, inside_transposed

    def __call__(self, k, d):
        inside = self.w[k] if self.inside_transposed else self.w[k].T  # (C, C)
        dh = d * (1 - np.tanh(self.x[k] @ inside) ** 2) if self.tanh_slope else d  # (T, C)
        return dh @ (self.w[k].T if self.transposed else self.w[k])  # (T, C)


def stream_backward(dout, x, w):
    """Gradients at the input of every block and at the end, (N + 1, T, C); each block's Jacobian is built in full."""
    T, C = dout.shape
    gradients = [np.asarray(dout, np.float64)]
    for k in range(len(w))[::-1]:
        steep = 1 - np.tanh(np.einsum("tc,oc->to", x[k], w[k])) ** 2  # (T, C)
        jacobian = np.eye(C) + steep[:, :, None] * w[k]  # (T, C, C)   [t, o, i]
        gradients.append(np.einsum("to,toi->ti", gradients[-1], jacobian))  # (T, C)
    return np.array(gradients[::-1])


def stream_mistakes(dout, x, w) -> dict:
    """Known wrong gradients of the stream."""
    branch, N = _Branch(x, w), len(w)
    top_straight, top_branch = [np.asarray(dout, np.float64)], [np.asarray(dout, np.float64)]
    for k in branch.order:
        top_straight.append(dout + branch(k, top_straight[-1]))  # (T, C)
        top_branch.append(top_branch[-1] + branch(k, dout))  # (T, C)
    forwards = _stream(dout, _Branch(x, w, order=range(N)))  # (N + 1, T, C)
    right = stream_backward(dout, x, w)  # (N + 1, T, C)
    return {
        "the reference without the straight road: each block passes on its branch's gradient alone": (
            _stream(dout, branch, straight=False),
            STACK,
        ),
        "the reference with dout on every straight road: what goes on is the gradient at that block's output": (
            np.array(top_straight[::-1]),
            STACK,
        ),
        "the reference with dout into every branch: each branch receives the gradient at its own block's output": (
            np.array(top_branch[::-1]),
            STACK,
        ),
        "the reference with the slope of tanh missing": (_stream(dout, _Branch(x, w, tanh_slope=False)), TANH),
        "the reference with w transposed": (_stream(dout, _Branch(x, w, transposed=True)), BLOCK),
        "the reference with tanh(x[k] @ w[k]): the forward pass has w[k].T inside tanh": (
            _stream(dout, _Branch(x, w, inside_transposed=True)),
            BLOCK,
        ),
        "the reference with w transposed in both places": (
            _stream(dout, _Branch(x, w, transposed=True, inside_transposed=True)),
            BLOCK,
        ),
        "the blocks in forward order: backward starts at the last block": (forwards, STACK),
        "the blocks in forward order, in an array from the end to the beginning": (forwards[::-1], STACK),
        "the reference in reverse order: d[0] belongs to the first block's input": (right[::-1], STACK),
    }


def loop_mistakes(got, expected) -> dict:
    """Known mistakes of the loop over the blocks, which show in the depths at which `got` (N + 1, T, C) is right.

    The array of the mistake is `got` itself, because depths that were never computed may hold anything.
    """
    depths = len(expected)
    if not isinstance(got, np.ndarray) or got.shape != expected.shape or depths < 4:
        return {}
    close = np.isclose(got, expected, rtol=1e-6, atol=1e-9 * np.abs(expected).max())  # (N + 1, T, C)
    right = close.all(axis=(1, 2))  # (N + 1,)
    if np.abs(got - expected).max() < NEARLY * np.abs(expected).max():
        return {}  # every depth was computed
    if right[1:].all() and not right[0] and not _doubles(got):
        return {"the reference except for d[0]: the loop stops before k = 0": (got, LOOP)}
    if right[-2:].all() and not right[:-2].any():
        at = "the reference at d[N - 1] and d[N] only"
        if _doubles(got):
            return {f"{at}: block k takes x[k], w[k] and d[k + 1], and nothing of other blocks": (got, STACK)}
        return {at: (got, LOOP)}
    return {}
