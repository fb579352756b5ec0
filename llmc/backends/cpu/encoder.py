"""The encoder: token and position embeddings. Backward, every thread adds all rows, but only in its own channels."""

import numpy as np
from numba import get_num_threads, prange

from llmc.backends.cpu.bfloat16 import in_bits, load, store
from llmc.backends.cpu.compiled import bounds, parallel, serial
from llmc.backends.cpu.scratch import scratch

NONE = np.int32(-1)


@parallel
def _forward(out, tokens, wte, wpe):
    B, T, C = out.shape
    for row in prange(B * T):
        b, t = row // T, row % T
        token = tokens[b, t]
        for c in range(C):
            out[b, t, c] = load(wte, (token, c)) + load(wpe, (t, c))


@serial
def _chain(first, after, tokens):
    """first (Vp,)[token]: its first place among tokens (N,) · after (N,): the next place of the same token, or NONE."""
    for token in tokens:
        first[token] = NONE
    for n in range(tokens.size - 1, -1, -1):
        after[n], first[tokens[n]] = first[tokens[n]], n


@parallel
def _backward(dwte, dwpe, dout, tokens, first, after, sums):
    """Each row of dwte and dwpe is read once, summed up in sums (parts, C), and written once, which may round it."""
    B, T, C = dout.shape
    parts = sums.shape[0]
    for part in prange(parts):
        c0, c1 = bounds(part, parts, C)
        s = sums[part]  # (C,)
        for t in range(T):
            for c in range(c0, c1):
                s[c] = load(dwpe, (t, c))
            for b in range(B):
                for c in range(c0, c1):
                    s[c] += dout[b, t, c]
            for c in range(c0, c1):
                store(dwpe, (t, c), s[c])
        for start in range(B * T):
            token = tokens[start]
            if first[token] != start:
                continue
            for c in range(c0, c1):
                s[c] = load(dwte, (token, c))
            n = start
            while n != NONE:
                for c in range(c0, c1):
                    s[c] += dout[n // T, n % T, c]
                n = after[n]
            for c in range(c0, c1):
                store(dwte, (token, c), s[c])


@in_bits
def encoder_forward(out, tokens, wte, wpe):
    """out (B, T, C) = wte[tokens] + wpe[:T]."""
    _forward(out, tokens, wte, wpe)


@in_bits
def encoder_backward(dwte, dwpe, dout, tokens):
    """dwte (Vp, C), dwpe (maxT, C) += rows of dout (B, T, C), in the order of the tokens with any number of threads."""
    flat = tokens.reshape(-1)  # (N,)
    first, after = scratch("first", dwte.shape[:1], "int32"), scratch("after", flat.shape, "int32")
    _chain(first, after, flat)
    _backward(dwte, dwpe, dout, flat, first, after, scratch("rows", (get_num_threads(), dout.shape[2]), dout.dtype))
