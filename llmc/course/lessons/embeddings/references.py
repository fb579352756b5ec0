"""Lesson 02: tokens to try, and the encoder in float64 by plain loops; results have the dtype of the tables or dout."""

from typing import NamedTuple

import numpy as np


class Gradients(NamedTuple):
    """dwte (V, C), dwpe (maxT, C)."""

    dwte: np.ndarray
    dwpe: np.ndarray


def awkward_tokens(rng, B, T, V):
    """(B, T) int32 tokens below V: some repeat inside a sequence and between sequences, and V - 1 does not occur."""
    tokens = rng.integers(0, V - 1, (B, T), dtype=np.int32)  # (B, T)
    hot, warm = rng.permutation(V - 1)[:2]
    tokens[0, 0] = tokens[0, -1] = tokens[-1, 0] = hot  # the same place of two sequences, and twice in one
    tokens[-1, T // 2] = tokens[0, (T - 1) // 2] = warm
    return tokens


def zipf_tokens(rng, B, T, V):
    """(B, T) int32 tokens as frequent as words are: the r-th most frequent of V occurs in proportion to 1/r."""
    frequency = 1.0 / np.arange(1, V + 1)  # (V,)
    ids = rng.permutation(V)  # (V,) which token has which rank
    return ids[rng.choice(V, (B, T), p=frequency / frequency.sum())].astype(np.int32)  # (B, T)


def forward(tokens, wte, wpe):
    """out (B, T, C), one row after the other."""
    B, T = tokens.shape
    out = np.empty((B, T, wte.shape[1]), wte.dtype)  # (B, T, C)
    for b, t in np.ndindex(B, T):
        out[b, t] = wte[tokens[b, t]].astype(np.float64) + wpe[t]  # (C,)
    return out


def backward(dout, tokens, V, maxT) -> Gradients:
    """Each row of dout is added to the row of its token and to the row of its position."""
    dwte, dwpe = np.zeros((V, dout.shape[-1])), np.zeros((maxT, dout.shape[-1]))  # (V, C), (maxT, C)
    for b, t in np.ndindex(tokens.shape):
        dwte[tokens[b, t]] += dout[b, t]  # (C,)
        dwpe[t] += dout[b, t]  # (C,)
    return Gradients(dwte.astype(dout.dtype), dwpe.astype(dout.dtype))
