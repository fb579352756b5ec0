"""Softmax, cross-entropy and its gradient, one row of logits at a time: its 50,304 numbers stay in the cache."""

import math

from numba import prange

from llmc.backends.cpu.compiled import ONE, ZERO, exp, parallel


@parallel
def _classify(losses, logits, targets, dloss, V, backward):
    N, Vp = logits.shape
    for n in prange(N):
        z = logits[n]  # (Vp,), of which the first V take part
        peak = z[0]
        for i in range(1, V):
            peak = z[i] if z[i] > peak else peak
        at_target = z[targets[n]] - peak
        total = peak * ZERO  # a NaN or an infinity stays one
        if not backward:
            for i in range(V):
                total += exp(z[i] - peak)
            losses[n] = math.log(total) - at_target
            continue
        for i in range(V):
            z[i] = exp(z[i] - peak)
        for i in range(V):
            total += z[i]
        losses[n] = math.log(total) - at_target
        factor = dloss * ONE / total
        for i in range(V):
            z[i] *= factor
        z[targets[n]] -= dloss
        for i in range(V, Vp):
            z[i] = ZERO


def fused_classifier(losses, logits, targets, dloss, V):
    """losses = -log softmax(logits)[targets]; with dloss, logits become their own gradient."""
    rows = logits.reshape(-1, logits.shape[-1])  # (N, Vp)
    number = logits.dtype.type(0.0 if dloss is None else dloss)
    _classify(losses.reshape(-1), rows, targets.reshape(-1), number, V, dloss is not None)
