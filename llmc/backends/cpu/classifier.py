"""Softmax, cross-entropy and its gradient, one row of logits at a time: its 50,304 numbers stay in the cache."""

import math

from numba import get_num_threads, prange, types
from numba.extending import overload

from llmc.backends.cpu.bfloat16 import highest, in_bits, load, store
from llmc.backends.cpu.compiled import ONE, ZERO, bounds, exp, parallel
from llmc.backends.cpu.scratch import scratch


def room(z, spare):
    """Where the exponentials of a row of logits z are kept: in their place, or in `spare` if that has more digits."""
    raise NotImplementedError("only inside a compiled kernel")


@overload(room)
def _room(z, spare):
    return (lambda z, spare: spare) if z.dtype == types.uint16 else (lambda z, spare: z)


def unrounded(z, i, value):
    """z[i] as it was computed: value, if storing it has rounded it."""
    raise NotImplementedError("only inside a compiled kernel")


@overload(unrounded)
def _unrounded(z, i, value):
    return (lambda z, i, value: value) if z.dtype == types.uint16 else (lambda z, i, value: z[i])


@parallel
def _classify(losses, logits, targets, dloss, V, backward, spare):
    """spare (parts, Vp): room for one row per thread."""
    (N, Vp), parts = logits.shape, spare.shape[0]
    for part in prange(parts):
        n0, n1 = bounds(part, parts, N)
        for n in range(n0, n1):
            z = logits[n]  # (Vp,), of which the first V take part
            peak = highest(z[:V])
            at_target = load(z, targets[n]) - peak
            total = peak * ZERO  # a NaN or an infinity stays one
            if not backward:
                for i in range(V):
                    total += exp(load(z, i) - peak)
                losses[n] = math.log(total) - at_target
                continue
            e = room(z, spare[part])  # (Vp,)
            for i in range(V):
                e[i] = exp(load(z, i) - peak)
                total += e[i]
            losses[n] = math.log(total) - at_target
            factor = dloss * ONE / total
            of_target = e[targets[n]]
            for i in range(V):
                store(z, i, e[i] * factor)
            store(z, targets[n], unrounded(z, targets[n], of_target * dloss / total) - dloss)
            for i in range(V, Vp):
                store(z, i, ZERO)


@in_bits
def fused_classifier(losses, logits, targets, dloss, V):
    """losses = -log softmax(logits)[targets]; with dloss, logits become their own gradient."""
    rows = logits.reshape(-1, logits.shape[-1])  # (N, Vp)
    number = losses.dtype.type(0.0 if dloss is None else dloss)
    spare = scratch("exponentials", (get_num_threads(), rows.shape[1]), losses.dtype)
    _classify(losses.reshape(-1), rows, targets.reshape(-1), number, V, dloss is not None, spare)
