"""Lesson 09: what a step of AdamW, and clipping, should give, in float64, and ten steps of PyTorch's.

References return new arrays in the dtype of what they replace.
"""

from collections import namedtuple
from pathlib import Path
from typing import NamedTuple

import numpy as np

TEN_STEPS = Path(__file__).parent / "ten_steps.npz"
SETTINGS = {"lr": 0.01, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1}  # of TenSteps
Step = namedtuple("Step", "params m v")  # after one AdamW step, each of the shape and dtype that it had


class TenSteps(NamedTuple):
    """What PyTorch's AdamW did to six weights: start (6,), grads (10, 6), params (10, 6) after each step, float64.

    The weights are awkward on purpose: one with ordinary slopes, one with huge ones, one with tiny ones (eps shows),
    one with none at all, one with a single spike, one whose slope changes sign at every step.
    """

    start: np.ndarray
    grads: np.ndarray
    params: np.ndarray
    settings: dict


def ten_steps() -> TenSteps:
    """The stored numbers; `python -m llmc.tests.course.torch_adamw` writes them; a test asks PyTorch again."""
    with np.load(TEN_STEPS) as file:
        return TenSteps(file["start"], file["grads"], file["params"], dict(SETTINGS))


def adamw(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t) -> Step:
    """One step of AdamW (Loshchilov & Hutter 2019), the t-th, t = 1, 2, …; any shape."""
    p, g, m64, v64 = (np.asarray(array, np.float64) for array in (params, grads, m, v))
    m64 = beta1 * m64 + (1 - beta1) * g
    v64 = beta2 * v64 + (1 - beta2) * g * g
    direction = m64 / (1 - beta1**t) / (np.sqrt(v64 / (1 - beta2**t)) + eps)
    p = (1 - lr * weight_decay) * p - lr * direction
    return Step(p.astype(params.dtype), m64.astype(m.dtype), v64.astype(v.dtype))


def clip(grads, max_norm):
    """(list of clipped copies, norm before): PyTorch's clip_grad_norm_, but unchanged up to max_norm itself."""
    norm = float(np.sqrt(sum(np.sum(np.square(g, dtype=np.float64)) for g in grads)))
    factor = max_norm / (norm + 1e-6) if norm > max_norm else 1.0
    return [(g * np.float64(factor)).astype(g.dtype) for g in grads], norm
