"""Lesson 14: sums of float32 in many orders, what another order does to a training run, and what a lost sum does."""

from copy import copy

import numpy as np

from llmc.config import preset
from llmc.model import GPT2


def in_orders(numbers, orders, rng):
    """Sums of numbers (N,) float32, added one after the other, in that many random orders: (orders,) float32."""
    columns = np.stack([rng.permutation(numbers) for _ in range(orders)], axis=1)  # (N, orders)
    return np.add.accumulate(columns, axis=0)[-1]


def trained(order, lr, steps=1000):
    """The losses (steps,) of a small network; order(N) gives the order in which a step adds its N rows' gradients.

    64 points in the plane, 16 hidden units, two classes that no line separates; everything in float32.
    """
    rng, f = np.random.default_rng(14), np.float32
    x = rng.normal(0, 1, (64, 2)).astype(f)  # (N, 2)
    label = (x[:, 0] * x[:, 1] > 0).astype(int)  # (N,)
    x = np.hstack([2 * x, np.ones((64, 1), f)])  # (N, 3)
    W, V = rng.normal(0, 2, (3, 16)).astype(f), rng.normal(0, 0.5, (16, 2)).astype(f)
    rows, losses = np.arange(64), []
    for _ in range(steps):
        h = np.tanh(x @ W)  # (N, 16)
        e = np.exp(h @ V - (h @ V).max(axis=1, keepdims=True))  # (N, 2)
        p = e / e.sum(axis=1, keepdims=True)  # (N, 2)
        losses.append(-np.log(p[rows, label]).mean(dtype=f))
        p[rows, label] -= 1
        dz = p / f(64)  # (N, 2)
        dh = (dz @ V.T) * (1 - h * h)  # (N, 16)
        places = order(64)  # (N,)
        for weights, before, after in ((V, h, dz), (W, x, dh)):
            terms = before[places, :, None] * after[places, None]  # (N, in, out): each row's gradient
            weights -= f(lr) * np.add.accumulate(terms, axis=0)[-1]  # one row after the other, in that order
    return np.array(losses)


def ulps(values, around):
    """How many steps of float32 the values are away from the float32 number `around`; steps of one size are assumed."""
    return (np.asarray(values, np.float64) - float(around)) / float(np.spacing(np.abs(np.float32(around))))


def with_another(backend, **functions):
    """The backend with other functions under these names."""
    other = copy(backend)
    vars(other).update(functions)
    return other


def trained_gpt2(backend, steps=60):
    """Losses (steps,) on sequences in which every second token follows from the one before."""
    model = GPT2(preset("tiny", L=1, C=32, NH=2, V=128), backend)
    model.init_weights()
    rng, found = np.random.default_rng(14), []
    for _ in range(steps):
        text = rng.integers(0, 128, (4, 33)).astype(np.int32)  # (B, T + 1)
        text[:, 1::2] = text[:, :-1:2] * 3 % 128
        found.append(model.forward(text[:, :-1], text[:, 1:], dloss=1.0))
        model.backward()
        model.update(1e-2, zero_grad=True)
    return np.array(found)
