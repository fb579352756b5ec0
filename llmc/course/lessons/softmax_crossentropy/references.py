"""Lesson 05: softmax, cross-entropy and the classifier in float64. They return the dtype of their input."""

from collections import namedtuple

import numpy as np

Losses = namedtuple("Losses", "losses lse")  # (B, T) each
Classified = namedtuple("Classified", "losses dlogits")  # (B, T), (B, T, Vp)


def softmax(z):
    """Softmax of z (…, n) over the last axis."""
    z64 = np.asarray(z, np.float64)
    p = np.exp(z64 - z64.max(axis=-1, keepdims=True))  # (…, n)
    return (p / p.sum(axis=-1, keepdims=True)).astype(z.dtype)


def cross_entropy(logits, targets) -> Losses:
    """Loss of every token, and log-sum-exp of every row, of logits (B, T, V)."""
    z = np.asarray(logits, np.float64)
    peak = z.max(axis=-1)  # (B, T)
    lse = peak + np.log(np.exp(z - peak[..., None]).sum(axis=-1))  # (B, T)
    losses = lse - np.take_along_axis(z, targets[..., None], axis=-1)[..., 0]  # (B, T)
    return Losses(losses.astype(logits.dtype), lse.astype(logits.dtype))


def softmax_backward(dp, p):
    """dz (…, n) through the whole Jacobian of each row: slow, and not the formula of the lesson."""
    dp64, p64 = np.asarray(dp, np.float64), np.asarray(p, np.float64)
    jacobian = np.eye(p.shape[-1]) * p64[..., None, :] - p64[..., :, None] * p64[..., None, :]  # (…, n, n)
    return np.einsum("...i,...ij->...j", dp64, jacobian).astype(p.dtype)


def classifier(logits, targets, dloss, V) -> Classified:
    """Losses of logits (B, T, Vp) over their first V entries, and dloss times their gradient; for None, the logits."""
    z = np.asarray(logits, np.float64)[..., :V]  # (B, T, V)
    dlogits = np.zeros(logits.shape)  # (B, T, Vp)
    dlogits[..., :V] = (dloss or 0) * (softmax(z) - one_hot(targets, V))
    losses = cross_entropy(z, targets).losses.astype(logits.dtype)
    return Classified(losses, logits if dloss is None else dlogits.astype(logits.dtype))


def one_hot(targets, V):
    """(B, T, V): 1 at each target, else 0."""
    return (np.arange(V) == targets[..., None]).astype(np.float64)
