"""Lesson 01: what layernorm should give, computed in float64; the dtype that is returned is that of x."""

from collections import namedtuple

import numpy as np

EPS = 1e-5
Forward = namedtuple("Forward", "out mean rstd")  # (B, T, C), (B, T) both
Gradients = namedtuple("Gradients", "dx dw db")  # (B, T, C), (C,) both


def forward(x, w, b, eps=EPS) -> Forward:
    """Layernorm of x (B, T, C) over C, as plainly as possible."""
    x64, dtype = np.asarray(x, np.float64), x.dtype
    mean = x64.mean(axis=-1, keepdims=True)  # (B, T, 1)
    variance = np.square(x64 - mean).mean(axis=-1, keepdims=True)  # (B, T, 1)
    rstd = 1.0 / np.sqrt(variance + eps)  # (B, T, 1)
    out = (x64 - mean) * rstd * np.asarray(w, np.float64) + b  # (B, T, C)
    return Forward(out.astype(dtype), mean[..., 0].astype(dtype), rstd[..., 0].astype(dtype))


def backward(dout, x, w) -> Gradients:
    """Gradients of sum(out · dout), through the Jacobian of each row: slow, and not the formula of the lesson.

    d norm[i] / d x[j] = rstd · (δ_ij - 1/C - norm[i] · norm[j] / C)
    """
    dtype, C = x.dtype, x.shape[-1]
    dout, w = np.asarray(dout, np.float64), np.asarray(w, np.float64)
    norm, rstd = normalised(x)  # (B, T, C), (B, T, 1)
    jacobian = np.eye(C) - 1.0 / C - norm[..., :, None] * norm[..., None, :] / C  # (B, T, C, C)
    dx = np.einsum("btij,bti->btj", jacobian, dout * w) * rstd  # (B, T, C)
    dw, db = np.einsum("btc,btc->c", dout, norm), np.einsum("btc->c", dout)  # (C,)
    return Gradients(dx.astype(dtype), dw.astype(dtype), db.astype(dtype))


def normalised(x):
    """Normalised rows (B, T, C) and rstd (B, T, 1) in float64."""
    ones = np.ones(x.shape[-1])
    out, _, rstd = forward(np.asarray(x, np.float64), ones, 0.0 * ones)
    return out, rstd[..., None]
