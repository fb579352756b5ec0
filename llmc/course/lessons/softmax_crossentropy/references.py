"""Lesson 05: softmax, cross-entropy and the classifier in float64. They return the dtype of their input."""

from math import log
from typing import NamedTuple

import numpy as np


class Losses(NamedTuple):
    """losses and lse, both (B, T)."""

    losses: np.ndarray
    lse: np.ndarray


class Classified(NamedTuple):
    """losses (B, T), dlogits (B, T, Vp)."""

    losses: np.ndarray
    dlogits: np.ndarray


def targets(rng, B, T, V):
    """Random targets (B, T) int32; in each sequence stands the largest token, and in the first one also token 0."""
    tokens, last = rng.integers(0, V, (B, T), dtype=np.int32), rng.integers(0, T, B)  # (B, T), (B,)
    tokens[np.arange(B), last] = V - 1
    if T > 1:
        tokens[0, last[0] - 1] = 0
    return tokens


def one_far_above(rng, logits, V, height):
    """Add height to one of the first V logits of each row (B, T, Vp), wherever that is; in the last row, to the last.

    Were it the same one in all rows, a maximum of some of the logits would often be right.
    """
    at = rng.integers(0, V, logits.shape[:-1])  # (B, T)
    at[-1, -1] = V - 1
    logits[(*np.indices(at.shape), at)] += height


def softmax(z):
    """Softmax of z (…, n) over the last axis."""
    z64 = np.asarray(z, np.float64)
    p = np.exp(z64 - z64.max(axis=-1, keepdims=True))  # (…, n)
    return (p / p.sum(axis=-1, keepdims=True)).astype(z.dtype)


def at_target(array, targets):
    """The entry of each row (B, T, V) that its target names: (B, T)."""
    return np.take_along_axis(array, targets[..., None], axis=-1)[..., 0]


def cross_entropy(logits, targets) -> Losses:
    """Loss of every token, and log-sum-exp of every row, of logits (B, T, V)."""
    z = np.asarray(logits, np.float64)
    peak = z.max(axis=-1)  # (B, T)
    lse = peak + np.log(np.exp(z - peak[..., None]).sum(axis=-1))  # (B, T)
    return Losses((lse - at_target(z, targets)).astype(logits.dtype), lse.astype(logits.dtype))


def softmax_backward(dp, p):
    """dz (…, n) through the whole Jacobian of each row: slow, and not the formula of the lesson."""
    dp64, p64 = np.asarray(dp, np.float64), np.asarray(p, np.float64)
    jacobian = np.eye(p.shape[-1]) * p64[..., None, :] - p64[..., :, None] * p64[..., None, :]  # (…, n, n)
    return np.einsum("...i,...ij->...j", dp64, jacobian).astype(p.dtype)


def classifier(logits, targets, dloss, V) -> Classified:
    """Losses of logits (B, T, Vp) over their first V entries, and the gradient of dloss · sum(losses)."""
    z = np.asarray(logits, np.float64)[..., :V]  # (B, T, V)
    dlogits = np.zeros(logits.shape)  # (B, T, Vp)
    dlogits[..., :V] = dloss * (softmax(z) - one_hot(targets, V))
    return Classified(cross_entropy(z, targets).losses.astype(logits.dtype), dlogits.astype(logits.dtype))


def one_hot(targets, V):
    """(B, T, V): 1 at each target, else 0."""
    return (np.arange(V) == targets[..., None]).astype(np.float64)


def fresh_loss(V, C, std):
    """Expected loss of a GPT-2 whose logits are normal with variance C · std²; in nats."""
    return log(V) + C * std**2 / 2
